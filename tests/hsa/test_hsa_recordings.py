"""Recordings are blocks of packets: in order where hazards say so, over the end of the ring, longer
than it, with few calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fake_hsa import FakeRuntime
from gristmill import runtime
from gristmill.runtime.devices.hsa import packets

RING = 64


@pytest.fixture
def small(fake: FakeRuntime) -> runtime.Device:
    """A device with a ring of 64 packets."""
    fake.set(ring=RING)
    return runtime.open_device("hsa", timeout=20)


def heads(recording: runtime.Recording) -> list[int]:
    """The first words of a recording's packets."""
    return [int(head) for block in recording.handle.blocks for head in block.heads]


def chain(device: runtime.Device, bundle: runtime.Bundle, length: int) -> Any:
    """A recording of launches, each after the one before, and what they add one to."""
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.full(4, v, np.float32)) for v in (1, 0))
    with device.record() as recording:
        for _ in range(length):
            recording.launch(saxpy, x, y, 1.0)
    return recording, y


def test_barrier_bits_are_where_hazards_need_them(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    saxpy = device.load(bundle, "saxpy")
    a, b, c, d = (device.upload(np.ones(8, np.float32)) for _ in range(4))
    with device.record() as recording:
        recording.launch(saxpy, a, b, 1.0)  # waits for all before the recording
        recording.launch(saxpy, a, c, 1.0)
        recording.launch(saxpy, a, d, 1.0)
        recording.launch(saxpy, b, c, 1.0)  # reads b
        recording.launch(saxpy, a, d, 1.0)
    found = heads(recording)
    waits = [bool(head & packets.BARRIER) for head in found]
    assert waits == [True, False, False, True, False, True]
    kinds = [head & 255 for head in found]
    assert kinds == [packets.DISPATCH] * 5 + [packets.BARRIER_AND]  # the last may overlap
    acquires, releases = ([head >> at & 3 for head in found] for at in (9, 11))
    assert acquires == [packets.SYSTEM, *[packets.AGENT] * 4, packets.SYSTEM]
    assert releases == [*[packets.AGENT] * 5, packets.SYSTEM]
    recording.replay()
    assert [set(v.numpy()) for v in (b, c, d)] == [{2}, {4}, {3}]


def test_a_last_launch_that_waits_for_all_tells_itself_that_it_is_done(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    recording, y = chain(device, bundle, 3)
    found = heads(recording)
    assert [head & 255 for head in found] == [packets.DISPATCH] * 3
    assert [head >> 11 & 3 for head in found] == [packets.AGENT, packets.AGENT, packets.SYSTEM]
    recording.replay()
    assert set(y.numpy()) == {3}


@pytest.mark.parametrize("length", [1, 2, 100])
def test_a_replay_rings_once(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime, length: int
) -> None:
    recording, y = chain(device, bundle, length)
    device.synchronize()
    bells = fake.bells
    recording.replay()
    assert fake.bells == bells + 1
    device.synchronize()
    assert fake.bells == bells + 1  # its last packet counts
    assert fake.dispatches == length
    assert set(y.numpy()) == {length}


def test_no_packet_looks_valid_while_a_block_is_copied(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    """A GPU that is at work fetches several packets ahead and takes one that is half there."""
    recording, y = chain(device, bundle, 9)
    (block,) = recording.handle.blocks
    assert [block.image[64 * n] for n in range(9)] == [bytes([packets.INVALID])] * 9
    queue = device._queue  # type: ignore[attr-defined]
    ring, seen = queue._ring, []

    def look(bell: int, last: int) -> None:
        seen.extend(int(queue._heads[(last - 8 + n) % queue.size]) for n in range(9))
        ring(bell, last)

    device.synchronize()
    queue._ring = look
    recording.replay()
    queue._ring = ring
    assert seen == heads(recording)
    assert set(y.numpy()) == {9}


@pytest.mark.parametrize("length", [5, 13, 63, 64])
def test_blocks_go_over_the_end_of_the_ring(
    small: runtime.Device, bundle: runtime.Bundle, length: int
) -> None:
    with small:
        recording, y = chain(small, bundle, length)
        for n in range(1, 200):
            recording.replay()
            if n % 50 == 0:
                assert set(y.numpy()) == {n * length}
        del y


@pytest.mark.parametrize("length", [65, 96, 97, 500])
def test_a_recording_longer_than_the_ring_is_split(
    small: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime, length: int
) -> None:
    with small:
        recording, y = chain(small, bundle, length)
        assert len(recording.handle.blocks) == -(-length // (RING // 2))
        assert [b.counts for b in recording.handle.blocks][:-1] == [False] * (-(-length // 32) - 1)
        for n in range(1, 6):
            recording.replay()
            assert set(y.numpy()) == {n * length}
        del y


def test_independent_launches_of_a_split_recording_are_all_waited_for(
    small: runtime.Device, bundle: runtime.Bundle
) -> None:
    with small as device:
        saxpy = device.load(bundle, "saxpy")
        pairs = [[device.upload(np.ones(4, np.float32)) for _ in range(2)] for _ in range(150)]
        with device.record() as recording:
            for x, y in pairs:
                recording.launch(saxpy, x, y, 1.0)
        for _ in range(3):
            recording.replay()
        assert all(set(y.numpy()) == {4} for _, y in pairs)
        pairs.clear()
        del x, y


def test_direct_launches_and_recordings_take_turns_on_a_small_ring(
    small: runtime.Device, bundle: runtime.Bundle
) -> None:
    with small as device:
        recording, y = chain(device, bundle, 7)
        saxpy, one = device.load(bundle, "saxpy"), device.upload(np.ones(4, np.float32))
        for n in range(1, 301):
            recording.replay()
            device.launch(saxpy, one, y, -1.0)
            if n % 100 == 0:
                assert set(y.numpy()) == {6 * n}
        del y, one


def test_a_timed_recording_gives_each_launch_its_seconds(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    empty = device.allocate(0, "f32")
    with device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 1.0)
        recording.launch(saxpy, empty, empty, 1.0)  # no workgroup
        recording.launch(saxpy, x, y, 1.0)
    assert recording.timestamps().tolist() == [0, 0, 0]
    fake.set(slow=3000)
    for _ in range(2):
        recording.replay()
        first, none, last = recording.timestamps()
        assert none == 0
        assert 3e-3 <= first < 60
        assert 3e-3 <= last < 60
    assert set(y.numpy()) == {5}


def test_a_timed_recording_gives_its_signals_back(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    device.synchronize()
    held = fake.live()
    with device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 1.0)
    assert fake.live()["signals"] == held["signals"] + 1
    recording.replay()
    recording.close()
    device.synchronize()
    assert fake.live() == held


def test_a_closed_recording_lives_until_its_replay_is_done(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    recording, y = chain(device, bundle, 3)
    device.synchronize()
    held = fake.live()
    fake.set(slow=2000)
    recording.replay()
    recording.close()
    assert fake.live()["host memory"] == held["host memory"]  # its parameters
    assert set(y.numpy()) == {3}
    assert fake.live()["host memory"] == held["host memory"] - 1


def test_a_recording_that_cannot_be_made_leaves_nothing(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    device.synchronize()
    held = fake.live()
    fake.set(fail_host=1)
    with pytest.raises(runtime.OutOfMemory), device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 1.0)
    fake.set(fail_host=0)
    assert fake.live() == held
    ids = device.load(bundle, "group_ids")
    y, z = (device.upload(np.zeros(4, np.int32)) for _ in range(2))
    device.synchronize()
    held = fake.live()
    with pytest.raises(runtime.LimitExceeded), device.record(timed=True) as folded:
        folded.launch(ids, y, z, grid=(1, 65537, 65535))  # one row more than a folded grid has
    assert fake.live() == held
    with pytest.raises(runtime.StateError, match="made once"), recording:
        pass
