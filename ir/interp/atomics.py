"""Atomics: every invocation of a frame in turn, in ascending order.

Where the old value is not used, `ufunc.at` does it. Otherwise the accesses are sorted by cell and
each cell's run is accumulated, either run by run or one step of all runs at a time, whichever
takes fewer steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import Op, Value
from .frame import Array, Frame, widen
from .memory import Access, Memory, note
from .report import ProblemKind

if TYPE_CHECKING:
    from .machine import Machine

COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.fmin,  # as np.minimum on integers; a quiet NaN loses (see `_quiet`)
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def atomic(machine: Machine, frame: Frame, op: Op) -> None:
    """attr kind on memory[i]; gives the old value. Out of bounds: does nothing and gives 0."""
    kind = str(op.attr("kind"))
    _update(machine, frame, op, kind, op.operands[2:])


def compare_exchange(machine: Machine, frame: Frame, op: Op) -> None:
    """memory[i] = desired where it has the bits of expected; gives the old value."""
    _update(machine, frame, op, "compare_exchange", op.operands[2:])


def _update(machine: Machine, frame: Frame, op: Op, kind: str, operands: tuple[Value, ...]) -> None:
    memory = machine.memories[op.operands[0].id]
    access = Access(machine, frame, op, memory, 1)
    cells, chosen = access.spread(frame.size)
    values = [widen(frame.get(v.id), frame.size)[chosen] for v in operands]
    result = np.zeros(frame.size, memory.data.dtype)
    if cells.size:
        _watch(machine, frame, op, memory, cells, chosen)
        with np.errstate(all="ignore"):
            if kind in ("min", "max") and memory.data.dtype.kind == "f":
                values[0] = _quiet(values[0])
                memory.data[cells] = _quiet(memory.data[cells])
            if kind in COMBINE and op.result.id not in machine.used:
                COMBINE[kind].at(memory.data, cells, values[0])
            else:
                result[chosen] = _in_turn(memory.data, cells, kind, values)
    frame.values[op.result.id] = result


def _quiet(numbers: Array) -> Array:
    """Every NaN as the quiet one: what np.fmin and np.fmax make of a signaling NaN differs between
    their vector and their scalar code."""
    return np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)


def _watch(
    machine: Machine, frame: Frame, op: Op, memory: Memory, cells: Array, chosen: Array | slice
) -> None:
    if memory.written is not None:
        fresh = ~memory.written[cells]
        if fresh.any():
            machine.recorder.add(
                ProblemKind.UNWRITTEN_READ,
                op,
                int(np.count_nonzero(fresh)),
                lambda: (
                    f"{memory.name}[{int(cells[fresh][0]) % memory.count}] is updated "
                    "atomically before anything was written there"
                ),
            )
        memory.written[cells] = True
    if memory.races is not None:
        keys = machine.keys(frame)[chosen]
        by_writers, by_readers = memory.races.update(cells, keys)
        note(machine, op, memory, keys, ProblemKind.WRITE_WRITE_RACE, by_writers)
        note(machine, op, memory, keys, ProblemKind.READ_WRITE_RACE, by_readers)


def _in_turn(data: Array, cells: Array, kind: str, values: list[Array]) -> Array:
    """Update `data` access by access; the old value that each access saw."""
    order = np.argsort(cells, kind="stable")
    cells = cells[order]
    starts = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
    lengths = np.diff(np.r_[starts, len(cells)])
    values = [v[order] for v in values]
    old = np.empty(len(cells), data.dtype)
    longest = int(lengths.max())
    if len(starts) < longest:
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            run = slice(start, start + length)
            _one_cell(data, cells[start], kind, [v[run] for v in values], old[run])
    else:
        for step in range(longest):
            at = starts[lengths > step] + step
            old[at] = data[cells[at]]
            data[cells[at]] = _combined(kind, old[at], [v[at] for v in values])
    result = np.empty_like(old)
    result[order] = old
    return result


def _combined(kind: str, old: Array, values: list[Array]) -> Array:
    if kind == "exchange":
        return values[0]
    if kind == "compare_exchange":
        word = f"u{old.dtype.itemsize}"
        same = old.view(word) == np.ascontiguousarray(values[0]).view(word)
        return np.where(same, values[1], old)
    return np.asarray(COMBINE[kind](old, values[0]))


def _one_cell(data: Array, cell: int, kind: str, values: list[Array], old: Array) -> None:
    """All accesses to one cell; fills `old`."""
    if kind == "compare_exchange":
        word = f"u{data.dtype.itemsize}"
        now = int(data.view(word)[cell])
        seen = []
        pairs = (np.ascontiguousarray(v).view(word).tolist() for v in values)
        for expected, desired in zip(*pairs, strict=True):
            seen.append(now)
            now = desired if now == expected else now
        old[:] = np.array(seen, word).view(data.dtype)
        data.view(word)[cell] = now
        return
    chain = np.concatenate([data[cell : cell + 1], values[0]])
    if kind != "exchange":
        chain = COMBINE[kind].accumulate(chain, dtype=data.dtype)
    old[:] = chain[:-1]
    data[cell] = chain[-1]
