"""Driver of wgpu devices."""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from ...bundle import Artifact
from ...device import Device
from ...faults import Words
from ...launch import Command
from ..teardown import give_back
from . import instance
from .adapters import ITEM, SUBGROUP, Adapter
from .buffers import Transfers, WgpuBuffer
from .encode import Encoder, WgpuRecording
from .faultmap import FaultMap
from .logical import Logical
from .pipelines import Pipeline, PipelineMaker
from .subgroups import subgroup_size


class WgpuDevice(Device):
    """One WGPUDevice with its queue."""

    def __init__(self, spec: str, adapter: Adapter, timeout: float, budget: int | None) -> None:
        self._instance = adapter.instance
        with ExitStack() as made:  # a call that fails undoes those before it; so does `close`
            self._logical = Logical(adapter)
            made.callback(self._logical.close)
            self._transfers = Transfers(self._logical)
            made.callback(self._transfers.close)
            self._pipelines = PipelineMaker(self._logical)
            made.callback(self._pipelines.close)
            self._map = FaultMap(self._logical)
            made.callback(self._map.close)
            nothing = WgpuBuffer(self._logical, ITEM)
            made.callback(nothing.destroy)
            self._encoder = Encoder(self._logical, self._map, nothing)
            size = None
            if SUBGROUP in adapter.features and adapter.fixed_subgroup:
                size = subgroup_size(self._logical, self._pipelines, self._transfers)
            super().__init__(spec, adapter.capabilities(spec, size), timeout)
            self._logical.timeout = self.timeout
            self._made = made.pop_all()
        self._total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._most = self._total // 2 if budget is None else budget
        self._buffers: set[WgpuBuffer] = set()
        self._recordings: set[WgpuRecording] = set()

    def _allocate(self, nbytes: int) -> WgpuBuffer:
        buffer = WgpuBuffer(self._logical, -(-nbytes // ITEM) * ITEM)
        self._buffers.add(buffer)
        return buffer

    def _release(self, handle: WgpuBuffer) -> None:
        self._buffers.discard(handle)
        handle.destroy()

    def _write(self, handle: WgpuBuffer, offset: int, data: memoryview) -> None:
        self._transfers.write(handle, offset, data)

    def _write_in_order(self, handle: WgpuBuffer, offset: int, data: bytes) -> None:
        padded = data + bytes(-len(data) % 4)  # a slot has its memory for itself
        self._transfers.put(handle, offset, padded, len(padded))

    def _read(self, handle: WgpuBuffer, offset: int, data: memoryview) -> None:
        self._transfers.read(handle, offset, data)

    def _load(self, artifact: Artifact, blob: bytes) -> Pipeline:
        return self._pipelines.load(artifact.manifest, blob, str(artifact.file))

    def _submit(self, command: Command) -> None:
        step = self._encoder.step(command)
        encoder = self._logical.encoder()
        self._encoder.run(encoder, [step])
        self._map.copy_out(encoder, self._map.span([command]))
        self._logical.submit(encoder)

    def _record(self, commands: list[Command], timed: bool) -> WgpuRecording:
        recording = WgpuRecording(self._encoder, self._transfers, commands, timed)
        self._recordings.add(recording)
        return recording

    def _replay(self, handle: WgpuRecording) -> None:
        handle.replay()

    def _drop_recording(self, handle: WgpuRecording) -> None:
        if handle in self._recordings:
            self._recordings.discard(handle)
            handle.close()

    def _rewrite_recording(self, handle: WgpuRecording, launch: int, command: Command) -> None:
        handle.rewrite(launch, command)

    def _times(self, handle: WgpuRecording) -> npt.NDArray[np.float64]:
        return handle.times()

    def _wait(self, timeout: float) -> None:
        self._logical.wait(timeout)

    def _take_faults(self, words: int) -> Words:
        return self._map.take(words)

    def _budget(self) -> tuple[int, int, bool]:
        return self._most, max(self._most, self._total), True

    def _abandon(self) -> None:
        # The driver may still run work on all of this, and wgpu-native waits without bound for
        # that, or ends the process, where a device is released: never touch it again.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        instance.leave(self._instance)

    def _close(self) -> None:
        give_back(self._recordings, self._buffers)
        self._made.close()
