"""What a model is after each failure: as it was, in need of a reset, or on a poisoned device."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graph_plans import Given, planned
from gristmill import runtime
from gristmill.ir.graph import Graph, GraphBuilder
from gristmill.ir.graph.functions import scatter, take
from gristmill.ir.plan import Plan, Role
from gristmill.runtime.engine import (
    Engine,
    Model,
    NeedsReset,
    PlanMismatch,
    PlanTooLarge,
    WeightsInvalid,
)

WEIGHT = np.arange(24, dtype=np.float32).reshape(6, 4)
WEIGHTS = {"w": WEIGHT}


def table_graph(*, states: bool) -> Graph:
    """Rows of a weight, summed over the steps where there are states."""
    g = GraphBuilder("rows")
    w, rows = g.constant("w", "f32", (6, 4)), g.input("rows", "i32", (2,))
    found = take(w, rows)
    if states:
        total, count = g.state("total", "f32", (2, 4)), g.state("count", "i32", (1,))
        found = found + total
        g.commit(total, found)
        g.commit(count, count + 1)
    g.output("y", found * 1.0)
    return g.build()


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


@pytest.fixture(params=[True, False], ids=["states", "no states"])
def model(
    request: pytest.FixtureRequest, device: runtime.Device, bundle: runtime.Bundle
) -> Iterator[Model]:
    plan = planned(device, bundle, {"step": table_graph(states=request.param)})
    loaded = Engine(device, bundle).load(plan, Given(WEIGHTS))
    yield loaded
    loaded.unload()


@pytest.fixture
def own(device: runtime.Device) -> Iterator[runtime.Device]:
    """A device that a test may break."""
    opened = runtime.open_device(device.name)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({"places": rows(1, 2)}, "places"),
        ({"rows": rows(1, 2, 3)}, r"i32\[2\].*int32\[3\]"),
        ({"rows": np.zeros(2, np.int64)}, r"int64\[2\]"),
        ({"rows": rows(5, 5), "more": rows(1)}, "more"),
    ],
)
def test_a_step_with_wrong_inputs_changes_something(
    model: Model, inputs: dict[str, Any], named: str
) -> None:
    model.step("step", rows=rows(1, 2))
    before = model.read("step", "y")
    with pytest.raises(runtime.ArgumentError, match=named):
        model.step("step", **inputs)
    with pytest.raises(runtime.ArgumentError, match="no entry"):
        model.step("prompt")
    np.testing.assert_array_equal(model.read("step", "y"), before)
    model.step("step")  # the inputs of the first one are there
    again = before * 2 if model.plan.bytes(Role.STATE) else before
    np.testing.assert_array_equal(model.read("step", "y"), again)


@pytest.mark.parametrize("place", [6, -1, -7, 1 << 30])
def test_a_place_outside_goes_unnoticed_or_breaks_the_model(model: Model, place: int) -> None:
    model.step("step", rows=rows(1, 2))
    model.step("step", rows=rows(1, place))
    with pytest.raises(runtime.KernelFault, match="outside"):
        model.read("step", "y")
    with pytest.raises(NeedsReset):
        model.read("step", "y")
    if model.plan.bytes(Role.STATE):
        for call in (lambda: model.step("step", rows=rows(1, 2)), lambda: model.state("total")):
            with pytest.raises(NeedsReset, match="reset"):
                call()
        model.reset()
        assert model.state("count") == 0
    model.step("step", rows=rows(3, 2))
    np.testing.assert_array_equal(model.read("step", "y"), WEIGHT[[3, 2]])


def test_a_reset_before_the_fault_is_told_is_undone_by_it(model: Model) -> None:
    model.step("step", rows=rows(1, 6))
    model.reset()
    model.step("step", rows=rows(3, 2))
    np.testing.assert_array_equal(model.read("step", "y"), WEIGHT[[3, 2]])


@pytest.mark.parametrize(("dtype", "axis"), [("f32", 0), ("f32", 1), ("i32", 0)])
@pytest.mark.parametrize("place", [4, -1])
def test_a_gather_outside_goes_unnoticed(
    device: runtime.Device, bundle: runtime.Bundle, place: int, dtype: str, axis: int
) -> None:
    g = GraphBuilder("gather")
    x, at = g.input("x", dtype, (4, 4)), g.input("at", "i32", (2,))
    g.output("y", take(x, at, axis))
    model = Engine(device, bundle).load(planned(device, bundle, {"s": g.build()}), Given({}))
    values = np.arange(16).reshape(4, 4).astype("i4" if dtype == "i32" else "f4")
    model.step("s", x=values, at=rows(0, 3))
    np.testing.assert_array_equal(model.read("s", "y"), np.take(values, [0, 3], axis))
    model.step("s", x=values, at=rows(0, place))
    with pytest.raises(runtime.KernelFault, match="outside"):
        model.read("s", "y")


@pytest.mark.parametrize("place", [4, -2, -9])
@pytest.mark.parametrize("kind", ["set", "add"])
def test_a_scatter_outside_goes_unnoticed(
    device: runtime.Device, bundle: runtime.Bundle, place: int, kind: str
) -> None:
    g = GraphBuilder("scatter")
    x, at = g.input("x", "f32", (4, 2)), g.input("at", "i32", (2,))
    g.output("y", scatter(x, at, g.input("new", "f32", (2, 2)), kind=kind))
    model = Engine(device, bundle).load(planned(device, bundle, {"s": g.build()}), Given({}))
    zeros, ones = np.zeros((4, 2), np.float32), np.ones((2, 2), np.float32)
    model.step("s", x=zeros, at=rows(-1, 2), new=ones)
    np.testing.assert_array_equal(model.read("s", "y")[:, 0], [0, 0, 1, 0])
    model.step("s", x=zeros, at=rows(0, place), new=ones)
    with pytest.raises(runtime.KernelFault, match="outside"):
        model.read("s", "y")


def test_the_fault_of_one_model_fails_the_load_of_another(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    engine = Engine(device, bundle)
    plan = planned(device, bundle, {"step": table_graph(states=True)})
    first = engine.load(plan, Given(WEIGHTS))
    first.step("step", rows=rows(1, 6))
    with pytest.raises(runtime.KernelFault):
        engine.load(plan, Given(WEIGHTS))
    with pytest.raises(NeedsReset):
        first.step("step")
    second = engine.load(plan, Given(WEIGHTS))
    second.step("step", rows=rows(1, 2))
    np.testing.assert_array_equal(second.read("step", "y"), WEIGHT[[1, 2]])


@pytest.mark.parametrize(
    ("hook", "error"),
    [("_replay", runtime.DeviceLost), ("_wait", runtime.DeviceTimeout)],
)
def test_a_device_that_is_lost_hangs_or_takes_others_with_it(
    own: runtime.Device,
    cpu: runtime.Device,
    bundle: runtime.Bundle,
    monkeypatch: pytest.MonkeyPatch,
    hook: str,
    error: type[runtime.Poisoned],
) -> None:
    graph, engine = table_graph(states=True), Engine(own, bundle)
    plan = planned(own, bundle, {"step": graph})
    lost = engine.load(plan, Given(WEIGHTS))
    other = Engine(cpu, bundle).load(planned(cpu, bundle, {"step": graph}), Given(WEIGHTS))
    lost.step("step", rows=rows(1, 2))
    other.step("step", rows=rows(1, 2))

    def fails(*arguments: object) -> None:
        raise error("injected")

    engine.wait()
    monkeypatch.setattr(own, hook, fails)

    def step() -> None:
        lost.step("step")
        lost.read("step", "y")

    with pytest.raises(error, match="injected"):
        step()
    calls: list[Callable[[], object]] = [
        lambda: lost.step("step", rows=rows(1, 2)),
        lambda: lost.read("step", "y"),
        lambda: lost.state("total"),
        lost.reset,
        engine.wait,
        lambda: engine.load(plan, Given(WEIGHTS)),
    ]
    for call in calls:
        with pytest.raises((error, NeedsReset)):
            call()
    with pytest.raises(error, match="poisoned"):
        engine.wait()
    lost.unload()
    other.step("step")
    np.testing.assert_array_equal(other.read("step", "y"), 2 * WEIGHT[[1, 2]])


def live(device: runtime.Device) -> int:
    gc.collect()  # models of earlier tests, in the frames of their errors
    device.synchronize()
    return device.memory().live


def test_a_plan_that_does_not_fit_allocates_first(
    device: runtime.Device, bundle: runtime.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(device, bundle, {"step": table_graph(states=True)})
    before = live(device)
    monkeypatch.setattr(device, "_budget", lambda: (before + 100, before + 100, False))
    asked: list[int] = []
    monkeypatch.setattr(device, "_allocate", asked.append)
    with pytest.raises(PlanTooLarge, match="96 bytes of weight") as caught:
        Engine(device, bundle).load(plan, Given(WEIGHTS))
    assert caught.value.available == 100
    assert caught.value.roles["weight"] == WEIGHT.nbytes
    assert not asked


def test_an_allocation_that_fails_in_the_middle_leaves_memory_behind(
    device: runtime.Device, bundle: runtime.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(device, bundle, {"step": table_graph(states=True)})
    engine, before, allocate = Engine(device, bundle), live(device), device._allocate
    kept = []  # an error that somebody keeps, with its frames
    for count in range(len(plan.storages)):
        left = [count]

        def one_less(nbytes: int, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise runtime.OutOfMemory(nbytes, 0)
            return allocate(nbytes)

        monkeypatch.setattr(device, "_allocate", one_less)
        with pytest.raises(runtime.OutOfMemory) as caught:
            engine.load(plan, Given(WEIGHTS))
        kept.append(caught.value)
        assert live(device) == before
    monkeypatch.undo()
    model = engine.load(plan, Given(WEIGHTS))
    model.step("step", rows=rows(1, 2))
    np.testing.assert_array_equal(model.read("step", "y"), WEIGHT[[1, 2]])


@pytest.mark.parametrize(
    ("arrays", "got"),
    [
        ({}, "missing"),
        ({"w": WEIGHT.T}, r"float32\[4, 6\]"),
        ({"w": WEIGHT.astype(np.float16)}, r"float16\[6, 4\]"),
        ({"w": WEIGHT.reshape(-1)}, r"float32\[24\]"),
    ],
)
def test_weights_of_another_model_are_loaded(
    device: runtime.Device, bundle: runtime.Bundle, arrays: dict[str, np.ndarray], got: str
) -> None:
    plan = planned(device, bundle, {"step": table_graph(states=True)})
    engine, before = Engine(device, bundle), live(device)
    with pytest.raises(WeightsInvalid, match=got):
        engine.load(plan, Given(arrays))
    assert live(device) == before
    resident = engine.load(plan, Given(WEIGHTS))
    with pytest.raises(WeightsInvalid, match=got):
        engine.load(plan, Given(arrays))
    resident.unload()


def test_a_plan_for_another_device_is_loaded(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    plan = planned(device, bundle, {"step": table_graph(states=False)})
    engine, before = Engine(device, bundle), live(device)
    for other in (replace(plan, device="cuda"), replace(plan, targets=("ptx-sm_90",))):
        with pytest.raises(PlanMismatch, match="another device"):
            engine.load(other, Given(WEIGHTS))
    with pytest.raises(PlanMismatch, match="kernel nothing f32"):
        engine.load(_of_kernel(plan, "nothing"), Given(WEIGHTS))
    assert live(device) == before


def _of_kernel(plan: Plan, name: str) -> Plan:
    (entry,) = plan.entries
    launches = tuple(replace(x, kernel=name, specialization="f32") for x in entry.launches)
    return replace(plan, entries=(replace(entry, launches=launches),))


def test_models_that_share_weights_hold_them_twice_or_lose_them(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    plan = planned(device, bundle, {"step": table_graph(states=True)})
    engine, before = Engine(device, bundle), live(device)
    first = engine.load(plan, Given(WEIGHTS))
    alone = live(device) - before
    second = engine.load(plan, Given(WEIGHTS))
    assert live(device) - before == 2 * alone - WEIGHT.nbytes
    for model in (first, second):
        model.step("step", rows=rows(1, 2))
    first.unload()
    assert live(device) - before == alone
    with pytest.raises(runtime.StateError, match="unloaded"):
        first.step("step")
    second.step("step", rows=rows(3, 2))
    np.testing.assert_array_equal(second.read("step", "y"), WEIGHT[[1, 2]] + WEIGHT[[3, 2]])
    second.unload()
    assert live(device) == before


def test_steps_allocate(
    model: Model, device: runtime.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.prepare("step")
    before, asked = live(device), list[int]()
    reserve, allocate = device._reserve, device._allocate
    monkeypatch.setattr(device, "_reserve", lambda n: asked.append(n) or reserve(n))
    monkeypatch.setattr(device, "_allocate", lambda n: asked.append(n) or allocate(n))
    for n in range(5):
        model.step("step", rows=rows(n, 5 - n))
        model.read("step", "y")
    assert not asked
    assert live(device) == before
