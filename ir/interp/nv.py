"""A model of NVIDIA's mma.sync, ldmatrix and conversions of 8-bit floats, from the PTX manual.

Traced kernels hold no such ops: passes for PTX make them, and run here without a GPU. The tables
are written down apart from those of `ir.passes.fragment_layout`, which they check.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .. import float8
from ..core import Op
from ..dtypes import DTYPES, DType, MemType
from .frame import Array, Frame, widen
from .memory import watch_load
from .races import MANY
from .report import ProblemKind
from .subgroups import Grid
from .values import decode, encode, int_attr, register_type

if TYPE_CHECKING:
    from .machine import Machine

_ROW_BYTES = 16  # of a matrix that ldmatrix loads

# (registers, lanes, elements of a register) -> row or column, for each shape, with
# g = lane // 4 and t = lane % 4.
Place = tuple[int, int]


def _a(rows: int, depth: int, bits: int) -> Iterator[tuple[int, int, int, Place]]:
    """Register, lane, element, (row, column) of a rows x depth operand a; 8 or 16 rows."""
    per, high = 32 // bits, rows // 8
    for lane in range(32):
        g, t = divmod(lane, 4)
        for register in range(high * depth // (4 * per)):
            for e in range(per):
                row = g + 8 * (register % high)
                yield register, lane, e, (row, t * per + e + 4 * per * (register // high))


def _b(depth: int, bits: int) -> Iterator[tuple[int, int, int, Place]]:
    """The same of a depth x 8 operand b."""
    per = 32 // bits
    for lane in range(32):
        g, t = divmod(lane, 4)
        for register in range(depth // (4 * per)):
            for e in range(per):
                yield register, lane, e, (t * per + e + 4 * per * register, g)


def _c(rows: int, bits: int) -> Iterator[tuple[int, int, int, Place]]:
    """The same of a rows x 8 sum."""
    per = 32 // bits
    for lane in range(32):
        g, t = divmod(lane, 4)
        for n in range(rows // 4):
            yield n // per, lane, n % per, (g + 8 * (n // 2), 2 * t + n % 2)


def _unpack(words: Array, dtype: DType) -> Array:
    """Registers [..., count] of 32 bits as elements [..., count, per]."""
    cells = np.ascontiguousarray(words)[..., None].view(dtype.storage)
    return decode(cells, dtype)


def _matrix(
    table: Array, dtype: DType, shape: Place, places: Iterator[tuple[int, int, int, Place]]
) -> Array:
    """Registers [subgroups, 32, count] as matrices [subgroups, rows, columns]."""
    elements = _unpack(table, dtype)
    matrix = np.zeros((len(table), *shape), elements.dtype)
    for register, lane, e, (row, column) in places:
        matrix[:, row, column] = elements[:, lane, register, e]
    return matrix


def mma(machine: Machine, frame: Frame, op: Op) -> None:
    """mma.sync.mMn8kK: the product of one warp."""
    grid = Grid(machine, frame, op)
    rows, depth = map(int, str(op.attr("shape")).removeprefix("m").split("n8k"))
    a, b = DTYPES[str(op.attr("a"))], DTYPES[str(op.attr("b"))]
    c = op.result.type.element  # type: ignore[union-attr]
    if c.name == "u32":  # packed
        c = DTYPES["f16"]
    flat = [grid.table(widen(frame.get(v.id), frame.size), 0) for v in op.operands]
    tables = [v.reshape(grid.rows, grid.size, -1) for v in flat]
    wide = np.int64 if c.is_int else np.float64
    left = _matrix(tables[0], a, (rows, depth), _a(rows, depth, a.bits)).astype(wide)
    right = _matrix(tables[1], b, (depth, 8), _b(depth, b.bits)).astype(wide)
    total = _matrix(tables[2], c, (rows, 8), _c(rows, c.bits)).astype(wide)
    with np.errstate(all="ignore"):
        total = (left @ right + total).astype(register_type(c))
    out = np.zeros((*tables[2].shape, 32 // c.bits), register_type(c))
    for register, lane, e, (row, column) in _c(rows, c.bits):
        out[:, lane, register, e] = total[:, row, column]
    words = np.ascontiguousarray(encode(out, c)).view(tables[2].dtype)[..., 0]
    frame.values[op.result.id] = grid.pick(words)


def ldmatrix(machine: Machine, frame: Frame, op: Op) -> None:
    """ldmatrix.x4: lanes 8 m .. 8 m + 7 point at the rows of matrix m."""
    grid = Grid(machine, frame, op)
    memory = machine.memories[op.operands[0].id]
    index = widen(frame.get(op.operands[1].id), frame.size).astype(np.int64)
    length = _ROW_BYTES // memory.dtype.bytes
    odd = (index % length != 0) | (index < 0) | (index + length > memory.count)
    if odd.any():
        at = int(index[np.flatnonzero(odd)[0]])
        machine.recorder.add(
            ProblemKind.OUT_OF_BOUNDS if at % length == 0 else ProblemKind.MISALIGNED,
            op,
            int(np.count_nonzero(odd)),
            lambda: f"ldmatrix of {memory.name}[{at}], which has {memory.count} elements",
        )
        index = np.where(odd, 0, index)
    cells = index + memory.base(machine, frame)
    cells = cells[:, None] + np.arange(length)
    keys = (machine.keys(frame) | MANY).repeat(length) if machine.watch_races else cells.ravel()
    chosen = np.arange(frame.size).repeat(length)
    watch_load(machine, frame, op, memory, cells.ravel(), chosen, keys)
    assert isinstance(op.operands[0].type, MemType)
    bits = memory.data[cells].view(np.uint16)
    rows = grid.table(bits, 0).reshape(grid.rows, 4, 8, 8)
    if int_attr(op, "transposed"):
        rows = rows.transpose(0, 1, 3, 2)
    # Lane 4 g + t gets elements 2 t and 2 t + 1 of row g of each matrix.
    pairs = np.ascontiguousarray(rows).view(np.uint32).reshape(grid.rows, 4, 32)
    frame.values[op.result.id] = grid.pick(pairs.transpose(0, 2, 1))


def unpack(machine: Machine, frame: Frame, op: Op) -> None:
    """Two 8-bit floats as two f16."""
    pairs = np.ascontiguousarray(frame.get(op.operands[0].id)).view(np.uint8).reshape(-1, 2)
    halves = float8.decode(pairs, str(op.attr("element"))).astype(np.float16)
    frame.values[op.result.id] = halves.view(np.uint32)[:, 0]


def pack(machine: Machine, frame: Frame, op: Op) -> None:
    """Two f32 rounded to 8-bit floats, not beyond the greatest value."""
    name = str(op.attr("element"))
    limit = float8.FORMATS[name].limit
    values = np.broadcast_arrays(*(frame.get(v.id) for v in op.operands))
    pairs = float8.rounded(np.clip(np.stack(values, axis=1), -limit, limit), name)
    frame.values[op.result.id] = np.ascontiguousarray(pairs).view(np.uint16)[:, 0]


HANDLERS = {
    "nv_mma": mma,
    "nv_warp_mma": mma,
    "nv_ldmatrix": ldmatrix,
    "nv_unpack_f8": unpack,
    "nv_pack_f8": pack,
}
