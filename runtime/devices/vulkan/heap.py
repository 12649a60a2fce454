"""Device memory: which type serves what, blocks that are cut up, and the budget.

Asking a driver for memory takes 0.1 to 30 ms, so small buffers are cut from blocks and freed
blocks are kept for the next buffer of about their size.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

from ...errors import DriverError, NoDevice, OutOfMemory
from .api import OUT_OF_MEMORY
from .logical import Logical

DEVICE_LOCAL, VISIBLE, COHERENT, CACHED = 1, 2, 4, 8
BLOCK = 32 << 20
KEPT = 256 << 20  # bytes of freed blocks that are kept
BASE_ALIGNMENT = 256


@dataclass(slots=True, eq=False)
class Block:
    """A VkDeviceMemory. address: where it is mapped, 0 if not. free: gaps as (offset, size)."""

    memory: Any
    size: int
    address: int
    free: list[tuple[int, int]]

    def take(self, size: int) -> int | None:
        """The offset of a gap of `size` bytes, now taken; None where there is none."""
        for n, (offset, room) in enumerate(self.free):
            if room >= size:
                self.free[n : n + 1] = [(offset + size, room - size)] if room > size else []
                return offset
        return None

    def give(self, offset: int, size: int) -> None:
        """Take back what `take` gave, joined with its neighbours."""
        at = bisect.bisect(self.free, (offset, 0))
        if at < len(self.free) and self.free[at][0] == offset + size:
            size += self.free.pop(at)[1]
        if at and sum(self.free[at - 1]) == offset:
            offset, before = self.free[at - 1][0], self.free[at - 1][1]
            size, at = size + before, at - 1
            self.free.pop(at)
        self.free.insert(at, (offset, size))

    @property
    def empty(self) -> bool:
        return self.free == [(0, self.size)]


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a block."""

    block: Block
    offset: int
    size: int

    @property
    def address(self) -> int:
        """Where it is mapped, 0 if it is not."""
        return self.block.address + self.offset if self.block.address else 0


class Heap:
    """Memory of one type, mapped where that is host-visible (`visible`)."""

    def __init__(self, logical: Logical, type_index: int, flags: int) -> None:
        self._logical, self.type_index = logical, type_index
        self.visible = bool(flags & VISIBLE)
        self._blocks: list[Block] = []
        self._kept: list[Block] = []

    @property
    def kept_bytes(self) -> int:
        """Bytes that the driver counts as used and that no buffer holds."""
        return sum(b.size for b in self._kept) + sum(
            room for b in self._blocks for _, room in b.free
        )

    def allocate(self, size: int) -> Range:
        """Memory with a 256-byte aligned base; OutOfMemory."""
        size = -(-size // BASE_ALIGNMENT) * BASE_ALIGNMENT
        if size <= BLOCK // 2:
            for block in self._blocks:
                if (offset := block.take(size)) is not None:
                    return Range(block, offset, size)
        block = self._reused(size) or self._new(size)
        self._blocks.append(block)
        offset = block.take(size)
        assert offset is not None
        return Range(block, offset, size)

    def release(self, range_: Range) -> None:
        """Take a range back."""
        block = range_.block
        block.give(range_.offset, range_.size)
        if block.empty:
            self._blocks.remove(block)
            self._kept.append(block)
            while sum(b.size for b in self._kept) > KEPT:
                self._free(self._kept.pop(0))

    def trim(self) -> None:
        """Give kept blocks back to the driver."""
        while self._kept:
            self._free(self._kept.pop())

    def close(self) -> None:
        """Give everything back."""
        self.trim()
        while self._blocks:
            self._free(self._blocks.pop())

    def _reused(self, size: int) -> Block | None:
        wanted = max(size, BLOCK) if size <= BLOCK // 2 else size
        fitting = [b for b in self._kept if size <= b.size <= wanted * 5 // 4]
        if not fitting:
            return None
        best = min(fitting, key=lambda b: b.size)
        self._kept.remove(best)
        return best

    def _new(self, size: int) -> Block:
        sizes = [BLOCK, size] if size <= BLOCK // 2 else [size]
        for last, wanted in ((wanted == sizes[-1], wanted) for wanted in sizes):
            try:
                return self._from_driver(wanted)
            except DriverError as error:
                if error.code not in OUT_OF_MEMORY:
                    raise
                self.trim()
                if last:
                    try:
                        return self._from_driver(wanted)
                    except DriverError as again:
                        raise OutOfMemory(wanted, 0, self._logical.physical.name) from again
        raise AssertionError

    def _from_driver(self, size: int) -> Block:
        api, ffi = self._logical.api, self._logical.api.ffi
        info = api.struct(
            "VkMemoryAllocateInfo",
            "MEMORY_ALLOCATE_INFO",
            allocationSize=size,
            memoryTypeIndex=self.type_index,
        )
        memory = self._logical.create("vkAllocateMemory", "VkDeviceMemory", info)
        address = 0
        if self.visible:
            out = ffi.new("void **")
            status = api.vk.vkMapMemory(self._logical.handle, memory, 0, size, 0, out)
            try:
                api.check(status, "vkMapMemory")
            except BaseException:
                self._logical.destroy("vkFreeMemory", memory)
                raise
            address = int(ffi.cast("uintptr_t", out[0]))
        return Block(memory, size, address, [(0, size)])

    def _free(self, block: Block) -> None:
        self._logical.destroy("vkFreeMemory", block.memory)


class Memory:
    """The heaps of a device: `local` for buffers, `host` for staging and fault copies, `params`
    for parameter blocks. On unified memory `local` is mapped, too."""

    def __init__(self, logical: Logical) -> None:
        self._logical = logical
        api, physical = logical.api, logical.physical
        self._properties = api.ffi.new("VkPhysicalDeviceMemoryProperties *")
        api.vk.vkGetPhysicalDeviceMemoryProperties(physical.handle, self._properties)
        mapped = VISIBLE | COHERENT
        if physical.unified:
            self.local = self._heap(mapped, DEVICE_LOCAL | CACHED, 0)
        else:
            # Even where the host could reach it: it writes there at a tenth of the bus's speed and
            # reads far slower still.
            self.local = self._heap(DEVICE_LOCAL, 0, VISIBLE)
            self.local.visible = False
        self.host = self._heap(mapped, CACHED, DEVICE_LOCAL)
        self.params = self._heap(mapped, DEVICE_LOCAL, CACHED)
        self.heap_index = int(self._properties.memoryTypes[self.local.type_index].heapIndex)

    def budget(self, live: int) -> tuple[int, int, bool]:
        """Bytes that buffers may hold, bytes of the heap, whether the first is estimated."""
        physical, api = self._logical.physical, self._logical.api
        total = int(self._properties.memoryHeaps[self.heap_index].size)
        if "VK_EXT_memory_budget" not in physical.extensions:
            return total, total, True
        budget = api.struct(
            "VkPhysicalDeviceMemoryBudgetPropertiesEXT",
            "PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT",
        )
        head = api.struct(
            "VkPhysicalDeviceMemoryProperties2", "PHYSICAL_DEVICE_MEMORY_PROPERTIES_2"
        )
        api.vk.vkGetPhysicalDeviceMemoryProperties2(physical.handle, api.chain(head, [budget]))
        at = self.heap_index
        left = int(budget.heapBudget[at]) - int(budget.heapUsage[at]) + self.local.kept_bytes
        return live + max(0, left), total, False

    def close(self) -> None:
        """Give everything back."""
        for heap in {id(h): h for h in (self.local, self.host, self.params)}.values():
            heap.close()

    def _heap(self, needed: int, liked: int, disliked: int) -> Heap:
        """A heap of the type that has `needed`, most of `liked` and least of `disliked`."""
        types = [
            (n, int(self._properties.memoryTypes[n].propertyFlags))
            for n in range(self._properties.memoryTypeCount)
        ]
        able = [(n, flags) for n, flags in types if flags & needed == needed]
        if not able:
            names = {DEVICE_LOCAL: "local", VISIBLE: "host-visible", COHERENT: "coherent"}
            words = [name for flag, name in names.items() if needed & flag]
            raise NoDevice(
                f"no memory type that is {' and '.join(words)}", where=self._logical.physical.name
            )
        n, flags = max(
            able, key=lambda t: ((t[1] & liked).bit_count() - (t[1] & disliked).bit_count(), -t[0])
        )
        return Heap(self._logical, n, flags)
