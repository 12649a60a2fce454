"""What `cpu` and `interp` share: host memory, worker threads, recordings as lists of stages."""

from __future__ import annotations

import ctypes
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.targets import Capabilities, Limits
from ..device import Device
from ..errors import DeviceTimeout, OutOfMemory, SubmissionFailed
from ..faults import WORDS, Words
from ..launch import MAX_GROUPS, Command
from ..memory import GRANULE, Array
from .executor import Executor, LaunchingStage, Stage
from .host_memory import HostMemory, available_bytes, physical_bytes

# The system is asked for its memory again after this many live bytes, or this time.
_BUDGET_STEP, _BUDGET_SECONDS = 1 << 24, 0.05


def host_limits(buffer_bytes: int) -> Limits:
    """Limits of code that runs in this process: sizes that no machine reaches."""
    return Limits(
        workgroup_invocations=1 << 16,
        workgroup_size=(1 << 16, 1 << 16, 1 << 16),
        grid=(MAX_GROUPS, MAX_GROUPS, MAX_GROUPS),
        shared_bytes=1 << 24,
        buffer_bytes=buffer_bytes,
        binding_bytes=buffer_bytes,
        buffers=1 << 10,
    )


@dataclass(slots=True)
class Recorded:
    """A recording. launches: one stage per launch, None where it has no workgroup. whole: one
    stage for all of them, where the device has such. times: seconds in the last replay."""

    launches: list[LaunchingStage | None]
    timed: bool
    whole: Stage | None = None
    times: list[float] = field(default_factory=list)

    def job(self) -> list[Stage]:
        """What a replay runs."""
        return [s for s in self.launches if s] if self.whole is None else [self.whole]


class WriteStage:
    """A few bytes written in queue order."""

    def __init__(self, memory: HostMemory, offset: int, data: bytes) -> None:
        self._memory, self._offset, self._data = memory, offset, data

    def begin(self) -> int:
        return 1

    def work(self, worker: int) -> None:
        self._memory.write(self._offset, memoryview(self._data))


class HostDevice(Device):
    """A device whose memory is the process's own and whose work runs on `workers` threads."""

    def __init__(self, spec: str, caps: Capabilities, timeout: float, workers: int) -> None:
        super().__init__(spec, caps, timeout)
        self.workers = workers
        self._executor = Executor(workers)
        self._bitmap = np.zeros(WORDS, np.uint32)
        self._available, self._available_at = available_bytes(), 0
        self._asked = time.monotonic()

    @abstractmethod
    def _stage(self, command: Command) -> LaunchingStage:
        """One launch as work for the executor; it keeps the buffers alive."""

    def _allocate(self, nbytes: int) -> HostMemory:
        try:
            return HostMemory.allocate(nbytes)
        except MemoryError as error:
            raise OutOfMemory(nbytes, available_bytes(), self.name) from error

    def _release(self, handle: HostMemory) -> None:
        pass  # numpy owns it; pending stages hold what they use

    def _adopt(self, array: Array) -> HostMemory | None:
        return None if array.ctypes.data % GRANULE else HostMemory.of(array)

    def _write(self, handle: HostMemory, offset: int, data: memoryview) -> None:
        self._wait(self.timeout)
        handle.write(offset, data)

    def _write_in_order(self, handle: HostMemory, offset: int, data: bytes) -> None:
        stage = WriteStage(handle, offset, data)
        if self._executor.idle:
            stage.work(0)
        else:
            self._executor.submit([stage])

    def _read(self, handle: HostMemory, offset: int, data: memoryview) -> None:
        handle.read(offset, data)

    def _submit(self, command: Command) -> None:
        self._executor.submit([self._stage(command)])

    def _record(self, commands: list[Command], timed: bool) -> Recorded:
        return Recorded([self._stage(c) if c.groups else None for c in commands], timed)

    def _replay(self, handle: Any) -> None:
        job = handle.job()
        handle.times = [0.0] * len(job)
        self._executor.submit(job, handle.times if handle.timed else None)

    def _drop_recording(self, handle: Any) -> None:
        pass  # queued jobs hold their stages

    def _rewrite_recording(self, handle: Any, launch: int, command: Command) -> None:
        stage = handle.launches[launch]
        if stage is not None:
            stage.rewrite(command)

    def _times(self, handle: Any) -> npt.NDArray[np.float64]:
        times = iter(handle.times)
        return np.array([0.0 if s is None else next(times, 0.0) for s in handle.launches])

    def _wait(self, timeout: float) -> None:
        if not self._executor.wait(timeout):
            raise DeviceTimeout(
                f"a launch outlasted the bound of {timeout:g} s",
                where=self.name,
                do="its threads and buffers are left behind; launch less at once or wait longer",
            )
        if self._executor.error is not None:
            raise SubmissionFailed(
                f"a worker failed: {self._executor.error!r}", where=self.name
            ) from self._executor.error

    def _take_faults(self, words: int) -> Words:
        taken = self._bitmap[:words].copy()
        self._bitmap[:words] = 0
        return taken

    def _budget(self) -> tuple[int, int, bool]:
        moved = abs(self._live - self._available_at)
        if moved > _BUDGET_STEP or time.monotonic() > self._asked + _BUDGET_SECONDS:
            self._available, self._available_at = available_bytes(), self._live
            self._asked = time.monotonic()
        return self._available + self._available_at, physical_bytes(), False

    def _abandon(self) -> None:
        # Threads may still write to buffers, scratch and bitmap: keep all of it for good.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _close(self) -> None:
        self._executor.stop()
