"""Asynchronous copies: what they read is taken at once, and put down by the wait that covers them.

Touching the destination in between is a mistake that is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core import Op
from .frame import Array, Frame, widen
from .memory import Memory, note, watch_arriving, watch_load
from .report import ProblemKind, Recorder
from .values import int_attr

if TYPE_CHECKING:
    from .machine import Machine


def _said(text: str) -> Callable[[], str]:
    return lambda: text


@dataclass(slots=True)
class Pending:
    """Copies of one op that are on their way: per copy, invocation and group; per cell, values."""

    op: Op
    memory: Memory
    lanes: Array  # [n]
    groups: Array  # [n]
    cells: Array  # [n, count]
    values: Array  # [n, count]


class Copies:
    """The copies of the invocations of a chunk."""

    def __init__(self, size: int) -> None:
        self.committed = np.zeros(size, np.int64)  # groups, by invocation
        self.pending: list[Pending] = []

    def finish(self, recorder: Recorder) -> None:
        """Report what the end of the kernel finds on its way."""
        for part in self.pending:
            recorder.add(
                ProblemKind.PENDING_COPY,
                part.op,
                len(part.lanes),
                _said(
                    f"the kernel ends while a copy to {part.memory.name} is on its way; "
                    "let a copy_wait() see to it"
                ),
            )


def copy(machine: Machine, frame: Frame, op: Op) -> None:
    """Issue copies; out of bounds reads zeros or is dropped, as loads and stores are."""
    target, source = (machine.memories[op.operands[n].id] for n in (0, 2))
    count = int_attr(op, "count")
    numbers = [widen(frame.get(op.operands[n].id), frame.size).astype(np.int64) for n in (1, 3)]
    to, start = numbers
    given = np.full(frame.size, count)
    if len(op.operands) == 5:
        given = np.clip(widen(frame.get(op.operands[4].id), frame.size).astype(np.int64), 0, count)
    _check(machine, frame, op, target, to, count, np.full(frame.size, count))
    _check(machine, frame, op, source, start, count, given)
    inside = (to >= 0) & (to + count <= target.count) & (to % count == 0)
    steps = np.arange(count)
    wanted = (steps < given[:, None]) & inside[:, None]
    read = start[:, None] + steps
    wanted &= (read >= 0) & (read < source.count)
    values = np.zeros((frame.size, count), source.data.dtype)
    values[wanted] = source.data[read[wanted]]
    keys = machine.keys(frame)[np.nonzero(wanted)[0]] if machine.watch_races else read[wanted]
    watch_load(machine, frame, op, source, read[wanted], np.nonzero(wanted)[0], keys)
    cells = (to + target.base(machine, frame))[inside][:, None] + steps
    lanes = frame.lanes[inside]
    watch_arriving(machine, frame, op, target, cells, np.flatnonzero(inside))
    _stamp(machine, op, target, cells, lanes)
    target.begin(cells)
    groups = machine.copies.committed[lanes]
    machine.copies.pending.append(Pending(op, target, lanes, groups, cells, values[inside]))


def _check(
    machine: Machine, frame: Frame, op: Op, memory: Memory, index: Array, count: int, given: Array
) -> None:
    out = (given > 0) & ((index < 0) | (index + given > memory.count))
    odd = (index % count != 0) & ~out
    for bad, kind, words in (
        (out, ProblemKind.OUT_OF_BOUNDS, f"which has {memory.count} elements"),
        (odd, ProblemKind.MISALIGNED, f"an index that is no multiple of {count}"),
    ):
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            where = f"{memory.name}[{int(index[at])}], {words}"
            who = machine.describe(frame, at)
            machine.recorder.add(
                kind,
                op,
                int(np.count_nonzero(bad)),
                _said(f"copy_async at {where}, by invocation {who}"),
            )


def _stamp(machine: Machine, op: Op, memory: Memory, cells: Array, lanes: Array) -> None:
    """Look for races of writes to these cells, once as they begin and once as they end."""
    if memory.races is None or not cells.size:
        return
    keys = machine.all_keys()[lanes].repeat(cells.shape[1])
    by_writers, by_readers = memory.races.write(cells.ravel(), keys)
    note(machine, op, memory, keys, ProblemKind.WRITE_WRITE_RACE, by_writers)
    note(machine, op, memory, keys, ProblemKind.READ_WRITE_RACE, by_readers)


def commit(machine: Machine, frame: Frame, op: Op) -> None:
    machine.copies.committed[frame.lanes] += 1


def wait(machine: Machine, frame: Frame, op: Op) -> None:
    """Put down what the groups of these invocations bring, but for the last `pending` ones."""
    copies = machine.copies
    here = np.zeros(machine.size, bool)
    here[frame.lanes] = True
    left = []
    for part in copies.pending:
        limit = copies.committed[part.lanes] - int_attr(op, "pending")
        done = here[part.lanes] & (part.groups < limit)
        if done.any():
            cells = part.cells[done]
            part.memory.data[cells] = part.values[done]
            part.memory.end(cells)
            _stamp(machine, part.op, part.memory, cells, part.lanes[done])
        if not done.all():
            keep = ~done
            columns = (part.lanes, part.groups, part.cells, part.values)
            left.append(Pending(part.op, part.memory, *(c[keep] for c in columns)))
    copies.pending = left


HANDLERS = {"copy_async": copy, "copy_commit": commit, "copy_wait": wait}
