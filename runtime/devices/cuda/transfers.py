"""Copies between host memory and the device through pinned staging memory, in stream order."""

from __future__ import annotations

import ctypes
from typing import Any

from .api import Api
from .memory import Pinned
from .queue import Queue

SEGMENTS = 4
SMALL, LARGE = 1 << 16, 4 << 20  # bytes of a segment


class Ring:
    """Pinned memory in segments that are filled one after the other. A segment is filled again
    once the copies from it are done."""

    def __init__(self, api: Api, queue: Queue, segment: int) -> None:
        self._api, self._queue, self.segment = api, queue, segment
        self._pinned = Pinned(api, SEGMENTS * segment)
        self._events = [queue.event() for _ in range(SEGMENTS)]
        self._left = [False] * SEGMENTS  # its event is recorded and not yet waited for
        self._at, self._used = 0, 0

    def take(self, nbytes: int) -> int:
        """The address of room for `nbytes`, at most a segment; the caller submits its copy before
        the next call."""
        if self._used + nbytes > self.segment:
            self._queue.mark(self._events[self._at])
            self._left[self._at] = True
            self._at, self._used = (self._at + 1) % SEGMENTS, 0
            if self._left[self._at]:
                self._queue.wait_event(self._events[self._at])
                self._left[self._at] = False
        start = self._pinned.address + self._at * self.segment + self._used
        self._used += (nbytes + 15) & ~15
        return start

    def close(self) -> None:
        """No copy is pending."""
        for event in self._events:
            self._api.call("cuEventDestroy", event)
        self._pinned.close()


class Transfers:
    """Small copies share segments; large ones take a segment of megabytes each."""

    def __init__(self, api: Api, queue: Queue) -> None:
        self._api, self._queue = api, queue
        self._small: Ring | None = None  # each made when it is first needed
        self._large: Ring | None = None
        self._copy_in = api.drv.cuMemcpyHtoDAsync

    def write(self, address: int, data: memoryview | bytes) -> None:
        """Copy to the device after all submitted work; `data` may be reused on return."""
        ring = self._ring(len(data))
        self._queue.busy = True
        if len(data) <= ring.segment:
            self._write_part(ring, address, _pointer(data), len(data))
            return
        source = _address(data)
        for start in range(0, len(data), ring.segment):
            size = min(ring.segment, len(data) - start)
            self._write_part(ring, address + start, source + start, size)

    def read(self, address: int, data: memoryview) -> None:
        """Copy from the device, after all submitted work; the next part travels while the last
        one is unpacked."""
        ring, target = self._ring(len(data)), _address(data)
        pending: list[tuple[int, int, int, Any]] = []
        for start in range(0, len(data), ring.segment):
            size = min(ring.segment, len(data) - start)
            staged, event = ring.take(size), self._queue.event()
            self._api.call("cuMemcpyDtoHAsync", staged, address + start, size, self._queue.stream)
            self._queue.mark(event)
            pending.append((staged, start, size, event))
            if len(pending) == 2:
                self._unpack(target, *pending.pop(0))
        for part in pending:
            self._unpack(target, *part)

    def close(self) -> None:
        """No copy is pending."""
        for ring in (self._small, self._large):
            if ring is not None:
                ring.close()

    def _ring(self, nbytes: int) -> Ring:
        if nbytes <= SMALL:
            if self._small is None:
                self._small = Ring(self._api, self._queue, SMALL)
            return self._small
        if self._large is None:
            self._large = Ring(self._api, self._queue, LARGE)
        return self._large

    def _write_part(self, ring: Ring, address: int, source: Any, size: int) -> None:
        staged = ring.take(size)
        ctypes.memmove(staged, source, size)
        (status,) = self._copy_in(address, staged, size, self._queue.stream)
        if status:
            raise self._api.error(status, "cuMemcpyHtoDAsync", self._queue.name)

    def _unpack(self, target: int, staged: int, start: int, size: int, event: Any) -> None:
        self._queue.wait_event(event)
        self._api.call("cuEventDestroy", event)
        ctypes.memmove(target + start, staged, size)


def _pointer(data: memoryview | bytes) -> Any:
    return data if isinstance(data, bytes) else _address(data)


def _address(data: memoryview | bytes) -> int:
    import numpy as np

    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])
