"""A CUDA device over the test double: launches, recordings, hazards, slots, faults."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from double_contract import Work
from fake_cuda import FakeDriver
from gristmill import runtime


class TestCuda(Work):
    """What every device does over its double."""


def test_a_copy_that_is_done_at_once_is_unpacked_before_its_staging_memory_comes_round(
    device: runtime.Device, rng: np.random.Generator, fake: FakeDriver
) -> None:
    data = rng.integers(0, 256, 40_000_001, np.uint8)  # ten segments of four
    buffer = device.upload(data)
    device.synchronize()
    fake.set(step=1000)
    assert np.array_equal(buffer.numpy(), data)


def test_a_timed_recording_gives_each_launch_its_seconds(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    empty = device.allocate(0, "f32")
    with device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 1.0)
        recording.launch(saxpy, empty, empty, 1.0)  # no workgroup
        recording.launch(saxpy, x, y, 1.0)
    assert recording.timestamps().tolist() == [0, 0, 0]
    recording.replay()
    assert recording.timestamps() == pytest.approx([1e-3, 0, 1e-3])


def test_memory_that_is_freed_lives_until_launches_are_done(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(1 << 12, np.float32)) for _ in range(2))
    device.synchronize()
    device.launch(saxpy, x, y, 1.0)
    x.free()
    assert set(y.numpy()) == {2}


def test_a_thread_that_has_another_context_gets_it_back(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    ours = int(device._context.handle)  # type: ignore[attr-defined]
    drv, seen = device.api.drv, []  # type: ignore[attr-defined]

    def work(others: int) -> None:
        drv.cuCtxSetCurrent(others)
        device.launch(saxpy, x, y, 1.0)
        device.synchronize()
        seen.append((others, int(drv.cuCtxGetCurrent()[1])))

    foreign = int(drv.cuDevicePrimaryCtxRetain(1)[1])
    for others in (0, ours, foreign):
        threads = [threading.Thread(target=work, args=(others,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # That of the first device is what CUDA's runtime library gives a thread that has none.
    assert seen == [(0, ours)] * 2 + [(ours, ours)] * 2 + [(foreign, foreign)] * 2
    assert set(y.numpy()) == {7}
    drv.cuDevicePrimaryCtxRelease(1)


def test_few_launches_of_a_recording_may_overlap(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    """All abreast cost the host a microsecond each, which the device waits for."""
    saxpy = device.load(bundle, "saxpy")
    pairs = [[device.upload(np.ones(4, np.float32)) for _ in range(2)] for _ in range(40)]
    with device.record() as recording:
        for x, y in pairs:
            recording.launch(saxpy, x, y, 1.0)
    drv = device.api.drv  # type: ignore[attr-defined]
    status, roots, count = drv.cuGraphGetRootNodes(recording.handle._graph)
    assert (int(status), count) == (0, 8), roots
    recording.replay()
    assert all(set(y.numpy()) == {2} for _, y in pairs)


def test_without_pools_memory_comes_and_goes_all_the_same(
    fake: FakeDriver, bundle: runtime.Bundle
) -> None:
    fake.set(pools=0)
    with runtime.open_device("cuda", timeout=20) as device:
        saxpy = device.load(bundle, "saxpy")
        x, y = np.ones(5000, np.float32), np.ones(5000, np.float32)
        saxpy(x, y, 1.0)
        assert set(y) == {2}
    assert not fake.live()


def test_memory_for_copies_and_faults_comes_when_it_is_needed(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    held = fake.live()
    assert "pinned" not in held
    assert "allocations" not in held
    x = np.ones(4, np.float32)
    device.load(bundle, "saxpy")(x, x.copy(), 1.0)
    assert fake.live()["pinned"] == 1  # staging memory
    device.load(bundle, "checked_root")(x, x.copy())
    device._map.prepare()  # type: ignore[attr-defined] # as for the next kernel with sites
    assert fake.live()["pinned"] == 2


def test_a_replay_without_fault_sites_needs_no_map(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    with device.record() as recording:
        recording.launch(device.load(bundle, "saxpy"), x, y, 1.0)
    with device.record() as checked:
        checked.launch(device.load(bundle, "checked_root"), y, x)
    recording.replay()
    checked.replay()
    device.write(y, np.full(4, -1, np.float32))
    device.synchronize()
    checked.replay()
    with pytest.raises(runtime.KernelFault, match="x is negative"):
        device.synchronize()
    device.write(y, np.full(4, 4, np.float32))
    checked.replay()
    assert set(x.numpy()) == {2}
