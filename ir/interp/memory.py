"""Buffers, workgroup arrays and private arrays: bounds, races, cells never written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import Op
from ..dtypes import DType, MemType, Space, VectorType
from .frame import Array, Frame, widen
from .races import MANY, RaceTable
from .report import ProblemKind
from .values import decode, encode

if TYPE_CHECKING:
    from .machine import Machine

READERS = ("load", "fragment_load", "nv_ldmatrix")


class Memory:
    """One memory object: `data` is flat, in memory form.

    A buffer has `count` cells, an array `count` cells per workgroup or invocation of the chunk.
    `written` marks the cells of a workgroup array that hold something; `races` is None where no
    race can occur or none is looked for.
    """

    def __init__(self, name: str, space: Space, dtype: DType, count: int, data: Array) -> None:
        self.name, self.space, self.dtype, self.count, self.data = name, space, dtype, count, data
        self.written: Array | None = None
        self.arriving: Array | None = None  # cells that asynchronous copies are going to fill
        self.races: RaceTable | None = None

    def begin(self, cells: Array) -> None:
        """Asynchronous copies to these cells are on their way."""
        if self.arriving is None:
            self.arriving = np.zeros(self.data.size, bool)
        self.arriving[cells] = True

    def end(self, cells: Array) -> None:
        """They have arrived."""
        if self.arriving is not None:
            self.arriving[cells] = False
        if self.written is not None:
            self.written[cells] = True

    def base(self, machine: Machine, frame: Frame) -> Array | int:
        """The first cell that each invocation of the frame may use."""
        if self.space is Space.BUFFER:
            return 0
        if self.space is Space.WORKGROUP:
            return machine.group_of(frame) * self.count
        return frame.lanes * self.count


def allocate(machine: Machine, op: Op) -> Memory:
    """The array that an `alloc` declares, for the whole chunk."""
    t = op.result.type
    assert isinstance(t, MemType)
    assert t.count is not None
    name = next((str(v) for k, v in op.attrs if k == "name"), "") or op.result.hint or "array"
    owners = machine.groups if t.space is Space.WORKGROUP else machine.size
    data = np.zeros(owners * t.count, t.element.storage)
    memory = Memory(name, t.space, t.element, t.count, data)
    if t.space is Space.WORKGROUP:
        memory.written = np.zeros(data.size, bool)
        if machine.watch_races:
            memory.races = RaceTable(data.size)
    return memory


class Access:
    """Where one op reaches into a memory.

    cells: flat first cell of each invocation, [n] (n = 1 where all reach the same buffer cell);
    valid: mask [n] of the accesses within bounds, None if all are; invalid ones have cell 0.
    """

    __slots__ = ("cells", "lanes", "memory", "valid")

    def __init__(self, machine: Machine, frame: Frame, op: Op, memory: Memory, lanes: int) -> None:
        self.memory, self.lanes = memory, lanes
        asked = frame.get(op.operands[1].id)
        index = asked.astype(np.int64)
        # One comparison: a negative index, or a u64 over 2**63, is a huge unsigned number.
        inside = index.view(np.uint64) < np.uint64(memory.count // lanes)
        self.valid: Array | None = None
        if not inside.all():
            _report_bounds(machine, frame, op, self, asked, inside)
            index = np.where(inside, index, 0)
            self.valid = inside
        if lanes > 1:
            index = index * lanes
        self.cells: Array = index + memory.base(machine, frame)

    def span(self) -> Array:
        """All cells: [n], or [n, lanes] for a vector access."""
        return self.cells if self.lanes == 1 else self.cells[:, None] + np.arange(self.lanes)

    def spread(self, size: int) -> tuple[Array, Array | slice]:
        """Flat (cells, invocations' positions) of the valid accesses, one entry per cell."""
        chosen: Array | slice = slice(None)
        cells = widen(self.span(), size)
        if self.valid is not None:
            chosen = np.flatnonzero(widen(self.valid, size))
            cells = cells[chosen]
        return cells, chosen


def _report_bounds(
    machine: Machine, frame: Frame, op: Op, access: Access, asked: Array, inside: Array
) -> None:
    memory, lanes = access.memory, access.lanes
    bad = np.flatnonzero(~widen(inside, frame.size))

    def message() -> str:
        what = {"load": "load from", "store": "store to"}.get(op.name, "atomic on")
        index = int(widen(asked, frame.size)[bad[0]])
        unit = f" vectors of {lanes}" if lanes > 1 else ""
        return (
            f"{what} {memory.name}[{index}], which has {memory.count // lanes} elements{unit}, "
            f"by invocation {machine.describe(frame, bad[0])}"
        )

    machine.recorder.add(ProblemKind.OUT_OF_BOUNDS, op, len(bad), message)


def load(machine: Machine, frame: Frame, op: Op) -> None:
    """memory[i]; 0 where out of bounds."""
    memory = machine.memories[op.operands[0].id]
    t = op.result.type
    lanes = t.lanes if isinstance(t, VectorType) else 1
    access = Access(machine, frame, op, memory, lanes)
    if memory.written is not None or memory.races is not None:
        _watch_load(machine, frame, op, access)
    if memory.count < lanes:
        stored = np.zeros((len(access.cells), *([lanes] if lanes > 1 else [])), memory.data.dtype)
    else:
        stored = memory.data.take(access.span())
        if access.valid is not None:
            stored[~widen(access.valid, len(stored))] = 0
    frame.values[op.result.id] = decode(stored, memory.dtype)


def store(machine: Machine, frame: Frame, op: Op) -> None:
    """memory[i] = v; dropped where out of bounds; of several stores to a cell the last wins."""
    memory = machine.memories[op.operands[0].id]
    value = encode(frame.get(op.operands[2].id), memory.dtype)
    lanes = value.shape[1] if value.ndim == 2 else 1
    access = Access(machine, frame, op, memory, lanes)
    cells, chosen = access.spread(frame.size)
    if not cells.size:
        return
    watch_arriving(machine, frame, op, memory, cells, chosen)
    memory.data[cells] = value if len(value) == 1 else value[chosen]
    if memory.written is not None:
        memory.written[cells] = True
    if memory.races is not None:
        keys = _keys(machine, frame, access, cells, chosen)
        by_writers, by_readers = memory.races.write(cells.ravel(), keys)
        note(machine, op, memory, keys, ProblemKind.WRITE_WRITE_RACE, by_writers)
        note(machine, op, memory, keys, ProblemKind.READ_WRITE_RACE, by_readers)


def _watch_load(machine: Machine, frame: Frame, op: Op, access: Access) -> None:
    cells, chosen = access.spread(frame.size)
    keys = None
    if access.memory.races is not None and cells.size:
        keys = _keys(machine, frame, access, cells, chosen)
    watch_load(machine, frame, op, access.memory, cells, chosen, keys)


def watch_load(
    machine: Machine,
    frame: Frame,
    op: Op,
    memory: Memory,
    cells: Array,
    chosen: Array | slice,
    keys: Array | None,
) -> None:
    """Report cells that hold nothing yet or that others wrote. chosen: the invocation of each
    entry of `cells`; keys: their stamps, one per cell."""
    if not cells.size:
        return
    watch_arriving(machine, frame, op, memory, cells, chosen)
    if memory.written is not None:
        fresh = ~memory.written[cells]
        if fresh.any():
            at = np.flatnonzero(fresh.reshape(len(cells), -1).any(axis=1))
            who = int(np.arange(frame.size)[chosen][at[0]])
            machine.recorder.add(
                ProblemKind.UNWRITTEN_READ,
                op,
                len(at),
                lambda: (
                    f"{memory.name}[{int(cells[at[0]].ravel()[0]) % memory.count}] is read by "
                    f"invocation {machine.describe(frame, who)} before anything was written there"
                ),
            )
    if memory.races is not None and keys is not None:
        found = memory.races.read(cells.ravel(), keys)
        note(machine, op, memory, keys, ProblemKind.READ_WRITE_RACE, found)


def watch_arriving(
    machine: Machine,
    frame: Frame,
    op: Op,
    memory: Memory,
    cells: Array,
    chosen: Array | slice,
) -> None:
    """Report cells that an asynchronous copy is going to fill, as `watch_load`."""
    if memory.arriving is None or not (early := memory.arriving[cells]).any():
        return
    at = np.flatnonzero(early.reshape(len(cells), -1).any(axis=1))
    who = int(np.arange(frame.size)[chosen][at[0]])
    machine.recorder.add(
        ProblemKind.PENDING_COPY,
        op,
        len(at),
        lambda: (
            f"{op.name} of {memory.name}[{int(cells[at[0]].ravel()[0]) % memory.count}] by "
            f"invocation {machine.describe(frame, who)} before copy_wait has seen to its copy"
        ),
    )


def _keys(
    machine: Machine, frame: Frame, access: Access, cells: Array, chosen: Array | slice
) -> Array:
    keys = machine.keys(frame)[chosen]
    return np.repeat(keys, access.lanes) if access.lanes > 1 else keys


def note(
    machine: Machine,
    op: Op,
    memory: Memory,
    keys: Array,
    kind: ProblemKind,
    found: tuple[Array, Array],
) -> None:
    """Record the conflicts that a race table found."""
    bad, others = found
    if not bad.any():
        return
    at = int(np.flatnonzero(bad)[0])

    def message() -> str:
        mine, other = int(keys[at]) & MANY, int(others[at]) & MANY
        # Numbers beyond the workgroup's stand for whole subgroups (`fragments`) or for several.
        count = machine.workgroup_count
        them = "several others" if other >= count else machine.local_name(other)
        me = f"invocation {machine.local_name(mine)}" if mine < count else "a subgroup"
        verb = "read" if op.name in READERS else "write"
        return (
            f"{me} of a workgroup {verb}s an element of "
            f"{memory.name} that {them} used since the last barrier"
        )

    machine.recorder.add(kind, op, int(np.count_nonzero(bad)), message)
