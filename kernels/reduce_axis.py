"""Reduction over an axis that others follow.

Neighbours in x belong to neighbours in y, so that invocations beside one another read beside one
another; BY of them share a column. The order of a sum is fixed by BY.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    barrier,
    ceil_div,
    convert,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    static_assert,
    workgroup_array,
)
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty
from .reduction import (
    BOUNDS,
    ROW_OPS,
    SPECIAL,
    WORDS,
    combiner,
    expected,
    finished,
    prepared,
    sample,
)


@kernel(
    workgroup=lambda: (BX, BY, 1),
    grid=lambda: (ceil_div(inner, BX), len(y) // max(inner, 1), 1),
)
def reduce_axis(
    x: Read[T],
    y: Write[ACC],
    n: i32,
    inner: i32,
    *,
    OP: str = "sum",
    T: DType = f32,
    ACC: DType = f32,
    BX: int = 32,
    BY: int = 8,
):
    """y[o, c] = OP over k of x[o, k, c]; x is outer x n x inner, y outer x inner.

    The operations are those of `reduce_rows`; a max or min needs n > 0.
    """
    static_assert(OP in ROW_OPS, "OP is sum, mean, prod, l2, max or min")
    lx = local_id(0)
    ly = local_id(1)
    column = group_id(0) * BX + lx
    near = min(column, inner - 1)
    base = group_id(1) * n * inner + near
    total = convert(1 if OP == "prod" else 0, ACC)
    if OP == "max" or OP == "min":
        total = convert(x[base + min(ly, n - 1) * inner], ACC)
    for k in range(ly, n, BY):
        total = combiner(OP)(total, prepared(convert(x[base + k * inner], ACC), OP))
    if BY > 1:
        tile = workgroup_array(ACC, BX * BY)
        tile[ly * BX + lx] = total
        barrier()
        half = BY // 2
        while half > 0:
            if ly < half:
                mine = ly * BX + lx
                tile[mine] = combiner(OP)(tile[mine], tile[mine + half * BX])
            barrier()
            half = half // 2
        total = tile[lx]
    if ly == 0 and column < inner:
        y[group_id(1) * inner + column] = finished(total, n, OP, ACC)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, acc = dtype(constexprs), dtype(constexprs, "ACC")
    for outer, n, inner in ((1, 1, 1), (2, 300, 40), (1, 7, 129), (0, 3, 5)):
        x = sample(rng, (outer, n, inner), constexprs)
        if t.is_float and outer and n > 1:
            x[0, 1, 0] = np.nan if t.name != "bf16" else 0x7FC0
        yield {"x": x, "y": empty((outer, inner), acc), "n": n, "inner": inner}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    x = np.moveaxis(decode(args["x"], dtype(constexprs)), 1, 2)
    return {"y": expected(x, {**constexprs, "BLOCK": constexprs["BY"]})}


FAMILIES = (Family(reduce_axis, _inputs, _reference, WORDS, BOUNDS, SPECIAL),)
