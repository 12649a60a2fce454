"""Transposition of a matrix through a tile of workgroup memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    barrier,
    ceil_div,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    static_range,
    workgroup_array,
)
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, normal


@kernel(
    workgroup=lambda: (TILE, ROWS, 1),
    grid=lambda: (ceil_div(cols, TILE), ceil_div(rows, TILE), 1),
)
def transpose(
    x: Read[T], y: Write[T], rows: i32, cols: i32, *, T: DType = f32, TILE: int = 32, ROWS: int = 8
):
    """y[c, r] = x[r, c]; x is rows x cols, both row-major. ROWS divides TILE."""
    # One column of padding keeps the reads along a column in different banks.
    tile = workgroup_array(T, (TILE, TILE + 1))
    lx = local_id(0)
    ly = local_id(1)
    left = group_id(0) * TILE
    top = group_id(1) * TILE
    for step in static_range(TILE // ROWS):
        r = top + ly + step * ROWS
        if r < rows and left + lx < cols:
            tile[ly + step * ROWS, lx] = x[r * cols + left + lx]
    barrier()
    for step in static_range(TILE // ROWS):
        c = left + ly + step * ROWS
        if c < cols and top + lx < rows:
            y[c * rows + top + lx] = tile[lx, ly + step * ROWS]


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols in ((1, 1), (32, 64), (37, 70), (129, 5)):
        x = normal(rng, (rows, cols), t)
        yield {"x": x, "y": empty((cols, rows), t), "rows": rows, "cols": cols}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(decode(args["x"], dtype(constexprs)).T)}


FAMILIES = (Family(transpose, _inputs, _reference, "exact: moves bits"),)
