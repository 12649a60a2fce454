"""Room in turn for parameters and copies."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gristmill import runtime
from gristmill.runtime.devices.hsa.staging import SEGMENTS, SMALL, Ring


class Done:
    """A queue whose work is done at once."""

    def mark(self) -> None:
        """Nothing to wait for."""


class Memory:
    nbytes = SEGMENTS * SMALL


def test_a_block_can_be_read_up_to_a_multiple_of_16_bytes() -> None:
    """LLVM reads three words as four. Blocks start at multiples of 64 in their segment."""
    queue: Any = Done()
    memory: Any = Memory()
    for nbytes in (4, 28, 60, 100, 4092, SMALL - 4):
        ring, starts = Ring(queue, memory), []
        for _ in range(2 * Memory.nbytes // nbytes + 9):
            starts.append(ring.take(nbytes))
        read = -(-nbytes // 16) * 16
        for start, following in pairwise(starts):
            assert start % 64 == 0
            assert start % SMALL + read <= SMALL
            assert following % SMALL == 0 or following >= start + read


def test_so_can_a_block_of_a_recording(device: runtime.Device, bundle: runtime.Bundle) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    with device.record() as recording:
        recording.launch(saxpy, x, y, 1.0)
        recording.launch(saxpy, x, y, 1.0)
    made = recording.handle
    assert made.nbytes % 64 == 0
    assert made.nbytes >= 128
