"""The place of the greatest element: of every row, and of a whole array in two steps.

The first of equal elements wins and a NaN never does; where all are NaN the index is -1 and the
value 0. A whole array goes through `argmax_partials` (one pair per workgroup) and `argmax_merge`
(one workgroup).
"""

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
    num_groups,
)
from .common import better, block_argmax
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, normal, special_rows


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y), 1, 1))
def argmax_rows(
    x: Read[T], y: Write[i32], cols: i32, *, T: DType = f32, BLOCK: int = 256, SUBGROUP: int = 1
):
    """y[r] = column of the greatest element of row r (-1: all NaN); x is row-major."""
    row = group_id(0)
    base = row * cols
    lid = local_id(0)
    best = T(0)
    place = i32(-1)
    for c in range(lid, cols, BLOCK):
        value = x[base + c]
        # Columns come in order, so only a greater one may replace; NaN compares false.
        if (value > best or place < 0) and value == value:
            best = value
            place = i32(c)
    best, place = block_argmax(best, place, T, BLOCK, SUBGROUP)
    if lid == 0:
        y[row] = place


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(indices), 1, 1))
def argmax_partials(
    x: Read[T],
    values: Write[T],
    indices: Write[i32],
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
):
    """(values[g], indices[g]): the greatest element of the g-th run of x and its place in x.

    values of another length than indices are a fault, and are not written.
    """
    held = len(values) == len(indices)
    assert held, "argmax_partials: values and indices differ in length"
    group = group_id(0)
    lid = local_id(0)
    run = (len(x) + num_groups(0) - 1) // num_groups(0)
    first = min(group * run, len(x))
    last = min(first + run, len(x))
    best = T(0)
    place = i32(-1)
    for i in range(first + lid, last, BLOCK):
        value = x[i]
        if (value > best or place < 0) and value == value:
            best = value
            place = i32(i)
    best, place = block_argmax(best, place, T, BLOCK, SUBGROUP)
    if lid == 0 and held:
        values[group] = best
        indices[group] = place


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (1, 1, 1))
def argmax_merge(
    values: Read[T],
    indices: Read[i32],
    y: Write[i32],
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
):
    """y[0] = the index that belongs to the greatest value; pairs with index -1 do not count.

    values of another length than indices are a fault, and -1.
    """
    held = len(values) == len(indices)
    assert held, "argmax_merge: values and indices differ in length"
    lid = local_id(0)
    best = T(0)
    place = i32(-1)
    for i in range(lid, len(values) if held else 0, BLOCK):
        if better(best, place, values[i], indices[i]):
            best = values[i]
            place = indices[i]
    best, place = block_argmax(best, place, T, BLOCK, SUBGROUP)
    if lid == 0:
        y[0] = place


def first_greatest(x: np.ndarray) -> np.ndarray:
    """The index of the first greatest non-NaN element along the last axis, -1 without one."""
    if x.dtype.kind != "f":
        return x.argmax(-1)
    best = np.where(np.isnan(x), -np.inf, x).max(-1, keepdims=True)
    hits = x == best
    return np.where(hits.any(-1), hits.argmax(-1), -1)


def _sample(
    rng: np.random.Generator, shape: tuple[int, ...], constexprs: Constexprs, ties: bool
) -> np.ndarray:
    """ties: the greatest in several places of one lane; else anywhere, so that what a lane brings
    to the result is missed."""
    t = dtype(constexprs)
    x = normal(rng, shape, t)
    if ties:
        flat = x.reshape(-1)
        flat[3::64] = flat[decode(flat, t).argmax()]
    return x


def _rows_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols, ties in ((1, 1, True), (5, 1000, True), (9, 257, True), (40, 999, False)):
        x = _sample(rng, (rows, cols), constexprs, ties)
        yield {"x": x, "y": empty(rows, i32), "cols": cols}
    if t.name in ("f32", "f16"):
        x = np.array([[np.nan, 1, np.nan, 2], [np.nan] * 4, [-np.inf] * 4, [1, np.inf, np.inf, 0]])
        yield {"x": x.astype(t.storage), "y": empty(4, i32), "cols": 4}


def _rows_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(first_greatest(decode(args["x"], dtype(constexprs))))}


def _partials_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for n, groups, ties in ((1, 1, True), (10_000, 7, True), (10_000, 40, False)):
        x = _sample(rng, (n,), constexprs, ties)
        yield {"x": x, "values": empty(groups, t), "indices": empty(groups, i32)}
    if t.is_float:
        x = special_rows(rng, 1000, t)
        yield {"x": x.reshape(-1), "values": empty(len(x), t), "indices": empty(len(x), i32)}


def _partials_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    x, groups = decode(args["x"], dtype(constexprs)), len(args["indices"])
    run = -(-len(x) // groups)
    places = [int(first_greatest(x[g * run : (g + 1) * run])) + g * run for g in range(groups)]
    return {"values": Expected(x[places]), "indices": Expected(np.array(places))}


def _merge_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for n, ties in ((1, True), (300, True), *(((300, False),) * 20)):
        values = _sample(rng, (n,), constexprs, ties)
        indices = rng.permutation(n).astype(np.int32)
        indices[::7] = -1 if n > 1 else 0
        yield {"values": values, "indices": indices, "y": empty(1, i32)}


def _merge_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    values, indices = decode(args["values"], dtype(constexprs)), args["indices"]
    order = sorted(
        (-v, i) for v, i in zip(values.tolist(), indices.tolist(), strict=True) if i >= 0
    )
    return {"y": Expected(np.array([order[0][1]]))}


_WORDS = "exact"
FAMILIES = (
    Family(argmax_rows, _rows_inputs, _rows_reference, _WORDS),
    Family(argmax_partials, _partials_inputs, _partials_reference, _WORDS),
    Family(argmax_merge, _merge_inputs, _merge_reference, _WORDS),
)
