"""The fault bitmap in device memory and its copy that the host reads.

A wait copies the words in use before it waits, if anything with fault sites was submitted since the
last copy.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ...faults import WORDS, Words
from .agents import Pool
from .api import Api
from .memory import Heap, HostMemory
from .queue import Queue
from .staging import Transfers


class FaultMap:
    """address: 0 before the first kernel with fault sites is loaded, for which `prepare` is called.
    dirty: bits may have been set that the host's copy lacks."""

    def __init__(
        self, api: Api, heap: Heap, queue: Queue, transfers: Transfers, pool: Pool, cpu: int
    ) -> None:
        self._api, self._heap, self._queue, self._transfers = api, heap, queue, transfers
        self._pool, self._cpu = pool, cpu
        self._mirror: HostMemory | None = None
        self.address = 0
        self.dirty = False

    def prepare(self) -> None:
        """Make both maps, once."""
        if self._mirror is None:
            queue = self._queue
            mirror = HostMemory(self._api, self._pool, queue.agent, WORDS * 4, queue.name)
            try:
                memory = self._heap.allocate(WORDS * 4, queue.name)
                try:
                    self._transfers.write(memory.address, bytes(WORDS * 4))
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
            queue = self._queue
            queue.copy(self._mirror.address, self._cpu, self.address, queue.agent, words * 4)
            self.dirty = False

    def take(self, words: int) -> Words:
        """The first words, cleared; a wait has come after all that was submitted."""
        if self._mirror is None:
            return np.zeros(words, np.uint32)
        taken = np.frombuffer(ctypes.string_at(self._mirror.address, words * 4), np.uint32)
        if taken.any():
            ctypes.memset(self._mirror.address, 0, WORDS * 4)
            self._transfers.write(self.address, bytes(WORDS * 4))
        return taken

    def close(self) -> None:
        """No work is pending; the heap takes the bitmap back."""
        if self._mirror is not None:
            self._mirror.close()
            self._mirror = None
