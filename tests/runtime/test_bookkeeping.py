"""Hazards, fault bits, folded grids, memory blocks: the parts without a device."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill import runtime
from gristmill.runtime.devices.vulkan.heap import Block
from gristmill.runtime.hazards import Binding, HazardTracker, overlap
from gristmill.runtime.launch import folded


class Memory:
    def __init__(self, serial: int) -> None:
        self.serial = serial


A, B = Memory(1), Memory(2)


def reads(memory: Memory, offset: int, nbytes: int) -> Binding:
    return Binding(memory, offset, nbytes, nbytes, True, False)


def writes(memory: Memory, offset: int, nbytes: int) -> Binding:
    return Binding(memory, offset, nbytes, nbytes, False, True)


def test_ranges_overlap_only_where_they_share_a_byte():
    assert overlap(reads(A, 0, 16), reads(A, 15, 1))
    assert not overlap(reads(A, 0, 16), reads(A, 16, 16))
    assert not overlap(reads(A, 0, 16), reads(B, 0, 16))


@pytest.mark.parametrize(
    ("launches", "barriers"),
    [
        ([[reads(A, 0, 16)], [reads(A, 0, 16)]], [False, False]),
        ([[writes(A, 0, 16)], [reads(A, 0, 16)]], [False, True]),
        ([[reads(A, 0, 16)], [writes(A, 0, 16)]], [False, True]),
        ([[writes(A, 0, 16)], [writes(A, 0, 16)]], [False, True]),
        ([[writes(A, 0, 16)], [reads(A, 16, 16)]], [False, False]),
        ([[writes(A, 0, 16)], [reads(B, 0, 16)], [reads(A, 4, 1)]], [False, False, True]),
        # The barrier settles everything before it.
        ([[writes(A, 0, 9), writes(B, 0, 9)], [reads(A, 0, 9)], [reads(B, 0, 9)]], [0, 1, 0]),
        ([[writes(A, 0, 0)], [reads(A, 0, 16)]], [False, False]),
    ],
)
def test_barriers_stand_only_at_hazards(launches, barriers):
    tracker = HazardTracker()
    assert [tracker.barrier_before(launch) for launch in launches] == barriers


def test_hazards_against_a_plain_model(rng):
    """Random launches: a barrier stands exactly where a conflict is not settled yet."""
    tracker, since = HazardTracker(), []
    for _ in range(300):
        launch = [
            Binding((A, B)[rng.integers(2)], int(rng.integers(40)), int(rng.integers(1, 9)), 1,
                    True, bool(rng.integers(4) == 0))
            for _ in range(rng.integers(1, 4))
        ]  # fmt: skip
        conflict = any(
            (n.writes or o.writes)
            and n.allocation is o.allocation
            and set(range(n.offset, n.offset + n.nbytes))
            & set(range(o.offset, o.offset + o.nbytes))
            for n in launch
            for o in since
        )
        since = launch if conflict else since + launch
        assert tracker.barrier_before(launch) == conflict


def test_grid_is_folded_only_over_the_limit():
    limits = (65535, 65535, 65535)
    assert folded((65535, 2, 3), limits, "") == (65535, 2, 3)
    assert folded((65536, 1, 1), limits, "") == (65535, 2, 1)
    assert folded((1, 70000, 1), limits, "") == (65535, 2, 1)
    assert folded((2, 70000, 3), limits, "") == (65535, 7, 1)
    assert folded((1 << 20, 1, 1), ((1 << 31) - 1, 65535, 65535), "") == (1 << 20, 1, 1)
    with pytest.raises(runtime.LimitExceeded) as caught:
        folded((65536, 65536, 1), (65535, 3, 3), "kernel k")
    assert (caught.value.maximum, caught.value.value) == (65535 * 3, 1 << 32)


def test_blocks_join_their_gaps_again(rng):
    block = Block(None, 1 << 16, 0, [(0, 1 << 16)])
    held: list[tuple[int, int]] = []
    for _ in range(2000):
        if held and rng.integers(2):
            offset, size = held.pop(rng.integers(len(held)))
            block.give(offset, size)
        else:
            size = 256 * int(rng.integers(1, 20))
            offset = block.take(size)
            if offset is not None:
                assert all(offset + size <= o or o + s <= offset for o, s in held)
                held.append((offset, size))
        assert sum(s for _, s in held) + sum(s for _, s in block.free) == 1 << 16
        assert all(a + s < b for (a, s), (b, _) in zip(block.free, block.free[1:], strict=False))
    for offset, size in held:
        block.give(offset, size)
    assert block.empty


def test_fault_bits_are_given_out_again(opened, bundle):
    device = opened("null")
    kernel = device.load(bundle, "checked_root")
    x, y = device.upload(np.ones(3, np.float32)), device.allocate(3, "f32")

    def recorded(launches: int) -> runtime.Recording:
        with device.record() as recording:
            for _ in range(launches):
                recording.launch(kernel, x, y)
        return recording

    first, second = recorded(20), recorded(3)
    assert [r.base for r in first.faults] == [32 + 2 * n for n in range(20)]
    assert second.faults[0].base == 32 + 64
    first.close()
    assert recorded(1).faults[0].base == 32 + 64 + 32  # a pending replay may still set the bits
    device.synchronize()
    third = recorded(31)
    assert third.faults[0].base == 32
    device.fault_words = np.zeros(8, np.uint32)
    device.fault_words[3] = 1 << 3
    with pytest.raises(runtime.KernelFault, match="x is too large") as caught:
        device.synchronize()
    assert caught.value.launch == 1
    device.fault_words[0] = 3
    with pytest.raises(runtime.KernelFault, match="and 1 more faults"):
        device.synchronize()
    with pytest.raises(runtime.LimitExceeded, match="fault sites"):
        device._faults._gap(1 << 20)


def test_a_fault_of_a_closed_recording_is_its_own(computing, bundle):
    """Its bits are not given out while its last replay may set them, nor is the fault lost."""
    kernel, other = computing.load(bundle, "checked_root"), computing.load(bundle, "shift")
    good, bad = computing.upload(np.ones(3, np.float32)), computing.upload(np.full(3, -1.0, "f4"))
    y, n = computing.allocate(3, "f32"), computing.upload(np.zeros(3, np.int32))
    m = computing.allocate(3, "i32")
    with computing.record() as first:
        first.launch(kernel, bad, y)
    first.replay()
    first.close()
    with computing.record() as second:
        second.launch(other, n, m)
        second.launch(kernel, good, y)
    with pytest.raises(runtime.KernelFault) as caught:
        computing.synchronize()
    assert caught.value.launch == 0
    second.replay()
    computing.synchronize()
