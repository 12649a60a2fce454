"""Lowering of fragments, run on the interpreter: the same results within the stated error."""

from __future__ import annotations

import numpy as np
import pytest

from fragment_kernels import attention_case, products, swizzled_case
from gristmill.backends.cpu.emit import support
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import FragmentType
from gristmill.ir.interp import run
from gristmill.ir.passes import Pass, as_held, standard
from gristmill.ir.passes import run as apply
from gristmill.ir.passes.effects import op_names, value_types
from gristmill.ir.passes.fragments import Fragments
from gristmill.ir.passes.fragments_nv import ADA, TURING, NvFragments, multiplies
from gristmill.ir.verify import verify
from pass_check import check_valid

LOWERINGS = [(Fragments(), size) for size in (4, 8, 16, 32, 64)]
LOWERINGS += [(NvFragments(), 32), (NvFragments(ldmatrix=False), 32)]
LOWERINGS += [(NvFragments(TURING, name="turing"), 32), (NvFragments(ADA, name="ada"), 32)]


def does(lowering: Pass, kernel: Kernel) -> bool:
    """Whether a lowering has the products of a kernel."""
    return not isinstance(lowering, NvFragments) or multiplies(kernel, lowering.products)


def name(value: object) -> str:
    return str(getattr(value, "name", value))


@pytest.mark.parametrize(("lowering", "size"), LOWERINGS, ids=name)
def test_products(lowering: Pass, size: int, rng: np.random.Generator) -> None:
    count = 12 if size < 16 else 0
    for case in products(rng, size, count):
        if not does(lowering, case.kernel):
            continue
        lowered = lowering(case.kernel)
        verify(lowered)
        check_valid(lowered)
        assert not any(isinstance(t, FragmentType) for t in value_types(lowered))
        report = run(lowered, case.args, (1, 1, 1))
        assert report.problems == ()
        assert not case.wrong(case.args[-1])


@pytest.mark.parametrize(("lowering", "size"), LOWERINGS, ids=name)
def test_attention_after_all_passes(lowering: Pass, size: int, rng: np.random.Generator) -> None:
    case = attention_case(rng, 48, size)
    steps = standard(support(), fragments=lowering)
    lowered = as_held(apply(case.kernel, steps))
    check_valid(lowered)
    report = run(lowered, case.args, (3, 1, 1))
    assert report.problems == ()
    assert not case.wrong(case.args[3])


@pytest.mark.parametrize(("lowering", "size"), LOWERINGS, ids=name)
def test_swizzled_rows(lowering: Pass, size: int, rng: np.random.Generator) -> None:
    for t in ("f16", "bf16", "i8", "f8e4m3"):
        case, read = swizzled_case(rng, t, size)
        if not does(lowering, case.kernel):
            continue
        lowered = lowering(case.kernel)
        verify(lowered)
        assert run(lowered, case.args, (1, 1, 1)).problems == ()
        assert not case.wrong(case.args[2])
        assert (case.args[3] == read).all()


def test_workgroup_memory_is_read_by_ldmatrix(rng: np.random.Generator) -> None:
    found: dict[tuple[str, bool], set[bool]] = {}
    for case in products(rng, 32):
        constexprs = dict(case.kernel.constexprs)
        lines = constexprs["LA"] == "row" or constexprs["LB"] == "column"
        narrow = constexprs["TA"] in ("f16", "bf16") or (constexprs["TA"] != "f32" and lines)
        key = (str(narrow), bool(constexprs["SHARED"]))
        there = "nv_ldmatrix" in op_names(NvFragments()(case.kernel))
        found.setdefault(key, set()).add(there)
        assert "nv_ldmatrix" not in op_names(NvFragments(ldmatrix=False)(case.kernel))
    assert found[("True", True)] == {True}
    assert all(v == {False} for k, v in found.items() if k != ("True", True))


def test_an_accumulator_becomes_an_operand_without_leaving_its_lane(rng) -> None:
    case = attention_case(rng, 16, 32)
    lowered = NvFragments()(case.kernel)
    assert "subgroup_shuffle" not in op_names(lowered)
    assert "store" in op_names(lowered)


def test_checked_accesses_of_fragments_report_and_give_zeros(rng: np.random.Generator) -> None:
    case = next(iter(products(rng, 32)))
    short = case.args[0][:-16]
    for lowering in (Fragments(), NvFragments(ldmatrix=False)):
        lowered = as_held(apply(case.kernel, standard(support(), checks=True, fragments=lowering)))
        report = run(lowered, [short, *case.args[1:]], (1, 1, 1))
        assert report.problems == ()
        assert {lowered.sites[n] for n in report.faults} == {"index out of bounds: a"}


def test_a_kernel_without_fragments_is_left_alone() -> None:
    from pass_kernels import parse_kernel

    text = "kernel k t\nworkgroup 32 1 1\nindex i32\nbody() {\n  return\n}\n"
    kernel = parse_kernel(text)
    assert Fragments()(kernel) is kernel
    assert NvFragments()(kernel) is kernel
