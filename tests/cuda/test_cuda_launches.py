"""Launches whose way to the driver is written out do the same work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.runtime.launch import LoadedKernel
from launch_ways import Ways

HIGH = 1 << 62


def test_the_first_launch_is_checked_and_the_next_are_direct(
    ways: Ways, saxpy: LoadedKernel
) -> None:
    x, y, z = ways.floats(1, 0, 5)
    ways.usually(saxpy, x, y, 1.0)
    for a in (1.0, 1.0, 2, 0.5):
        ways.directly(saxpy, x, y, a)
    assert set(y.numpy()) == {5.5}
    ways.usually(saxpy, z, y, 1.0)  # z is bound for the first time
    ways.directly(saxpy, z, y, 1.0)
    ways.usually(saxpy, y, x, 1.0)
    ways.directly(saxpy, y, x, 1.0)
    assert set(y.numpy()) == {15.5}
    assert set(x.numpy()) == {32}


def test_every_kind_of_scalar_arrives(
    ways: Ways, bundle: runtime.Bundle, rng: np.random.Generator
) -> None:
    scalars = ways.device.load(bundle, "scalars")
    y = ways.device.allocate(700, "i64")
    ways.usually(scalars, y, 0, 0, False, 0.0, 0)
    cases = [(-128, 65535, True, -3.5, -(1 << 63) + 999), (127, 0, False, 2.0**40, HIGH)]
    for _ in range(30):
        a, b = int(rng.integers(-128, 128)), int(rng.integers(0, 1 << 16))
        flag, d, e = (
            bool(rng.integers(2)),
            float(rng.normal() * 1e6),
            int(rng.integers(-HIGH, HIGH)),
        )
        cases.append((a, b, flag, d, e))
    for a, b, flag, d, e in cases:
        ways.directly(scalars, y, a, b, flag, d, e)
        expected = a + b + 1000000 * flag + int(np.float32(d)) + e
        assert set(y.numpy().tolist()) == {expected}


def test_arguments_that_failed_halfway_leave_nothing_behind(
    ways: Ways, saxpy: LoadedKernel
) -> None:
    x, y, z = ways.floats(1, 0, 7)
    ways.device.launch(saxpy, z, y, 0.0)
    for _ in range(2):
        ways.device.launch(saxpy, x, y, 1.0)
    direct: Any = saxpy.direct
    assert not direct((z, y, 1e39), None)  # z is in the parameter block already
    ways.directly(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {3}


@pytest.mark.parametrize("value", [np.float64(2), np.int8(2), float("nan"), 1 << 80])
def test_a_scalar_that_is_odd_takes_the_usual_way(
    ways: Ways, saxpy: LoadedKernel, value: Any
) -> None:
    x, y = ways.floats(1, 0)
    for _ in range(2):
        ways.device.launch(saxpy, x, y, 0.0)
    ways.usually(saxpy, x, y, value)
    ways.directly(saxpy, x, y, 0.0)
    assert np.array_equal(y.numpy(), np.full(100, value, np.float32), equal_nan=True)


def test_waiting_covers_direct_launches(ways: Ways, saxpy: LoadedKernel, fake: FakeDriver) -> None:
    x, y = ways.floats(1, 0)
    ways.usually(saxpy, x, y, 1.0)
    for a in (1.0, 1.0, 2.0):
        ways.device.synchronize()
        before = fake.launches
        ways.directly(saxpy, x, y, a)
        ways.device.synchronize()
        assert fake.launches == before + 1


def test_equal_arguments_of_other_types_are_not_taken_for_the_last_ones(
    ways: Ways, saxpy: LoadedKernel
) -> None:
    x, y = ways.floats(1, 0)
    one = 1.0
    for _ in range(3):
        ways.device.launch(saxpy, x, y, one)
    with pytest.raises(runtime.ArgumentError, match="wrong type"):
        ways.device.launch(saxpy, x, y, True)
    zero = -0.0
    y.write(np.full(100, -0.0, np.float32))
    x.write(np.zeros(100, np.float32))
    ways.directly(saxpy, x, y, 0.0)
    y.write(np.full(100, -0.0, np.float32))
    ways.directly(saxpy, x, y, zero)
    assert np.signbit(y.numpy()).all()  # -0 + -0 * 0


def test_the_second_device_of_a_process_is_launched_on_in_its_own_context(
    fake: FakeDriver, bundle: runtime.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with runtime.open_device("cuda:1", timeout=20) as device:
        ways = Ways(device, monkeypatch)
        saxpy = device.load(bundle, "saxpy")
        x, y = ways.floats(1, 0)
        ways.usually(saxpy, x, y, 1.0)
        ways.directly(saxpy, x, y, 1.0)
        assert set(y.numpy()) == {2}
        assert int(device.api.drv.cuCtxGetCurrent()[1]) == 0  # type: ignore[attr-defined]


def test_a_thread_enters_the_context_at_its_first_direct_launch(
    ways: Ways, saxpy: LoadedKernel
) -> None:
    x, y = ways.floats(1, 0)
    ways.device.launch(saxpy, x, y, 1.0)
    failed = []

    def work() -> None:
        try:
            ways.directly(saxpy, x, y, 1.0)
        except BaseException as error:  # told by the thread that waits
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert set(y.numpy()) == {5}


def test_a_thread_that_keeps_a_context_of_before_enters_the_new_one(
    fake: FakeDriver, bundle: runtime.Bundle
) -> None:
    with ThreadPoolExecutor(1) as thread:
        for _ in range(2):  # the driver's context of the first device is gone by the second
            with runtime.open_device("cuda", timeout=20) as device:
                saxpy = device.load(bundle, "saxpy")
                x, y = (device.upload(np.ones(9, np.float32)) for _ in range(2))
                for _ in range(2):
                    device.launch(saxpy, x, y, 1.0)
                thread.submit(device.launch, saxpy, x, y, 1.0).result()
                assert set(y.numpy()) == {4}


def test_faults_of_direct_launches_are_found(ways: Ways, bundle: runtime.Bundle) -> None:
    root = ways.device.load(bundle, "checked_root")
    x, y, bad = ways.floats(4, 0, -1)
    for _ in range(2):
        ways.device.launch(root, x, y)
        ways.device.launch(root, bad, y)
    with pytest.raises(runtime.KernelFault, match="x is negative"):
        ways.device.synchronize()
    ways.directly(root, x, y)
    ways.device.synchronize()
    ways.directly(root, bad, y)
    with pytest.raises(runtime.KernelFault, match="x is negative"):
        ways.device.synchronize()


def test_grids_that_are_stated(ways: Ways, bundle: runtime.Bundle) -> None:
    ids = ways.device.load(bundle, "group_ids")
    y, z = (ways.device.upload(np.zeros(64, np.int32)) for _ in range(2))
    ways.usually(ids, y, z, grid=(1, 1, 1))
    for grid in ((2, 3, 4), (5, 1, 1), (2, 3, 4)):
        ways.directly(ids, y, z, grid=grid)
        assert z.numpy()[0] == grid[0] * 3 + grid[1]
    ways.usually(ids, y, z, grid=7)
    ways.usually(ids, y, z, grid=(1, 70000, 1))  # the driver takes 65535: it is folded
    before = ways.usual
    ways.device.launch(ids, y, z, grid=(0, 1, 1))
    assert ways.usual == before  # no workgroup
    for grid in ((-1, 1, 1), (1 << 20, 1 << 20, 1), (1, 1, 1.0), None):
        with pytest.raises(runtime.GristmillError):
            ways.device.launch(ids, y, z, grid=grid)
    assert z.numpy()[0] == 3 + 70000
    ways.directly(ids, y, z, grid=(2, 3, 4))
    assert z.numpy()[0] == 9


def test_a_direct_launch_does_not_disturb_recordings_nor_calls(
    ways: Ways, saxpy: LoadedKernel
) -> None:
    x, y = ways.floats(1, 0)
    for _ in range(2):
        ways.device.launch(saxpy, x, y, 1.0)
    with ways.device.record() as recording:
        recording.launch(saxpy, x, y, 8.0)
    ways.directly(saxpy, x, y, 1.0)
    host = np.zeros(7, np.float32)
    saxpy(np.ones(7, np.float32), host, 5.0)
    recording.replay()
    ways.directly(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {12}
    assert set(host) == {5}


def test_the_last_arguments_are_not_kept_alive(ways: Ways, saxpy: LoadedKernel) -> None:
    x, y = ways.floats(1, 0, count=1 << 20)
    for _ in range(3):
        ways.device.launch(saxpy, x, y, 1.0)
    ways.device.synchronize()
    live = ways.device.memory().live
    del x
    assert ways.device.memory().live == live - (4 << 20)
    y.free()
    assert ways.device.memory().live == live - (8 << 20)


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from gristmill.runtime.devices.cuda import direct

    def missing() -> Any:
        raise OSError("no libcuda.so.1")

    monkeypatch.setattr(direct, "library", missing)
    return


@pytest.mark.usefixtures("without_library")
def test_where_the_library_has_another_name_launches_take_the_usual_way(
    ways: Ways, saxpy: LoadedKernel
) -> None:
    x, y = ways.floats(1, 0)
    for _ in range(3):
        ways.usually(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {3}
