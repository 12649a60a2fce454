"""The fault bitmap in device memory and its copy that the host reads.

A wait copies the words in use before it waits, if anything with fault sites was submitted since the
last copy: launches and replays pay nothing for it, and a wait waits once.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ...faults import WORDS, Words
from .api import Api
from .memory import Heap, Pinned
from .queue import Queue


class FaultMap:
    """address: 0 before the first kernel with fault sites is loaded, for which `prepare` is called.
    dirty: bits may have been set that the host's copy lacks."""

    def __init__(self, api: Api, heap: Heap, queue: Queue) -> None:
        self._api, self._heap, self._queue = api, heap, queue
        self._mirror: Pinned | None = None
        self.address = 0
        self.dirty = False

    def prepare(self) -> None:
        """Make both maps, once."""
        if self._mirror is None:
            mirror = Pinned(self._api, WORDS * 4)
            try:
                memory = self._heap.allocate(WORDS * 4, self._queue.name)
                try:
                    self._clear(memory.address)
                except BaseException:
                    self._heap.release(memory)
                    raise
            except BaseException:
                mirror.close()
                raise
            self.address, self._mirror = memory.address, mirror

    def copy_out(self, words: int) -> None:
        """Queue the copy of the first words, where it is needed."""
        if self.dirty and words and self._mirror is not None:
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
        if self._mirror is None:
            return np.zeros(words, np.uint32)
        taken = np.frombuffer(ctypes.string_at(self._mirror.address, words * 4), np.uint32)
        if taken.any():
            ctypes.memset(self._mirror.address, 0, WORDS * 4)
            self._clear(self.address)
        return taken

    def close(self) -> None:
        """No work is pending; the heap takes the bitmap back."""
        if self._mirror is not None:
            self._mirror.close()

    def _clear(self, address: int) -> None:
        self._api.call("cuMemsetD32Async", address, 0, WORDS, self._queue.stream)
        self._queue.busy = True
