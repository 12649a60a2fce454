"""Attention by warpgroups: the model holds it to its reference, the assembler to its registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.cubin.assembler import assemble
from gristmill.backends.ptx.emit import emit
from gristmill.ir import abi
from gristmill.ir.lang import Diagnostic
from gristmill.kernels.family import DTYPES, compare
from gristmill.kernels.nv_attention_prefill import FAMILIES, nv_attention_prefill
from ptx_model.host import Model

ARCH = "sm_90a"
(FAMILY,) = FAMILIES
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"GROUPS": 5},
    {"T": "bf16", "HEAD_DIM": 64, "GROUPS": 3, "PINGPONG": False},
    {"CONSUMERS": 3, "BK": 64, "STAGES": 3, "PAGE": 32, "GROUPS": 1000, "KEYS": 256},
)


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("gcc")
    require("ptxas")


def full(constexprs: dict[str, Any]) -> dict[str, Any]:
    return {name: d for name, (_, d) in nv_attention_prefill.constexprs.items()} | constexprs


def grid_of(kernel: Any, args: dict[str, Any]) -> tuple[int, int, int]:
    counts = {name: value.size for name, value in args.items() if isinstance(value, np.ndarray)}
    numbers = {name: value for name, value in args.items() if isinstance(value, int)}
    return (abi.evaluate(kernel.grid[0], counts, numbers), 1, 1)


@pytest.mark.parametrize("constexprs", SCHEDULES, ids=str)
def test_every_schedule_agrees_with_the_reference(
    constexprs: dict[str, Any], rng: np.random.Generator
) -> None:
    known = full(constexprs)
    traced = nv_attention_prefill.trace("s", **constexprs)
    model = Model(traced, ARCH)
    for args in FAMILY.inputs(rng, known):
        grid = grid_of(traced, args)
        seed = int(rng.integers(1 << 30))
        assert not model.run(list(args.values()), grid, seed=seed)
        expected = FAMILY.reference(args, known)["y"]
        assert compare(args["y"], expected, DTYPES[str(known["T"])]).ok


def test_a_scale_below_zero_and_a_page_outside_of_the_cache(rng: np.random.Generator) -> None:
    known = full({})
    traced = nv_attention_prefill.trace("s")
    model = Model(traced, ARCH)
    args = list(FAMILY.inputs(rng, known))[4]
    args["scale"] = -0.3
    assert not model.run(list(args.values()), grid_of(traced, args))
    assert compare(args["y"], FAMILY.reference(args, known)["y"], DTYPES["f16"]).ok
    args["table"][0, 3] = len(args["k_cache"])
    faults = model.run(list(args.values()), grid_of(traced, args))
    messages = {traced.sites[n] for n in faults}
    assert messages == {"nv_attention_prefill: page number outside the cache"}


def test_values_that_are_not_there_are_a_fault_and_zeros_and_not_a_hang(
    rng: np.random.Generator,
) -> None:
    args = list(FAMILY.inputs(rng, full({})))[4]
    args["v_cache"] = args["v_cache"][:0]
    traced = nv_attention_prefill.trace("s")
    faults = Model(traced, ARCH).run(list(args.values()), grid_of(traced, args))
    messages = {traced.sites[n] for n in faults}
    assert messages == {"nv_attention_prefill: page number outside the cache"}
    assert not args["y"].any()


@pytest.mark.parametrize("consumers", [1, 4])
def test_registers_that_do_not_add_up_are_refused_before_they_hang(consumers: int) -> None:
    with pytest.raises(Diagnostic, match="CONSUMERS is 2 or 3: registers"):
        nv_attention_prefill.trace("s", CONSUMERS=consumers)


@pytest.mark.parametrize("constexprs", [{}, {"T": "bf16"}, {"HEAD_DIM": 64}], ids=str)
def test_the_assembler_does_not_serialise_products(constexprs: dict[str, Any]) -> None:
    """C7508 and C7510 to C7515 are what it says where it does, or ignores a number of registers.
    What is spilled is spilled outside of the loop over keys."""
    made = emit(nv_attention_prefill.trace("s", **constexprs), ARCH, Options())
    _, log = assemble(made.blob, ARCH)
    assert not re.search(r"C75\d\d|warning", log), log
    (spilled,) = map(int, re.findall(r"(\d+) bytes spill stores", log))
    assert spilled <= 128
