"""Host memory used in turn: what kernels' parameters and copies are put into."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .agents import Pool
from .api import Api
from .memory import HostMemory
from .queue import Moment, Queue

SEGMENTS = 4
SMALL, LARGE = 1 << 16, 4 << 20  # bytes of a segment


class Ring:
    """Host memory in segments that are filled one after the other. A segment is filled again once
    the work that was submitted up to its end is done."""

    def __init__(self, queue: Queue, memory: HostMemory) -> None:
        self._queue, self.memory = queue, memory
        self.segment = memory.nbytes // SEGMENTS
        self._left: list[Moment | None] = [None] * SEGMENTS
        self._at = self._used = 0

    def take(self, nbytes: int) -> int:
        """The offset of room for `nbytes`, at most a segment, at a multiple of 64 and up to
        one: kernels may read parameters up to a multiple of 16 bytes. The caller submits what uses
        it before the next call."""
        if self._used + nbytes > self.segment:
            self._next()
        start = self._at * self.segment + self._used
        self._used += (nbytes + 63) & ~63
        return start

    def _next(self) -> None:
        self._left[self._at] = self._queue.mark()
        following = (self._at + 1) % SEGMENTS
        left = self._left[following]
        if left is not None:
            self._queue.finish(left)
            self._left[following] = None
        self._at, self._used = following, 0


class Transfers:
    """Copies between arrays and device memory in turn with all other work. Small ones share
    segments; large ones take a segment of megabytes each."""

    def __init__(self, api: Api, queue: Queue, pool: Pool, cpu: int) -> None:
        self._api, self._queue, self._pool, self._cpu = api, queue, pool, cpu
        self._rings: dict[int, Ring] = {}  # by segment, each made when it is first needed

    def write(self, address: int, data: memoryview | bytes) -> None:
        """Copy to the device after all submitted work; `data` may be reused on return."""
        ring, source = self._ring(len(data)), _address(data)
        for start in range(0, len(data), ring.segment):
            size = min(ring.segment, len(data) - start)
            staged = ring.memory.address + ring.take(size)
            ctypes.memmove(staged, source + start, size)
            self._queue.copy(address + start, self._queue.agent, staged, self._cpu, size)

    def read(self, address: int, data: memoryview) -> None:
        """Copy from the device, after all submitted work; the next part travels while the last
        one is unpacked."""
        ring, target = self._ring(len(data)), _address(data)
        pending: list[tuple[Moment, int, int, int]] = []
        for start in range(0, len(data), ring.segment):
            size = min(ring.segment, len(data) - start)
            staged = ring.memory.address + ring.take(size)
            moment = self._queue.copy(staged, self._cpu, address + start, self._queue.agent, size)
            pending.append((moment, target + start, staged, size))
            if len(pending) == 2:
                self._unpack(*pending.pop(0))
        for part in pending:
            self._unpack(*part)

    def close(self) -> None:
        """No copy is pending."""
        for ring in self._rings.values():
            ring.memory.close()
        self._rings.clear()

    def _ring(self, nbytes: int) -> Ring:
        segment = SMALL if nbytes <= SMALL else LARGE
        if segment not in self._rings:
            queue = self._queue
            memory = HostMemory(self._api, self._pool, queue.agent, SEGMENTS * segment, queue.name)
            self._rings[segment] = Ring(queue, memory)
        return self._rings[segment]

    def _unpack(self, moment: Moment, target: int, staged: int, size: int) -> None:
        self._queue.finish(moment)
        ctypes.memmove(target, staged, size)


def _address(data: Any) -> int:
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])
