"""Products with weights on Hopper, whole tiles and shared ones: run by the model, and assembled."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from gristmill.backends.compile import Options
from gristmill.backends.cubin.assembler import assemble
from gristmill.backends.ptx.emit import emit
from gristmill.ir import abi
from gristmill.ir.core import Kernel, Op
from gristmill.ir.interp import run
from gristmill.ir.interp.bulk import tensor_load
from gristmill.ir.interp.frame import Frame
from gristmill.ir.interp.machine import HANDLERS, Machine
from gristmill.ir.interp.mbarriers import numbers
from gristmill.ir.lang import Diagnostic
from gristmill.kernels.family import DTYPES, compare
from gristmill.kernels.matmul import relu
from gristmill.kernels.nv_linear import FAMILIES, nv_linear
from ptx_model.host import Model

ARCH = "sm_90a"
CONFIGS = Path(__file__).parents[2] / "configs"
(FAMILY,) = FAMILIES
DEFAULTS = dict(nv_linear.trace("test").constexprs)
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"T": "bf16", "OUT": "bf16", "BN": 128, "STAGES": 3, "LEAST": 2},
    {"BLOCKS": 2, "BN": 128, "LEAST": 3, "GROUPS": 5},
    {"BLOCKS": 2, "BN": 128, "TURNS": 2, "LEAST": 3, "GROUPS": 7},
    {"BN": 128, "TURNS": 2, "GROUPS": 2, "STAGES": 3},
    {"SWAP": True, "CONSUMERS": 1, "BN": 16, "STAGES": 5, "LEAST": 4},
    {"SWAP": True, "BLOCKS": 2, "BN": 64, "LEAST": 2},
    {"BN": 144, "STAGES": 3, "CLUSTER": 2, "GROUPS": 4, "AHEAD": 2},
    {"BN": 128, "STAGES": 3, "CONSUMERS": 1, "CLUSTER": 4, "AHEAD": 100},
    {"SWAP": True, "BN": 32, "GROUPS": 3, "LEAST": 5, "EPILOGUE": relu, "AHEAD": 3},
)


def shipped() -> list[dict[str, Any]]:
    """Constexprs that the configuration and the tuning of a device name."""
    said = yaml.safe_load((CONFIGS / "kernels/nv_linear.yaml").read_text())
    found = [*said["variants"]["ptx"], *said["tune"]["spaces"]["ptx"]]
    for path in (CONFIGS / "tuning").glob("*.yaml"):
        for entry in yaml.safe_load(path.read_text())["kernels"]:
            if entry["kernel"] == "nv_linear":
                found += [shape["winner"] for shape in entry["shapes"]]
    return found


def test_the_workspace_that_is_said_to_be_enough_is_for_all_that_ships() -> None:
    """A device chooses among them by the sizes of a launch, whose workspace is there already."""
    args = next(FAMILY.inputs(np.random.default_rng(0), DEFAULTS))
    shared = [given for given in shipped() if given.get("LEAST")]
    assert shared
    for given in shared:
        c = DEFAULTS | given
        places = 2 * c["GROUPS"] * c["CONSUMERS"]
        room = places * 64 * c["BLOCKS"] * c["BN"]
        assert room <= min(1 << 20, len(args["partial"])), given
        assert places <= min(256, len(args["counts"])), given


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("gcc")
    require("ptxas")


def full(constexprs: dict[str, Any]) -> dict[str, Any]:
    return {name: default for name, (_, default) in nv_linear.constexprs.items()} | constexprs


def grid_of(kernel: Kernel, args: dict[str, Any]) -> tuple[int, int, int]:
    assert kernel.grid is not None
    return abi.evaluate(kernel.grid[0], {}, {w: args[w] for w in "mnk"}), 1, 1


def right(args: dict[str, Any], constexprs: dict[str, Any]) -> bool:
    types = {"c": str(constexprs["OUT"]), "counts": "i32"}
    expected = FAMILY.reference(args, constexprs)
    assert expected.keys() == types.keys()
    return all(compare(args[n], want, DTYPES[types[n]]).ok for n, want in expected.items())


@pytest.mark.parametrize("constexprs", VARIANTS, ids=str)
def test_products_agree_with_their_reference_twice(
    constexprs: dict[str, Any], rng: np.random.Generator
) -> None:
    """A launch finds the workspace as the one before has left it."""
    traced = nv_linear.trace("s", **constexprs)
    model = Model(traced, ARCH)
    for args in FAMILY.inputs(rng, full(constexprs)):
        bits = []
        for _ in range(2):
            args["c"].view(np.uint8)[:] = 0xFF  # NaN
            model.run(list(args.values()), grid_of(traced, args), seed=int(rng.integers(1 << 30)))
            assert right(args, full(constexprs))
            bits.append(args["c"].tobytes())
        assert bits[0] == bits[1]


@pytest.mark.parametrize("constexprs", [VARIANTS[3], VARIANTS[6]], ids=str)
def test_the_interpreter_finds_no_races(
    constexprs: dict[str, Any], rng: np.random.Generator
) -> None:
    traced = nv_linear.trace("s", **constexprs)
    for args in list(FAMILY.inputs(rng, full(constexprs)))[:3]:
        report = run(traced, list(args.values()), grid_of(traced, args))
        assert report.problems == ()
        assert right(args, full(constexprs))


@pytest.mark.parametrize("name", ["partial", "counts"])
def test_a_workspace_that_is_too_short_is_a_fault(name: str, rng: np.random.Generator) -> None:
    constexprs = VARIANTS[6]
    traced = nv_linear.trace("s", **constexprs)
    args = list(FAMILY.inputs(rng, full(constexprs)))[2]
    groups, _, _ = grid_of(traced, args)
    least = {"partial": 2 * groups * 256 * 64, "counts": 2 * groups * 2}
    model = Model(traced, ARCH)
    for short in (0, 1):
        given = dict(args, **{name: args[name][: least[name] - short].copy()})
        faults = model.run(list(given.values()), (groups, 1, 1))
        assert bool(faults) == bool(short)


@pytest.mark.parametrize("constexprs", [{}, {"BN": 128, "BLOCKS": 2, "TURNS": 3}], ids=str)
def test_registers_that_do_not_add_up_are_refused_before_they_hang(
    constexprs: dict[str, Any],
) -> None:
    with pytest.raises(Diagnostic, match="are for CONSUMERS <= 2"):
        nv_linear.trace("s", CONSUMERS=3, **constexprs)


@pytest.mark.parametrize("swap", [False, True])
def test_a_rank_of_a_cluster_fetches_no_tiles_but_those_that_it_copies(
    swap: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: dict[int, list[tuple[int, ...]]] = {0: [], 1: []}
    copied: dict[int, list[tuple[int, ...]]] = {0: [], 1: []}

    def note(to: dict[int, list[tuple[int, ...]]], machine: Machine, frame: Frame, op: Op) -> None:
        first = 1 if op.name == "nv_tensor_prefetch" else 5
        box = [numbers(frame, value) for value in op.operands[first : first + 2]]
        for group, *place in zip(machine.group_of(frame), *box, strict=True):
            to[int(group)].append(tuple(map(int, place)))

    def copy(machine: Machine, frame: Frame, op: Op) -> None:
        if machine.memories[op.operands[2].id].name == "b":
            note(copied, machine, frame, op)
        tensor_load(machine, frame, op)

    monkeypatch.setitem(HANDLERS, "nv_tensor_prefetch", functools.partial(note, fetched))
    monkeypatch.setitem(HANDLERS, "nv_tensor_load", copy)
    constexprs = {"SWAP": swap, "CLUSTER": 2, "CONSUMERS": 1, "BN": 64, "AHEAD": 2, "GROUPS": 2}
    traced = nv_linear.trace("s", **constexprs)
    args = list(FAMILY.inputs(rng, full(constexprs)))[2]
    assert run(traced, list(args.values()), grid_of(traced, args)).problems == ()
    assert fetched == {group: boxes[:2] for group, boxes in copied.items()}
    assert fetched[0] != fetched[1]


def test_the_assembler_keeps_registers_and_does_not_serialise_products() -> None:
    """C7508 and C7510 to C7515 are what it says where it does."""
    for constexprs in VARIANTS:
        made = emit(nv_linear.trace("s", **constexprs), ARCH, Options())
        _, log = assemble(made.blob, ARCH)
        assert "0 bytes spill stores" in log, constexprs
        assert not re.search(r"C75\d\d|warning", log), log
