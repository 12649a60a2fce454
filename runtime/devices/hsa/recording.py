"""Recordings as blocks of packets, made once: to replay one is to copy it into the ring.

Parameters lie in a block of their own. A packet waits for those before it only where a hazard says
so; the last one of the recording waits for all, lets the host see the results and counts the
queue's counter down. Where the last launch may overlap with earlier ones, that is a packet of its
own.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...hazards import HazardTracker
from ...launch import Command
from . import packets
from .agents import Pool
from .api import Api
from .memory import HostMemory
from .packets import AGENT, DIMENSIONS, DISPATCH, DISPATCH_BODY, FENCE, INVALID, SYSTEM
from .queue import Heads, Queue

_COUNTER = 1 << 48  # what signals of timed launches begin with; nobody waits for them


class Block(NamedTuple):
    """Packets that are published together. image: all of them INVALID; heads: their first words.
    counts: its last packet is the recording's."""

    image: ctypes.Array[ctypes.c_char]
    address: int
    heads: Heads
    counts: bool


class _Times(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint64), ("end", ctypes.c_uint64))


class HsaRecording:
    """sited: a launch of it has fault sites. replayed: at least once."""

    def __init__(
        self,
        api: Api,
        queue: Queue,
        pool: Pool,
        faults: int,
        commands: Sequence[Command],
        timed: bool,
    ) -> None:
        self._api, self._queue, self._faults = api, queue, faults
        self.launches = list(commands)
        self.sited = any(c.kernel.code.sited for c in commands if c.groups)
        self.replayed = False
        self._signals: dict[int, int] = {}  # of each timed launch
        self._places: dict[int, int] = {}  # of each launch's parameters
        size = 0
        for n, command in enumerate(commands):
            if command.groups:
                self._places[n] = size
                size += (command.kernel.code.kernarg_bytes + 63) & ~63
        self._kernargs = HostMemory(api, pool, queue.agent, size, queue.name) if size else None
        self.nbytes = size
        self.blocks: list[Block] = []
        try:
            if timed:
                queue.profile()
                self._signals = {n: queue.signals.make(_COUNTER) for n in self._places}
            self._build(timed)
        except BaseException:
            self.close()
            raise

    def replay(self) -> None:
        """Submit everything."""
        put = self._queue.put
        for block in self.blocks:
            put(block.address, block.heads, block.counts)
        self.replayed = True

    def rewrite(self, launch: int, command: Command) -> None:
        """Other scalars for later replays; none is pending."""
        if launch in self._places:
            self._put_parameters(launch, command)
        self.launches[launch] = command

    def times(self) -> npt.NDArray[np.float64]:
        """Seconds of each launch in the last replay, which is done."""
        result = np.zeros(len(self.launches))
        if self.replayed:
            found = _Times()
            for launch, signal in self._signals.items():
                self._api.call(
                    "hsa_amd_profiling_get_dispatch_time",
                    self._queue.agent,
                    signal,
                    ctypes.byref(found),
                )
                result[launch] = (found.end - found.start) / self._queue.signals.frequency
        return result

    def close(self) -> None:
        """No replay is pending."""
        with contextlib.ExitStack() as rest:  # all of it, whatever fails
            for signal in self._signals.values():
                rest.callback(self._queue.signals.drop, signal)
            if self._kernargs is not None:
                rest.callback(self._kernargs.close)
            self._signals, self._kernargs = {}, None

    def _put_parameters(self, launch: int, command: Command) -> tuple[int, ...]:
        """Fill in a launch's parameters; the body of its packet."""
        assert self._kernargs is not None
        at, code = self._places[launch], command.kernel.code
        grid = code.fill(command, self._faults, self._kernargs.bytes, at)
        signal = self._signals.get(launch, 0)
        body: tuple[int, ...] = code.body(grid, self._kernargs.address + at, signal)
        return body

    def _build(self, timed: bool) -> None:
        hazards = HazardTracker()
        made: list[tuple[int, bytes]] = []
        for n in self._places:
            command = self.launches[n]
            # The first is ordered behind what came before the recording. Timed launches do not
            # overlap: each would be charged with its neighbours' time.
            waits = hazards.barrier_before(command.bindings) or timed or not made
            head = packets.header(DISPATCH, waits, AGENT, AGENT) | DIMENSIONS
            made.append((head, DISPATCH_BODY.pack(*self._put_parameters(n, command))))
        if not made:
            return
        head, body = made[-1]
        if head & packets.BARRIER and not timed:
            body = body[: packets.SIGNAL - 4] + self._queue.counter.to_bytes(8, "little")
            made[-1] = packets.header(DISPATCH, True, AGENT, SYSTEM) | DIMENSIONS, body
        else:
            made.append((FENCE, packets.barrier_body(0, self._queue.counter)))
        # Of a recording that is longer than the ring, half a ring at a time runs while the next
        # half is written.
        most = self._queue.size if len(made) <= self._queue.size else self._queue.size // 2
        for start in range(0, len(made), most):
            part = made[start : start + most]
            self.blocks.append(_block(part, start + len(part) == len(made)))


def _block(part: list[tuple[int, bytes]], counts: bool) -> Block:
    """Packets that are published together: the first one sees what the host has written."""
    heads = np.array([head for head, _ in part], np.uint32)
    heads[0] = packets.acquiring(part[0][0], SYSTEM)
    text = b"".join(INVALID.to_bytes(4, "little") + body for _, body in part)
    image = ctypes.create_string_buffer(text, len(text))
    return Block(image, ctypes.addressof(image), heads, counts)
