"""A launch on the cpu device: workers share out its workgroups."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....ir.abi import cpu_words
from ...launch import Command
from ..host_memory import HostMemory
from .library import ENTRY, Library

INLINE_SECONDS = 100e-6  # up to this predicted time a launch runs on the calling thread
SHARE_SECONDS = 80e-6  # from this predicted time on, more than one worker pays


@dataclass(slots=True)
class Code:
    """A loaded kernel: its function, and the longest time a workgroup took so far, if known."""

    library: Library
    address: int
    function: Callable[..., None]
    scratch_bytes: int
    seconds_per_group: float | None = None

    @staticmethod
    def of(library: Library, entry: str, scratch_bytes: int) -> Code:
        address = library.address(entry)
        return Code(library, address, ENTRY(address), scratch_bytes)


class ScratchMemory:
    """One growing block per worker; only the worker itself asks for its own."""

    def __init__(self, workers: int) -> None:
        self._blocks: list[HostMemory | None] = [None] * workers

    def address(self, worker: int, nbytes: int) -> int:
        """Memory of at least `nbytes`; 0 where none is needed."""
        if not nbytes:
            return 0
        block = self._blocks[worker]
        if block is None or len(block.bytes) < nbytes:
            block = self._blocks[worker] = HostMemory.allocate(nbytes)
        return block.address


def argument_words(command: Command, fault_address: int) -> ctypes.Array[Any]:
    """The argument array of a launch; it must live as long as the launch."""
    blob = cpu_words(
        [b.allocation.handle.address + b.offset for b in command.bindings],
        command.scalars,
        command.counts,
        fault_address,
        command.fault_base,
        command.grid,
    )
    return (ctypes.c_uint64 * (len(blob) // 8)).from_buffer_copy(blob)


class LaunchStage:
    """One launch; workers take runs of workgroups until none is left. It runs once at a time."""

    def __init__(
        self, command: Command, fault_address: int, scratch: ScratchMemory, workers: int
    ) -> None:
        self.command = command  # keeps the buffers alive
        self.code: Code = command.kernel.code
        self._fault_address = fault_address
        self._words = argument_words(command, fault_address)
        self.args = ctypes.addressof(self._words)
        self._scratch = scratch
        self.groups = command.groups
        self._workers = min(workers, self.groups)
        self._grain = max(1, self.groups // (self._workers * 64))
        self._next = itertools.count()

    @property
    def predicted(self) -> float | None:
        """Seconds on one worker, if the kernel has run before."""
        each = self.code.seconds_per_group
        return None if each is None else each * self.groups

    def begin(self) -> int:
        """Start over at the first workgroup; how many workers the launch is worth."""
        self._next = itertools.count(0, self._grain)
        predicted = self.predicted
        return 1 if predicted is not None and predicted < SHARE_SECONDS else self._workers

    def rewrite(self, command: Command) -> None:
        """Other scalars for later runs; the argument array stays where it is."""
        self.command = command
        self._words[:] = argument_words(command, self._fault_address)[:]

    def work(self, worker: int) -> None:
        """Run workgroups until none is left."""
        scratch = self._scratch.address(worker, self.code.scratch_bytes)
        function, args, groups, grain = self.code.function, self.args, self.groups, self._grain
        start, done = time.perf_counter(), 0
        for first in self._next:
            if first >= groups:
                break
            last = min(first + grain, groups)
            function(args, first, last, scratch)
            done += last - first
        if done:
            self._note((time.perf_counter() - start) / done)

    def run_alone(self, worker: int) -> None:
        """Run all workgroups on the calling thread in one call."""
        scratch = self._scratch.address(worker, self.code.scratch_bytes)
        start = time.perf_counter()
        self.code.function(self.args, 0, self.groups, scratch)
        self._note((time.perf_counter() - start) / self.groups)

    def _note(self, each: float) -> None:
        before = self.code.seconds_per_group or 0.0
        # Slow to forget: a kernel whose time depends on its data is judged by its long runs.
        self.code.seconds_per_group = max(each, before + (each - before) / 16)
