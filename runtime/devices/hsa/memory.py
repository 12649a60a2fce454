"""Memory of a GPU from its coarse-grained pool, and host memory from fine-grained ones."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import NamedTuple

from ...errors import DriverError, OutOfMemory
from .agents import AVAILABLE, Pool, told
from .api import INVALID_ALLOCATION, OUT_OF_RESOURCES, Api
from .queue import Queue

WAITING_BYTES = 256 << 20  # what may wait to be given back before somebody waits for work


class HsaMemory(NamedTuple):
    """A range of device memory."""

    address: int
    nbytes: int


class HostMemory:
    """Host memory that a GPU reads and writes, as bytes to pack into from `address` on."""

    def __init__(self, api: Api, pool: Pool, agent: int, nbytes: int, where: str) -> None:
        self._api, self.nbytes = api, nbytes
        self.address = _take(api, pool, nbytes, where)
        allowed = ctypes.c_uint64(agent)
        try:
            api.call("hsa_amd_agents_allow_access", 1, ctypes.byref(allowed), None, self.address)
        except BaseException:
            self.close()
            raise
        self.bytes = (ctypes.c_char * nbytes).from_address(self.address)
        ctypes.memset(self.address, 0, nbytes)

    def close(self) -> None:
        """No work uses it."""
        self._api.call("hsa_amd_memory_pool_free", self.address)


class Heap:
    """Device memory. What goes back while work is pending waits for the next wait."""

    def __init__(self, api: Api, agent: int, pool: Pool, queue: Queue) -> None:
        self._api, self._agent, self._pool, self._queue = api, agent, pool, queue
        self._live: set[HsaMemory] = set()
        self._waiting: list[tuple[Callable[[], None], int]] = []
        self._waits = 0  # bytes

    def allocate(self, nbytes: int, where: str) -> HsaMemory:
        """Memory with a page-aligned base; OutOfMemory."""
        if self._waits > WAITING_BYTES:
            self._queue.wait(self._queue.timeout)
            self.settle()
        try:
            address = _take(self._api, self._pool, nbytes, where)
        except OutOfMemory:
            if not self._waiting:
                raise
            self._queue.wait(self._queue.timeout)
            self.settle()
            address = _take(self._api, self._pool, nbytes, where)
        memory = HsaMemory(address, nbytes)
        self._live.add(memory)
        return memory

    def release(self, memory: HsaMemory) -> None:
        """Give back after all submitted work."""
        self.later(lambda: self._free(memory), memory.nbytes)

    def later(self, give_back: Callable[[], None], nbytes: int) -> None:
        """Do so once what is submitted now is done."""
        if self._queue.busy:
            self._waiting.append((give_back, nbytes))
            self._waits += nbytes
        else:
            give_back()

    def settle(self) -> None:
        """No work is pending."""
        with contextlib.ExitStack() as rest:  # all of it, whatever fails
            for give_back, _ in self._waiting:
                rest.callback(give_back)
            self._waiting, self._waits = [], 0

    def free(self) -> int | None:
        """Bytes that can be had; None where the library does not tell."""
        free = told(self._api, self._agent, AVAILABLE, ctypes.c_uint64)
        return None if free is None else free + self._waits

    def close(self) -> None:
        """No work is pending."""
        self.settle()
        with contextlib.ExitStack() as rest:
            for memory in list(self._live):
                rest.callback(self._free, memory)

    def _free(self, memory: HsaMemory) -> None:
        self._live.discard(memory)
        self._api.call("hsa_amd_memory_pool_free", memory.address)


def _take(api: Api, pool: Pool, nbytes: int, where: str) -> int:
    try:
        return api.made("hsa_amd_memory_pool_allocate", pool.handle, nbytes, 0, where=where)
    except DriverError as error:
        if error.code not in (OUT_OF_RESOURCES, INVALID_ALLOCATION):
            raise
        kind = where if pool.flags & 4 else f"{where}, host memory of the device"
        raise OutOfMemory(nbytes, pool.most, kind) from error
