"""Subgroup ops: invocations laid out as [subgroups, subgroup size]."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..core import Op
from ..dtypes import DType, element_of
from ..ops import meaning
from .frame import Array, Frame, widen
from .report import ProblemKind
from .values import register_type, settle

if TYPE_CHECKING:
    from .machine import Machine

COMBINE: dict[str, Callable[..., Array]] = {
    "add": meaning.add,
    "mul": meaning.mul,
    "min": meaning.minimum,
    "max": meaning.maximum,
    "and": meaning.and_,
    "or": meaning.or_,
    "xor": meaning.xor,
}


def identity(kind: str, dtype: DType) -> Array:
    """The value that leaves every other one alone in a reduction, 0-dimensional."""
    if kind in ("add", "or", "xor"):
        value: float = 0
    elif kind == "mul":
        value = 1
    elif kind == "and":
        value = dtype.max if not dtype.is_signed else -1
    elif dtype.is_float:
        value = np.inf if kind == "min" else -np.inf
    else:
        value = dtype.max if kind == "min" else dtype.min
    return np.array(value, register_type(dtype))


class Grid:
    """Places of the invocations of a frame in the table [subgroups of the chunk, size]."""

    def __init__(self, machine: Machine, frame: Frame, op: Op) -> None:
        self.size = machine.subgroup
        group, local = np.divmod(frame.lanes, machine.workgroup_count)
        self.row = group * machine.subgroups + local // self.size
        self.lane = local % self.size
        self.rows = machine.groups * machine.subgroups
        self.all_here = frame.size == self.rows * self.size
        if not self.all_here:
            self._check(machine, frame, op)

    def _check(self, machine: Machine, frame: Frame, op: Op) -> None:
        """Report subgroups of which only some invocations are here."""
        here = np.bincount(self.row, minlength=self.rows)
        first = np.arange(self.rows) % machine.subgroups * self.size
        full = np.minimum(self.size, machine.workgroup_count - first)
        partial = (here != 0) & (here != full)
        if partial.any():
            row = int(np.flatnonzero(partial)[0])
            machine.recorder.add(
                ProblemKind.SUBGROUP_DIVERGENCE,
                op,
                int(np.count_nonzero(partial)),
                lambda: (
                    f"{op.name} is reached by {int(here[row])} of {int(full[row])} invocations of "
                    f"a subgroup of workgroup {machine.group_name(row // machine.subgroups)}"
                ),
            )

    def table(self, value: Array, absent: Array | int) -> Array:
        """The value as [rows, size] or [rows, size, lanes]."""
        if self.all_here:
            return value.reshape(self.rows, self.size, *value.shape[1:])
        full = np.empty((self.rows, self.size, *value.shape[1:]), value.dtype)
        full[...] = absent
        full[self.row, self.lane] = value
        return full

    def pick(self, table: Array) -> Array:
        """The entry of each invocation."""
        return np.asarray(table[self.row, self.lane])


def _operand(frame: Frame, op: Op, number: int = 0) -> Array:
    return widen(frame.get(op.operands[number].id), frame.size)


def reduce(machine: Machine, frame: Frame, op: Op, grid: Grid) -> Array:
    """The reduction by halves (a butterfly), as hardware does it."""
    kind, dtype = str(op.attr("kind")), element_of(op.result.type)
    table = grid.table(_operand(frame, op), identity(kind, dtype))
    step = grid.size
    while step > 1:
        step //= 2
        table = settle(COMBINE[kind](table[:, :step], table[:, step:], out=dtype), dtype)
    return np.asarray(table[grid.row, 0])


def scan(machine: Machine, frame: Frame, op: Op, grid: Grid) -> Array:
    """The running reduction, in lane order."""
    kind, dtype = str(op.attr("kind")), element_of(op.result.type)
    first = identity(kind, dtype)
    table = np.array(grid.table(_operand(frame, op), first))
    for lane in range(1, grid.size):
        total = COMBINE[kind](table[:, lane - 1], table[:, lane], out=dtype)
        table[:, lane] = settle(total, dtype)
    if not op.attr("inclusive"):
        table[:, 1:] = table[:, :-1].copy()
        table[:, 0] = first
    return grid.pick(table)


def _from_lane(grid: Grid, value: Array, lane: Array) -> Array:
    return np.asarray(grid.table(value, 0)[grid.row, lane])


def shuffle(machine: Machine, frame: Frame, op: Op, grid: Grid) -> Array:
    """The value of another lane; of an absent one, 0."""
    own, value = grid.lane, _operand(frame, op)
    n = _operand(frame, op, 1).astype(np.int64)
    if op.name == "subgroup_broadcast":
        _check_broadcast(machine, op, grid, n)
    if op.name == "subgroup_shuffle_xor":
        n = own ^ n
    elif op.name in ("subgroup_shuffle_up", "subgroup_shuffle_down"):
        n = own - n if op.name.endswith("up") else own + n
        n = np.where((n >= 0) & (n < grid.size), n, own)
    return _from_lane(grid, value, n % grid.size)


def _check_broadcast(machine: Machine, op: Op, grid: Grid, lane: Array) -> None:
    low = np.full(grid.rows, np.iinfo(np.int64).max)
    np.minimum.at(low, grid.row, lane)
    odd = lane != low[grid.row]
    if odd.any():
        machine.recorder.add(
            ProblemKind.SUBGROUP_DIVERGENCE,
            op,
            int(np.count_nonzero(odd)),
            lambda: "the lane of a broadcast differs between invocations of a subgroup",
        )


def ballot(machine: Machine, frame: Frame, op: Op, grid: Grid) -> Array:
    """Bit i is the vote of lane i."""
    votes = grid.table(_operand(frame, op), 0)
    word = register_type(element_of(op.result.type)).type
    places = np.arange(grid.size, dtype=word) % word(np.dtype(word).itemsize * 8)
    words = np.bitwise_or.reduce(votes.astype(word) << places, axis=1)
    return np.asarray(words[grid.row])


def vote(machine: Machine, frame: Frame, op: Op, grid: Grid) -> Array:
    """Whether any, or all, of the present votes are true."""
    if op.name == "subgroup_any":
        found = np.any(grid.table(_operand(frame, op), 0), axis=1)
    else:
        found = np.all(grid.table(_operand(frame, op), 1), axis=1)
    return np.asarray(np.asarray(found)[grid.row])


def elect(machine: Machine, frame: Frame, op: Op, grid: Grid) -> Array:
    return np.asarray(grid.lane == 0)


KINDS: dict[str, Callable[[Machine, Frame, Op, Grid], Array]] = {
    "subgroup_reduce": reduce,
    "subgroup_scan": scan,
    "subgroup_shuffle": shuffle,
    "subgroup_shuffle_xor": shuffle,
    "subgroup_shuffle_up": shuffle,
    "subgroup_shuffle_down": shuffle,
    "subgroup_broadcast": shuffle,
    "subgroup_ballot": ballot,
    "subgroup_any": vote,
    "subgroup_all": vote,
    "subgroup_elect": elect,
}


def run_subgroup(machine: Machine, frame: Frame, op: Op) -> None:
    """Any subgroup op."""
    grid = Grid(machine, frame, op)
    frame.values[op.result.id] = KINDS[op.name](machine, frame, op, grid)
