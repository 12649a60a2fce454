"""Driver of Vulkan devices."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from ...bundle import Artifact
from ...device import Device
from ...errors import DriverError, OutOfMemory
from ...faults import Words
from ...launch import Command
from ..teardown import give_back
from . import instance
from .api import OUT_OF_MEMORY
from .buffers import VulkanBuffer
from .encode import Encoder, VulkanRecording
from .faultmap import FaultMap
from .features import PhysicalDevice
from .heap import Memory
from .logical import Logical
from .pipelines import Pipeline, PipelineMaker
from .queue import PARAMS_BYTES, Queue
from .transfers import Transfers


class VulkanDevice(Device):
    """One VkDevice with one queue. It owns one use of the process's instance."""

    def __init__(self, spec: str, physical: PhysicalDevice, timeout: float) -> None:
        super().__init__(spec, physical.capabilities(spec), timeout)
        self._instance = physical.instance
        self.api = physical.api
        with ExitStack() as made:
            self._logical = Logical(physical)
            made.callback(self._logical.close)
            self._memory = Memory(self._logical)
            made.callback(self._memory.close)
            self._queue = Queue(self._logical, self._memory)
            made.callback(self._queue.close)
            self._queue.timeout = timeout
            self._pipelines = PipelineMaker(self._logical)
            made.callback(self._pipelines.close)
            self._transfers = Transfers(self._logical, self._memory, self._queue)
            made.callback(self._transfers.close)
            self._map = FaultMap(self._logical, self._memory)
            made.callback(self._map.close)
            self._map.clear(self._queue)
            self._made = made.pop_all()  # a call that fails undoes those before it; so does `close`
        self._encoder = Encoder(self._logical, self._queue, self._map)
        self._buffers: set[VulkanBuffer] = set()
        self._recordings: set[VulkanRecording] = set()

    def _allocate(self, nbytes: int) -> VulkanBuffer:
        try:
            buffer = VulkanBuffer(self._logical, self._memory.local, nbytes)
        except DriverError as error:
            if error.code in OUT_OF_MEMORY:
                raise OutOfMemory(nbytes, 0, self.name) from error
            raise
        self._buffers.add(buffer)
        return buffer

    def _release(self, handle: VulkanBuffer) -> None:
        self._queue.wait(handle.used, self.timeout)
        self._buffers.discard(handle)
        handle.destroy()

    def _write(self, handle: VulkanBuffer, offset: int, data: memoryview) -> None:
        if handle.address:
            self._queue.wait(handle.used, self.timeout)
            handle.write(offset, data)
        else:
            self._transfers.write(handle, offset, data)

    def _write_in_order(self, handle: VulkanBuffer, offset: int, data: bytes) -> None:
        if handle.address and handle.used <= self._queue.done:
            handle.write(offset, data)
        else:
            self._transfers.update(handle, offset, data)

    def _read(self, handle: VulkanBuffer, offset: int, data: memoryview) -> None:
        if handle.address:
            handle.read(offset, data)
        else:
            self._transfers.read(handle, offset, data)

    def _load(self, artifact: Artifact, blob: bytes) -> Pipeline:
        return self._pipelines.make(artifact.manifest, blob, str(artifact.file))

    def _submit(self, command: Command) -> None:
        if len(command.kernel.params) * 16 > PARAMS_BYTES - 64:
            # More parameters than a place of the ring holds: a recording has its own block.
            recording = VulkanRecording(self._encoder, self._memory, [command], timed=False)
            self._recordings.add(recording)
            self._replay(recording)
            self._queue.wait(recording.serial, self.timeout)
            self._drop_recording(recording)
            return
        self._encoder.fold(command)
        place = self._queue.acquire()
        place.pool.reset(command.kernel.code.descriptors)
        self._queue.begin(place.commands)
        self._encoder.dispatch(
            place.commands, command, place.pool, self._queue.params, place.params_offset
        )
        self._map.copy_out(self._queue, place.commands, [command])
        self._queue.end(place.commands)
        serial = self._queue.submit(place, place.commands, command)
        for binding in command.bindings:
            binding.allocation.handle.used = serial

    def _record(self, commands: list[Command], timed: bool) -> VulkanRecording:
        recording = VulkanRecording(self._encoder, self._memory, commands, timed)
        self._recordings.add(recording)
        return recording

    def _replay(self, handle: VulkanRecording) -> None:
        place = self._queue.acquire()
        handle.note_use(self._queue.submit(place, handle.buffer, handle))

    def _drop_recording(self, handle: VulkanRecording) -> None:
        self._queue.wait(handle.serial, self.timeout)
        if handle in self._recordings:
            self._recordings.discard(handle)
            handle.close()

    def _rewrite_recording(self, handle: VulkanRecording, launch: int, command: Command) -> None:
        handle.rewrite(launch, command)

    def _times(self, handle: VulkanRecording) -> npt.NDArray[np.float64]:
        return handle.times()

    def _wait(self, timeout: float) -> None:
        self._queue.wait(self._queue.serial, timeout)

    def _take_faults(self, words: int) -> Words:
        return self._map.take(words, self._queue)

    def _budget(self) -> tuple[int, int, bool]:
        return self._memory.budget(self._live)

    def _abandon(self) -> None:
        # The driver may still run work on all of this: never destroy it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        instance.leave(self._instance)

    def _close(self) -> None:
        give_back(self._recordings, self._buffers)
        self._made.close()
        instance.release(self._instance)
