"""An HSA device over the test double: launches, copies, slots, faults, several threads and GPUs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from double_contract import Work, floats
from fake_hsa import FakeRuntime
from gristmill import runtime


class TestHsa(Work):
    """What every device does over its double."""


def test_direct_launches_run_one_after_the_other(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy = device.load(bundle, "saxpy")
    a, b, c = floats(device, 1, 2, 4)
    device.synchronize()
    fake.set(slow=5000)  # the rest is there before the first is done
    for x, y in ((a, b), (a, b), (b, c), (c, a)):  # b = 4, c = 8, a = 9
        device.launch(saxpy, x, y, 1.0)
    assert (a.numpy()[0], b.numpy()[0], c.numpy()[0]) == (9, 4, 8)


def test_signals_that_have_served_are_used_again_without_a_wait_for_all_work(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    add = device.load(bundle, "add_slot")
    y, slot = device.upload(np.zeros(4, np.int32)), device.slot("i32", 0)
    end = time.monotonic() + 60
    for n in range(1, 501):
        slot.set(n)
        device.launch(add, y, slot)
        while n % 10 == 0 and fake.dispatches < n and time.monotonic() < end:
            time.sleep(1e-4)
    assert fake.live()["signals"] < 50
    device.synchronize()


def test_parameters_of_direct_launches_stay_until_the_launch_is_done(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 0)
    fake.set(slow=20)
    count = 4 * (1 << 18) // 64 + 1000  # once around the memory for parameters and further
    for n in range(count):
        device.launch(saxpy, x, y, float(n % 7))
    assert set(y.numpy()) == {sum(n % 7 for n in range(count))}


def test_memory_that_is_freed_lives_until_launches_are_done(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = floats(device, 1, 1, count=1 << 12)
    device.synchronize()
    held = device.memory().budget
    fake.set(slow=2000)
    device.launch(saxpy, x, y, 1.0)
    x.free()
    assert device.memory().budget == held  # what waits to go back can be had
    assert set(y.numpy()) == {2}


def test_memory_that_goes_back_is_waited_for_where_there_is_no_other(
    fake: FakeRuntime, bundle: runtime.Bundle
) -> None:
    fake.set(memory=1 << 24, slow=2000)
    with runtime.open_device("hsa", timeout=20) as device:
        saxpy = device.load(bundle, "saxpy")
        x, y = floats(device, 1, 1, count=1 << 21)
        device.launch(saxpy, x, y, 1.0)
        x.free()
        again = device.allocate(1 << 21, "f32")
        assert set(y.numpy()) == {2}
        del again, y


def test_a_fault_that_nobody_waited_for_is_told_when_the_device_is_closed(
    fake: FakeRuntime, bundle: runtime.Bundle
) -> None:
    device = runtime.open_device("hsa", timeout=20)
    bad, out = floats(device, -1, 0)
    device.launch(device.load(bundle, "checked_root"), bad, out)
    with pytest.raises(runtime.KernelFault, match="x is negative"):
        device.close()
    assert not fake.live()


def test_packets_hold_whole_workgroups_in_work_items(
    fake: FakeRuntime, make_bundle: Callable[..., runtime.Bundle]
) -> None:
    seen = []
    fake.executor(lambda d: seen.append((d.workgroup, d.grid)), "gfx1100")
    with runtime.open_device("hsa", timeout=20) as device:
        bundle = make_bundle("gfx1100")
        x, y = floats(device, 1, 1, count=65)
        device.launch(device.load(bundle, "saxpy"), x, y, 1.0)
        y = np.zeros(768, np.int64)
        device.load(bundle, "scalars")(y, 1, 1, True, 1.0, 1)
        ids = [device.upload(np.zeros(4, np.int32)) for _ in range(2)]
        device.launch(device.load(bundle, "group_ids"), *ids, grid=(2, 65536, 1))
    assert seen == [
        ((64, 1, 1), (128, 1, 1)),
        ((8, 4, 2), (16, 12, 4)),
        ((1, 1, 1), (65535, 3, 1)),
    ]


def test_a_grid_beyond_the_work_items_of_the_device_is_folded(
    fake: FakeRuntime,
    make_bundle: Callable[..., runtime.Bundle],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    fake.executor(lambda d: seen.append(d.grid), "gfx1100")
    most = "gristmill.runtime.devices.hsa.device.most_items"
    monkeypatch.setattr(most, lambda api, agent: (4, 3, 7))
    with runtime.open_device("hsa", timeout=20) as device:
        ids = device.load(make_bundle("gfx1100"), "group_ids")
        y, z = (device.upload(np.zeros(10, np.int32)) for _ in range(2))
        device.launch(ids, y, z, grid=(4, 2, 1))
        device.launch(ids, y, z, grid=(5, 2, 1))
        device.synchronize()
    assert seen == [(4, 2, 1), (4, 3, 1)]


def test_threads_take_turns(device: runtime.Device, bundle: runtime.Bundle) -> None:
    add = device.load(bundle, "add_slot")
    slot, failed = device.slot("i32", 1), []

    def work() -> None:
        try:
            y = device.upload(np.zeros(4, np.int32))
            with device.record() as recording:
                recording.launch(add, y, slot)
            for n in range(1, 101):
                recording.replay()
                device.launch(add, y, slot)
                assert set(y.numpy()) == {2 * n}
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_two_gpus_work_side_by_side(
    fake: FakeRuntime, make_bundle: Callable[..., runtime.Bundle]
) -> None:
    fake.isas("gfx1100", "gfx942:sramecc+:xnack-")
    bundle = make_bundle("gfx1100", "gfx942")
    with runtime.open_device("hsa:0") as one, runtime.open_device("hsa:1") as two:
        assert fake.users == 2
        pairs = [(d, d.load(bundle, "saxpy"), floats(d, 1, 1)) for d in (one, two)]
        for device, saxpy, (x, y) in pairs * 20:
            device.launch(saxpy, x, y, 1.0)
        assert [k.manifest.target for _, k, _ in pairs] == ["hsaco-gfx1100", "hsaco-gfx942"]
        assert all(set(y.numpy()) == {21} for _, _, (_, y) in pairs)
        with pytest.raises(runtime.StateError, match="buffer of another device"):
            two.launch(pairs[1][1], *pairs[0][2], 1.0)
        del pairs, device, saxpy, x, y
    assert not fake.live()
    assert fake.users == 0


def test_two_devices_of_one_gpu_have_queues_of_their_own(
    fake: FakeRuntime, bundle: runtime.Bundle
) -> None:
    with runtime.open_device("hsa") as one, runtime.open_device("hsa:0") as two:
        assert fake.live()["queues"] == 2
        for device in (one, two):
            x, y = np.ones(4, np.float32), np.ones(4, np.float32)
            device.load(bundle, "saxpy")(x, y, 1.0)
            assert set(y) == {2}


def test_memory_for_copies_and_faults_comes_when_it_is_needed(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    held = fake.live()
    assert held["host memory"] == 1  # for parameters
    assert "device memory" not in held
    x = np.ones(4, np.float32)
    device.load(bundle, "saxpy")(x, x.copy(), 1.0)
    assert fake.live()["host memory"] == 2  # staging memory
    device.load(bundle, "checked_root")(x, x.copy())
    device._map.prepare()  # type: ignore[attr-defined] # as for the next kernel with sites
    assert fake.live()["host memory"] == 3


def test_a_wait_reads_the_fault_bits_only_where_they_may_have_changed(
    device: runtime.Device, bundle: runtime.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, (x, y) = device.load(bundle, "checked_root"), floats(device, 4, 0)
    queue = device._queue  # type: ignore[attr-defined]
    copies, copy = [], queue.copy

    def noted(*args: int) -> object:
        copies.append(args)
        return copy(*args)

    monkeypatch.setattr(queue, "copy", noted)
    for launches in (1, 2):
        device.launch(root, x, y)
        device.synchronize()
        device.synchronize()
        device.launch(device.load(bundle, "saxpy"), x, y, 0.0)
        device.synchronize()
        assert len(copies) == launches


def test_a_wait_covers_what_lies_before_a_mark(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy, (x, y) = device.load(bundle, "saxpy"), floats(device, 1, 1)
    device.synchronize()
    fake.set(slow=50000)
    device.launch(saxpy, x, y, 1.0)
    device._queue.mark()  # type: ignore[attr-defined]
    device.synchronize()
    assert fake.dispatches == 1
