"""Picking rows of a table: embedding lookup."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    device,
    f32,
    i32,
    kernel,
    u32,
)
from .common import load, write_picked, zeros
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, normal
from .movement import divided


@device
def gathered(table, rows, i, cols, T, VEC):
    """Vector i of y; cols counts vectors."""
    above, column = divided(u32(i), u32(cols))
    row = rows[above]
    inside = row >= 0 and row < len(table) // VEC // cols
    assert inside, "gather: row number outside the table"
    value = zeros(T, VEC)
    if inside:
        value = load(table, row * cols + i32(column), VEC)
    return value


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC * EACH), 1, 1))
def gather(
    table: Read[T],
    rows: Read[I],
    y: Write[T],
    cols: i32,
    *,
    T: DType = f32,
    I: DType = i32,
    BLOCK: int = 256,
    VEC: int = 1,
    EACH: int = 1,
):
    """y[r, :] = table[rows[r], :]; table has cols columns.

    A row number outside the table is a fault; its row of y is filled with zeros. In vectors, EACH
    to an invocation, where VEC divides cols and len(y).
    """
    write_picked(y, gathered, (table, rows), cols, T, BLOCK, VEC, EACH)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, index = dtype(constexprs), dtype(constexprs, "I")
    for count, cols, picks in ((1, 1, 1), (100, 33, 7), (1000, 384, 40)):
        yield {
            "table": normal(rng, (count, cols), t),
            "rows": rng.integers(0, count, picks).astype(index.storage),
            "y": empty((picks, cols), t),
            "cols": cols,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(decode(args["table"], dtype(constexprs))[args["rows"]])}


FAMILIES = (Family(gather, _inputs, _reference, "exact: moves bits"),)
