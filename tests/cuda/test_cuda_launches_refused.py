"""What is wrong with a launch is told on the direct way as on every other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.runtime.launch import LoadedKernel
from launch_ways import Ways


@pytest.mark.parametrize("value", ["1", None, True, 1e39, 1 << 128, 1j])
def test_a_scalar_that_is_wrong_is_refused(ways: Ways, saxpy: LoadedKernel, value: Any) -> None:
    x, y = ways.floats(1, 0)
    for _ in range(2):
        ways.device.launch(saxpy, x, y, 1.0)
    with pytest.raises(runtime.ArgumentError, match=r"argument 3 \(a\)"):
        ways.device.launch(saxpy, x, y, value)
    ways.directly(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {3}


def views_of(device: runtime.Device) -> dict[str, Callable[[], tuple[Any, ...]]]:
    """Arguments that a full check refuses, by what is wrong with them."""
    x, y = (device.upload(np.ones(100, np.float32)) for _ in range(2))
    wide = device.allocate(100, "f64")

    def freed() -> tuple[Any, ...]:
        gone = device.upload(np.ones(100, np.float32))
        device.launch(device._saxpy, gone, y, 1.0)  # type: ignore[attr-defined]
        gone.free()
        return gone, y, 1.0

    return {
        "few": lambda: (x, y),
        "many": lambda: (x, y, 1.0, 2.0),
        "dtype": lambda: (x, wide, 1.0),
        "overlap": lambda: (y, y, 1.0),
        "array": lambda: (x, np.ones(100, np.float32), 1.0),
        "freed": freed,
        "none": lambda: (None, y, 1.0),
    }


@pytest.mark.parametrize("wrong", ["few", "many", "dtype", "overlap", "array", "freed", "none"])
def test_what_is_wrong_is_refused_after_good_launches(
    ways: Ways, saxpy: LoadedKernel, fake: FakeDriver, wrong: str
) -> None:
    x, y = ways.floats(1, 0)
    for _ in range(3):
        ways.device.launch(saxpy, x, y, 1.0)
        ways.device.launch(saxpy, y, x, 0.0)
    ways.device._saxpy = saxpy
    args = views_of(ways.device)[wrong]()
    ways.device.synchronize()
    ran = fake.launches
    with pytest.raises((runtime.ArgumentError, runtime.StateError)):
        ways.device.launch(saxpy, *args)
    ways.device.synchronize()
    assert fake.launches == ran


def test_overlapping_views_that_were_bound_apart_are_refused(
    ways: Ways, saxpy: LoadedKernel
) -> None:
    x, y = ways.floats(1, 0)
    lower, upper = x.view(0, 64), x.view(32, 64)
    for _ in range(2):
        ways.device.launch(saxpy, lower, y, 1.0)
        ways.device.launch(saxpy, y, upper, 1.0)
    with pytest.raises(runtime.ArgumentError, match="overlap"):
        ways.device.launch(saxpy, lower, upper, 1.0)
    ways.device.launch(saxpy, x.view(0, 32), x.view(64, 32), 1.0)


def test_buffers_and_kernels_of_another_device_are_refused(
    ways: Ways, saxpy: LoadedKernel, bundle: runtime.Bundle
) -> None:
    x, y = ways.floats(1, 0)
    with runtime.open_device("cuda:1", timeout=20) as other:
        theirs = other.load(bundle, "saxpy")
        u, v = (other.upload(np.ones(100, np.float32)) for _ in range(2))
        for _ in range(3):
            ways.device.launch(saxpy, x, y, 1.0)
            other.launch(theirs, u, v, 1.0)
        with pytest.raises(runtime.StateError, match="buffer of another device"):
            ways.device.launch(saxpy, u, y, 1.0)
        with pytest.raises(runtime.StateError, match="loaded on another device"):
            ways.device.launch(theirs, u, v, 1.0)
        assert set(v.numpy()) == {4}
        assert set(y.numpy()) == {3}


def test_arguments_by_name(ways: Ways, saxpy: LoadedKernel) -> None:
    x, y = ways.floats(1, 0)
    for _ in range(3):
        ways.device.launch(saxpy, x, y, 1.0)
    ways.device.launch(saxpy, x, y, a=2.0)
    assert set(y.numpy()) == {5}
    with pytest.raises(runtime.ArgumentError, match="a given twice"):
        ways.device.launch(saxpy, x, y, 1.0, a=2.0)


def test_what_is_no_kernel_is_refused(ways: Ways, saxpy: LoadedKernel) -> None:
    x, y = ways.floats(1, 0)
    for value in (None, "saxpy", saxpy.artifact, LoadedKernel, []):
        with pytest.raises(runtime.ArgumentError, match="wrong type"):
            ways.device.launch(value, x, y, 1.0)


@pytest.mark.parametrize("ends", ["closed", "poisoned"])
def test_no_direct_launch_on_a_device_that_has_ended(
    fake: FakeDriver, bundle: runtime.Bundle, ends: str
) -> None:
    device = runtime.open_device("cuda", timeout=20)
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(100, np.float32)) for _ in range(2))
    for _ in range(3):
        device.launch(saxpy, x, y, 1.0)
    if ends == "closed":
        device.close()
        expected: type[Exception] = runtime.StateError
    else:
        fake.set(fail_launch=719)
        with pytest.raises(runtime.DeviceLost, match="cuLaunchKernelEx reports"):
            device.launch(saxpy, x, y, 1.0)
        expected = runtime.DeviceLost
    with pytest.raises(expected, match=ends):
        device.launch(saxpy, x, y, 1.0)
    device.close()


def test_a_launch_that_the_driver_refuses_is_told_and_the_next_one_runs(
    ways: Ways, saxpy: LoadedKernel, fake: FakeDriver
) -> None:
    x, y = ways.floats(1, 0)
    for _ in range(2):
        ways.device.launch(saxpy, x, y, 1.0)
    fake.set(fail_launch=701)
    with pytest.raises(runtime.DriverError, match=r"kernel saxpy.*|cuLaunchKernelEx") as caught:
        ways.device.launch(saxpy, x, y, 1.0)
    assert caught.value.code == 701
    fake.set(fail_launch=0)
    ways.directly(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {3}
