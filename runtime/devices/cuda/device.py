"""Driver of CUDA devices."""

from __future__ import annotations

import contextlib
import ctypes
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...bundle import Artifact
from ...device import Device
from ...faults import Words
from ...launch import Command, LoadedKernel
from ...life import entry
from ...memory import Buffer
from .api import Api
from .context import Beside, Context, HasContext, current
from .dlpack import CUDA
from .extended import FACTS, ExtendedCode
from .faultmap import FaultMap
from .graph import CudaRecording
from .interop import Shared
from .memory import CudaMemory, Heap
from .modules import Code, manifest_of
from .physical import capabilities
from .queue import Queue
from .remains import Remains
from .transfers import Transfers

if TYPE_CHECKING:
    from ...binder import Direct


class CudaDevice(HasContext, Device):
    """A use of a device's primary context, with one stream of its own."""

    def __init__(self, spec: str, api: Api, ordinal: int, timeout: float) -> None:
        device = api.call("cuDeviceGet", ordinal)
        super().__init__(spec, capabilities(api, device, spec), timeout)
        self.api, self.ordinal = api, ordinal
        self._context, self._beside = Context(api, ordinal), Beside(api)
        with contextlib.ExitStack() as undo:
            undo.callback(self._context.release)
            with self._context, self._beside, contextlib.ExitStack() as made:
                self._queue = Queue(api, spec, timeout)
                made.callback(self._queue.close)
                self._heap = Heap(api, ordinal, device, self._queue)
                made.callback(self._heap.close)
                self._transfers = Transfers(api, self._queue)
                self._map = FaultMap(api, self._heap, self._queue)
                made.pop_all()
            undo.pop_all()
        self._total = self.capabilities.limits.buffer_bytes
        self._codes: list[Code] = []
        self._counter: CudaMemory | None = None
        self._recordings: set[CudaRecording] = set()
        self._shared = Shared(self)
        self._remains: Remains | None = None

    @property
    def stream(self) -> int:
        """The handle of the device's stream, for other users of the device in this process."""
        return int(self._queue.stream)

    @entry
    @current
    def order_after(self, stream: int) -> None:
        """What is submitted from now on waits for what a stream of another library holds now.

        For arrays that were handed over before. `stream`: its handle, 0 for the default stream.
        """
        self._queue.after(stream)

    @entry
    @current
    def order_before(self, stream: int) -> None:
        """What a stream of another library is given from now on waits for all submitted work.

        After launches and replays that write its arrays: nothing else makes it wait.
        """
        self._queue.before(stream)

    @current
    def _allocate(self, nbytes: int) -> CudaMemory:
        return self._heap.allocate(nbytes, self.name)

    def _address(self, handle: CudaMemory) -> int:
        return handle.address

    @current
    def _release(self, handle: CudaMemory) -> None:
        if handle.keep is not None:
            self._shared.release(handle)
            return
        if handle.shared:
            self._shared.forget(handle)
        else:
            self._heap.release(handle)

    @current
    def _write(self, handle: CudaMemory, offset: int, data: memoryview) -> None:
        self._transfers.write(handle.address + offset, data)

    @current
    def _write_in_order(self, handle: CudaMemory, offset: int, data: bytes) -> None:
        self._transfers.write(handle.address + offset, data)

    @current
    def _read(self, handle: CudaMemory, offset: int, data: memoryview) -> None:
        self._transfers.read(handle.address + offset, data)

    @current
    def _load(self, artifact: Artifact, blob: bytes) -> Code:
        if artifact.manifest.sites:
            self._map.prepare()
        grid = self.capabilities.limits.grid
        where, manifest = str(artifact.file), artifact.manifest
        several = int(self.capabilities.facts["multiprocessors"])
        with manifest_of(where):
            if any(name in manifest.facts for name in FACTS):
                code: Code = ExtendedCode(
                    self.api, manifest, blob, where, grid, several, self._grid_counter
                )
            else:
                code = Code(self.api, manifest, blob, where, grid)
        self._codes.append(code)
        return code

    def _grid_counter(self) -> int:
        """The word that barriers of the grid count in; each launch leaves it as it must be."""
        if self._counter is None:
            counter = self._heap.allocate(4, self.name)
            self.api.call("cuMemsetD32Async", counter.address, 0, 1, self._queue.stream)
            self._queue.busy = True
            self._counter = counter
        return self._counter.address

    def _direct(self, kernel: LoadedKernel) -> Direct:
        from .direct import direct_way  # not for those who only call with arrays

        way = direct_way(self, kernel) if type(kernel.code) is Code else None
        return way or super()._direct(kernel)

    def _submit(self, command: Command) -> None:
        code: Code = command.kernel.code
        if code.sited:
            self._map.dirty = True
        context = self._context
        if context.now() == context.here and get_ident() in context.threads:
            code.launch(command, self._map.address, self._queue)
            return
        with context:
            code.launch(command, self._map.address, self._queue)

    @current
    def _record(self, commands: list[Command], timed: bool) -> CudaRecording:
        recording = CudaRecording(self.api, self._queue, self._map.address, commands, timed)
        self._recordings.add(recording)
        return recording

    def _replay(self, handle: CudaRecording) -> None:
        if handle.exec is None:
            return
        self._queue.busy = handle.replayed = True
        if handle.sited:
            self._map.dirty = True
        with self._context:
            (status,) = self.api.drv.cuGraphLaunch(handle.exec, self._queue.stream)
        if status:
            raise self.api.error(status, "cuGraphLaunch", self.name)

    @current
    def _drop_recording(self, handle: CudaRecording) -> None:
        if handle in self._recordings:
            self._recordings.discard(handle)
            handle.close()

    @current
    def _rewrite_recording(self, handle: CudaRecording, launch: int, command: Command) -> None:
        handle.rewrite(launch, command)

    @current
    def _times(self, handle: CudaRecording) -> npt.NDArray[np.float64]:
        return handle.times()

    @current
    def _wait(self, timeout: float) -> None:
        self._map.copy_out(self._faults.words)
        self._queue.wait(timeout)
        self._shared.part()
        self._heap.trim()

    @current
    def _take_faults(self, words: int) -> Words:
        return self._map.take(words)

    @current
    def _budget(self) -> tuple[int, int, bool]:
        return self._live + self._heap.free(), self._total, False

    @current
    def _foreign(self, value: Any, where: str) -> Buffer | None:
        self._collect()
        return self._shared.adopt(value, where)

    @entry
    @current
    def _give(self, buffer: Buffer, stream: int | None) -> Any:
        return self._shared.give(buffer, stream)

    def taker_is_done(self) -> None:
        """A capsule of the device's memory has ended."""
        if self._remains is not None:
            self._remains.taker_is_done()

    def _place(self) -> tuple[int, int]:
        return CUDA, self.ordinal

    @entry
    def _interface(self, buffer: Buffer) -> dict[str, Any]:
        return self._shared.interface(buffer)

    def _abandon(self) -> None:
        # The driver may still run work on all of this: never give it back.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _close(self) -> None:
        with self._context, self._beside:
            for recording in self._recordings:
                recording.close()
            self._recordings.clear()
            self._queue.wait(self.timeout)
            self._shared.part()
            self._transfers.close()
            self._map.close()
            for code in self._codes:
                code.close()
            self._codes.clear()
            remains = Remains(self)
            used = remains.memory
            self._shared.forget_all(m for m in self._heap.shared() if m not in used)
            self._heap.empty(but=used)
            self._queue.wait(self.timeout)
        self._remains = remains
        remains.settle()  # takers may have been done meanwhile
