"""Matrix times vector, one workgroup per row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import DType, Read, Write, convert, f32, fma, group_id, i32, kernel, local_id
from .common import add, block_reduce
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    normal,
)
from .reduction import PATH, terms


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y), 1, 1))
def gemv(
    a: Read[T],
    x: Read[T],
    y: Write[OUT],
    cols: i32,
    *,
    T: DType = f32,
    OUT: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
):
    """y = a @ x; a is len(y) x cols, row-major; f32 accumulation."""
    row = group_id(0)
    base = row * cols
    lid = local_id(0)
    total = f32(0)
    for c in range(lid, cols, BLOCK):
        total = fma(convert(a[base + c], f32), convert(x[c], f32), total)
    total = block_reduce(total, add, f32, BLOCK, SUBGROUP)
    if lid == 0:
        y[row] = convert(total, OUT)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    for rows, cols in ((1, 1), (5, 384), (33, 1000)):
        a, x = normal(rng, (rows, cols), t), normal(rng, cols, t)
        yield {"a": a, "x": x, "y": empty(rows, out), "cols": cols}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    a, x = decode(args["a"], t), decode(args["x"], t)
    value = a @ x
    path = terms(a.shape[-1], constexprs["BLOCK"])
    return {"y": Expected(value, _BOUND(size=np.abs(a) @ np.abs(x), path=path, value=value, T=out))}


_BOUND = bound(
    "size * gamma(2 * path, f32) + abs(value) * u(T) + least(T)",
    size="the sum of the products' magnitudes",
    path=PATH,
)
FAMILIES = (
    Family(
        gemv, _inputs, _reference, "f32 accumulation in fixed order; rounded once", {"": _BOUND}
    ),
)
