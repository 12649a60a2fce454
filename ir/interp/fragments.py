"""Matrix fragments: each subgroup's elements dealt out to its invocations.

A fragment of R x C elements is an array [n, R * C / size] over the n invocations of a frame:
invocation l of a subgroup of `size` holds the l-th part of the elements in row-major order. (One of
role "row" is held whole by every invocation.) That order is the interpreter's own; no kernel can
see it. Elementwise ops then need nothing special.

A product is computed in float64 and rounded once, which is within the bound that the op table
states for every order of the sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import Op, Value
from ..dtypes import DType, FragmentType, element_of
from ..ops import meaning
from .frame import Array, Frame, widen
from .memory import Memory, note, watch_arriving, watch_load
from .races import MANY
from .report import ProblemKind
from .subgroups import Grid
from .values import SHAPES, decode, encode, int_attr, register_type, settle

if TYPE_CHECKING:
    from .machine import Machine

_ALIGN = 16  # bytes that an index and a stride are multiples of


def elements(t: FragmentType, size: int) -> int:
    """Elements that each invocation of a subgroup of `size` holds."""
    return t.rows if t.role == "row" else t.rows * t.columns // size


def _type(value: Value) -> FragmentType:
    assert isinstance(value.type, FragmentType)
    return value.type


def places(machine: Machine, frame: Frame, t: FragmentType) -> tuple[Array, Array]:
    """Row and column of each element that each invocation holds, [n, elements]."""
    count = elements(t, machine.subgroup)
    if t.role == "row":
        rows = np.broadcast_to(np.arange(t.rows), (frame.size, t.rows))
        return rows, np.zeros_like(rows)
    lane = frame.lanes % machine.workgroup_count % machine.subgroup
    number = lane[:, None] * count + np.arange(count)
    return number // t.columns, number % t.columns


def _matrix(frame: Frame, grid: Grid, value: Value) -> Array:
    """A fragment as [subgroups, rows, columns]; 0 where invocations are missing."""
    t = _type(value)
    table = grid.table(widen(frame.get(value.id), frame.size), 0)
    return table.reshape(grid.rows, t.rows, t.columns)


def _spread(grid: Grid, matrix: Array, t: FragmentType) -> Array:
    """The part of each invocation of matrices [subgroups, rows, columns]."""
    if t.role == "row":
        return np.asarray(matrix.reshape(grid.rows, t.rows)[grid.row])
    return grid.pick(matrix.reshape(grid.rows, grid.size, -1))


def _settled(matrix: Array, dtype: DType) -> Array:
    """Exact or float64 results as register values of `dtype`; integers wrap."""
    if dtype.is_int:
        return matrix.astype(np.int64).astype(dtype.storage)
    with np.errstate(all="ignore"):
        return settle(matrix.astype(register_type(dtype)), dtype)


def splat(machine: Machine, frame: Frame, op: Op) -> None:
    """A vector or fragment of one scalar."""
    t = op.result.type
    if not isinstance(t, FragmentType):
        frame.values[op.result.id] = SHAPES["splat"](frame, op)
        return
    value = frame.get(op.operands[0].id)
    frame.values[op.result.id] = np.repeat(value[:, None], elements(t, machine.subgroup), axis=1)


def mma(machine: Machine, frame: Frame, op: Op) -> None:
    """a @ b + c, rounded once."""
    grid = Grid(machine, frame, op)
    t = _type(op.result)
    wide = np.int64 if t.element.is_int else np.float64
    a, b, c = (_matrix(frame, grid, v).astype(wide) for v in op.operands)
    with np.errstate(all="ignore"):
        total = _settled(a @ b + c, t.element)
    frame.values[op.result.id] = _spread(grid, total, t)


def reduce(machine: Machine, frame: Frame, op: Op) -> None:
    """Each row as one value."""
    grid = Grid(machine, frame, op)
    t, kind = _type(op.result), op.attr("kind")
    matrix = _matrix(frame, grid, op.operands[0])
    if kind == "add":
        wide = np.int64 if t.element.is_int else np.float64
        with np.errstate(all="ignore"):
            rows = _settled(matrix.astype(wide).sum(-1), t.element)
    else:
        combine = meaning.maximum if kind == "max" else meaning.minimum
        rows = matrix[..., 0]
        for n in range(1, matrix.shape[-1]):
            rows = combine(rows, matrix[..., n], out=t.element)
    frame.values[op.result.id] = _spread(grid, rows, t)


def broadcast(machine: Machine, frame: Frame, op: Op) -> None:
    """Each element is the value of its row."""
    rows, _ = places(machine, frame, _type(op.result))
    value = widen(frame.get(op.operands[0].id), frame.size)
    frame.values[op.result.id] = np.take_along_axis(value, rows, axis=1)


def cast(machine: Machine, frame: Frame, op: Op) -> None:
    """The same matrix in another role: here in the same order."""
    frame.values[op.result.id] = frame.get(op.operands[0].id)


def coordinate(machine: Machine, frame: Frame, op: Op) -> None:
    found = places(machine, frame, _type(op.result))[int_attr(op, "dim")]
    frame.values[op.result.id] = found.astype(np.int32)


# memory


class Access:
    """The cells that the elements of a fragment lie in, one entry per element within bounds.

    `keys` are stamps for race tables. A subgroup has two numbers of its own in them, one for
    accumulators and one for operands: which invocation holds an element differs between targets,
    and between the two, so a barrier must stand between them.
    """

    def __init__(
        self, machine: Machine, frame: Frame, op: Op, memory: Memory, t: FragmentType
    ) -> None:
        grid = Grid(machine, frame, op)
        index, stride = (_uniform(machine, frame, op, grid, n) for n in (1, 2))
        _check_alignment(machine, frame, op, memory, index, stride)
        rows, columns = places(machine, frame, t)
        if op.name == "fragment_load" and len(op.operands) == 4:
            start = _uniform(machine, frame, op, grid, 3)[:, None]
            unit = _ALIGN // memory.dtype.bytes
            _check_swizzle(machine, frame, op, memory, index, stride, start[:, 0])
            line = index[:, None] // np.maximum(stride[:, None], 1) + rows
            columns = (start + columns) ^ (line % 8 * unit)
        if op.attr("layout") == "column":
            rows, columns = columns, rows
        cells = index[:, None] + rows * stride[:, None] + columns
        self.valid = (cells >= 0) & (cells < memory.count)
        if not self.valid.all():
            _report_bounds(machine, frame, op, memory, cells, self.valid)
        base = memory.base(machine, frame)
        cells = cells + (base[:, None] if isinstance(base, np.ndarray) else base)
        self.memory, self.shape = memory, cells.shape
        self.cells = cells[self.valid]
        self.chosen = np.nonzero(self.valid)[0]
        self.keys = self.cells
        if machine.watch_races:
            subgroup = frame.lanes % machine.workgroup_count // machine.subgroup
            number = MANY - 1 - 2 * subgroup - (t.role == "acc")
            self.keys = ((machine.keys(frame) & ~MANY) | number)[self.chosen]

    def spread(self, size: int) -> tuple[Array, Array]:
        """Flat (cells, invocations' positions)."""
        return self.cells, self.chosen


def _uniform(machine: Machine, frame: Frame, op: Op, grid: Grid, n: int) -> Array:
    """An operand that is the same for the subgroup, [n]; reports where it is not."""
    value = widen(frame.get(op.operands[n].id), frame.size).astype(np.int64)
    low = np.full(grid.rows, np.iinfo(np.int64).max)
    np.minimum.at(low, grid.row, value)
    odd = value != low[grid.row]
    if odd.any():
        machine.recorder.add(
            ProblemKind.SUBGROUP_DIVERGENCE,
            op,
            int(np.count_nonzero(odd)),
            lambda: f"operand {n + 1} of {op.name} differs between invocations of a subgroup",
        )
    return np.asarray(low[grid.row])


def _check_alignment(
    machine: Machine, frame: Frame, op: Op, memory: Memory, index: Array, stride: Array
) -> None:
    unit = max(1, _ALIGN // memory.dtype.bytes)
    odd = (index % unit != 0) | (stride % unit != 0)
    if odd.any():
        at = int(np.flatnonzero(odd)[0])
        machine.recorder.add(
            ProblemKind.MISALIGNED,
            op,
            int(np.count_nonzero(odd)),
            lambda: (
                f"{op.name} at {memory.name}[{int(index[at])}] with stride {int(stride[at])}; both "
                f"must be multiples of {unit} ({_ALIGN} bytes of {memory.dtype})"
            ),
        )


def _check_swizzle(
    machine: Machine,
    frame: Frame,
    op: Op,
    memory: Memory,
    index: Array,
    stride: Array,
    column: Array,
) -> None:
    unit = _ALIGN // memory.dtype.bytes
    odd = (stride <= 0) | (stride % (8 * unit) != 0)
    odd |= (index % (8 * np.maximum(stride, 1)) != 0) | (column % 16 != 0)
    if odd.any():
        at = int(np.flatnonzero(odd)[0])
        machine.recorder.add(
            ProblemKind.MISALIGNED,
            op,
            int(np.count_nonzero(odd)),
            lambda: (
                f"{op.name} of {memory.name}, which is swizzled, at element {int(index[at])} with "
                f"rows of {int(stride[at])} and column {int(column[at])}; a fragment begins at a "
                "row that is a multiple of 8 and a column that is a multiple of 16"
            ),
        )


def _report_bounds(
    machine: Machine, frame: Frame, op: Op, memory: Memory, cells: Array, valid: Array
) -> None:
    who, which = (int(n[0]) for n in np.nonzero(~valid))
    machine.recorder.add(
        ProblemKind.OUT_OF_BOUNDS,
        op,
        int(np.count_nonzero(~valid)),
        lambda: (
            f"{op.name} reaches {memory.name}[{int(cells[who, which])}], which has {memory.count} "
            f"elements, by the subgroup of invocation {machine.describe(frame, who)}"
        ),
    )


def load(machine: Machine, frame: Frame, op: Op) -> None:
    """Elements from memory; 0 where out of bounds."""
    memory = machine.memories[op.operands[0].id]
    access = Access(machine, frame, op, memory, _type(op.result))
    watch_load(machine, frame, op, memory, access.cells, access.chosen, access.keys)
    stored = np.zeros(access.shape, memory.data.dtype)
    stored[access.valid] = memory.data[access.cells]
    frame.values[op.result.id] = decode(stored, memory.dtype)


def store(machine: Machine, frame: Frame, op: Op) -> None:
    """Elements to memory; dropped where out of bounds."""
    memory = machine.memories[op.operands[0].id]
    value = op.operands[3]
    access = Access(machine, frame, op, memory, _type(value))
    stored = encode(widen(frame.get(value.id), frame.size), element_of(value.type))
    watch_arriving(machine, frame, op, memory, access.cells, access.chosen)
    memory.data[access.cells] = stored[access.valid]
    if memory.written is not None:
        memory.written[access.cells] = True
    if memory.races is not None and access.cells.size:
        by_writers, by_readers = memory.races.write(access.cells, access.keys)
        note(machine, op, memory, access.keys, ProblemKind.WRITE_WRITE_RACE, by_writers)
        note(machine, op, memory, access.keys, ProblemKind.READ_WRITE_RACE, by_readers)


HANDLERS = {
    "splat": splat,
    "fragment_mma": mma,
    "fragment_reduce": reduce,
    "fragment_broadcast": broadcast,
    "fragment_cast": cast,
    "fragment_coordinate": coordinate,
    "fragment_load": load,
    "fragment_store": store,
}
