"""The one queue of a device: submissions in order, numbered, with bounded waits.

A ring of submissions is reused; each has its command buffer, fence, descriptor pool and parameter
block. Submission `serial` uses place `serial % RING`, and because a fence also covers everything
submitted before it, waiting for one serial settles all earlier ones.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any

from ...errors import DeviceTimeout, DriverError, SubmissionFailed
from .api import TIMEOUT
from .buffers import VulkanBuffer
from .descriptors import DescriptorPool
from .heap import Memory
from .logical import Logical

RING = 64
PARAMS_BYTES = 4096
SPIN_SECONDS = 60e-6  # a sleeping wait takes about this long to wake up
SLICE_SECONDS = 0.25
_NOT_READY = 1

COMPUTE, TRANSFER, HOST = 0x800, 0x1000, 0x4000
SHADER_READ, SHADER_WRITE, UNIFORM_READ = 0x20, 0x40, 0x8
TRANSFER_READ, TRANSFER_WRITE, HOST_READ = 0x800, 0x1000, 0x2000
_WRITES = SHADER_WRITE | TRANSFER_WRITE
_ALL = SHADER_READ | UNIFORM_READ | TRANSFER_READ | _WRITES


class Submission:
    """A place of the ring. keep: what must live until its work is done."""

    def __init__(self, queue: Queue, commands: Any, params_offset: int) -> None:
        logical = queue.logical
        info = logical.api.struct("VkFenceCreateInfo", "FENCE_CREATE_INFO")
        self.fence = logical.create("vkCreateFence", "VkFence", info)
        self.fences = logical.api.ffi.new("VkFence[]", [self.fence])
        self.commands, self.params_offset = commands, params_offset
        self.pool = DescriptorPool(logical)
        self.keep: list[Any] = []
        self.serial = 0


class Queue:
    """See the module. done: every serial up to this one is known to be finished."""

    def __init__(self, logical: Logical, memory: Memory) -> None:
        self.logical, self.api = logical, logical.api
        self.serial = self.done = 0
        self.timeout = 600.0
        info = self.api.struct(
            "VkCommandPoolCreateInfo",
            "COMMAND_POOL_CREATE_INFO",
            flags=2,  # buffers are reset one by one
            queueFamilyIndex=logical.family,
        )
        self._ring: list[Submission] = []
        with ExitStack() as undo:  # what was made before a call that fails
            self._pool = logical.create("vkCreateCommandPool", "VkCommandPool", info)
            undo.callback(logical.destroy, "vkDestroyCommandPool", self._pool)
            self.params = VulkanBuffer(logical, memory.params, RING * PARAMS_BYTES)
            undo.callback(self.params.destroy)
            undo.callback(self._close_ring)
            for n, buffer in enumerate(self.command_buffers(RING)):
                self._ring.append(Submission(self, buffer, n * PARAMS_BYTES))
            undo.pop_all()
        self._spins = logical.physical.properties.deviceType != 4  # no spinning on a CPU
        self._make_structs()

    def command_buffers(self, count: int) -> list[Any]:
        """New command buffers."""
        info = self.api.struct(
            "VkCommandBufferAllocateInfo",
            "COMMAND_BUFFER_ALLOCATE_INFO",
            commandPool=self._pool,
            commandBufferCount=count,
        )
        out = self.api.ffi.new("VkCommandBuffer[]", count)
        status = self.api.vk.vkAllocateCommandBuffers(self.logical.handle, info, out)
        self.api.check(status, "vkAllocateCommandBuffers")
        return [out[n] for n in range(count)]

    def free_command_buffer(self, commands: Any) -> None:
        """Its submissions are done."""
        buffers = self.api.ffi.new("VkCommandBuffer[]", [commands])
        self.api.vk.vkFreeCommandBuffers(self.logical.handle, self._pool, 1, buffers)

    def acquire(self) -> Submission:
        """The next place of the ring, waited for if it is still in use."""
        place = self._ring[(self.serial + 1) % RING]
        self.wait(place.serial, self.timeout)
        return place

    def begin(self, commands: Any, repeated: bool = False) -> None:
        """Start recording; what was submitted before is settled first."""
        info = self._begin_repeated if repeated else self._begin_once
        self.api.check(self.api.vk.vkBeginCommandBuffer(commands, info), "vkBeginCommandBuffer")
        self.barrier(commands, self._open, COMPUTE | TRANSFER, COMPUTE | TRANSFER)

    def settle(self, commands: Any) -> None:
        """A barrier between launches."""
        self.barrier(commands, self._between, COMPUTE, COMPUTE)

    def settle_for_copy(self, commands: Any) -> None:
        """A barrier between launches and a copy of what they wrote."""
        self.barrier(commands, self._before_copy, COMPUTE, TRANSFER)

    def end(self, commands: Any) -> None:
        """Finish recording; results are visible to the host once the work is done."""
        self.barrier(commands, self._close, COMPUTE | TRANSFER, HOST)
        self.api.check(self.api.vk.vkEndCommandBuffer(commands), "vkEndCommandBuffer")

    def barrier(self, commands: Any, what: Any, before: int, after: int) -> None:
        null = self.api.ffi.NULL
        self.api.vk.vkCmdPipelineBarrier(commands, before, after, 0, 1, what, 0, null, 0, null)

    def submit(self, place: Submission, commands: Any, keep: Any) -> int:
        """Submit a command buffer through an acquired place; its serial number."""
        vk = self.api.vk
        self.api.check(vk.vkResetFences(self.logical.handle, 1, place.fences), "vkResetFences")
        self._submitted[0] = commands
        status = vk.vkQueueSubmit(self.logical.queue, 1, self._submit, place.fence)
        try:
            self.api.check(status, "vkQueueSubmit", self.logical.physical.name)
        except DriverError as error:
            raise SubmissionFailed(str(error)) from error
        self.serial += 1
        place.serial = self.serial
        place.keep.append(keep)
        return self.serial

    def wait(self, serial: int, timeout: float) -> None:
        """Until everything up to `serial` is done; DeviceTimeout, DeviceLost."""
        if serial <= self.done:
            return
        place = self._ring[serial % RING]
        if not (self._spins and self._spin(place)):
            status = self._sleep(place, timeout)
            if status == TIMEOUT:
                raise DeviceTimeout(
                    f"work outlasted the bound of {timeout:g} s",
                    where=self.logical.physical.name,
                    do="its memory is left behind; use smaller launches or a longer bound",
                )
            self.api.check(status, "vkWaitForFences", self.logical.physical.name)
        first, self.done = self.done + 1, serial
        for finished in range(max(first, serial - RING + 1), serial + 1):
            self._ring[finished % RING].keep.clear()

    def close(self) -> None:
        """All work is done."""
        self._close_ring()
        self.params.destroy()
        self.logical.destroy("vkDestroyCommandPool", self._pool)

    def _close_ring(self) -> None:
        for place in self._ring:
            self.logical.destroy("vkDestroyFence", place.fence)
            place.pool.close()

    def _sleep(self, place: Submission, timeout: float) -> int:
        """The status of a wait, in slices so that Ctrl-C is heard."""
        deadline = time.perf_counter() + timeout
        status = TIMEOUT
        while status == TIMEOUT:
            left = deadline - time.perf_counter()
            nanoseconds = int(max(0.0, min(left, SLICE_SECONDS)) * 1e9)
            status = self.api.vk.vkWaitForFences(
                self.logical.handle, 1, place.fences, 1, nanoseconds
            )
            if left <= SLICE_SECONDS:
                break
        return int(status)

    def _spin(self, place: Submission) -> bool:
        deadline = time.perf_counter() + SPIN_SECONDS
        status = _NOT_READY
        while status == _NOT_READY and time.perf_counter() < deadline:
            status = self.api.vk.vkGetFenceStatus(self.logical.handle, place.fence)
        if status != _NOT_READY:
            self.api.check(status, "vkGetFenceStatus", self.logical.physical.name)
        return status == 0

    def _make_structs(self) -> None:
        api, ffi = self.api, self.api.ffi

        def memory_barrier(before: int, after: int) -> Any:
            return api.struct(
                "VkMemoryBarrier", "MEMORY_BARRIER", srcAccessMask=before, dstAccessMask=after
            )

        self._open = memory_barrier(_WRITES, _ALL)
        self._between = memory_barrier(SHADER_WRITE, SHADER_READ | SHADER_WRITE)
        self._before_copy = memory_barrier(SHADER_WRITE, TRANSFER_READ)
        self._close = memory_barrier(_WRITES, HOST_READ)
        begin = "VkCommandBufferBeginInfo", "COMMAND_BUFFER_BEGIN_INFO"
        self._begin_once = api.struct(*begin, flags=1)
        self._begin_repeated = api.struct(*begin, flags=4)  # may be pending several times
        self._submitted = ffi.new("VkCommandBuffer[1]")
        self._submit = api.struct(
            "VkSubmitInfo", "SUBMIT_INFO", commandBufferCount=1, pCommandBuffers=self._submitted
        )
