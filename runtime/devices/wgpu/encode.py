"""Launches encoded into command buffers: one at a time, or as a recording.

A command buffer of WebGPU is submitted once. A recording keeps what its launches need (pipelines,
bind groups, parameter blocks) and encodes them again for each replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import LimitExceeded, StateError
from ...launch import Command, Grid, folded, parameter_block
from .adapters import ITEM
from .buffers import COPY_SOURCE, COPY_TARGET, RESOLVE, UNIFORM, Transfers, WgpuBuffer
from .faultmap import FaultMap
from .logical import Logical
from .pipelines import Pipeline, Place, bind_group, stride_of

# A submission holds at most so many launches, and so many invocations in all: a driver gives up on
# one that it finds too long, and takes only so many commands.
MOST_LAUNCHES, MOST_INVOCATIONS = 512, 1 << 30
_MOST_Z = (1 << 31) - 1  # workgroups in z; the code relies on it (backends.wgsl.guards)


class Step(NamedTuple):
    """A launch ready to be encoded. offset: a uint32_t[1] with the place of its block."""

    pipeline: Any
    group: Any
    offset: Any
    grid: Grid
    invocations: int


class Encoder:
    """Encodes launches. Shared by direct launches and recordings of one device."""

    def __init__(self, logical: Logical, faults: FaultMap, empty: WgpuBuffer) -> None:
        self.logical, self.lib, self.faults = logical, logical.lib, faults
        self._empty = empty  # what empty buffers that are written are bound to
        most = int(logical.adapter.limits.maxComputeWorkgroupsPerDimension)
        self._grid: Grid = (most, most, most)

    def step(self, command: Command) -> Step:
        """A direct launch; LimitExceeded where no grid of this device holds it."""
        pipeline: Pipeline = command.kernel.code
        grid, data = self._fold(command), parameter_block(command)
        block, at = pipeline.block(data)
        group = pipeline.group(self.places(command), block, len(data))
        return self._step(command, grid, group, at)

    def steps(
        self, launches: Sequence[Command], block: WgpuBuffer, groups: dict[Any, Any]
    ) -> Iterator[Step]:
        """The launches of a recording, with their blocks in `block`; new bind groups go into
        `groups`."""
        at = 0
        for command in launches:
            pipeline: Pipeline = command.kernel.code
            size = len(parameter_block(command))
            places = self.places(command)
            key = (id(pipeline), *((id(b), start, n) for b, start, n in places))
            if key not in groups:
                inner = len(command.bindings)
                whole = [*places[:inner], (block, 0, size), *places[inner:]]
                groups[key] = bind_group(self.logical, pipeline, whole)
            yield self._step(command, self._fold(command), groups[key], at)
            at += stride_of(size)

    def places(self, command: Command) -> list[Place]:
        """What is bound for a launch but for its parameters, in whole items: buffers are declared
        as vectors, and memory is made of whole ones."""
        found: list[Place] = []
        for b in command.bindings:
            if not b.nbytes:
                # Not the same for both: none may be bound for reading and for writing at once.
                found.append((self._empty if b.writes else b.allocation.handle, 0, ITEM))
            else:
                found.append((b.allocation.handle, b.offset, -(-b.nbytes // ITEM) * ITEM))
        if command.kernel.manifest.sites:
            found.append((self.faults.buffer, 0, self.faults.buffer.size))
        return found

    def run(self, encoder: Any, steps: Sequence[Step]) -> None:
        """Encode launches as one pass, in which each sees what those before it wrote."""
        lib, null = self.lib, self.logical.ffi.NULL
        work = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
        set_pipeline, set_group = (
            lib.wgpuComputePassEncoderSetPipeline,
            lib.wgpuComputePassEncoderSetBindGroup,
        )
        dispatch, last = lib.wgpuComputePassEncoderDispatchWorkgroups, None
        for pipeline, group, offset, (x, y, z), _ in steps:
            if pipeline is not last:
                set_pipeline(work, pipeline)
                last = pipeline
            set_group(work, 0, group, 1, offset)
            dispatch(work, x, y, z)
        lib.wgpuComputePassEncoderEnd(work)
        lib.wgpuComputePassEncoderRelease(work)

    def run_timed(self, encoder: Any, steps: Sequence[Step], queries: Any, first: int) -> None:
        """Encode launches as a pass each, which writes two timestamps from query `first` on."""
        api, lib = self.logical.api, self.lib
        for n, step in enumerate(steps):
            at = first + 2 * n
            times = api.struct(
                "WGPUPassTimestampWrites",
                querySet=queries,
                beginningOfPassWriteIndex=at,
                endOfPassWriteIndex=at + 1,
            )
            timed = api.struct("WGPUComputePassDescriptor", timestampWrites=times)
            work = lib.wgpuCommandEncoderBeginComputePass(encoder, timed)
            lib.wgpuComputePassEncoderSetPipeline(work, step.pipeline)
            lib.wgpuComputePassEncoderSetBindGroup(work, 0, step.group, 1, step.offset)
            lib.wgpuComputePassEncoderDispatchWorkgroups(work, *step.grid)
            lib.wgpuComputePassEncoderEnd(work)
            lib.wgpuComputePassEncoderRelease(work)

    def _fold(self, command: Command) -> Grid:
        where, depth = f"kernel {command.kernel.name}", command.grid[2]
        if depth > _MOST_Z:
            raise LimitExceeded("workgroups of a launch in z", _MOST_Z, depth, where, "use x or y")
        return folded(command.grid, self._grid, where)

    def _step(self, command: Command, grid: Grid, group: Any, at: int) -> Step:
        x, y, z = command.kernel.manifest.workgroup
        offset = self.logical.ffi.new("uint32_t[1]", [at])
        handle = command.kernel.code.handle
        return Step(handle, group, offset, grid, x * y * z * command.groups)


class WgpuRecording:
    """Launches with all that they refer to, encoded again for each replay."""

    def __init__(
        self, encoder: Encoder, transfers: Transfers, commands: Sequence[Command], timed: bool
    ) -> None:
        self._encoder, self._logical, self._transfers = encoder, encoder.logical, transfers
        self._lib = encoder.lib
        self.launches = list(commands)
        self._live = [n for n, c in enumerate(commands) if c.groups]
        live = [commands[n] for n in self._live]
        if timed and not self._logical.period:
            raise StateError("the adapter has no timestamps", where=self._logical.adapter.name)
        self._timed, self._replayed = timed and bool(live), False
        self._groups: dict[Any, Any] = {}
        self._queries: list[Any] = []
        self._ticks: WgpuBuffer | None = None
        blocks = [parameter_block(c) for c in live]
        room = max(16, sum(stride_of(len(b)) for b in blocks))
        self._block = WgpuBuffer(self._logical, room, UNIFORM | COPY_TARGET)
        try:
            data = b"".join(b.ljust(stride_of(len(b)), b"\0") for b in blocks)
            if data:
                transfers.put(self._block, 0, data, len(data))
            steps = list(encoder.steps(live, self._block, self._groups))
            self._offsets = [int(step.offset[0]) for step in steps]
            self._parts = list(parts(steps))
            self._spans = [encoder.faults.span(live[a:b]) for a, b, _ in self._parts]
            if self._timed:
                self._make_queries(2 * len(live))
        except BaseException:
            self.close()
            raise

    def replay(self) -> None:
        """Submit everything, in as many submissions as the budget asks for."""
        for number, ((first, _, steps), span) in enumerate(
            zip(self._parts, self._spans, strict=True)
        ):
            encoder = self._logical.encoder()
            if self._timed:
                self._encoder.run_timed(encoder, steps, self._queries[number], 0)
                self._lib.wgpuCommandEncoderResolveQuerySet(
                    encoder,
                    self._queries[number],
                    0,
                    2 * len(steps),
                    self._ticks.handle if self._ticks else self._logical.ffi.NULL,
                    self._place(first),
                )
            else:
                self._encoder.run(encoder, steps)
            self._encoder.faults.copy_out(encoder, span)
            self._logical.submit(encoder)
        self._replayed = True

    def rewrite(self, launch: int, command: Command) -> None:
        """Other scalars for later submissions."""
        if command.groups:
            number = self._live.index(launch)
            data = parameter_block(command)
            self._transfers.put(self._block, self._offsets[number], data, len(data))
        self.launches[launch] = command

    def times(self) -> npt.NDArray[np.float64]:
        """Seconds of each launch in the last submission, which is done."""
        result = np.zeros(len(self.launches))
        if self._ticks is None or not self._replayed:
            return result
        for first, end, _ in self._parts:
            ticks = np.zeros(2 * (end - first), np.uint64)
            self._transfers.read(self._ticks, self._place(first), ticks.view(np.uint8).data)
            spans = (ticks[1::2] - ticks[::2]).view(np.int64)
            result[self._live[first:end]] = np.maximum(spans, 0) * self._logical.period * 1e-9
        return result

    @staticmethod
    def _place(first: int) -> int:
        """Of the ticks of a part that begins with a launch: at a multiple of 256 bytes."""
        return first * 256

    def _make_queries(self, count: int) -> None:
        api, lib, logical = self._logical.api, self._lib, self._logical
        for first, end, _ in self._parts:
            descriptor = api.struct("WGPUQuerySetDescriptor", type=2, count=2 * (end - first))
            self._queries.append(lib.wgpuDeviceCreateQuerySet(logical.handle, descriptor))
        logical.check("wgpuDeviceCreateQuerySet")
        room = self._place(self._parts[-1][0]) + 16 * MOST_LAUNCHES
        self._ticks = WgpuBuffer(logical, room, RESOLVE | COPY_SOURCE)

    def close(self) -> None:
        """Give everything back; submitted work keeps what it needs."""
        for group in self._groups.values():
            self._lib.wgpuBindGroupRelease(group)
        for queries in self._queries:
            self._lib.wgpuQuerySetRelease(queries)
        self._groups.clear()
        self._queries.clear()
        self._block.destroy()
        if self._ticks is not None:
            self._ticks.destroy()


def parts(steps: Sequence[Step]) -> Iterator[tuple[int, int, list[Step]]]:
    """Launches by submission: the first, the one after the last, and their steps."""
    first, work = 0, 0
    for n, step in enumerate(steps):
        full = n - first >= MOST_LAUNCHES or work + step.invocations > MOST_INVOCATIONS
        if n > first and full:
            yield first, n, list(steps[first:n])
            first, work = n, 0
        work += step.invocations
    if steps:
        yield first, len(steps), list(steps[first:])
