"""Gather and scatter along an axis, by indexes in a buffer.

An array is seen as outer x n x inner, n being the axis: rows of `inner` elements move. A negative
index counts from the end of the axis, as numpy's does; one outside -n ... n - 1 is a fault, where a
gather writes zeros and a scatter nothing.

`scatter_rows` has one result where indexes repeat: the last one wins, as in numpy. Which one that
is `scatter_last` finds first. `index_add` adds in any order, so that floats may differ in their
last bits from run to run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    Write,
    atomic_add,
    atomic_max,
    ceil_div,
    device,
    f32,
    global_id,
    group_id,
    i32,
    kernel,
    local_id,
    u32,
)
from .common import load, store, write_picked, zeros
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
from .movement import divided


@device
def wrapped(index, n):
    """An index with negative ones counted from the end, and whether it is one of the axis."""
    at = index
    if at < 0:
        at += n
    return at, at >= 0 and at < n


@device
def taken(x, rows, n, i, inner, T, VEC):
    """Vector i of y; `inner` counts vectors."""
    above, column = divided(u32(i), u32(inner))
    outer, pick = divided(above, u32(len(rows)))
    at, inside = wrapped(rows[pick], n)
    assert inside, "take: index outside the axis"
    value = zeros(T, VEC)
    if inside:
        value = load(x, (i32(outer) * n + at) * inner + i32(column), VEC)
    return value


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC * EACH), 1, 1))
def take(
    x: Read[T],
    rows: Read[I],
    y: Write[T],
    n: i32,
    inner: i32,
    *,
    T: DType = u32,
    I: DType = i32,
    BLOCK: int = 256,
    VEC: int = 1,
    EACH: int = 1,
):
    """y[o, r, :] = x[o, rows[r], :]; x is outer x n x inner, y outer x len(rows) x inner. In
    vectors, EACH to an invocation, where VEC divides inner and len(y)."""
    write_picked(y, taken, (x, rows, n), inner, T, BLOCK, VEC, EACH)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK), 1, 1))
def take_along(
    x: Read[T],
    indices: Read[I],
    y: Write[T],
    n: i32,
    picks: i32,
    inner: i32,
    *,
    T: DType = u32,
    I: DType = i32,
    BLOCK: int = 256,
):
    """y[o, r, c] = x[o, indices[o, r, c], c]; y and indices are outer x picks x inner."""
    i = global_id(0)
    if i < len(y):
        above, column = divided(u32(i), u32(inner))
        outer = i32(divided(above, u32(picks))[0])
        at, inside = wrapped(indices[i], n)
        assert inside, "take_along: index outside the axis"
        value = T(0)
        if inside:
            value = x[(outer * n + at) * inner + i32(column)]
        y[i] = value


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(rows), BLOCK), 1, 1))
def scatter_last(rows: Read[I], last: ReadWrite[i32], *, I: DType = i32, BLOCK: int = 256):
    """last[rows[r]] = max(itself, r): begun with -1, the last r that writes each row, if any."""
    r = global_id(0)
    if r < len(rows):
        at, inside = wrapped(rows[r], i32(len(last)))
        assert inside, "scatter_last: index outside the axis"
        if inside:
            atomic_max(last, at, i32(r))


@device
def scatter_one(updates, rows, last, y, i, inner, VEC):
    """Vector i of the updates; `inner` counts vectors."""
    n = i32(len(last))
    above, column = divided(u32(i), u32(inner))
    outer, pick = divided(above, u32(len(rows)))
    at, inside = wrapped(rows[pick], n)
    if inside and last[at] == i32(pick):
        store(y, (i32(outer) * n + at) * inner + i32(column), load(updates, i, VEC), VEC)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(updates), BLOCK * VEC), 1, 1))
def scatter_rows(
    updates: Read[T],
    rows: Read[I],
    last: Read[i32],
    y: ReadWrite[T],
    inner: i32,
    *,
    T: DType = u32,
    I: DType = i32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y[o, rows[r], :] = updates[o, r, :] where last[rows[r]] = r, as `scatter_last` leaves it.

    updates are outer x len(rows) x inner, y outer x len(last) x inner; the rest of y stays.
    """
    if VEC > 1 and inner % VEC == 0 and len(updates) % VEC == 0:
        if global_id(0) < len(updates) // VEC:
            scatter_one(updates, rows, last, y, i32(global_id(0)), inner // VEC, VEC)
    else:
        for k in range(VEC):
            i = i32((group_id(0) * VEC + k) * BLOCK + local_id(0))
            if i < len(updates):
                scatter_one(updates, rows, last, y, i, inner, 1)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(updates), BLOCK), 1, 1))
def index_add(
    updates: Read[T],
    rows: Read[I],
    y: ReadWrite[T],
    n: i32,
    inner: i32,
    *,
    T: DType = f32,
    I: DType = i32,
    BLOCK: int = 256,
):
    """y[o, rows[r], :] += updates[o, r, :], in any order; y is outer x n x inner."""
    i = global_id(0)
    if i < len(updates):
        above, column = divided(u32(i), u32(inner))
        outer, pick = divided(above, u32(len(rows)))
        at, inside = wrapped(rows[pick], n)
        assert inside, "index_add: index outside the axis"
        if inside:
            atomic_add(y, (i32(outer) * n + at) * inner + i32(column), updates[i])


# outer, n, picks, inner: with vectors and without, more picks than rows, and nothing at all
_SHAPES = ((1, 1, 1, 1), (1, 40, 9, 64), (3, 7, 11, 5), (2, 3, 0, 8))


def _rows(rng: np.random.Generator, n: int, picks: int, constexprs: Constexprs) -> np.ndarray:
    return rng.integers(-n, n, picks).astype(dtype(constexprs, "I").storage)


def _take_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for outer, n, picks, inner in _SHAPES:
        yield {
            "x": normal(rng, (outer, n, inner), t),
            "rows": _rows(rng, n, picks, constexprs),
            "y": empty((outer, picks, inner), t),
            "n": n,
            "inner": inner,
        }


def _take_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(args["x"][:, args["rows"]])}


def _along_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for outer, n, picks, inner in _SHAPES:
        shape = (outer, picks, inner)
        yield {
            "x": normal(rng, (outer, n, inner), t),
            "indices": rng.integers(-n, n, shape).astype(dtype(constexprs, "I").storage),
            "y": empty(shape, t),
            "n": n,
            "picks": picks,
            "inner": inner,
        }


def _along_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(np.take_along_axis(args["x"], args["indices"], 1))}


def _last_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for n, picks in ((1, 1), (40, 300), (2000, 300)):
        yield {"rows": _rows(rng, n, picks, constexprs), "last": np.full(n, -1, np.int32)}


def _last(rows: np.ndarray, n: int) -> np.ndarray:
    found = np.full(n, -1, np.int32)
    for r, at in enumerate(rows):
        found[at] = r
    return found


def _last_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"last": Expected(np.maximum(args["last"], _last(args["rows"], len(args["last"]))))}


def _scatter_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for outer, n, picks, inner in _SHAPES:
        rows = _rows(rng, n, picks, constexprs)
        yield {
            "updates": normal(rng, (outer, picks, inner), t),
            "rows": rows,
            "last": _last(rows, n),
            "y": empty((outer, n, inner), t),
            "inner": inner,
        }


def _scatter_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    y = args["y"].copy()
    for r, at in enumerate(args["rows"]):
        y[:, at] = args["updates"][:, r]
    return {"y": Expected(y)}


def _add_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for outer, n, picks, inner in _SHAPES:
        yield {
            "updates": normal(rng, (outer, picks, inner), t),
            "rows": _rows(rng, n, picks, constexprs),
            "y": normal(rng, (outer, n, inner), t),
            "n": n,
            "inner": inner,
        }


def _add_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    y, updates = decode(args["y"], t).copy(), decode(args["updates"], t)
    if not t.is_float:
        np.add.at(y, (slice(None), args["rows"]), updates)
        return {"y": Expected(y)}
    size, terms = np.abs(y), np.ones(y.shape[1])
    for r, at in enumerate(args["rows"]):
        y[:, at] += updates[:, r]
        size[:, at] += np.abs(updates[:, r])
        terms[at] += 1
    return {"y": Expected(y, _SUM_BOUND(value=y, size=size, n=terms.max(), T=t))}


# Each addition rounds once, and may take a denormal for zero.
_SUM_BOUND = bound(
    "size * gamma(n, T) + rounding(value, T) + 2**-126 * n",
    size="the sum of the magnitudes that an element is made of",
    n="the most that any element is made of",
)
_ANY_ORDER = "integers exact; floats: one rounding per addition, in any order"
FAMILIES = (
    Family(take, _take_inputs, _take_reference, "exact: moves bits"),
    Family(take_along, _along_inputs, _along_reference, "exact: moves bits"),
    Family(scatter_last, _last_inputs, _last_reference, "exact"),
    Family(scatter_rows, _scatter_inputs, _scatter_reference, "exact: moves bits"),
    Family(index_add, _add_inputs, _add_reference, _ANY_ORDER, {"floats": _SUM_BOUND}),
)
