"""What goes wrong with a CUDA device is typed, poisons where it must, and the process lives."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from double_contract import Failures, assert_poisoned, floats
from fake_cuda import FakeDriver
from gristmill import runtime


class TestCuda(Failures):
    """What every device does over its double."""


def test_work_that_never_ends_is_a_timeout(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    device.synchronize()
    fake.set(hang_after=0)
    device.launch(saxpy, x, y, 1.0)
    begin = time.perf_counter()
    with pytest.raises(runtime.DeviceTimeout, match=r"the bound of 0\.1 s"):
        device.synchronize(timeout=0.1)
    assert 0.1 <= time.perf_counter() - begin < 10
    held = fake.live()
    assert_poisoned(device, runtime.DeviceTimeout)
    del x, y, saxpy
    assert fake.live() == held  # pending work may touch it: left behind


@pytest.mark.parametrize("status", [214, 700, 716, 719, 999])
def test_an_error_that_stays_is_a_lost_device(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver, status: int
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    with device.record() as recording:
        for _ in range(5):
            recording.launch(saxpy, x, y, 1.0)
    recording.replay()
    device.synchronize()
    fake.set(sticky=status, sticky_after=3)
    recording.replay()
    with pytest.raises(runtime.DeviceLost, match=f"{status}.*start a new one"):
        y.numpy()
    assert_poisoned(device, runtime.DeviceLost)
    with pytest.raises(runtime.DeviceLost):  # the primary context is one for the process
        runtime.open_device("cuda")


def test_a_lost_device_is_found_by_the_launch_itself(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    with device.record() as recording:
        recording.launch(saxpy, x, y, 1.0)
    fake.set(fail_launch=719)
    with pytest.raises(runtime.DeviceLost, match=r"kernel saxpy: cuLaunchKernel.* reports"):
        device.launch(saxpy, x, y, 1.0)
    with pytest.raises(runtime.DeviceLost, match="poisoned"):
        recording.replay()
    device.close()


def test_a_launch_that_the_driver_does_not_take_leaves_the_device_alone(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    fake.set(fail_launch=701)
    with pytest.raises(runtime.DriverError, match=r"cuLaunchKernel.* failed") as caught:
        device.launch(saxpy, x, y, 1.0)
    assert caught.value.code == 701
    fake.set(fail_launch=0)
    device.launch(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {2}


def test_memory_that_was_freed_is_counted_and_handed_back(
    fake: FakeDriver, device: runtime.Device
) -> None:
    budget = device.memory().budget
    large = [device.allocate(600 << 20, "u8") for _ in range(2)]
    del large
    assert device.memory().budget == budget  # what the pool keeps can be had
    device.synchronize()
    free = device._heap._api.call  # type: ignore[attr-defined]
    with device._context:  # type: ignore[attr-defined]
        rest, total = free("cuMemGetInfo")
    assert total - rest <= (1 << 30) + (1 << 20)  # and others have what is beyond the pool's share


def test_the_driver_out_of_memory_is_typed_too(device: runtime.Device, fake: FakeDriver) -> None:
    fake.set(fail_alloc=1)
    with pytest.raises(runtime.OutOfMemory) as caught:
        device.allocate(1000, "f32")
    assert caught.value.requested == 4000
    assert caught.value.available > 4000
    fake.set(fail_alloc=0)
    device.allocate(1000, "f32")


def test_a_recorded_launch_that_would_allocate_is_refused(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    before = fake.live()
    with device.record() as recording:
        with pytest.raises(runtime.ArgumentError, match="upload it first"):
            recording.launch(saxpy, np.ones(8, np.float32), y, 1.0)
        recording.launch(saxpy, x, y, 1.0)
    assert fake.live()["modules"] == before["modules"]
    assert fake.live()["allocations"] == before["allocations"]
    recording.replay()
    assert set(y.numpy()) == {2}


def test_code_is_loaded_before_it_is_recorded(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    x, y = floats(device, 1, 1)
    with device.record() as recording:
        saxpy = device.load(bundle, "saxpy")
        held = fake.live()
        recording.launch(saxpy, x, y, 1.0)
    recording.replay()
    device.synchronize()
    assert {k: fake.live()[k] for k in ("modules", "allocations")} == {
        k: held[k] for k in ("modules", "allocations")
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"init": 100}, "the driver finds no CUDA device"),
        ({"init": 803}, "different versions"),
        ({"init": 34}, "a stub"),
        ({"devices": 0}, "finds no CUDA device"),
        (
            {"driver": 11080},
            r"too old; expected CUDA 12\.0 \(driver 525\) or later, got CUDA 11\.8",
        ),
        ({"unavailable": 1}, "in exclusive use"),
        ({"capability": 70}, r"expected compute capability 7\.5 or later, got 7\.0"),
    ],
)
def test_no_device_says_what_is_missing(
    fake: FakeDriver, setting: dict[str, int], message: str
) -> None:
    fake.set(**setting)
    with pytest.raises(runtime.NoDevice, match=message):
        runtime.open_device("cuda")
    assert not fake.live()


def test_without_the_bindings_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(runtime.NoDevice, match=r"pip install 'gristmill\[cuda\]'"):
        runtime.open_device("cuda")


def test_without_a_driver_the_message_says_so(require: Callable[..., None]) -> None:
    code = "from gristmill import runtime; print(runtime.find_devices()[0])"
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    if "missing=''" in done.stdout:
        require("no-nvidia-driver", "this machine has one")
    assert "spec='cuda'" in done.stdout
    assert "install" in done.stdout


@pytest.mark.parametrize(
    ("spec", "name"),
    [("cuda", "Fake GPU 0"), ("cuda:1", "Fake H200 1"), ("cuda:h200", "Fake H200 1")],
)
def test_devices_are_chosen_by_ordinal_or_name(fake: FakeDriver, spec: str, name: str) -> None:
    with runtime.open_device(spec) as device:
        assert device.capabilities.name == name
        assert np.array_equal(device.upload(np.arange(9)).numpy(), np.arange(9))
    assert [d.spec for d in runtime.find_devices()[:2]] == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize("spec", ["cuda:2", "cuda:A100", "cuda:²"])
def test_an_unknown_device_lists_those_there_are(fake: FakeDriver, spec: str) -> None:
    with pytest.raises(runtime.NoDevice, match="0: Fake GPU 0, 1: Fake H200 1"):
        runtime.open_device(spec)


def test_a_recording_that_cannot_be_made_leaves_nothing(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    api = device.api  # type: ignore[attr-defined]
    call = api.call

    def failing(name: str, *args: object) -> object:
        if name == "cuGraphInstantiate":
            raise runtime.DriverError(name, 1, "no")
        return call(name, *args)

    api.call = failing
    with pytest.raises(runtime.DriverError), device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 1.0)
    api.call = call
    assert not {"graphs", "execs"} & fake.live().keys()
    with pytest.raises(runtime.StateError, match="made once"), recording:
        pass


def test_closing_waits_for_work_and_gives_everything_back(
    fake: FakeDriver, bundle: runtime.Bundle
) -> None:
    device = runtime.open_device("cuda")
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    with device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 1.0)
    recording.replay()
    launches = fake.launches
    device.close()
    assert fake.launches == launches + 1
    assert not fake.live()
    assert fake.users() == 0


def test_two_devices_share_the_primary_context(fake: FakeDriver, bundle: runtime.Bundle) -> None:
    with runtime.open_device("cuda") as one, runtime.open_device("cuda:0") as two:
        assert fake.users() == 2
        x, y = floats(one, 1, 1)
        one.launch(one.load(bundle, "saxpy"), x, y, 1.0)
        with pytest.raises(runtime.StateError, match="buffer of another device"):
            two.launch(two.load(bundle, "saxpy"), x, y, 1.0)
        assert set(y.numpy()) == {2}
    assert fake.users() == 0
