"""Quantized products on tensor cores: in the interpreter, and as PTX in the model of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.core import Kernel
from gristmill.ir.interp import run
from gristmill.ir.lang import Diagnostic
from gristmill.ir.quantized import BLOCKS
from gristmill.kernels.family import compare
from gristmill.kernels.nv_quantized_gemv import FAMILIES
from gristmill.kernels.nv_quantized_units import FORMATS_READ
from gristmill.kernels.quantized_inputs import arguments, matrix
from ptx_model.host import Model
from quantized_runs import traced

(FAMILY,) = FAMILIES
SMALL = {"TEAMS": 4, "SPLIT": 2, "SPAN": 256, "COLS": 4096}
FORMATS: dict[str, dict[str, Any]] = {
    "q4_0": {},
    "q4_0_planes": {},
    "q4_1": {},
    "q5_0_planes": {},
    "q8_0_planes": {},
    "q4_k": {},
    "q5_k": {},
    "u4": {"SPAN": 512},
}


def product(decoder: str, **constexprs: Any) -> Kernel:
    return traced("nv_quantized_gemv", decoder, **(SMALL | FORMATS.get(decoder, {}) | constexprs))


def checked(kernel: Kernel, args: Any) -> None:
    wanted = FAMILY.reference(args, dict(kernel.constexprs))["y"]
    found = compare(args["y"], wanted, kernel.params[-2].dtype)
    assert found.ok, f"off by {found.error}, bound {found.bound}"


@pytest.mark.parametrize(
    "constexprs", [{}, {"TEAMS": 2, "SPLIT": 1, "TILES": 2, "STAGES": 3}], ids=str
)
@pytest.mark.parametrize("decoder", FORMATS)
def test_rows_that_no_tile_ends_at_agree_with_the_reference(
    decoder: str, constexprs: dict[str, Any], rng: np.random.Generator
) -> None:
    """More tiles than subgroups, so that the ring goes on from one to the next."""
    kernel = product(decoder, **constexprs)
    for args in FAMILY.inputs(rng, dict(kernel.constexprs)):
        assert run(kernel, list(args.values()), (1, 1, 1)).problems == ()
        checked(kernel, args)


@pytest.mark.parametrize("decoder", [f.name for f in FORMATS_READ])
def test_every_format_that_the_kernel_names_agrees_with_the_reference(
    decoder: str, rng: np.random.Generator
) -> None:
    kernel = product(decoder, SPAN={"q2_k": 1024, "q3_k_planes": 2048, "u4": 512}.get(decoder, 256))
    parts = arguments(matrix(rng, 5, 2048, dict(kernel.constexprs)))
    x, y = rng.standard_normal(2048).astype(np.float16), np.zeros(5, np.float32)
    args = {**parts, "x": x, "y": y, "cols": 2048}
    report = run(kernel, list(args.values()), (1, 1, 1))
    assert (report.problems, report.faults) == ((), frozenset())
    checked(kernel, args)


@pytest.mark.parametrize("decoder", ["q4_0_planes", "q4_k", "u4"])
def test_the_threads_of_ptx_agree_with_the_reference(
    decoder: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    kernel = product(decoder)
    model = Model(kernel, "sm_90a")
    for args in FAMILY.inputs(rng, dict(kernel.constexprs)):
        model.run(list(args.values()), (1, 1, 1), seed=int(rng.integers(1 << 30)))
        checked(kernel, args)


@pytest.mark.parametrize("wrong", ["", "w_0", "w_1", "x", "columns", "alignment"])
def test_parts_that_the_copies_cannot_take_are_a_fault_and_zeros(
    wrong: str, rng: np.random.Generator
) -> None:
    kernel = product("q4_0_planes", COLS=2048)
    rows, cols = 3, {"columns": 2560, "alignment": 288}.get(wrong, 512)
    parts = matrix(rng, rows, cols, dict(kernel.constexprs))
    args = {**arguments(parts), "x": np.ones(cols, np.float16)}
    args |= {wrong: args[wrong][:-1]} if wrong in args else {}
    y = np.full(rows, 7, np.float32)
    report = run(kernel, [*args.values(), y, cols], (1, 1, 1))
    assert not report.problems
    assert bool(report.faults) == bool(wrong)
    assert y.any() != bool(wrong)
    assert (y != 7).all()


@pytest.mark.parametrize("scale", [np.inf, np.nan])
def test_a_row_with_an_infinite_scale_is_infinite_or_nan_and_no_other_row(
    scale: float, rng: np.random.Generator
) -> None:
    kernel = product("q4_0_planes")
    parts = [np.array(p) for p in matrix(rng, 20, 512, dict(kernel.constexprs))]
    place = BLOCKS["q4_0"].places("planes")["d"].part
    parts[place].view(np.float16).reshape(20, 16)[9, 5] = scale
    y = np.zeros(20, np.float32)
    run(kernel, [*parts, np.ones(512, np.float16), y, 512], (1, 1, 1))
    assert not np.isfinite(y[9])
    assert np.isfinite(np.delete(y, 9)).all()


def test_spans_that_split_blocks_are_refused() -> None:
    with pytest.raises(Diagnostic, match="SPAN is whole blocks"):
        product("q4_k", SPAN=128)


@pytest.mark.parametrize(
    ("decoder", "span"),
    [
        *(("int8", 512), ("fp8_channel", 512), ("fp8_block", 512)),
        *(("iq4_nl", 512), ("iq4_nl_planes", 512), ("iq4_xs", 512), ("mxfp4", 512)),
        *(("mxfp4_planes", 512), ("q3_k", 2048), ("q6_k", 2048), ("q6_k_planes", 2048)),
    ],
)
def test_a_format_that_it_does_not_read_is_refused_by_name_and_is_never_taken_for_u4(
    decoder: str, span: int
) -> None:
    with pytest.raises(Diagnostic, match=r"FORMAT is one of q4_0, .*, u4\n"):
        product(decoder, SPAN=span)
