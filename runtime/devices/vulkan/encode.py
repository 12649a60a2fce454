"""Launches written into command buffers: one at a time, or as a recording."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import StateError
from ...hazards import HazardTracker
from ...launch import Command, Grid, folded, parameter_block
from .buffers import VulkanBuffer
from .descriptors import DescriptorPool, DescriptorWriter
from .faultmap import FaultMap
from .heap import Memory
from .logical import Logical
from .pipelines import Pipeline
from .queue import Queue

_END_OF_WORK = 0x2000  # bottom of the pipe


class Encoder:
    """Writes launches. Shared by direct launches and recordings of one device."""

    def __init__(self, logical: Logical, queue: Queue, faults: FaultMap) -> None:
        self.logical, self.queue, self.faults = logical, queue, faults
        self._api = logical.api
        self._writer = DescriptorWriter(logical, faults.buffer)
        self._sets = self._api.ffi.new("VkDescriptorSet[1]")
        limits = logical.physical.properties.limits
        x, y, z = (int(n) for n in limits.maxComputeWorkGroupCount)
        self._grid: Grid = (x, y, z)
        self.params_alignment = max(16, int(limits.minUniformBufferOffsetAlignment))

    def fold(self, command: Command) -> Grid:
        """The grid to dispatch; LimitExceeded where no grid of this device holds the launch."""
        return folded(command.grid, self._grid, f"kernel {command.kernel.name}")

    def dispatch(
        self,
        commands: Any,
        command: Command,
        pool: DescriptorPool,
        block: VulkanBuffer,
        offset: int,
    ) -> int:
        """Write parameters and descriptors of a launch, then the launch; the block's size.

        A grid that does not fit is refused by `fold`, before commands are recorded.
        """
        pipeline: Pipeline = command.kernel.code
        data = parameter_block(command)
        block.write(offset, data)
        set_ = pool.allocate(pipeline)
        self._writer.write(set_, pipeline, command.bindings, (block, offset, len(data)))
        self._sets[0] = set_
        x, y, z = self.fold(command)
        vk, null = self._api.vk, self._api.ffi.NULL
        vk.vkCmdBindPipeline(commands, 1, pipeline.handle)
        vk.vkCmdBindDescriptorSets(commands, 1, pipeline.layout, 0, 1, self._sets, 0, null)
        vk.vkCmdDispatch(commands, x, y, z)
        return len(data)


class VulkanRecording:
    """A command buffer that is submitted again and again, with all it refers to.

    serial: its last submission.
    """

    def __init__(
        self, encoder: Encoder, memory: Memory, commands: Sequence[Command], timed: bool
    ) -> None:
        self._encoder, self._queue, self._logical = encoder, encoder.queue, encoder.logical
        self.launches = list(commands)
        self.serial = 0
        live = [c for c in commands if c.groups]
        if timed and not self._logical.period:
            raise StateError("the queue has no timestamps", where=self._logical.physical.name)
        for command in live:
            encoder.fold(command)
        stride = encoder.params_alignment
        sizes = [-(-len(parameter_block(c)) // stride) * stride for c in live]
        with ExitStack() as made:
            self._pool = DescriptorPool(self._logical, max(1, len(live)), 1)
            made.callback(self._pool.close)
            self._pool.reset(sum(c.kernel.code.descriptors for c in live))
            self._block = VulkanBuffer(self._logical, memory.params, max(16, sum(sizes)))
            made.callback(self._block.destroy)
            self._queries = self._query_pool(len(live) + 1) if timed and live else None
            if self._queries is not None:
                made.callback(self._logical.destroy, "vkDestroyQueryPool", self._queries)
            self.buffer = self._queue.command_buffers(1)[0]
            made.callback(self._queue.free_command_buffer, self.buffer)
            self._encode(live, sizes)
            self._made = made.pop_all()  # a call that fails undoes those before it; so does `close`

    def note_use(self, serial: int) -> None:
        """It was submitted: its buffers are in use until then."""
        self.serial = serial
        for command in self.launches:
            for binding in command.bindings:
                binding.allocation.handle.used = serial

    def rewrite(self, launch: int, command: Command) -> None:
        """Other scalars for later submissions; none is pending."""
        if command.groups:
            number = sum(bool(c.groups) for c in self.launches[:launch])
            self._block.write(self._offsets[number], parameter_block(command))
        self.launches[launch] = command

    def times(self) -> npt.NDArray[np.float64]:
        """Seconds of each launch in the last submission, which is done."""
        result = np.zeros(len(self.launches))
        live = [n for n, c in enumerate(self.launches) if c.groups]
        if self._queries is None or not self.serial:
            return result
        ticks = np.zeros(len(live) + 1, np.uint64)
        api, ffi = self._logical.api, self._logical.api.ffi
        status = api.vk.vkGetQueryPoolResults(
            self._logical.handle,
            self._queries,
            0,
            len(ticks),
            ticks.nbytes,
            ffi.cast("void *", ticks.ctypes.data),
            8,
            0x1 | 0x2,  # 64 bits, wait
        )
        api.check(status, "vkGetQueryPoolResults")
        mask = np.uint64(self._logical.timestamp_mask)
        spans = (ticks[1:] - ticks[:-1]) & mask
        result[live] = spans.astype(np.float64) * self._logical.period * 1e-9
        return result

    def close(self) -> None:
        """Its submissions are done."""
        self._made.close()

    def _encode(self, live: list[Command], sizes: list[int]) -> None:
        queue, buffer, hazards, offset = self._queue, self.buffer, HazardTracker(), 0
        self._offsets: list[int] = []
        vk = self._logical.api.vk
        queue.begin(buffer, repeated=True)
        if self._queries is not None:
            vk.vkCmdResetQueryPool(buffer, self._queries, 0, len(live) + 1)
            vk.vkCmdWriteTimestamp(buffer, _END_OF_WORK, self._queries, 0)
        for n, (command, size) in enumerate(zip(live, sizes, strict=True)):
            # Timed launches do not overlap: each would be charged with its neighbours' time.
            if hazards.barrier_before(command.bindings) or (n and self._queries is not None):
                queue.settle(buffer)
            self._encoder.dispatch(buffer, command, self._pool, self._block, offset)
            self._offsets.append(offset)
            offset += size
            if self._queries is not None:
                vk.vkCmdWriteTimestamp(buffer, _END_OF_WORK, self._queries, n + 1)
        self._encoder.faults.copy_out(queue, buffer, live)
        queue.end(buffer)

    def _query_pool(self, count: int) -> Any:
        info = self._logical.api.struct(
            "VkQueryPoolCreateInfo",
            "QUERY_POOL_CREATE_INFO",
            queryType=2,  # timestamps
            queryCount=count,
        )
        return self._logical.create("vkCreateQueryPool", "VkQueryPool", info)
