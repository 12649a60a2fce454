"""Vulkan buffers over ranges of memory, and copies to and from mapped memory."""

from __future__ import annotations

import ctypes
from typing import Any

from ...errors import DriverError
from .heap import Heap
from .logical import Logical

# Usage of every buffer: transfer source and destination, uniform, storage.
_USAGE = 0x1 | 0x2 | 0x10 | 0x20


class VulkanBuffer:
    """A VkBuffer of `size` bytes. address: where it is mapped, or 0. used: the last submission
    that touches it, by serial number."""

    __slots__ = ("_heap", "_logical", "_range", "address", "handle", "size", "used")

    def __init__(self, logical: Logical, heap: Heap, size: int) -> None:
        api, ffi = logical.api, logical.api.ffi
        self._logical, self._heap, self.size, self.used = logical, heap, size, 0
        info = api.struct("VkBufferCreateInfo", "BUFFER_CREATE_INFO", size=size, usage=_USAGE)
        self.handle = logical.create("vkCreateBuffer", "VkBuffer", info)
        needs = ffi.new("VkMemoryRequirements *")
        api.vk.vkGetBufferMemoryRequirements(logical.handle, self.handle, needs)
        try:
            if not needs.memoryTypeBits >> heap.type_index & 1 or needs.alignment > 256:
                raise DriverError("vkGetBufferMemoryRequirements", 0, "an unusable memory type")
            self._range = heap.allocate(int(needs.size))
        except BaseException:
            logical.destroy("vkDestroyBuffer", self.handle)
            raise
        status = api.vk.vkBindBufferMemory(
            logical.handle, self.handle, self._range.block.memory, self._range.offset
        )
        try:
            api.check(status, "vkBindBufferMemory")
        except BaseException:
            self.destroy()
            raise
        self.address = self._range.address

    def destroy(self) -> None:
        """No submitted work uses it any more."""
        self._logical.destroy("vkDestroyBuffer", self.handle)
        self._heap.release(self._range)

    def write(self, offset: int, data: memoryview | bytes) -> None:
        """Copy into mapped memory."""
        ctypes.memmove(self.address + offset, _pointer(data), len(data))

    def read(self, offset: int, data: memoryview) -> None:
        """Copy out of mapped memory."""
        ctypes.memmove(_pointer(data), self.address + offset, len(data))

    def clear(self) -> None:
        """Fill mapped memory with zeros."""
        ctypes.memset(self.address, 0, self.size)


def _pointer(data: memoryview | bytes) -> Any:
    if isinstance(data, bytes):
        return data
    if data.readonly:  # ctypes takes the address of writeable memory only
        import numpy as np

        return np.frombuffer(data, np.uint8).ctypes.data
    return ctypes.addressof(ctypes.c_char.from_buffer(data))
