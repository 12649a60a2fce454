"""Scatter with a reduction, for single elements or rows; and indexes of several axes in one.

`scatter_reduce` does what numpy's ufunc.at does, in the order of the updates, so that results are
the same from run to run: an invocation has a column of y to itself and goes through all picks.
Where there are many picks of few columns, `index_add` of f32 or i32, in any order, is faster.

Of an x with several indexed axes, `flatten_nd` makes rows of each tuple of indexes; then `take`
gathers them, and `scatter_rows`, `index_add` or `scatter_reduce` scatter to them, with x seen as
1 x (batches * the product of the axes) x inner.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    Write,
    ceil_div,
    device,
    f32,
    global_id,
    i32,
    kernel,
    select,
    static_assert,
    u32,
)
from .common import is_product
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
from .indexing import wrapped
from .movement import divided

OPS = ("set", "add", "mul", "min", "max")
OUTSIDE = -(2**31)  # of no axis an index, even counted from its end


@device
def joined(old, new, OP):
    """old OP new; of a min or max, a NaN loses."""
    static_assert(OP in OPS, "OP is set, add, mul, min or max")
    if OP == "add":
        return old + new
    if OP == "mul":
        return old * new
    if OP == "min":
        return min(old, new)
    if OP == "max":
        return max(old, new)
    return new


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y) // max(n, 1), BLOCK), 1, 1))
def scatter_reduce(
    updates: Read[T],
    indices: Read[I],
    y: ReadWrite[T],
    n: i32,
    picks: i32,
    inner: i32,
    *,
    OP: str = "add",
    EACH: bool = True,
    T: DType = f32,
    I: DType = i32,
    BLOCK: int = 64,
):
    """y[o, indices[o, r, c], c] = itself OP updates[o, r, c], for r = 0, 1, ... picks - 1 in turn.

    y is outer x n x inner, updates and indices are outer x picks x inner; not EACH: there are
    `picks` indices, the same for all o and c. OP: set (the last one stays), add, mul, min or max,
    in T. A negative index counts from the end of the axis; one outside is a fault and does nothing.
    """
    column = i32(global_id(0))
    columns = i32(len(y)) // max(n, 1)
    sized = columns * n == i32(len(y)) and inner > 0 and columns % max(inner, 1) == 0
    sized = sized and is_product(len(updates), (columns, picks))
    sized = sized and i32(len(indices)) == (columns * picks if EACH else picks)
    assert sized, "scatter_reduce: updates or indices of another size than picks of y's columns"
    if sized and column < columns:
        above, along = divided(u32(column), u32(inner))
        outer = i32(above)
        for r in range(picks):
            source = (outer * picks + r) * inner + i32(along)
            at, inside = wrapped(i32(indices[source if EACH else r]), n)
            assert inside, "scatter_reduce: index outside the axis"
            if inside:
                target = (outer * n + at) * inner + i32(along)
                y[target] = joined(y[target], updates[source], OP)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(rows), BLOCK), 1, 1))
def flatten_nd(
    indices: Read[I],
    dims: Read[i32],
    rows: Write[i32],
    picks: i32,
    *,
    I: DType = i32,
    BLOCK: int = 256,
):
    """rows[r] = the row that indices[r, :] name in an array of axes `dims`, row-major.

    indices are batches * picks x len(dims); those of batch b name rows of the b-th array. A
    negative index counts from the end of its axis; one outside of it is a fault, and gives -2**31,
    which is a row of nothing.
    """
    r = i32(global_id(0))
    sized = is_product(len(indices), (i32(len(rows)), i32(len(dims))))
    assert sized, "flatten_nd: indices that are not one for each axis of each row"
    if r < i32(len(rows)):
        place = i32(divided(u32(r), u32(max(picks, 1)))[0])
        good = sized
        for axis in range(select(sized, i32(len(dims)), 0)):
            at, inside = wrapped(i32(indices[r * i32(len(dims)) + axis]), dims[axis])
            assert inside, "flatten_nd: index outside its axis"
            good = good and inside
            place = place * dims[axis] + at
        rows[r] = select(good, place, OUTSIDE)


# outer, n, picks, inner: more picks than rows, a column of an axis of one, and nothing at all
_SHAPES = ((1, 1, 1, 1), (1, 40, 9, 33), (3, 7, 21, 5), (2, 3, 0, 8), (70, 2, 4, 1))


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, index = dtype(constexprs), dtype(constexprs, "I")
    for outer, n, picks, inner in _SHAPES:
        shape = (outer, picks, inner) if constexprs["EACH"] else (picks,)
        updates, y = normal(rng, (outer, picks, inner), t), normal(rng, (outer, n, inner), t)
        if t.is_float and picks > 1:
            updates[0, 1, :1], y[0, 0, :1] = np.nan, np.inf
        yield {
            "updates": updates,
            "indices": rng.integers(-n, n, shape).astype(index.storage),
            "y": y,
            "n": n,
            "picks": picks,
            "inner": inner,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, op = dtype(constexprs), constexprs["OP"]
    updates, y = decode(args["updates"], t), decode(args["y"], t).copy()
    shape = (y.shape[0], args["picks"], y.shape[2])
    each = args["indices"] if constexprs["EACH"] else args["indices"][None, :, None]
    at = np.broadcast_to(each, shape) % max(args["n"], 1)
    o, _, c = np.indices(shape)
    size, terms = np.abs(y), np.ones(y.shape)
    with np.errstate(all="ignore"):
        if op == "set":
            for r in range(args["picks"]):
                y[o[:, r], at[:, r], c[:, r]] = updates[:, r]
            return {"y": Expected(y)}
        ufuncs = {"add": np.add, "mul": np.multiply, "min": np.fmin, "max": np.fmax}
        ufuncs[op].at(y, (o, at, c), updates)
        if op in ("min", "max"):
            return {"y": Expected(y)}
        np.add.at(terms, (o, at, c), 1)
        np.add.at(size, (o, at, c), np.abs(updates))
        size = size if op == "add" else np.abs(y)
        error = _BOUND(size=size, most=terms.max(initial=1), n=terms, T=t)
    return {"y": Expected(y, np.where(np.isfinite(y), error, 0))}


def _flatten_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    index = dtype(constexprs, "I")
    for dims, batches, picks in (
        ((5,), 1, 1),
        ((3, 7, 2), 4, 70),
        ((2, 1, 3, 2, 5, 4, 3), 1, 300),
        ((), 3, 1),
        ((4, 0), 2, 0),
    ):
        most = np.array(dims, np.int32)
        indices = np.zeros((batches * picks, len(dims)), index.storage)
        for axis, n in enumerate(dims if picks else ()):
            indices[:, axis] = rng.integers(-n, n, batches * picks)
        yield {
            "indices": indices,
            "dims": most,
            "rows": empty(batches * picks, i32),
            "picks": picks,
        }


def _flatten_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    dims = args["dims"]
    rows = np.arange(len(args["rows"])) // max(args["picks"], 1)
    for axis, n in enumerate(dims):
        rows = rows * n + args["indices"][:, axis] % max(n, 1)
    return {"rows": Expected(rows)}


_IN_ORDER = "in the order of picks; add and mul: one rounding each; set, min, max: exact"
# One rounding a step, of which denormals may become zero.
_BOUND = bound(
    "size * gamma(most, T) + 2**-126 * n",
    size="of add the sum of the magnitudes, of mul that of the result",
    n="what the element is made of",
    most="the most that any is made of",
)
FAMILIES = (
    Family(scatter_reduce, _inputs, _reference, _IN_ORDER, {"add and mul of floats": _BOUND}),
    Family(flatten_nd, _flatten_inputs, _flatten_reference, "exact"),
)
