"""Driver of AMD GPUs: HSA queues, without HIP."""

from __future__ import annotations

import contextlib
import ctypes

import numpy as np
import numpy.typing as npt

from ...bundle import Artifact
from ...device import Device
from ...faults import Words
from ...launch import Command
from ..parameters import manifest_of
from . import agents, events
from .agents import Agent
from .api import Api
from .code import Code
from .faultmap import FaultMap
from .memory import Heap, HostMemory, HsaMemory
from .packets import AGENT, DIMENSIONS, DISPATCH, SYSTEM, header
from .physical import capabilities, most_items, pool_of
from .queue import Queue
from .recording import HsaRecording
from .signals import Signals
from .staging import SEGMENTS, Ring, Transfers

RING_PACKETS = 4096
KERNARG_BYTES = 1 << 18  # of a segment of the parameters of direct launches
_HEAD = header(DISPATCH, True, SYSTEM, AGENT) | DIMENSIONS


class HsaDevice(Device):
    """One agent with one queue. The library is this device's to let go of."""

    def __init__(
        self, spec: str, api: Api, everyone: list[Agent], agent: Agent, timeout: float
    ) -> None:
        pools = agents.pools(api, agent)
        super().__init__(spec, capabilities(api, agent, pools, spec), timeout)
        self.api, self.agent = api, agent
        cpu = agents.cpu_of(api, agent, everyone)
        host = agents.pools(api, cpu)
        coarse = pool_of(pools, agents.COARSE, "memory of the device")
        fine = pool_of(host, agents.FINE, "host memory for the device")
        self._parameter_pool = pool_of(host, agents.KERNARG, "memory for kernel parameters")
        self._total = coarse.nbytes
        least = agents.ask(api, agent.handle, agents.QUEUE_MIN)
        most = agents.ask(api, agent.handle, agents.QUEUE_MAX)
        with contextlib.ExitStack() as made:
            self._signals = Signals(api, spec)
            made.callback(self._signals.close)
            size = max(least, min(RING_PACKETS, most))
            self._queue = Queue(api, agent.handle, size, self._signals, spec, timeout)
            made.callback(self._queue.close)
            events.watch(api, self._queue)
            made.callback(events.forget, self._queue)
            parameters = HostMemory(
                api, self._parameter_pool, agent.handle, SEGMENTS * KERNARG_BYTES, spec
            )
            made.callback(parameters.close)
            self._parameters = Ring(self._queue, parameters)
            self._heap = Heap(api, agent.handle, coarse, self._queue)
            self._transfers = Transfers(api, self._queue, fine, cpu.handle)
            self._map = FaultMap(api, self._heap, self._queue, self._transfers, fine, cpu.handle)
            made.pop_all()
        self._most = most_items(api, agent)
        self._codes: list[Code] = []
        self._recordings: set[HsaRecording] = set()

    def _allocate(self, nbytes: int) -> HsaMemory:
        return self._heap.allocate(nbytes, self.name)

    def _release(self, handle: HsaMemory) -> None:
        self._heap.release(handle)

    def _write(self, handle: HsaMemory, offset: int, data: memoryview) -> None:
        self._transfers.write(handle.address + offset, data)

    def _write_in_order(self, handle: HsaMemory, offset: int, data: bytes) -> None:
        self._transfers.write(handle.address + offset, data)

    def _read(self, handle: HsaMemory, offset: int, data: memoryview) -> None:
        self._transfers.read(handle.address + offset, data)

    def _load(self, artifact: Artifact, blob: bytes) -> Code:
        if artifact.manifest.sites:
            self._map.prepare()
        where = str(artifact.file)
        with manifest_of(where, "HSA"):
            code = Code(self.api, self.agent.handle, artifact.manifest, blob, where, self._most)
        self._codes.append(code)
        return code

    def _submit(self, command: Command) -> None:
        code: Code = command.kernel.code
        if code.sited:
            self._map.dirty = True
        ring = self._parameters
        at = ring.take(code.kernarg_bytes)
        grid = code.fill(command, self._map.address, ring.memory.bytes, at)
        self._queue.launch(_HEAD, code.body(grid, ring.memory.address + at))

    def _record(self, commands: list[Command], timed: bool) -> HsaRecording:
        recording = HsaRecording(
            self.api, self._queue, self._parameter_pool, self._map.address, commands, timed
        )
        self._recordings.add(recording)
        return recording

    def _replay(self, handle: HsaRecording) -> None:
        if handle.sited:
            self._map.dirty = True
        handle.replay()

    def _drop_recording(self, handle: HsaRecording) -> None:
        if handle in self._recordings:
            self._recordings.discard(handle)
            self._heap.later(handle.close, handle.nbytes)

    def _rewrite_recording(self, handle: HsaRecording, launch: int, command: Command) -> None:
        handle.rewrite(launch, command)

    def _times(self, handle: HsaRecording) -> npt.NDArray[np.float64]:
        return handle.times()

    def _wait(self, timeout: float) -> None:
        self._map.copy_out(self._faults.words)
        self._queue.wait(timeout)
        self._heap.settle()

    def _take_faults(self, words: int) -> Words:
        return self._map.take(words)

    def _budget(self) -> tuple[int, int, bool]:
        free = self._heap.free()
        if free is None:  # an older release
            return self._total, self._total, True
        return self._live + free, self._total, False

    def _abandon(self) -> None:
        # Pending work may touch all of this, and the library call back: never give it back.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _close(self) -> None:
        self._queue.wait(self.timeout)  # for copies that cleared the fault bitmap
        with contextlib.ExitStack() as rest:  # all of it, whatever fails
            rest.callback(self.api.close)
            rest.callback(self._signals.close)
            rest.callback(self._queue.close)
            rest.callback(events.forget, self._queue)
            rest.callback(self._parameters.memory.close)
            rest.callback(self._heap.close)
            rest.callback(self._map.close)
            rest.callback(self._transfers.close)
            for code in self._codes:
                rest.callback(code.close)
            for recording in self._recordings:
                rest.callback(recording.close)
            rest.callback(self._heap.settle)
        self._codes.clear()
        self._recordings.clear()
