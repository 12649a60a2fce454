"""Softmax over the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    convert,
    exp,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    lowest,
)
from .common import add, block_reduce, greater
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, gamma, least, normal, u
from .reduction import terms


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y) // cols, 1, 1))
def softmax(
    x: Read[T],
    y: ReadWrite[T],
    cols: i32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
):
    """y[r, :] = exp(x[r, :] - max) / sum of them, in f32; x and y are row-major.

    Where T is f32 the exponentials are kept in y between the passes, else computed twice.
    """
    base = group_id(0) * cols
    lid = local_id(0)
    best = lowest(f32)
    for c in range(lid, cols, BLOCK):
        best = max(best, convert(x[base + c], f32))
    best = block_reduce(best, greater, BLOCK, SUBGROUP)
    total = f32(0)
    for c in range(lid, cols, BLOCK):
        e = exp(convert(x[base + c], f32) - best)
        if T == f32:
            y[base + c] = e
        total += e
    total = block_reduce(total, add, BLOCK, SUBGROUP)
    scale = 1 / total
    for c in range(lid, cols, BLOCK):
        if T == f32:
            y[base + c] = y[base + c] * scale
        else:
            y[base + c] = convert(exp(convert(x[base + c], f32) - best) * scale, T)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols, spread in ((1, 1, 1.0), (3, 1000, 4.0), (7, 257, 30.0), (1, 8192, 1.0)):
        x = normal(rng, (rows, cols), t, spread)
        yield {"x": x, "y": empty((rows, cols), t), "cols": cols}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    x = decode(args["x"], t)
    shifted = x - x.max(-1, keepdims=True)
    e = np.exp(shifted)
    value = e / e.sum(-1, keepdims=True)
    # exp: its argument is rounded once (an absolute error of u |x|), then 2 ulp; the sum of
    # positive terms; a division and a product.
    relative = np.abs(shifted) * u(f32) + gamma(4 + terms(x.shape[-1], constexprs["BLOCK"]) + 8, f32)
    worst = np.abs(shifted * e).sum(-1, keepdims=True) / e.sum(-1, keepdims=True) * u(f32)
    tolerance = value * (relative + worst) + value * u(t) + least(t) + 2.0**-126
    return {"y": Expected(value, tolerance)}


FAMILIES = (
    Family(softmax, _inputs, _reference, "f32 inside: exp 2 ulp, sum in fixed order; rounded once"),
)
