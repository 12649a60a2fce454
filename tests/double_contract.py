"""What a device does over the test double of its driver, whichever that is: base classes of tests.

Their fixtures: `spec` ("cuda"), `fake` (the double), `device` (over it, with bounds of 20 s),
`bundle` (of `double_samples`, for it).
"""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np
import pytest

from gristmill import runtime

Device, Bundle = runtime.Device, runtime.Bundle


def floats(device: Device, *values: float, count: int = 8) -> list[runtime.Buffer]:
    """A buffer of `count` f32 for each value."""
    return [device.upload(np.full(count, v, np.float32)) for v in values]


def assert_poisoned(device: Device, kind: type[runtime.Poisoned]) -> None:
    """Every call fails at once, with the same type."""
    begin = time.perf_counter()
    for call in (device.synchronize, device.memory, lambda: device.allocate(1, "u8")):
        with pytest.raises(kind, match="poisoned"):
            call()
    device.close()
    assert time.perf_counter() - begin < 10  # of the 20 seconds that a wait may take


class Work:
    """Launches, copies, slots, recordings, faults."""

    def test_a_launch_computes(self, device: Device, bundle: Bundle) -> None:
        saxpy = device.load(bundle, "saxpy")
        x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
        saxpy(x, y, 2.0)
        assert np.array_equal(y, 2 * np.arange(1000) + 1)

    def test_every_kind_of_scalar_arrives(self, device: Device, bundle: Bundle) -> None:
        y = np.zeros(768, np.int64)
        device.load(bundle, "scalars")(y, -5, 65535, True, 2.75, -(1 << 40))
        assert set(y) == {-5 + 65535 + 1000000 + 2 - (1 << 40)}

    def test_copies_of_every_size_arrive(self, device: Device, rng: np.random.Generator) -> None:
        for size in (1, 3, 4096, 1 << 16, (1 << 16) + 1, 5_000_000, 20_000_001):
            data = rng.integers(0, 256, size, np.uint8)
            buffer = device.upload(data)
            assert np.array_equal(buffer.numpy(), data), size

    def test_writes_come_after_launches_submitted_before(
        self, device: Device, bundle: Bundle
    ) -> None:
        add = device.load(bundle, "add_slot")
        y, slot = device.upload(np.zeros(4, np.int32)), device.slot("i32", 0)
        for n in range(2000):  # more than staging memory holds without being used again
            slot.set(n)
            device.launch(add, y, slot)
        assert set(y.numpy()) == {sum(range(2000))}

    def test_the_last_of_two_writes_stays(self, device: Device) -> None:
        buffer = device.allocate(4, "i32")
        for n in range(300):
            buffer.write(np.full(4, n, np.int32))
        assert set(buffer.numpy()) == {299}

    def test_a_recording_replays_in_the_order_of_its_hazards(
        self, device: Device, bundle: Bundle
    ) -> None:
        saxpy = device.load(bundle, "saxpy")
        a, b, c = floats(device, 1, 2, 4)
        with device.record() as recording:
            recording.launch(saxpy, a, b, 1.0)  # b = 2 + 1
            recording.launch(saxpy, b, c, 1.0)  # c = 4 + 3: reads what was written
            recording.launch(saxpy, c, a, 1.0)  # a = 1 + 7: writes what was read
            recording.launch(saxpy, b, c, 1.0)  # c = 7 + 3
        recording.replay()
        assert (a.numpy()[0], b.numpy()[0], c.numpy()[0]) == (8, 3, 10)
        recording.replay()  # b = 3 + 8, c = 10 + 11, a = 8 + 21, c = 21 + 11
        assert (a.numpy()[0], b.numpy()[0], c.numpy()[0]) == (29, 11, 32)

    def test_a_slot_takes_effect_between_replays(self, device: Device, bundle: Bundle) -> None:
        add = device.load(bundle, "add_slot")
        y, slot = device.upload(np.zeros(4, np.int32)), device.slot("i32", 0)
        with device.record() as recording:
            recording.launch(add, y, slot)
        for n in range(1000):
            slot.set(n)
            recording.replay()
        slot.set(-1)
        assert set(y.numpy()) == {sum(range(1000))}

    def test_scalars_of_a_recording_are_rewritten(self, device: Device, bundle: Bundle) -> None:
        saxpy = device.load(bundle, "saxpy")
        x, y = floats(device, 1, 1)
        with device.record() as recording:
            recording.launch(saxpy, x, y, 1.0)
            recording.launch(saxpy, x, y, 10.0)
        recording.replay()
        recording.rewrite(1, a=100.0)
        recording.replay()
        assert set(y.numpy()) == {1 + 11 + 101}

    def test_a_recording_without_launches_replays(self, device: Device) -> None:
        with device.record() as recording:
            pass
        recording.replay()
        device.synchronize()

    def test_memory_of_a_closed_recording_lives_until_its_replay_is_done(
        self, device: Device, bundle: Bundle
    ) -> None:
        saxpy = device.load(bundle, "saxpy")
        x, y = floats(device, 1, 1, count=1 << 12)
        with device.record() as recording:
            recording.launch(saxpy, x, y, 1.0)
        recording.replay()
        x.free()
        recording.close()
        assert set(y.numpy()) == {2}

    def test_a_fault_names_kernel_launch_and_line(self, device: Device, bundle: Bundle) -> None:
        root, saxpy = device.load(bundle, "checked_root"), device.load(bundle, "saxpy")
        good, bad = floats(device, 4, -1)
        out = device.allocate(8, "f32")
        with device.record() as recording:
            recording.launch(root, good, out)
            recording.launch(saxpy, good, out, 1.0)
            recording.launch(root, bad, out)
        recording.replay()
        recording.replay()
        with pytest.raises(runtime.KernelFault, match="x is negative") as caught:
            device.synchronize()
        fault = caught.value
        assert (fault.kernel, fault.launch) == ("checked_root", 2)
        assert fault.loc is not None
        assert fault.loc.file.endswith("sample_kernels.py")
        device.launch(saxpy, good, out, 0.0)
        device.synchronize()  # told once
        device.launch(root, good, out)  # the device lives, and the bits are clear
        assert set(out.numpy()) == {2}
        device.launch(root, bad, out)
        with pytest.raises(runtime.KernelFault, match="direct launch"):
            device.synchronize()

    @pytest.mark.parametrize("grid", [(1, 70000, 1), (1, 1, 65536), (3, 300, 80)])
    def test_a_grid_beyond_the_hardware_is_folded(
        self, device: Device, bundle: Bundle, grid: tuple[int, int, int]
    ) -> None:
        ids, total = device.load(bundle, "group_ids"), grid[0] * grid[1] * grid[2]
        y, z = (device.upload(np.full(total + 1, -1, np.int32)) for _ in range(2))
        device.launch(ids, y, z, grid=grid)
        assert np.array_equal(y.numpy(), [*range(total), -1])
        assert set(z.numpy()[:total]) == {3 * grid[0] + grid[1]}


class Failures:
    """Bounded waits, memory that runs out, processes that fork."""

    def test_a_transfer_waits_for_hanging_work_no_longer_than_the_bound(
        self, spec: str, fake: Any, bundle: Bundle
    ) -> None:
        device = runtime.open_device(spec, timeout=0.2)
        saxpy = device.load(bundle, "saxpy")
        x, y = floats(device, 1, 1)
        fake.set(hang_after=0)
        device.launch(saxpy, x, y, 1.0)
        with pytest.raises(runtime.DeviceTimeout):
            device.upload(np.zeros(10 << 22, np.uint8))  # staging memory comes round
        assert_poisoned(device, runtime.DeviceTimeout)

    def test_an_allocation_over_free_memory_is_refused_before_the_driver_is_asked(
        self, spec: str, fake: Any
    ) -> None:
        fake.set(memory=1 << 24)
        with runtime.open_device(spec) as device:
            held = device.allocate((1 << 23) + 16, "u8")
            fake.set(fail_alloc=1)  # it would say no all the same, with other numbers
            with pytest.raises(runtime.OutOfMemory) as caught:
                device.allocate(1 << 23, "u8")
            assert caught.value.requested == 1 << 23
            assert 0 < caught.value.available < 1 << 23
            with pytest.raises(runtime.LimitExceeded):
                device.allocate(1 << 25, "u8")
            del held

    def test_a_child_process_does_not_use_the_parents_device(
        self, device: Device, bundle: Bundle
    ) -> None:
        saxpy = device.load(bundle, "saxpy")
        x, y = floats(device, 1, 1)
        context = multiprocessing.get_context("fork")
        said = context.SimpleQueue()

        def child() -> None:
            for call in (device.synchronize, lambda: device.launch(saxpy, x, y, 1.0), y.numpy):
                try:
                    call()
                    said.put("went through")
                except runtime.StateError as error:
                    said.put(str(error))
            device.close()

        process = context.Process(target=child)
        process.start()
        process.join()
        assert all("another process" in said.get() for _ in range(3))
        device.launch(saxpy, x, y, 1.0)
        assert set(y.numpy()) == {2}
