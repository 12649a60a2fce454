"""The fault bitmap on a Vulkan device and its copy that the host reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...faults import WORDS, Words
from ...launch import Command
from .buffers import VulkanBuffer
from .heap import Memory
from .logical import Logical
from .queue import Queue


class FaultMap:
    """On unified memory the bitmap is read in place; elsewhere the last command of every
    submission with fault sites copies their words to host memory."""

    def __init__(self, logical: Logical, memory: Memory) -> None:
        self._api = logical.api
        self.buffer = VulkanBuffer(logical, memory.local, WORDS * 4)
        self._mirror = self.buffer
        try:
            if not self.buffer.address:
                self._mirror = VulkanBuffer(logical, memory.host, WORDS * 4)
        except BaseException:
            self.buffer.destroy()
            raise
        self._mirror.clear()

    @property
    def mapped(self) -> bool:
        """Whether the host reads the bitmap itself."""
        return self._mirror is self.buffer

    def clear(self, queue: Queue) -> None:
        """Zero the bitmap in device memory, in queue order."""
        if self.mapped:
            return
        place = queue.acquire()
        queue.begin(place.commands)
        self._api.vk.vkCmdFillBuffer(place.commands, self.buffer.handle, 0, self.buffer.size, 0)
        queue.end(place.commands)
        queue.submit(place, place.commands, None)

    def copy_out(self, queue: Queue, commands: Any, launches: Sequence[Command]) -> None:
        """Add the copy of these launches' words to a command buffer."""
        sited = [c for c in launches if c.kernel.manifest.sites]
        if self.mapped or not sited:
            return
        first = min(c.fault_base for c in sited) // 32
        last = max(c.fault_base + len(c.kernel.manifest.sites) - 1 for c in sited) // 32
        queue.settle_for_copy(commands)
        region = self._api.ffi.new("VkBufferCopy *")
        region.srcOffset = region.dstOffset = first * 4
        region.size = (last - first + 1) * 4
        self._api.vk.vkCmdCopyBuffer(commands, self.buffer.handle, self._mirror.handle, 1, region)

    def take(self, words: int, queue: Queue) -> Words:
        """The first words, cleared; no work is pending."""
        taken = np.empty(words, np.uint32)
        self._mirror.read(0, taken.view(np.uint8).data)
        if taken.any():
            self._mirror.clear()
            self.clear(queue)
        return taken

    def close(self) -> None:
        """No work is pending."""
        if not self.mapped:
            self._mirror.destroy()
        self.buffer.destroy()
