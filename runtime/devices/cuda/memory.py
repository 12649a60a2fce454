"""Device memory from a stream-ordered pool, and pinned host memory.

The pool is the device's own, so that what it keeps for later is known and goes back with it. Memory
is given back in stream order: nothing waits, and no other user of the device is disturbed.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ...errors import DriverError, OutOfMemory
from ..host_memory import available_bytes
from .api import OUT_OF_MEMORY, Api
from .context import attribute
from .queue import Queue

KEPT_BYTES = 1 << 30  # what the pool keeps at most of memory that was given back


class CudaMemory:
    """A range of device memory. keep: what owns foreign memory. shared: others were handed it.
    apart: for a stream that the default streams do not wait for."""

    __slots__ = ("address", "apart", "keep", "nbytes", "shared")

    def __init__(self, address: int, nbytes: int, keep: Any = None) -> None:
        self.address, self.nbytes, self.keep = address, nbytes, keep
        self.shared = self.apart = False


class Heap:
    """Allocates on one stream. Without pools (some virtual GPUs) memory comes from cuMemAlloc, and
    going back waits for the device."""

    def __init__(self, api: Api, ordinal: int, device: Any, queue: Queue) -> None:
        self._api, self._queue = api, queue
        self._live: set[CudaMemory] = set()
        self._held = 0  # bytes of the pool that are in use, by the stream's order
        self._trim = False  # the pool may keep more than its share
        self.pool: Any = None
        if attribute(api, device, "MEMORY_POOLS_SUPPORTED"):
            self.pool = self._make_pool(ordinal)

    def allocate(self, nbytes: int, where: str) -> CudaMemory:
        """Memory with a 256-byte aligned base; OutOfMemory."""
        try:
            address = self._take(nbytes)
        except DriverError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            raise OutOfMemory(nbytes, self.free(), where) from error
        self._held += nbytes
        memory = CudaMemory(address, nbytes)
        self._live.add(memory)
        return memory

    def release(self, memory: CudaMemory) -> None:
        """Give back after all submitted work."""
        self._live.discard(memory)
        self._held -= memory.nbytes
        if self.pool is None:
            self._queue.wait(self._queue.timeout)
            self._api.call("cuMemFree", memory.address)
        else:
            self._api.call("cuMemFreeAsync", memory.address, self._queue.stream)
            self._queue.busy = True
            self._trim = True

    def trim(self) -> None:
        """Hand what the pool keeps beyond its share to everybody else. The driver does so by itself
        in waits of its own only, which this device never calls."""
        if self._trim:
            if self._reserved() > self._held + KEPT_BYTES:
                self._api.call("cuMemPoolTrimTo", self.pool, self._held + KEPT_BYTES)
            self._trim = self._reserved() > self._held + KEPT_BYTES

    def free(self) -> int:
        """Bytes that can be had: what the driver says plus what the pool keeps unused."""
        free, _ = self._api.call("cuMemGetInfo")
        return int(free) + max(0, self._reserved() - self._held)

    def empty(self, but: frozenset[CudaMemory]) -> None:
        """Give back all but this memory, also what the pool keeps."""
        for memory in self._live - but:
            self.release(memory)
        if self.pool is not None:
            self._queue.wait(self._queue.timeout)
            self._api.call("cuMemPoolTrimTo", self.pool, 0)

    def shared(self) -> list[CudaMemory]:
        """What others were handed."""
        return [memory for memory in self._live if memory.shared]

    def close(self) -> None:
        """No work is pending."""
        for memory in list(self._live):
            self.release(memory)
        if self.pool is not None:
            self._queue.wait(self._queue.timeout)
            self._api.call("cuMemPoolDestroy", self.pool)

    def _take(self, nbytes: int) -> int:
        if self.pool is None:
            return int(self._api.call("cuMemAlloc", nbytes))
        take = "cuMemAllocFromPoolAsync", nbytes, self.pool, self._queue.stream
        self._queue.busy = True
        try:
            return int(self._api.call(*take))
        except DriverError as error:
            if error.code != OUT_OF_MEMORY:
                raise
        # What the pool keeps may lie in pieces: hand it back and try once more.
        self._queue.wait(self._queue.timeout)
        self._api.call("cuMemPoolTrimTo", self.pool, 0)
        return int(self._api.call(*take))

    def _reserved(self) -> int:
        if self.pool is None:
            return 0
        which = self._api.drv.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        return int(self._api.call("cuMemPoolGetAttribute", self.pool, which))

    def _make_pool(self, ordinal: int) -> Any:
        drv = self._api.drv
        props = drv.CUmemPoolProps()
        props.allocType = drv.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        props.handleTypes = drv.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        props.location.type = drv.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        props.location.id = ordinal
        pool = self._api.call("cuMemPoolCreate", props)
        threshold = drv.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        try:
            self._api.call("cuMemPoolSetAttribute", pool, threshold, drv.cuuint64_t(KEPT_BYTES))
        except BaseException:
            self._api.call("cuMemPoolDestroy", pool)
            raise
        return pool


class Pinned:
    """Page-locked host memory that the device copies from and to."""

    def __init__(self, api: Api, nbytes: int) -> None:
        self._api, self.nbytes = api, nbytes
        try:
            self.address = int(api.call("cuMemHostAlloc", nbytes, 0))
        except DriverError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            raise OutOfMemory(nbytes, available_bytes(), "page-locked host memory") from error
        ctypes.memset(self.address, 0, nbytes)

    def close(self) -> None:
        """No copy is pending."""
        self._api.call("cuMemFreeHost", self.address)
