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
    load_vector,
    local_id,
    registers,
    static_assert,
    static_range,
    store_vector,
    vec,
    workgroup_array,
)
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, normal


@device
def by_elements(tile, x, y, rows, cols, TILE, ROWS):
    """One tile by a workgroup: rows of x in, columns of `tile` out."""
    lx = local_id(0)
    left = group_id(1) * TILE
    top = group_id(0) * TILE
    for step in static_range(TILE // ROWS):
        at = local_id(1) + step * ROWS
        if top + at < rows and left + lx < cols:
            tile[at * (TILE + 1) + lx] = x[(top + at) * cols + left + lx]
    barrier()
    for step in static_range(TILE // ROWS):
        at = local_id(1) + step * ROWS
        if left + at < cols and top + lx < rows:
            y[(left + at) * rows + top + lx] = tile[lx * (TILE + 1) + at]


@device
def by_blocks(tile, x, y, rows, cols, T, TILE, ROWS, VEC):
    """The same in blocks of VEC x VEC, which an invocation turns in registers; VEC divides rows
    and cols."""
    lx = local_id(0) * VEC
    left = group_id(1) * TILE
    top = group_id(0) * TILE
    block = registers(vec(T, VEC), (TILE // VEC // ROWS, VEC), 0)
    # Blocks outside repeat one inside: no branch stands between loads, and nobody reads them.
    col = min(left + lx, cols - VEC)
    for step in static_range(TILE // VEC // ROWS):
        row = min(top + (local_id(1) + step * ROWS) * VEC, rows - VEC)
        for r in static_range(VEC):
            block[step, r] = load_vector(x, ((row + r) * cols + col) // VEC, VEC)
    for step in static_range(TILE // VEC // ROWS):
        for c in static_range(VEC):
            column = block[step, 0]
            for r in static_range(VEC):
                column[r] = block[step, r][c]
            at = (local_id(1) + step * ROWS) * VEC
            store_vector(tile, ((lx + c) * (TILE + VEC) + at) // VEC, column)
    barrier()
    for step in static_range(TILE // ROWS):
        at = local_id(1) + step * ROWS
        if left + at < cols and top + lx < rows:
            value = load_vector(tile, (at * (TILE + VEC) + lx) // VEC, VEC)
            store_vector(y, ((left + at) * rows + top + lx) // VEC, value)


@device
def one_by_one(x, y, rows, cols, TILE, ROWS, VEC):
    """One tile straight from x to y, for sizes that VEC does not divide."""
    for step in range(local_id(1), TILE, ROWS):
        r = group_id(0) * TILE + step
        for c in range(local_id(0), TILE, TILE // VEC):
            left = group_id(1) * TILE + c
            if r < rows and left < cols:
                y[left * rows + r] = x[r * cols + left]


@kernel(
    workgroup=lambda: (TILE // VEC, ROWS, 1),
    # Workgroups at work at one time write rows of y side by side: on an H200, 2 % faster than if
    # they read rows of x so.
    grid=lambda: (ceil_div(rows, TILE), ceil_div(cols, TILE), 1),
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
    """y[c, r] = x[r, c]; x is rows x cols, both row-major. ROWS * VEC divides TILE."""
    static_assert(TILE % (ROWS * VEC) == 0, "ROWS * VEC divides TILE")
    # Padding keeps what is read or written along a column in different banks.
    tile = workgroup_array(T, TILE * (TILE + VEC))
    if VEC == 1:
        by_elements(tile, x, y, rows, cols, TILE, ROWS)
    elif rows % VEC == 0 and cols % VEC == 0:
        by_blocks(tile, x, y, rows, cols, T, TILE, ROWS, VEC)
    else:
        one_by_one(x, y, rows, cols, TILE, ROWS, VEC)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols in ((1, 1), (32, 64), (37, 70), (129, 5), (136, 72), (840, 320)):
        x = normal(rng, (rows, cols), t)
        yield {"x": x, "y": empty((cols, rows), t), "rows": rows, "cols": cols}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(decode(args["x"], dtype(constexprs)).T)}


FAMILIES = (Family(transpose, _inputs, _reference, "exact: moves bits"),)
