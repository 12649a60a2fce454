"""Copies between host arrays and buffers that the host cannot reach, through staging memory."""

from __future__ import annotations

from .api import Api
from .buffers import VulkanBuffer
from .heap import Memory
from .logical import Logical
from .queue import Queue

HALF = 8 << 20


class Transfers:
    """Two halves of staging memory: one is filled while the other is copied."""

    def __init__(self, logical: Logical, memory: Memory, queue: Queue) -> None:
        self._logical, self._memory, self._queue = logical, memory, queue
        self._api: Api = logical.api
        self._staging: VulkanBuffer | None = None
        self._serials = [0, 0]

    def write(self, target: VulkanBuffer, offset: int, data: memoryview) -> None:
        """Copy to the device in queue order; `data` may be reused on return."""
        staging = self._ready()
        for n, start in enumerate(range(0, len(data), HALF)):
            part, half = data[start : start + HALF], n % 2
            self._queue.wait(self._serials[half], self._queue.timeout)
            staging.write(half * HALF, part)
            self._copy(staging, half * HALF, target, offset + start, len(part), half)

    def read(self, source: VulkanBuffer, offset: int, data: memoryview) -> None:
        """Copy from the device, after all submitted work."""
        staging = self._ready()
        starts = list(range(0, len(data), HALF))
        for n, start in enumerate([*starts, None]):
            half = n % 2
            if start is not None:  # the next part travels while the last one is unpacked
                size = min(HALF, len(data) - start)
                self._queue.wait(self._serials[half], self._queue.timeout)
                self._copy(source, offset + start, staging, half * HALF, size, half)
            if n:
                before = starts[n - 1]
                self._queue.wait(self._serials[1 - half], self._queue.timeout)
                staging.read((1 - half) * HALF, data[before : before + HALF])

    def update(self, target: VulkanBuffer, offset: int, data: bytes) -> None:
        """Write a few bytes in queue order without staging; whole words of the target."""
        padded = data + bytes(-len(data) % 4)
        place = self._queue.acquire()
        self._queue.begin(place.commands)
        source = self._api.ffi.from_buffer(padded)
        self._api.vk.vkCmdUpdateBuffer(place.commands, target.handle, offset, len(padded), source)
        self._queue.end(place.commands)
        target.used = self._queue.submit(place, place.commands, None)

    def close(self) -> None:
        """No work is pending."""
        if self._staging is not None:
            self._staging.destroy()

    def _ready(self) -> VulkanBuffer:
        if self._staging is None:
            self._staging = VulkanBuffer(self._logical, self._memory.host, 2 * HALF)
        return self._staging

    def _copy(
        self,
        source: VulkanBuffer,
        source_offset: int,
        target: VulkanBuffer,
        target_offset: int,
        size: int,
        half: int,
    ) -> None:
        region = self._api.ffi.new("VkBufferCopy *")
        region.srcOffset, region.dstOffset, region.size = source_offset, target_offset, size
        place = self._queue.acquire()
        self._queue.begin(place.commands)
        self._api.vk.vkCmdCopyBuffer(place.commands, source.handle, target.handle, 1, region)
        self._queue.end(place.commands)
        serial = self._queue.submit(place, place.commands, None)
        self._serials[half] = source.used = target.used = serial
