"""Replaying on the cpu through the emitted loop: one foreign call per worker.

The loop is an artifact like any other, found in the bundle from which kernels are loaded
(`ir.replay_abi` says what it promises). Without it a recording runs stage by stage.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence

from ....ir.replay_abi import CONTROL_BYTES, MAX_GROUPS, WAITING, command
from ..host_memory import HostMemory
from .library import Library
from .stages import LaunchStage, ScratchMemory

_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_uint64,
)
SPINS = 2000  # a worker without work spins this often before it sleeps
SLEEP_SECONDS = 50e-6
TRY_ALONE_SECONDS = 2e-3  # up to this time on all workers, one worker alone is tried as well


class ReplayLoop:
    """The loaded loop."""

    def __init__(self, library: Library, entry: str) -> None:
        self.library = library
        self.function = _ENTRY(library.address(entry))


def can_replay(stages: Sequence[LaunchStage]) -> bool:
    """Whether the loop takes these launches."""
    return bool(stages) and all(s.groups <= MAX_GROUPS for s in stages)


class ReplayStage:
    """A whole recording as one stage.

    Many small launches are fastest on one worker, large ones on all: both are measured.
    """

    def __init__(
        self, loop: ReplayLoop, stages: Sequence[LaunchStage], scratch: ScratchMemory, workers: int
    ) -> None:
        self._loop, self._stages, self._scratch = loop, stages, scratch
        records = [
            command(
                s.code.address,
                s.args,
                s.groups,
                min(max(1, s.groups // (workers * 64)), MAX_GROUPS >> 8),
            )
            for s in stages
        ]
        self._commands = ctypes.create_string_buffer(b"".join(records))
        self._address = ctypes.addressof(self._commands)
        self._control = HostMemory.allocate(CONTROL_BYTES)
        self._count = len(stages)
        self._scratch_bytes = max(s.code.scratch_bytes for s in stages)
        self._most = min(workers, max(s.groups for s in stages))
        self._workers = self._most
        self._seconds: dict[int, float] = {}  # number of workers -> best time so far

    @property
    def predicted_alone(self) -> float | None:
        """Seconds on one worker, where that is known and the best choice."""
        return self._seconds.get(1) if self._choose() == 1 else None

    def begin(self) -> int:
        """Clear the control block; how many workers the recording is worth."""
        self._control.bytes[:] = 0
        self._workers = self._choose()
        return self._workers

    def work(self, worker: int) -> None:
        """Help until all launches are done."""
        scratch = self._scratch.address(worker, self._scratch_bytes)
        call, commands, count = self._loop.function, self._address, self._count
        control, workers = self._control.address, self._workers
        begin = time.perf_counter()
        while call(commands, count, control, scratch, workers, SPINS) == WAITING:
            time.sleep(SLEEP_SECONDS)
        if worker == 0:
            self._note(workers, time.perf_counter() - begin)

    def run_alone(self, worker: int) -> None:
        """Run everything on the calling thread in one call."""
        scratch = self._scratch.address(worker, self._scratch_bytes)
        begin = time.perf_counter()
        self._loop.function(self._address, self._count, self._control.address, scratch, 1, SPINS)
        self._note(1, time.perf_counter() - begin)

    def _choose(self) -> int:
        if self._most == 1:
            return 1
        many = self._seconds.get(self._most)
        if many is None:
            return self._most
        alone = self._seconds.get(1)
        if alone is None:
            return 1 if many < TRY_ALONE_SECONDS else self._most
        return 1 if alone <= many else self._most

    def _note(self, workers: int, seconds: float) -> None:
        # The best time is what the choice needs; it may only rise slowly, if launches got longer.
        before = self._seconds.get(workers, seconds)
        self._seconds[workers] = min(seconds, before + (seconds - before) / 16)
