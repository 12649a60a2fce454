"""Lowering of fragments, run on the interpreter: the same results within the stated error."""

from __future__ import annotations

import numpy as np
import pytest

from fragment_kernels import KINDS, attention_case, make_product, products, swizzled_case
from gristmill.backends.cpu.emit import support
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import FragmentType
from gristmill.ir.interp import run
from gristmill.ir.lang import *
from gristmill.ir.passes import Pass, as_held, standard
from gristmill.ir.passes import run as apply
from gristmill.ir.passes.effects import op_names, value_types
from gristmill.ir.passes.fragments import Fragments
from gristmill.ir.passes.fragments_hidden import HiddenFragments
from gristmill.ir.passes.fragments_nv import ADA, TURING, NvFragments, multiplies
from gristmill.ir.passes.fragments_turning import TurningFragments
from gristmill.ir.verify import verify
from pass_check import check_valid

LOWERINGS = [(Fragments(), size) for size in (4, 8, 16, 32, 64)]
LOWERINGS += [(TurningFragments(), size) for size in (4, 8, 16, 32, 64)]
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


WHOLE = [kinds for kinds in KINDS if kinds[0] in ("f16", "bf16", "i8", "u8")]


@pytest.mark.parametrize("size", [8, 32, 64])
@pytest.mark.parametrize("kinds", WHOLE, ids=str)
def test_hidden_products_stay_whole(kinds, size: int, rng: np.random.Generator) -> None:
    case = make_product(rng, kinds, ("row", "column"), size, True)
    lowered = HiddenFragments()(case.kernel)
    verify(lowered)
    check_valid(lowered)
    assert "fragment_mma" in op_names(lowered)
    assert "subgroup_barrier" not in op_names(lowered)
    assert run(lowered, case.args, (1, 1, 1)).problems == ()
    assert not case.wrong(case.args[-1])


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_rows_of_hidden_fragments_go_through_workgroup_memory(size: int, rng) -> None:
    case = attention_case(rng, 48, size)
    lowered = HiddenFragments()(case.kernel)
    check_valid(lowered)
    names = op_names(lowered)
    assert {"fragment_mma", "subgroup_barrier", "fragment_load", "fragment_store"} <= names
    assert not {"fragment_reduce", "fragment_broadcast", "fragment_coordinate"} & names
    lowered = as_held(apply(case.kernel, standard(support(), fragments=HiddenFragments())))
    verify(lowered)
    report = run(lowered, case.args, (3, 1, 1))
    assert report.problems == ()
    assert not case.wrong(case.args[3])


@kernel(workgroup=lambda: SUBGROUP, grid=lambda: (1, 1, 1))
def spread_twice(x: Read[f16], y: Write[f32], n: i32, *, SUBGROUP: int = 32):
    """A sum whose rows are asked for under a condition, and again behind it."""
    left = fragment_load(fragment(f16, "a"), x, 0, 16)
    right = fragment_load(fragment(f16, "b"), x, 256, 16)
    acc = mma(left, right, fragment(f32, "acc")(0.0))
    low = acc * 2.0
    if n > 0:
        fragment_store(y, 0, acc - row_max(acc), 16)
        low = max(low, 1.0)
    fragment_store(y, 256, low * row_max(acc), 16)


@pytest.mark.parametrize("n", [0, 1])
def test_what_is_spread_under_a_condition_is_not_there_behind_it(n: int, rng) -> None:
    lowered = HiddenFragments()(spread_twice.trace("test"))
    check_valid(lowered)
    verify(lowered)
    x, y = rng.standard_normal((2, 16, 16)).astype(np.float16), np.zeros((2, 16, 16), np.float32)
    assert run(lowered, [x, y, n], (1, 1, 1)).problems == ()
    acc = x[0].astype(np.float64) @ x[1].astype(np.float64)
    low = acc * 2
    low = np.maximum(low, 1) if n else low
    np.testing.assert_allclose(y[1], low * acc.max(1, keepdims=True), rtol=1e-4, atol=1e-4)
    want = acc - acc.max(1, keepdims=True) if n else 0 * acc
    np.testing.assert_allclose(y[0], want, rtol=1e-4, atol=1e-4)
