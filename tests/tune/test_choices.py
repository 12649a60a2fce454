"""What the runtime takes for a problem: what was measured nearby on such a device, else what the
model says, else the first in declared order."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.runtime import cost, selection, tuning
from gristmill.store.bundle import read_bundle, write_bundle
from project import Project
from tune_project import TARGET


def block(kernel: runtime.LoadedKernel) -> int:
    return int(kernel.manifest.constexprs["BLOCK"])


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("gristmill.runtime.devices.cpu.device.model_name", lambda: "Some CPU 9001")
    with runtime.open_device("cpu") as opened:
        yield opened


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("gristmill.runtime.devices.cpu.device.model_name", lambda: "Unknown")
    with runtime.open_device("cpu") as opened:
        yield opened


@pytest.fixture(scope="session")
def bundle(built: Project) -> runtime.Bundle:
    return runtime.open_bundle(built.path("artifacts"))


@pytest.mark.parametrize(
    ("y", "cols", "expected"),
    [(1000, 64, 8), (1000, 4096, 32), (300, 20, 8), (4000, 255, 8), (4000, 9000, 32)],
)
def test_the_nearest_problem_decides(device, bundle, y, cols, expected) -> None:
    kernel = device.load(bundle, "gemv", "f32", sizes={"y": y, "cols": cols})
    assert block(kernel) == expected
    assert device.load(bundle, "gemv", sizes={"y": y, "cols": cols}) is kernel


@pytest.mark.parametrize(
    ("n", "expected"), [(150, 0), (250, 1), (173, 0), (174, 1), (24, 2), (400, 1), (1201, 2)]
)
def test_of_several_measured_problems_the_nearest_counts(bundle, elsewhere, n, expected) -> None:
    """By the ratio of the sizes: 100 and 300 are equally far from 173.2; beyond 4 times the model
    chooses, which is told apart here by the variant that stands first."""
    first, second = bundle.artifacts("gemv", "f32")
    third = first._replace(manifest=dataclasses.replace(first.manifest, subgroup=1))
    rows = (tuning.Measured({"y": 100}, first), tuning.Measured({"y": 300, "cols": n}, second))
    rows += (tuning.Measured({"y": 300}, second),)
    found = tuning.Choices((third,), rows, elsewhere.capabilities).best({"y": n})
    assert found is (first, second, third)[expected]


def test_measurements_hold_for_how_the_device_was_opened(bundle, device) -> None:
    artifacts = bundle.artifacts("gemv", "f32")
    assert len(tuning.choices(artifacts, device.capabilities).measured) == 2
    for spec, count in (("cpu:0", 2), ("vulkan:0", 0)):
        has = dataclasses.replace(device.capabilities, device=spec)
        assert len(tuning.choices(artifacts, has).measured) == count


def test_what_a_device_lacks_or_takes_otherwise_is_no_choice(bundle, device) -> None:
    first, won = bundle.artifacts("gemv", "f32")

    def other(**changes: Any) -> runtime.Artifact:
        return won._replace(manifest=dataclasses.replace(won.manifest, **changes))

    has = device.capabilities
    for variant in (
        other(requires=("cooperative_matrix",)),
        other(params=won.manifest.params[::-1]),
    ):
        found = selection.measured([first, variant], first, has)
        assert found is not None
        assert [m.artifact for m in found.measured] == [first] == list(found.fitting)
    assert selection.measured([first, won], first, has).fitting == (first, won)


def gemv(device: runtime.Device, kernel: runtime.LoadedKernel, rows: int, cols: int) -> None:
    """Launch in all ways and compare; whether it is right."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows, cols), np.float32)
    x, y = rng.standard_normal(cols, np.float32), np.zeros(rows, np.float32)
    kernel(a, x, y, cols)
    np.testing.assert_allclose(y, a @ x, rtol=1e-3, atol=1e-3)
    buffers = [device.upload(v) for v in (a, x, np.zeros(rows, np.float32))]
    for _ in range(3):  # the checked way, then the direct one
        device.launch(kernel, *buffers, cols)
    np.testing.assert_array_equal(buffers[2].numpy(), y)
    with device.record() as recording:
        recording.launch(kernel, *buffers[:2], y=buffers[2], cols=cols)
    recording.replay()
    np.testing.assert_array_equal(buffers[2].numpy(), y)


def test_a_handle_chooses_by_the_arguments_of_each_launch(device, bundle) -> None:
    handle = device.load(bundle, "gemv")
    assert device.load(bundle, "gemv") is handle
    assert handle.choice is not None
    for rows, cols, expected in ((900, 60, 8), (900, 4000, 32), (900, 60, 8)):
        a, x, y = (np.zeros(n, np.float32) for n in (rows * cols, cols, rows))
        assert block(handle.choice.of([a, x, y, cols])) == expected
        buffers = [device.upload(v) for v in (a, x, y)]
        assert block(handle.choice.of([*buffers, np.int32(cols)])) == expected
        gemv(device, handle, rows, cols)
    small = handle.choice.of([a, x, y, 60], grid=(900, 1, 1))
    assert block(small) == 32  # a grid is of the variant that was loaded


def test_wrong_arguments_are_told_by_the_first_variant(device, bundle) -> None:
    handle = device.load(bundle, "gemv")
    x = device.upload(np.zeros(4, np.float32))
    for args in ((x, x), (x, x, None, 4), (x, x, x, "4"), (x, x, x, 4)):
        with pytest.raises(runtime.ArgumentError):
            device.launch(handle, *args)
    with pytest.raises(runtime.ArgumentError):
        handle(np.zeros(4, np.float32), cols=4)


def test_another_device_takes_the_declared_order_without_choosing(elsewhere, bundle) -> None:
    kernel = elsewhere.load(bundle, "gemv")
    assert (kernel.choice, block(kernel)) == (None, 32)


def test_far_problems_and_other_devices_fall_to_the_model(
    device, elsewhere, bundle, monkeypatch
) -> None:
    asked: list[dict[str, int]] = []

    def cheapest(fitting: Any, capabilities: Any, sizes: Any) -> Any:
        asked.append(dict(sizes))
        return fitting[0]

    monkeypatch.setattr(tuning, "cheapest", cheapest)
    near, far = {"y": 1000, "cols": 64}, {"y": 1000, "cols": 1 << 20}
    for one, sizes in ((device, near), (device, far), (elsewhere, near), (device, {"y": 1000})):
        one.load(bundle, "gemv", sizes=sizes)
    assert asked == [far, near, {"y": 1000}]


def test_sizes_that_are_none_are_refused(device, bundle) -> None:
    for sizes, message in (
        ({"rows": 1}, "sizes of no parameter; .*expected one of a, x, y, cols; got rows"),
        ({"y": -1}, "wrong sizes"),
        ({"y": 1.5}, "wrong sizes"),
        ([1], "wrong sizes"),
    ):
        with pytest.raises(runtime.ArgumentError, match=message.replace("; ", ".*")):
            device.load(bundle, "gemv", sizes=sizes)


def test_one_artifact_is_loaded_as_it_is(device, bundle) -> None:
    for artifact in bundle.artifacts("gemv", "f32"):
        assert device.load_artifact(bundle, artifact).artifact is artifact
    null = runtime.open_device("null")
    alien = dataclasses.replace(artifact.manifest, target="hsaco-gfx942")
    with null, pytest.raises(runtime.Refused):
        null.load_artifact(bundle, artifact._replace(manifest=alien))


WRONG_ROWS: list[Any] = [
    {"device": "cpu"},
    ["cpu"],
    [{"device": "cpu", "matches": ["*"]}],
    [{"device": "cpu", "matches": "*", "sizes": {}}],
    [{"device": "cpu", "matches": [1], "sizes": {}}],
    [{"device": "cpu", "matches": ["*"], "sizes": {"y": -1}}],
    [{"device": "cpu", "matches": ["*"], "sizes": [1]}],
    [{"device": 0, "matches": ["*"], "sizes": {}}],
]


@pytest.mark.parametrize("rows", WRONG_ROWS)
def test_an_index_that_says_it_wrongly_is_refused(device, built, tmp_path: Path, rows: Any) -> None:
    found = read_bundle(built.path("artifacts/bundle.json"))
    entry = next(e for e in found if e.manifest.kernel == "gemv")
    facts = {**entry.manifest.facts, "tuned": rows}
    wrong = dataclasses.replace(entry, manifest=dataclasses.replace(entry.manifest, facts=facts))
    write_bundle(tmp_path, [wrong, wrong])
    with pytest.raises(runtime.ManifestInvalid, match="measurements of a variant"):
        device.load(runtime.open_bundle(tmp_path), "gemv", sizes={"y": 1})


# The model


@pytest.fixture
def variant(bundle) -> Callable[..., runtime.Artifact]:
    """A variant of gemv with another grid, declared cost or need."""
    first = bundle.artifacts("gemv", "f32")[0]

    def made(grid: Any, cost: Any = None, **changes: Any) -> runtime.Artifact:
        facts = {} if cost is None else {"cost": cost}
        manifest = dataclasses.replace(first.manifest, grid=grid, facts=facts, **changes)
        return first._replace(manifest=manifest)

    return made


def over(width: int) -> Any:
    return (("ceil_div", ("count", "y"), width), 1, 1)


def units(device: runtime.Device, number: int | str | None) -> Any:
    facts: dict[str, Any] = {} if number is None else {"multiprocessors": number}
    return dataclasses.replace(device.capabilities, facts=facts)


def test_what_covers_less_beyond_the_problem_is_cheaper(elsewhere, variant) -> None:
    wide, narrow = variant(over(4096)), variant(over(64))
    has = units(elsewhere, None)
    assert cost.estimate(wide.manifest, has, {"y": 64}) == 64
    assert cost.cheapest([wide, narrow], has, {"y": 64}) is narrow
    assert cost.cheapest([wide, narrow], has, {"y": 1 << 20}) is wide  # declared order
    assert cost.cheapest([wide, narrow], has, {"y": 4096 - 300}) is wide  # within the margin


def test_workgroups_that_leave_units_idle_cost(elsewhere, variant) -> None:
    few, many = variant(over(1024)), variant(over(128))
    has = units(elsewhere, 8)
    assert cost.estimate(few.manifest, has, {"y": 1024}) == 8
    assert cost.cheapest([few, many], has, {"y": 1024}) is many
    assert cost.cheapest([few, many], units(elsewhere, None), {"y": 1024}) is few
    assert cost.estimate(few.manifest, units(elsewhere, "many"), {"y": 1024}) == 1


def test_declared_costs_count_operations_or_bytes(elsewhere, variant) -> None:
    has = units(elsewhere, None)
    y = ("scalar", "y")
    busy = variant(over(1), {"operations": ("mul", y, 1000), "bytes": y})
    moving = variant(over(1), {"operations": y, "bytes": ("mul", y, 4)})
    assert cost.estimate(busy.manifest, has, {"y": 10}) == 10_000
    assert cost.estimate(moving.manifest, has, {"y": 10}) == 40 * cost.BALANCE
    assert cost.cheapest([busy, moving], has, {"y": 10}) is moving


def test_what_needs_something_else_is_not_compared(elsewhere, variant) -> None:
    first = variant(over(4096), requires=("cooperative_matrix",))
    plain = variant(over(64))
    assert cost.cheapest([first, plain], units(elsewhere, None), {"y": 64}) is first
    assert cost.cheapest([variant(over(4096), subgroup=8), plain],
                         units(elsewhere, None), {"y": 64}).manifest.subgroup == 8  # fmt: skip


@pytest.mark.parametrize(
    "grid", [None, (("count", "nothing"), 1, 1), (("floordiv", ("count", "y"), 0), 1, 1)]
)
def test_what_the_model_does_not_know_leaves_the_order(elsewhere, variant, grid: Any) -> None:
    has, first = units(elsewhere, 4), variant(grid)
    assert cost.estimate(first.manifest, has, {"y": 64}) is None
    assert cost.cheapest([first, variant(over(64))], has, {"y": 64}) is first
    assert cost.cheapest([variant(over(64)), first], has, {"y": 64}).manifest.grid == over(64)


@pytest.mark.parametrize("odd", [{"operations": ["pow", 2, 3]}, {"bytes": "many"}, {"bytes": [{}]}])
def test_a_cost_that_is_none_is_no_cost(elsewhere, variant, odd: Any) -> None:
    first = variant(over(64), odd)
    assert cost.estimate(first.manifest, units(elsewhere, 4), {"y": 64}) is None


def test_today_s_order_stands_for_all_that_is_built(elsewhere, bundle, built) -> None:
    """Without sizes, and with sizes that fill every variant, the declared order decides."""
    for sizes in (None, {"y": 1 << 20, "cols": 4096}):
        found = bundle.select("gemv", "f32", elsewhere.capabilities, sizes)
        assert found is bundle.artifacts("gemv", "f32")[0]
    assert found.manifest.target == TARGET
    assert math.isclose(
        cost.estimate(found.manifest, elsewhere.capabilities, {"y": 1 << 20, "cols": 4096}) or 0,
        max(2 * (1 << 20) * 4096, 16 * 4 * (1 << 20) * 4096),
        rel_tol=0.01,
    )
    assert json.dumps(found.manifest.facts)  # as the index has it
