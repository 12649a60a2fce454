"""The k greatest elements of each row, in order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
)
from .common import better, block_argmax
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, normal


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(values) // k, 1, 1))
def topk(
    x: Read[T],
    values: Write[T],
    indices: Write[i32],
    cols: i32,
    k: i32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
):
    """values[r, :], indices[r, :] = the k greatest elements of row r and their columns.

    Greatest first, equal ones in the order of columns. NaNs are left out; places that stay empty
    hold 0 and index -1. Every step scans the row once: O(k * cols).
    """
    row = group_id(0)
    base = row * cols
    lid = local_id(0)
    last = T(0)
    last_index = i32(-1)
    for step in range(k):
        best = T(0)
        place = i32(-1)
        for c in range(lid, cols, BLOCK):
            value = x[base + c]
            column = i32(c)
            # What comes after the last one taken, in the order (greater, earlier).
            left = step == 0 or better(value, column, last, last_index)
            if value == value and left and better(best, place, value, column):
                best = value
                place = column
        best, place = block_argmax(best, place, T, BLOCK, SUBGROUP)
        if lid == 0:
            values[row * k + step] = best
            indices[row * k + step] = place
        last = best
        last_index = place


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols, k in ((1, 1, 1), (3, 1000, 10), (2, 5, 8), (1, 30_522, 32)):
        x = normal(rng, (rows, cols), t)
        if t.is_float and cols > 1:
            best = decode(x, t).argmax(-1)[:, None]
            x[:, 3::64] = np.take_along_axis(x, best, -1)  # ties that are among the greatest
            x[0, 1] = np.nan if t.name != "bf16" else 0x7FC0
        yield {
            "x": x,
            "values": empty((rows, k), t),
            "indices": empty((rows, k), i32),
            "cols": cols,
            "k": k,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, k = dtype(constexprs), args["k"]
    x = decode(args["x"], t)
    values = np.zeros((len(x), k), x.dtype)
    indices = np.full((len(x), k), -1)
    for r, row in enumerate(x):
        order = [i for i in np.argsort(-row.astype(np.float64), kind="stable") if row[i] == row[i]][
            :k
        ]
        values[r, : len(order)] = row[order]
        indices[r, : len(order)] = order
    return {"values": Expected(values), "indices": Expected(indices)}


FAMILIES = (Family(topk, _inputs, _reference, "exact"),)
