"""mbarriers: phases that end when arrivals and bytes of copies have come.

A phase is over when all arrivals and all announced bytes have come. What a copy reads is taken at
once and put down when somebody waits for its mbarrier; touching the destination in between is
reported, as for `copies`. The watch for races knows barriers of whole workgroups only and is off
in kernels that have these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..core import Op, Value
from .frame import Array, Frame, widen
from .memory import Memory
from .report import ProblemKind, Recorder
from .values import int_attr

if TYPE_CHECKING:
    from .machine import Machine


@dataclass(slots=True)
class Barriers:
    """The mbarriers of one array, by cell."""

    count: Array
    missing: Array
    phase: Array
    bytes: Array


@dataclass(slots=True)
class Bulk:
    """A copy on its way: what it brings, and the mbarrier that it tells."""

    memory: Memory
    cells: Array
    values: Array
    barriers: Barriers
    cell: int
    bytes: int


@dataclass(slots=True)
class Store:
    """A copy from a workgroup array, done at the wait that covers it: who writes the array before
    spoils it."""

    op: Op
    lane: int
    group: int
    move: Callable[[], None]


@dataclass(slots=True)
class State:
    """Of one machine. committed: groups of stores, by invocation."""

    committed: Array
    barriers: dict[int, Barriers] = field(default_factory=dict)
    bulks: list[Bulk] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    def finish(self, recorder: Recorder) -> None:
        """Report stores that nothing has waited for, and do them."""
        for store in self.stores:
            text = "the kernel ends while a bulk or tensor store is on its way; use nv.bulk_wait()"
            recorder.add(ProblemKind.PENDING_COPY, store.op, 1, said(text))
            store.move()


def said(text: str) -> Callable[[], str]:
    return lambda: text


def numbers(frame: Frame, value: Value) -> Array:
    return widen(frame.get(value.id), frame.size).astype(np.int64)


def barrier_place(machine: Machine, frame: Frame, op: Op, at: int = 0) -> tuple[Barriers, Array]:
    """The mbarriers, and the cell of each invocation."""
    memory = machine.memories[op.operands[at].id]
    index = numbers(frame, op.operands[at + 1])
    out = (index < 0) | (index >= memory.count)
    if out.any():
        first = int(np.flatnonzero(out)[0])
        text = f"mbarrier {int(index[first])} of {memory.count}, by invocation "
        text += machine.describe(frame, first)
        machine.recorder.add(ProblemKind.OUT_OF_BOUNDS, op, int(out.sum()), said(text))
        index = np.where(out, 0, index)
    key = op.operands[at].id
    found = machine.mbarriers.barriers.get(key)
    if found is None:
        found = Barriers(*(np.zeros(memory.data.size, np.int64) for _ in range(4)))
        machine.mbarriers.barriers[key] = found
    return found, index + memory.base(machine, frame)


def init(machine: Machine, frame: Frame, op: Op) -> None:
    barriers, cells = barrier_place(machine, frame, op)
    barriers.count[cells] = barriers.missing[cells] = numbers(frame, op.operands[2])
    barriers.phase[cells] = barriers.bytes[cells] = 0


def _settle(barriers: Barriers) -> None:
    """End the phases in which nothing is missing."""
    over = (barriers.missing == 0) & (barriers.bytes == 0) & (barriers.count > 0)
    barriers.phase[over] ^= 1
    barriers.missing[over] = barriers.count[over]


def _arrived(
    machine: Machine, frame: Frame, op: Op, barriers: Barriers, cells: Array, count: int
) -> None:
    np.subtract.at(barriers.missing, cells, count)
    odd = barriers.missing[cells] < 0
    if odd.any():
        first = int(np.flatnonzero(odd)[0])
        begun = barriers.count[cells[first]] > 0
        why = "more arrivals than its phase is for" if begun else "nothing has initialised it"
        text = f"an arrival at an mbarrier: {why}; by invocation {machine.describe(frame, first)}"
        machine.recorder.add(ProblemKind.MBARRIER, op, int(odd.sum()), said(text))
        barriers.missing[cells[odd]] = 0
    _settle(barriers)


def arrive(machine: Machine, frame: Frame, op: Op) -> None:
    barriers, cells = barrier_place(machine, frame, op)
    if len(op.operands) == 3:
        rank = numbers(frame, op.operands[2])
        size = machine.memories[op.operands[0].id].count
        cells = cells + (rank - machine.group_of(frame) % machine.cluster) * size
        if ((rank < 0) | (rank >= machine.cluster)).any():
            text = f"a cluster has ranks 0 to {machine.cluster - 1}, not {int(rank.max())}"
            machine.recorder.add(ProblemKind.OUT_OF_BOUNDS, op, 1, said(text))
            return
    _arrived(machine, frame, op, barriers, cells, int_attr(op, "count"))


def expect(machine: Machine, frame: Frame, op: Op) -> None:
    barriers, cells = barrier_place(machine, frame, op)
    np.add.at(barriers.bytes, cells, numbers(frame, op.operands[2]))
    _arrived(machine, frame, op, barriers, cells, 1)


def _deliver(machine: Machine, barriers: Barriers, cells: Array) -> None:
    """Put down what copies bring that these mbarriers wait for."""
    wanted = set(cells.tolist())
    left = []
    for bulk in machine.mbarriers.bulks:
        if bulk.barriers is not barriers or bulk.cell not in wanted:
            left.append(bulk)
            continue
        bulk.memory.data[bulk.cells] = bulk.values
        bulk.memory.end(bulk.cells)
        barriers.bytes[bulk.cell] -= bulk.bytes
    machine.mbarriers.bulks = left
    _settle(barriers)


def wait(machine: Machine, frame: Frame, op: Op) -> None:
    barriers, cells = barrier_place(machine, frame, op)
    parity = numbers(frame, op.operands[2]) & 1

    def over() -> bool:
        _deliver(machine, barriers, cells)
        return bool((barriers.phase[cells] != parity).all())

    def what() -> str:
        stuck = int(np.flatnonzero(barriers.phase[cells] == parity)[0])
        cell = int(cells[stuck])
        return (
            f"invocation {machine.describe(frame, stuck)} waits for an mbarrier that lacks "
            f"{int(barriers.missing[cell])} arrivals and {int(barriers.bytes[cell])} bytes, and "
            "nobody goes on"
        )

    machine.tasks.wait(over, op, what)


def try_wait(machine: Machine, frame: Frame, op: Op) -> None:
    barriers, cells = barrier_place(machine, frame, op)
    _deliver(machine, barriers, cells)
    parity = numbers(frame, op.operands[2]) & 1
    frame.values[op.result.id] = barriers.phase[cells] != parity


HANDLERS = {
    "nv_mbarrier_init": init,
    "nv_mbarrier_arrive": arrive,
    "nv_mbarrier_expect": expect,
    "nv_mbarrier_wait": wait,
    "nv_mbarrier_try_wait": try_wait,
}
