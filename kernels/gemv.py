"""Matrix times vector."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    convert,
    device,
    f32,
    fma,
    group_id,
    i32,
    kernel,
    load_vector,
    local_id,
    nv,
    registers,
    select,
    static_assert,
    static_range,
    vec,
)
from .common import across, add, block_reduce
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


@device
def add_wide(sums, a, x, first, last, cols, T, BLOCK, VEC, ROWS, DEEP):
    """Add what this invocation has of the products of ROWS rows from `first` on with x: every
    BLOCK-th vector of VEC. Behind row `last` that one is repeated. DEEP vectors of a row are on
    their way together."""
    vectors = cols // VEC
    totals = registers(vec(f32, VEC), ROWS, 0)
    for start in range(local_id(0) % BLOCK, vectors, BLOCK * DEEP):
        found = registers(vec(T, VEC), (ROWS, DEEP), 0)
        values = registers(vec(T, VEC), DEEP, 0)
        for d in static_range(DEEP):
            # No branch stands between loads; behind the row its last vector is read.
            at = min(start + d * BLOCK, vectors - 1)
            for r in static_range(ROWS):
                found[r, d] = load_vector(a, min(first + r, last) * vectors + at, VEC)
            values[d] = load_vector(x, at, VEC)
        for d in static_range(DEEP):
            inside = start + d * BLOCK < vectors
            value = convert(values[d], vec(f32, VEC))
            for r in static_range(ROWS):
                more = fma(convert(found[r, d], vec(f32, VEC)), value, totals[r])
                totals[r] = select(inside, more, totals[r])
    for r in static_range(ROWS):
        sums[r] += across(totals[r], add, VEC)


@kernel(
    workgroup=lambda: (BLOCK * TEAMS, 1, 1), grid=lambda: (ceil_div(len(y), ROWS * TEAMS), 1, 1)
)
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
    VEC: int = 1,
    ROWS: int = 1,
    DEEP: int = 1,
    TEAMS: int = 1,
    EARLY: bool = False,
):
    """y = a @ x; a is len(y) x cols, row-major; f32 accumulation.

    BLOCK invocations share ROWS rows, of which they read VEC neighbours at a time where VEC divides
    cols; TEAMS of BLOCK are a workgroup, several of which need BLOCK = SUBGROUP. EARLY: launches
    that follow in a recording begin before this one ends (NVIDIA).
    """
    static_assert(TEAMS == 1 or SUBGROUP == BLOCK, "several TEAMS need BLOCK = SUBGROUP")
    if EARLY:
        nv.launch_next()
        nv.wait_for_previous()
    first = (group_id(0) * TEAMS + local_id(0) // BLOCK) * ROWS
    last = len(y) - 1
    lid = local_id(0) % BLOCK
    sums = registers(f32, ROWS, 0)
    if VEC > 1 and cols % VEC == 0:
        add_wide(sums, a, x, first, last, cols, T, BLOCK, VEC, ROWS, DEEP)
    else:
        for r in static_range(ROWS):
            base = min(first + r, last) * cols
            for c in range(lid, cols, BLOCK):
                sums[r] = fma(convert(a[base + c], f32), convert(x[c], f32), sums[r])
    for r in static_range(ROWS):
        total = block_reduce(sums[r], add, f32, BLOCK, SUBGROUP)
        if lid == 0 and first + r <= last:
            y[first + r] = convert(total, OUT)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    # The longest row is more than one turn of each variant that is tuned.
    for rows, cols in ((1, 1), (5, 384), (33, 1000), (2, 3003), (3, 8200)):
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
