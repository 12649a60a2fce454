"""The fault bitmap in device memory and its copy that the host reads.

A wait copies the words in use before it waits, if anything with fault sites was submitted since the
last copy: launches and replays pay nothing for it, and a wait waits once.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ...faults import WORDS, Words
from .api import Api
from .memory import CudaMemory, Heap, Pinned
from .queue import Queue


class FaultMap:
    """dirty: bits may have been set that the host's copy lacks."""

    def __init__(self, api: Api, heap: Heap, queue: Queue) -> None:
        self._api, self._queue = api, queue
        self._memory: CudaMemory = heap.allocate(WORDS * 4, queue.name)
        self._mirror = Pinned(api, WORDS * 4)
        self.address = self._memory.address
        self.dirty = False
        self._clear()

    def copy_out(self, words: int) -> None:
        """Queue the copy of the first words, where it is needed."""
        if self.dirty and words:
            self._api.call(
                "cuMemcpyDtoHAsync",
                self._mirror.address,
                self.address,
                words * 4,
                self._queue.stream,
            )
            self._queue.busy = True
            self.dirty = False

    def take(self, words: int) -> Words:
        """The first words, cleared; a wait has come after all that was submitted."""
        taken = np.frombuffer(ctypes.string_at(self._mirror.address, words * 4), np.uint32)
        if taken.any():
            ctypes.memset(self._mirror.address, 0, WORDS * 4)
            self._clear()
        return taken

    def close(self) -> None:
        """No work is pending; the heap takes the bitmap back."""
        self._mirror.close()

    def _clear(self) -> None:
        self._api.call("cuMemsetD32Async", self.address, 0, WORDS, self._queue.stream)
        self._queue.busy = True
