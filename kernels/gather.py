"""Picking rows of a table: embedding lookup."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import DType, Read, Write, ceil_div, f32, global_id, i32, kernel
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, normal


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK), 1, 1))
def gather(
    table: Read[T],
    rows: Read[I],
    y: Write[T],
    cols: i32,
    *,
    T: DType = f32,
    I: DType = i32,
    BLOCK: int = 256,
):
    """y[r, :] = table[rows[r], :]; table has cols columns.

    A row number outside the table is a fault; its row of y is filled with zeros.
    """
    i = global_id(0)
    if i < len(y):
        row = rows[i // cols]
        inside = row >= 0 and row < len(table) // cols
        assert inside, "gather: row number outside the table"
        if inside:
            y[i] = table[row * cols + i % cols]
        else:
            y[i] = T(0)


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
