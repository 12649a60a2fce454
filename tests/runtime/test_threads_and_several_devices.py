"""A device may be used from several threads, and several devices at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from gristmill import runtime


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work(n)` in threads and raise what any of them raised."""
    errors: list[BaseException] = []

    def guarded(n: int) -> None:
        try:
            work(n)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_share_a_device(computing, bundle):
    kernel = computing.load(bundle, "saxpy", "f32")
    live = computing.memory().live

    def work(n: int) -> None:
        x = computing.upload(np.full(500, n, np.float32))
        y = computing.upload(np.zeros(500, np.float32))
        with computing.record() as recording:
            recording.launch(kernel, x, y, 1.0)
        for _ in range(10):
            computing.launch(kernel, x, y, 1.0)
            recording.replay()
        assert set(y.numpy().tolist()) == {20.0 * n}
        host = np.zeros(500, np.float32)
        kernel(np.ones(500, np.float32), host, n)
        assert set(host.tolist()) == {float(n)}
        recording.close()

    in_threads(6, work)
    computing.synchronize()
    assert computing.memory().live == live


def test_several_devices_at_once(opened, bundle):
    devices = [opened(name) for name in ("cpu", "lavapipe", "swiftshader", "staged", "cpu")]

    def work(n: int) -> None:
        device = devices[n % len(devices)]
        kernel = device.load(bundle, "saxpy", "f32")
        for _ in range(10):
            y = np.ones(1000, np.float32)
            kernel(np.ones(1000, np.float32), y, n)
            assert set(y.tolist()) == {n + 1.0}

    in_threads(10, work)


def test_buffers_die_in_other_threads(device):
    live = device.memory().live
    holder = [device.allocate(1000, "f32") for _ in range(50)]

    def work(n: int) -> None:
        while holder:
            try:
                holder.pop()
            except IndexError:
                return
            device.allocate(10, "u8")

    in_threads(4, work)
    assert device.memory().live == live


def test_closing_one_device_leaves_the_others(opened, bundle):
    first, second = opened("lavapipe"), opened("lavapipe")
    first.close()
    y = np.zeros(3, np.int32)
    second.load(bundle, "shift")(y, y)
    assert y.tolist() == [1, 1, 1]
    assert isinstance(second, runtime.Device)
