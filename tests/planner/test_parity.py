"""The fixtures that ship are right on every device, and tell plans that are wrong."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable

import numpy as np
import pytest

from gristmill import runtime
from gristmill.cli.main import main
from gristmill.ir.graph.core import Graph, Node
from gristmill.models import parity
from gristmill.models.parity import FIXTURES, Fixture
from gristmill.planner.lowering import Lowering
from gristmill.planner.memory import Slot
from gristmill.planner.rules import RULES
from gristmill.planner.rules.copies import copied
from gristmill.planner.view import View
from gristmill.runtime.engine import Model

PLAN = importlib.import_module("gristmill.planner.plan")  # its name is that of its function
BY_NAME = {fixture.name: fixture for fixture in FIXTURES}


def test_results_of_planned_graphs_leave_their_bounds(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    results = list(parity.check(device, bundle))
    assert not [r for r in results if r.status not in ("ok", "refused")]
    # f64 and i64 are what a device may lack; the fixtures need no more than it has.
    assert not [r for r in results if r.status == "refused"]


def test_other_numbers_leave_the_bounds(cpu: runtime.Device, bundle: runtime.Bundle) -> None:
    assert not [r for r in parity.check(cpu, bundle, seed=1) if r.status != "ok"]


def test_bounds_are_tighter_than_what_a_look_would_find() -> None:
    assert all(fixture.bound.share < 5e-3 for fixture in FIXTURES)
    assert len(BY_NAME) == len(FIXTURES)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_plan_that_is_changed_passes(
    name: str, cpu: runtime.Device, bundle: runtime.Bundle
) -> None:
    """Other numbers than those of the run before: what is not written has none that are right."""
    fixture = BY_NAME[name]
    assert parity.judge(cpu, bundle, fixture, 5).status == "ok"
    assert parity.judge(cpu, bundle, fixture, 6, fixture.mutation).status == "wrong"


def _owned(patch: pytest.MonkeyPatch) -> None:
    """Memory is overwritten that others still read."""
    patch.setattr(Lowering, "owned", lambda self, view, node=None: True)


def _no_sibling_lifetimes(patch: pytest.MonkeyPatch) -> None:
    """Scratch goes into one slot, whoever lives."""
    patch.setattr(Slot, "free", lambda self, *life: True)


def _no_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PLAN, "_commits", lambda graph, lowering: None)


def _commits_in_turn(patch: pytest.MonkeyPatch) -> None:
    """A state that another one becomes is overwritten first."""

    def commits(graph: Graph, lowering: Lowering) -> None:
        for commit in graph.commits:
            copied(lowering, lowering.view(commit.value), lowering.view(commit.state))

    patch.setattr(PLAN, "_commits", commits)


def _no_reset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Model, "reset", lambda self: None)


def _stale_inputs(patch: pytest.MonkeyPatch) -> None:
    """Only the first step's inputs arrive."""
    step = Model.step
    seen: set[int] = set()

    def first(self: Model, entry: str, /, **inputs: np.ndarray) -> None:
        step(self, entry, **({} if id(self) in seen else inputs))
        seen.add(id(self))

    patch.setattr(Model, "step", first)


def _everything_once(patch: pytest.MonkeyPatch) -> None:
    """What a step computes, the load computes instead."""
    patch.setattr("gristmill.planner.pool.Pool.fixed", lambda self, view: True)


def _transposed_alike(patch: pytest.MonkeyPatch) -> None:
    def wrong(c: Lowering, node: Node) -> tuple[View, ...]:
        return (c.view(node.operands[0]).reshaped(*node.results[0].type.shape),)

    patch.setitem(RULES, "transpose", (wrong,))


@pytest.mark.parametrize(
    ("broken", "name", "said"),
    [
        (_owned, "add_rms_norm in place", "out of its bound"),
        (_owned, "state kept", "out of its bound"),
        (_no_sibling_lifetimes, "decoder block", "buffers x and y overlap"),
        (_no_commits, "states exchanged", "out of its bound"),
        (_commits_in_turn, "states exchanged", "out of its bound"),
        (_no_reset, "state in place", "other bits"),
        (_stale_inputs, "kv_append", "out of its bound"),
        (_everything_once, "decoder block", "outside the table"),
        (_transposed_alike, "movement", "out of its bound"),
    ],
)
def test_a_planner_or_engine_that_is_broken_passes(
    broken: Callable[[pytest.MonkeyPatch], None],
    name: str,
    said: str,
    cpu: runtime.Device,
    bundle: runtime.Bundle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a wrong result, or where devices refuse what it comes to."""
    fixture: Fixture = BY_NAME[name]
    assert parity.judge(cpu, bundle, fixture, 7).status == "ok"
    broken(monkeypatch)
    result = parity.judge(cpu, bundle, fixture, 8)
    assert result.status == ("wrong" if said in ("out of its bound", "other bits") else "failed")
    assert said in result.reason


def test_a_kernel_that_is_missing_is_refused_by_name(
    cpu: runtime.Device, bundle: runtime.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(self: object, kernel: str, specialization: str) -> str | None:
        return f"kernel {kernel} {specialization}" if kernel == "scan_rows" else None

    monkeypatch.setattr("gristmill.runtime.engine.BundleKernels.lacking", lacking)
    result = parity.judge(cpu, bundle, BY_NAME["running sums"])
    assert result.status == "refused"
    assert "missing kernel scan_rows sum_f32" in result.reason


def test_the_command_reports_every_fixture(
    bundle: runtime.Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["check", "cpu", "--bundle", str(bundle.root), "--parity", "--seed", "3"]
    assert main([*given, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["counts"] == {"ok": len(FIXTURES)}
    assert {r["name"] for r in report["results"]} == set(BY_NAME)
    assert main([*given, "--kernel", "matmul"]) == 2
