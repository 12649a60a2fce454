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
    device,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    static_assert,
    static_range,
    store_vector,
    workgroup_array,
)
from .common import load, zeros
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, normal


@device
def through_tile(tile, x, y, rows, cols, T, TILE, ROWS, VEC):
    """One tile by a workgroup, VEC neighbours an access; VEC divides rows and cols."""
    lx = local_id(0) * VEC
    ly = local_id(1)
    left = group_id(0) * TILE
    top = group_id(1) * TILE
    for step in static_range(TILE // ROWS):
        at = ly + step * ROWS
        if top + at < rows and left + lx < cols:
            value = load(x, ((top + at) * cols + left + lx) // VEC, VEC)
            for lane in static_range(VEC):
                tile[at, lx + lane] = value if VEC == 1 else value[lane]
    barrier()
    for step in static_range(TILE // ROWS):
        at = ly + step * ROWS
        if left + at < cols and top + lx < rows:
            if VEC == 1:
                y[(left + at) * rows + top + lx] = tile[lx, at]
            else:
                value = zeros(T, VEC)
                for lane in static_range(VEC):
                    value[lane] = tile[lx + lane, at]
                store_vector(y, ((left + at) * rows + top + lx) // VEC, value)


@device
def one_by_one(x, y, rows, cols, TILE, ROWS, VEC):
    """One tile straight from x to y, for sizes that VEC does not divide."""
    for step in range(local_id(1), TILE, ROWS):
        r = group_id(1) * TILE + step
        for c in range(local_id(0), TILE, TILE // VEC):
            left = group_id(0) * TILE + c
            if r < rows and left < cols:
                y[left * rows + r] = x[r * cols + left]


@kernel(
    workgroup=lambda: (TILE // VEC, ROWS, 1),
    grid=lambda: (ceil_div(cols, TILE), ceil_div(rows, TILE), 1),
)
def transpose(
    x: Read[T],
    y: Write[T],
    rows: i32,
    cols: i32,
    *,
    T: DType = f32,
    TILE: int = 32,
    ROWS: int = 8,
    VEC: int = 1,
):
    """y[c, r] = x[r, c]; x is rows x cols, both row-major. ROWS and VEC divide TILE."""
    static_assert(TILE % ROWS == 0 and TILE % VEC == 0, "ROWS and VEC divide TILE")
    # One column of padding keeps the reads along a column in different banks.
    tile = workgroup_array(T, (TILE, TILE + 1))
    if VEC == 1 or (rows % VEC == 0 and cols % VEC == 0):
        through_tile(tile, x, y, rows, cols, T, TILE, ROWS, VEC)
    else:
        one_by_one(x, y, rows, cols, TILE, ROWS, VEC)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols in ((1, 1), (32, 64), (37, 70), (129, 5), (136, 72)):
        x = normal(rng, (rows, cols), t)
        yield {"x": x, "y": empty((cols, rows), t), "rows": rows, "cols": cols}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(decode(args["x"], dtype(constexprs)).T)}


FAMILIES = (Family(transpose, _inputs, _reference, "exact: moves bits"),)
