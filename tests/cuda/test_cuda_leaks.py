"""Whatever fails while something is made or closed: the rest goes back, the first error is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.runtime.devices.cuda.api import Api


def failing(names: set[str], call: Callable[..., Any]) -> Callable[..., Any]:
    """`Api.call` that fails for these functions, before they do anything."""

    def instead(*args: Any) -> Any:
        (name,) = {a for a in args if isinstance(a, str) and a.startswith("cu")}
        if name in names:
            raise runtime.DriverError(name, 1, "made to fail")
        return call(*args)

    return instead


@pytest.mark.parametrize("name", ["cuMemPoolCreate", "cuMemPoolSetAttribute"])
def test_a_device_that_cannot_be_opened_leaves_no_stream_and_no_pool(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Api, "call", failing({name}, Api.call))
    with pytest.raises(runtime.DriverError, match=name):
        runtime.open_device("cuda")
    assert not fake.live()
    assert fake.users() == 0


def test_a_recording_whose_graph_cannot_be_destroyed_gives_back_the_rest(
    device: runtime.Device,
    bundle: runtime.Bundle,
    fake: FakeDriver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(8, np.float32)) for _ in range(2))
    held = fake.live()
    api = device.api  # type: ignore[attr-defined]
    with device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(api, "call", failing({"cuGraphExecDestroy"}, api.call))
        with pytest.raises(runtime.DriverError, match="cuGraphExecDestroy"):
            recording.close()
    assert {k: n for k, n in fake.live().items() if k != "execs"} == held
    with monkeypatch.context() as patch:
        names = {"cuGraphInstantiate", "cuGraphDestroy"}
        patch.setattr(api, "call", failing(names, api.call))
        with (
            pytest.raises(runtime.DriverError, match="cuGraphInstantiate"),
            device.record(timed=True) as recording,
        ):
            recording.launch(saxpy, x, y, 1.0)
    assert fake.live()["events"] == held.get("events", 0)
    fake.lib.fake_reset()  # what was made to fail is left
    device._dead = runtime.DeviceLost("by the test")


@pytest.mark.parametrize("name", ["cuMemHostAlloc", "cuMemsetD32Async"])
def test_a_fault_map_that_failed_once_is_whole_the_next_time(
    device: runtime.Device,
    bundle: runtime.Bundle,
    fake: FakeDriver,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    held = fake.live()
    api = device.api  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(api, "call", failing({name}, api.call))
        with pytest.raises(runtime.DriverError, match=name):
            device.load(bundle, "checked_root")
    device.synchronize()
    assert fake.live() == held
    root = device.load(bundle, "checked_root")
    bad, out = np.full(8, -1, np.float32), np.zeros(8, np.float32)
    with pytest.raises(runtime.KernelFault, match="x is negative"):
        root(bad, out)


def test_a_thread_that_kept_a_released_context_works_with_a_device_opened_again(
    fake: FakeDriver, bundle: runtime.Bundle
) -> None:
    turn, done = threading.Barrier(2, timeout=20), []
    device = runtime.open_device("cuda")

    def work() -> None:
        x, y = (device.upload(np.ones(8, np.float32)) for _ in range(2))
        device.launch(device.load(bundle, "saxpy"), x, y, 1.0)
        done.append(set(y.numpy()))
        turn.wait()
        turn.wait()  # closed and opened again
        try:
            device.launch(saxpy, *buffers, 1.0)
            done.append(set(buffers[1].numpy()))
        except runtime.GristmillError as error:
            done.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    turn.wait()
    device.close()
    assert fake.users() == 0
    device = runtime.open_device("cuda")
    saxpy = device.load(bundle, "saxpy")
    buffers = [device.upload(np.ones(8, np.float32)) for _ in range(2)]
    turn.wait()
    thread.join()
    device.close()
    assert done == [{2}, {2}]
