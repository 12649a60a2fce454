"""What goes wrong with an HSA device is typed, poisons where it must, and the process lives."""

from __future__ import annotations

import _thread
import time
from typing import Any

import numpy as np
import pytest

from double_contract import Failures, assert_poisoned, floats
from fake_hsa import FakeRuntime
from gristmill import runtime
from gristmill.runtime.devices.hsa.api import Api


class TestHsa(Failures):
    """What every device does over its double."""


def block_of(device: runtime.Device, bundle: runtime.Bundle, length: int = 5) -> Any:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    with device.record() as recording:
        for _ in range(length):
            recording.launch(saxpy, x, y, 1.0)
    recording.replay()
    device.synchronize()
    return recording, y


def test_a_hung_queue_times_out_poisons_and_is_left_behind(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    recording, y = block_of(device, bundle)
    fake.set(hang_after=2)
    recording.replay()
    begin = time.perf_counter()
    with pytest.raises(runtime.DeviceTimeout, match=r"the bound of 0\.1 s"):
        device.synchronize(timeout=0.1)
    assert 0.1 <= time.perf_counter() - begin < 15
    held, users = fake.live(), fake.users
    assert_poisoned(device, runtime.DeviceTimeout)
    del recording, y
    assert fake.live() == held  # pending work may touch it
    assert fake.users == users


def test_a_full_ring_is_waited_for_no_longer_than_the_bound(
    fake: FakeRuntime, bundle: runtime.Bundle
) -> None:
    fake.set(ring=64)
    device = runtime.open_device("hsa", timeout=0.2)
    recording, y = block_of(device, bundle)
    fake.set(hang_after=0)
    begin = time.perf_counter()
    for _ in range(64 // 5):
        recording.replay()
    with pytest.raises(runtime.DeviceTimeout, match=r"the queue took nothing for 0\.2 s"):
        recording.replay()
    assert time.perf_counter() - begin < 15
    assert_poisoned(device, runtime.DeviceTimeout)
    del recording, y


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (41, runtime.DeviceLost, "beyond the greatest address, 0x29"),
        (42, runtime.DeviceLost, "an illegal instruction, 0x2a"),
        (43, runtime.DeviceLost, "memory that is not there, 0x2b"),
        (0x1016, runtime.DeviceLost, "an exception in a kernel"),
        (0x1009, runtime.SubmissionFailed, "an invalid packet"),
        (0x1008, runtime.SubmissionFailed, "out of resources"),
        (0x2345, runtime.SubmissionFailed, "unknown, 0x2345"),
    ],
)
def test_a_queue_error_in_the_middle_of_a_block_is_typed(
    device: runtime.Device,
    bundle: runtime.Bundle,
    fake: FakeRuntime,
    status: int,
    kind: type[runtime.Poisoned],
    words: str,
) -> None:
    recording, y = block_of(device, bundle)
    fake.set(fail_after=2, fail_status=status)
    recording.replay()
    begin = time.perf_counter()
    with pytest.raises(kind, match=words):
        y.numpy()
    assert time.perf_counter() - begin < 15  # not only at the bound
    assert fake.dispatches == 5 + 2
    held = fake.live()
    assert_poisoned(device, kind)
    del recording, y
    assert fake.live() == held
    fake.set(fail_after=-1)
    with runtime.open_device("hsa") as again:  # the process lives
        x, y = np.ones(4, np.float32), np.ones(4, np.float32)
        again.load(bundle, "saxpy")(x, y, 1.0)
        assert set(y) == {2}


def test_a_queue_error_is_found_by_the_next_launch(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    recording, y = block_of(device, bundle)
    fake.set(fail_after=0, fail_status=43)
    recording.replay()
    saxpy, end = device.load(bundle, "saxpy"), time.monotonic() + 10
    while device._queue._error is None and time.monotonic() < end:  # type: ignore[attr-defined]
        time.sleep(1e-3)
    with pytest.raises(runtime.DeviceLost, match="the queue reports"):
        device.launch(saxpy, y, y.view(0, 0), 1.0, grid=1)
    assert_poisoned(device, runtime.DeviceLost)
    del recording, y


@pytest.mark.parametrize(
    ("event", "words"),
    [(0, r"a memory fault at address 0xdead000"), (1, "an exception of the hardware")],
)
def test_a_fault_that_the_process_is_told_is_a_lost_device(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime, event: int, words: str
) -> None:
    recording, y = block_of(device, bundle)
    fake.set(event_after=3, event_kind=event)
    recording.replay()
    with pytest.raises(runtime.DeviceLost, match=words):
        device.synchronize()
    assert_poisoned(device, runtime.DeviceLost)
    del recording, y


def test_a_fault_of_one_gpu_leaves_the_other_alone(
    fake: FakeRuntime, bundle: runtime.Bundle
) -> None:
    fake.isas("gfx1100", "gfx1100")
    one, two = runtime.open_device("hsa:0", timeout=20), runtime.open_device("hsa:1", timeout=20)
    recording, y = block_of(one, bundle)
    fake.set(event_after=0)
    recording.replay()
    with pytest.raises(runtime.DeviceLost):
        one.synchronize()
    fake.set(event_after=-1)
    x, z = np.ones(4, np.float32), np.ones(4, np.float32)
    two.load(bundle, "saxpy")(x, z, 1.0)
    assert set(z) == {2}
    two.close()
    assert_poisoned(one, runtime.DeviceLost)
    del recording, y


def test_a_copy_that_fails_is_a_lost_device(device: runtime.Device, fake: FakeRuntime) -> None:
    buffer = device.upload(np.ones(4, np.float32))
    device.synchronize()
    fake.set(fail_copy=1)
    with pytest.raises(runtime.DeviceLost, match="a copy failed"):
        buffer.numpy()
    assert_poisoned(device, runtime.DeviceLost)


def test_a_copy_that_fails_before_a_launch_is_found_by_the_wait(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1)
    device.synchronize()
    fake.set(fail_copy=1)
    x.write(np.ones(8, np.float32))
    device.launch(saxpy, x, y, 1.0)  # waits in the queue for a copy that never comes
    begin = time.perf_counter()
    with pytest.raises(runtime.DeviceLost, match="a copy failed"):
        device.synchronize()
    assert time.perf_counter() - begin < 15
    assert_poisoned(device, runtime.DeviceLost)


def test_a_copy_that_is_not_taken_leaves_the_device_alone(
    device: runtime.Device, bundle: runtime.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    saxpy, call = device.load(bundle, "saxpy"), Api.call
    x, y = floats(device, 1, 1)
    device.launch(saxpy, x, y, 1.0)

    def failing(self: Api, asked: str, *args: Any, **where: str) -> None:
        if asked == "hsa_amd_memory_async_copy":
            raise runtime.DriverError(asked, 1, "made to fail")
        call(self, asked, *args, **where)

    with monkeypatch.context() as patch:
        patch.setattr(Api, "call", failing)
        with pytest.raises(runtime.DriverError, match="async_copy"):
            x.write(np.zeros(8, np.float32))
    device.launch(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {3}


def test_a_library_beyond_repair_is_a_lost_device(
    device: runtime.Device, fake: FakeRuntime
) -> None:
    fake.set(calls=0x1026)
    with pytest.raises(runtime.DeviceLost, match="beyond repair"):
        device.allocate(4, "f32")
    assert_poisoned(device, runtime.DeviceLost)


def test_an_interrupt_ends_a_wait_and_poisons_at_the_close(
    fake: FakeRuntime, bundle: runtime.Bundle
) -> None:
    device = runtime.open_device("hsa", timeout=600)
    recording, y = block_of(device, bundle)
    fake.set(hang_after=0)
    recording.replay()
    queue, begin = device._queue, time.perf_counter()  # type: ignore[attr-defined]
    queue.check = _thread.interrupt_main  # called between the slices of a wait
    with pytest.raises(KeyboardInterrupt):
        device.synchronize()
    assert time.perf_counter() - begin < 30
    del queue.check
    device.timeout = 0.1
    with pytest.raises(runtime.DeviceTimeout):
        device.close()
    del recording, y


def test_a_submission_that_was_interrupted_is_not_gone_on_with(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    recording, y = block_of(device, bundle)
    queue = device._queue  # type: ignore[attr-defined]
    ring = queue._ring

    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    queue._ring = interrupted
    with pytest.raises(KeyboardInterrupt):
        recording.replay()
    queue._ring = ring
    with pytest.raises(runtime.SubmissionFailed, match="a submission was interrupted"):
        recording.replay()
    assert_poisoned(device, runtime.SubmissionFailed)
    del recording, y


def test_the_library_out_of_memory_is_typed_too(device: runtime.Device, fake: FakeRuntime) -> None:
    fake.set(fail_alloc=1)
    with pytest.raises(runtime.OutOfMemory) as caught:
        device.allocate(1000, "f32")
    assert caught.value.requested == 4000
    fake.set(fail_alloc=0)
    fake.set(fail_host=1)
    with pytest.raises(runtime.OutOfMemory, match="host memory of the device"):
        device.upload(np.ones(4, np.float32))  # no memory to stage it in
    fake.set(fail_host=0)
    assert set(device.upload(np.ones(4, np.float32)).numpy()) == {1}


def test_closing_waits_for_work_and_gives_everything_back(
    fake: FakeRuntime, bundle: runtime.Bundle
) -> None:
    device = runtime.open_device("hsa")
    recording, y = block_of(device, bundle)
    fake.set(slow=5000)
    recording.replay()
    device.close()
    assert fake.dispatches == 10
    assert not fake.live()
    assert fake.users == 0
    with pytest.raises(runtime.StateError, match="closed"):
        recording.replay()
    del y
