"""A model of AMD's matrix instructions, from the register tables of its manuals.

Traced kernels hold no such ops: passes for HSACO make them, and run here without a GPU. The tables
are written down apart from those of `ir.passes.fragments_amd`, which they check. MFMA: "Instinct
MI300 instruction set architecture", matrix core; WMMA: "RDNA3" and "RDNA4 instruction set
architecture", wave matrix multiply accumulate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import Op
from ..dtypes import DTYPES, DType, element_of
from .frame import Array, Frame, widen
from .subgroups import Grid
from .values import decode, int_attr, register_type

if TYPE_CHECKING:
    from .machine import Machine

_ROWS = 16


def _operand(family: str, depth: int) -> tuple[Array, Array]:
    """Lane and element [16, depth] of a; of b with columns for rows."""
    row, k = np.ix_(range(_ROWS), range(depth))
    if family == "wmma11":  # in both halves of the wave
        return row + 0 * k, k + 0 * row
    held = depth // (2 if family == "wmma12" else 4)
    return row + _ROWS * (k // held), k % held + 0 * row


def _sum(family: str) -> tuple[Array, Array]:
    """Lane and element [16, 16] of the sum."""
    row, column = np.ix_(range(_ROWS), range(_ROWS))
    if family == "wmma11":
        return column + _ROWS * (row % 2), row // 2 + 0 * column
    held = 8 if family == "wmma12" else 4
    return column + _ROWS * (row // held), row % held + 0 * column


def _elements(table: Array, dtype: DType) -> Array:
    """Words [subgroups, lanes, count] as elements [subgroups, lanes, all of a lane]."""
    cells = np.ascontiguousarray(table).view(dtype.storage)
    return decode(cells.reshape(*table.shape[:2], -1), dtype)


def mma(machine: Machine, frame: Frame, op: Op) -> None:
    """One product of each subgroup."""
    grid = Grid(machine, frame, op)
    family, depth = str(op.attr("family")), int_attr(op, "depth")
    kinds = DTYPES[str(op.attr("a"))], DTYPES[str(op.attr("b"))]
    c = element_of(op.result.type)
    wide = np.int64 if c.is_int else np.float64
    flat = [grid.table(widen(frame.get(v.id), frame.size), 0) for v in op.operands]
    tables = [v.reshape(grid.rows, grid.size, -1) for v in flat]
    lane, item = _operand(family, depth)
    left, right = (
        _elements(t, kind)[:, lane, item].astype(wide)
        for t, kind in zip(tables[:2], kinds, strict=True)
    )
    lane, item = _sum(family)
    out = tables[2].copy()
    total = decode(out, c)[:, lane, item].astype(wide)
    with np.errstate(all="ignore"):
        total = (left @ right.transpose(0, 2, 1) + total).astype(register_type(c))
    out[:, lane, item] = total
    frame.values[op.result.id] = grid.pick(out)


HANDLERS = {"amd_mma": mma}
