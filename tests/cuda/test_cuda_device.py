"""A CUDA device over the test double: launches, recordings, hazards, slots, faults."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime


def test_a_launch_computes(device: runtime.Device, bundle: runtime.Bundle) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    saxpy(x, y, 2.0)
    assert np.array_equal(y, 2 * np.arange(1000) + 1)


def test_every_kind_of_scalar_arrives(device: runtime.Device, bundle: runtime.Bundle) -> None:
    y = np.zeros(768, np.int64)
    device.load(bundle, "scalars")(y, -5, 65535, True, 2.75, -(1 << 40))
    assert set(y) == {-5 + 65535 + 1000000 + 2 - (1 << 40)}


def test_copies_of_every_size_arrive(device: runtime.Device, rng: np.random.Generator) -> None:
    for size in (1, 3, 4096, 1 << 16, (1 << 16) + 1, 5_000_000, 20_000_001):
        data = rng.integers(0, 256, size, np.uint8)
        buffer = device.upload(data)
        assert np.array_equal(buffer.numpy(), data), size


def test_a_copy_that_is_done_at_once_is_unpacked_before_its_staging_memory_comes_round(
    device: runtime.Device, rng: np.random.Generator, fake: FakeDriver
) -> None:
    data = rng.integers(0, 256, 40_000_001, np.uint8)  # ten segments of four
    buffer = device.upload(data)
    device.synchronize()
    fake.set(step=1000)
    assert np.array_equal(buffer.numpy(), data)


def test_writes_come_after_launches_submitted_before(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    add = device.load(bundle, "add_slot")
    y, slot = device.upload(np.zeros(4, np.int32)), device.slot("i32", 0)
    total = 0
    for n in range(2000):  # more than staging memory holds without being used again
        slot.set(n)
        device.launch(add, y, slot)
        total += n
    assert set(y.numpy()) == {total}


def test_a_recording_replays_in_the_order_of_its_hazards(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    a, b, c = (device.upload(np.full(8, v, np.float32)) for v in (1, 2, 4))
    with device.record() as recording:
        recording.launch(saxpy, a, b, 1.0)  # b = 2 + 1
        recording.launch(saxpy, b, c, 1.0)  # c = 4 + 3: reads what was written
        recording.launch(saxpy, c, a, 1.0)  # a = 1 + 7: writes what was read
        recording.launch(saxpy, b, c, 1.0)  # c = 7 + 3
    recording.replay()
    assert (a.numpy()[0], b.numpy()[0], c.numpy()[0]) == (8, 3, 10)
    recording.replay()  # b = 3 + 8, c = 10 + 11, a = 8 + 21, c = 21 + 11
    assert (a.numpy()[0], b.numpy()[0], c.numpy()[0]) == (29, 11, 32)


def test_a_slot_takes_effect_between_replays(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    add = device.load(bundle, "add_slot")
    y, slot = device.upload(np.zeros(4, np.int32)), device.slot("i32", 0)
    with device.record() as recording:
        recording.launch(add, y, slot)
    for n in range(1000):
        slot.set(n)
        recording.replay()
    slot.set(-1)
    assert set(y.numpy()) == {sum(range(1000))}


def test_scalars_of_a_recording_are_rewritten(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    with device.record() as recording:
        recording.launch(saxpy, x, y, 1.0)
        recording.launch(saxpy, x, y, 10.0)
    recording.replay()
    recording.rewrite(1, a=100.0)
    recording.replay()
    assert set(y.numpy()) == {1 + 11 + 101}


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


def test_a_recording_without_launches_replays(device: runtime.Device) -> None:
    with device.record() as recording:
        pass
    recording.replay()
    device.synchronize()


def test_memory_that_is_freed_lives_until_launches_are_done(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(1 << 12, np.float32)) for _ in range(2))
    device.synchronize()
    device.launch(saxpy, x, y, 1.0)
    x.free()
    assert set(y.numpy()) == {2}


def test_memory_of_a_closed_recording_lives_until_its_replay_is_done(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(1 << 12, np.float32)) for _ in range(2))
    with device.record() as recording:
        recording.launch(saxpy, x, y, 1.0)
    recording.replay()
    x.free()
    recording.close()
    assert set(y.numpy()) == {2}


def test_a_fault_in_a_recording_names_kernel_launch_and_line(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    root, saxpy = device.load(bundle, "checked_root"), device.load(bundle, "saxpy")
    good, bad = (device.upload(np.full(8, v, np.float32)) for v in (4, -1))
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
    device.launch(root, good, out)  # the context lives, and the bits are clear
    assert set(out.numpy()) == {2}
    device.launch(root, bad, out)
    with pytest.raises(runtime.KernelFault, match="direct launch"):
        device.synchronize()


def test_a_grid_beyond_the_hardware_is_folded(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    ids = device.load(bundle, "group_ids")
    y, z = (device.upload(np.full(70001, -1, np.int32)) for _ in range(2))
    device.launch(ids, y, z, grid=(1, 70000, 1))
    assert np.array_equal(y.numpy(), [*range(70000), -1])
    assert set(z.numpy()[:70000]) == {3 + 70000}


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
