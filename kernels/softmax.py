"""Softmax over the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    bool_,
    ceil_div,
    convert,
    device,
    exp,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    registers,
    select,
    static_assert,
    static_range,
    vec,
)
from .common import across, add, block_reduce, greater, load, load_row, spread, store, zeros
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
    special_rows,
)
from .reduction import PATH, terms


@device
def partial_top(x, base, n, BLOCK, VEC):
    """The greatest of this invocation's elements of the row at `base`, of n vectors."""
    lid = local_id(0)
    tops = convert(load(x, base + min(lid, n - 1), VEC), f32)
    for c in range(lid + BLOCK, n, BLOCK):
        # Not `max`, by which a NaN loses: a row with a NaN is NaN whatever is taken for its
        # greatest, and where `max` of the target is not said to do so, this takes less.
        more = convert(load(x, base + c, VEC), f32)
        tops = select(more > tops, more, tops)
    return across(tops, greater, VEC)


@device
def partial_sum(x, y, base, top, n, T, BLOCK, VEC):
    """The sum of this invocation's exponentials of a row, which stay in y if T is f32."""
    sums = zeros(f32, VEC)
    for c in range(local_id(0), n, BLOCK):
        e = exp(convert(load(x, base + c, VEC), f32) - top)
        if T == f32:
            store(y, base + c, e, VEC)
        sums = sums + e
    return across(sums, add, VEC)


@device
def sum_and_next_top(x, y, base, following, top, n, T, BLOCK):
    """`partial_sum`, and this invocation's greatest element of the row at `following`: reading that
    row overlaps with computing this one."""
    lid = local_id(0)
    ahead = convert(x[following + min(lid, n - 1)], f32)
    total = convert(0, f32)
    for c in range(lid, n, BLOCK):
        e = exp(convert(x[base + c], f32) - top)
        if T == f32:
            y[base + c] = e
        total = total + e
        ahead = max(ahead, convert(x[following + c], f32))
    return total, ahead


@device
def write_row(x, y, base, top, scale, n, T, BLOCK, VEC):
    """The row at `base` of y from the exponentials in y if T is f32, else from x."""
    for c in range(local_id(0), n, BLOCK):
        if T == f32:
            store(y, base + c, load(y, base + c, VEC) * scale, VEC)
        else:
            e = exp(convert(load(x, base + c, VEC), f32) - top)
            store(y, base + c, convert(e * scale, T), VEC)


@device
def softmax_row(x, y, cols, T, BLOCK, SUBGROUP, VEC):
    """A row by one workgroup, VEC neighbouring elements at a time where VEC divides cols."""
    n = cols // VEC
    base = group_id(0) * n
    wide = cols % VEC == 0
    if wide:
        top = partial_top(x, base, n, BLOCK, VEC)
    else:
        top = partial_top(x, group_id(0) * cols, cols, BLOCK, 1)
    top = block_reduce(top, greater, f32, BLOCK, SUBGROUP)
    if wide:
        total = partial_sum(x, y, base, top, n, T, BLOCK, VEC)
    else:
        total = partial_sum(x, y, group_id(0) * cols, top, cols, T, BLOCK, 1)
    scale = 1 / block_reduce(total, add, f32, BLOCK, SUBGROUP)
    if wide:
        write_row(x, y, base, top, scale, n, T, BLOCK, VEC)
    else:
        write_row(x, y, group_id(0) * cols, top, scale, cols, T, BLOCK, 1)


@device
def softmax_rows(x, y, cols, T, BLOCK, SUBGROUP, ROWS):
    """ROWS rows by one workgroup, which reads the next one while it computes the one before."""
    first = group_id(0) * ROWS
    top = partial_top(x, first * cols, cols, BLOCK, 1)
    top = block_reduce(top, greater, f32, BLOCK, SUBGROUP)
    count = len(y) // cols
    for row in range(first, min(first + ROWS, count)):
        base = row * cols
        following = min(row + 1, count - 1) * cols
        total, ahead = sum_and_next_top(x, y, base, following, top, cols, T, BLOCK)
        scale = 1 / block_reduce(total, add, f32, BLOCK, SUBGROUP)
        write_row(x, y, base, top, scale, cols, T, BLOCK, 1)
        top = block_reduce(ahead, greater, f32, BLOCK, SUBGROUP)


@device
def softmax_kept(x, y, cols, T, BLOCK, SUBGROUP, VEC, KEEP):
    """A row by one workgroup that reads it once: up to KEEP vectors stay with each invocation."""
    n = cols // VEC
    base = group_id(0) * n
    lid = local_id(0)
    row = load_row(x, base, n, T, BLOCK, VEC, KEEP)
    if T == f32:
        kept = row
    else:
        kept = registers(f32 if VEC == 1 else vec(f32, VEC), KEEP, 0)
        for k in static_range(KEEP):
            kept[k] = convert(row[k], f32)
    inside = registers(bool_, KEEP, False)
    tops = kept[0]
    for k in static_range(KEEP):
        inside[k] = lid + k * BLOCK < n
        tops = max(tops, kept[k])
    top = block_reduce(across(tops, greater, VEC), greater, f32, BLOCK, SUBGROUP)
    top = spread(top, f32, VEC)
    sums = zeros(f32, VEC)
    for k in static_range(KEEP):
        if inside[k]:
            kept[k] = exp(kept[k] - top)
            sums = sums + kept[k]
    scale = 1 / block_reduce(across(sums, add, VEC), add, f32, BLOCK, SUBGROUP)
    scale = spread(scale, f32, VEC)
    for k in static_range(KEEP):
        if inside[k]:
            store(y, base + (lid + k * BLOCK), convert(kept[k] * scale, T), VEC)


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(len(y) // max(cols, 1), ROWS), 1, 1),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def softmax(
    x: Read[T],
    y: ReadWrite[T],
    cols: i32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
    ROWS: int = 1,
    KEEP: int = 0,
    FAST: bool = False,
):
    """y[r, :] = exp(x[r, :] - max) / sum of them, in f32; x and y are row-major.

    A row of up to BLOCK * VEC * KEEP elements is read once and kept in registers. For others the
    exponentials are kept in y between the passes where T is f32, else computed twice. Several ROWS
    by one workgroup need KEEP = 0 and VEC = 1. FAST: the target's approximate exp, of a relative
    error of 2**-22 + 2**-23 |argument|, for results of fewer bits than that.
    """
    static_assert(ROWS == 1 or (KEEP == 0 and VEC == 1), "several rows need KEEP = 0 and VEC = 1")
    if KEEP > 0 and cols % VEC == 0 and cols // VEC <= BLOCK * KEEP:
        softmax_kept(x, y, cols, T, BLOCK, SUBGROUP, VEC, KEEP)
    elif ROWS == 1:
        softmax_row(x, y, cols, T, BLOCK, SUBGROUP, VEC)
    else:
        softmax_rows(x, y, cols, T, BLOCK, SUBGROUP, ROWS)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols, scale in (
        (1, 1, 1.0),
        (3, 1000, 4.0),
        (7, 257, 30.0),
        (1, 8192, 1.0),
        (2, 9000, 2.0),
    ):
        x = normal(rng, (rows, cols), t, scale)
        yield {"x": x, "y": empty((rows, cols), t), "cols": cols}
    for cols in (257, 1000):
        x = special_rows(rng, cols, t)
        yield {"x": x, "y": empty(x.shape, t), "cols": cols}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    x = decode(args["x"], t)
    with np.errstate(invalid="ignore"):
        shifted = x - x.max(-1, keepdims=True)
        e = np.exp(shifted)
        value = e / e.sum(-1, keepdims=True)
        off = np.where(e == 0, 0, np.abs(shifted * e))
    told = {
        "shift": np.where(e == 0, 0, shifted),
        "spread": off.sum(-1, keepdims=True) / e.sum(-1, keepdims=True),
        "times": 3 if constexprs["FAST"] else 1,
        "path": terms(x.shape[-1], constexprs["BLOCK"]),
    }
    return {"y": Expected(value, _BOUND(value=value, T=t, **told))}


# exp: its argument is rounded once (an absolute error of u |x|), FAST three times, then 2 ulp; the
# sum of positive terms; a division and a product.
_BOUND = bound(
    "value * ((abs(shift) + spread) * times * u(f32) + gamma(path + 16, f32) + u(T)) + least(T)"
    " + 2**-126",
    shift="x - max",
    spread="the mean of abs(shift) of the row with the results as weights",
    times="1; of FAST 3",
    path=PATH,
)
FAMILIES = (
    Family(
        softmax,
        _inputs,
        _reference,
        "f32 inside: exp 2 ulp, sum in fixed order; rounded once",
        {"": _BOUND},
    ),
)
