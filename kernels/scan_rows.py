"""Cumulative sums and products along the rows of a matrix, forwards or backwards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    barrier,
    convert,
    device,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    registers,
    select,
    static_assert,
    static_range,
    subgroup_id,
    subgroup_lane,
    subgroup_shuffle,
    subgroup_shuffle_up,
    vec,
    workgroup_array,
)
from .common import load, store
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    encode,
)
from .reduction import combiner, sample


@device
def scan_tile(tile, i, value, combine, COUNT):
    """Replace tile[:COUNT] by its inclusive scan; `value` is tile[i] of each i < COUNT (Hillis and
    Steele: after the step with distance d, a cell covers 2 d of them)."""
    for step in static_range(11):
        if (1 << step) < COUNT:
            barrier()
            before = tile[max(i - (1 << step), 0)]
            barrier()
            if i >= (1 << step) and i < COUNT:
                value = combine(before, value)
                tile[i] = value
    barrier()


@device
def block_scan(value, start, combine, T, BLOCK, SUBGROUP):
    """`start` combined with the values of the invocations before this one, and with all of them."""
    lid = local_id(0)
    if SUBGROUP > 1:
        lane = subgroup_lane()
        for step in static_range(7):
            if (1 << step) < SUBGROUP:
                before = subgroup_shuffle_up(value, 1 << step)
                value = select(lane >= (1 << step), combine(before, value), value)
        exclusive = select(lane > 0, subgroup_shuffle_up(value, 1), start)
        everything = subgroup_shuffle(value, SUBGROUP - 1)
        if BLOCK > SUBGROUP:
            tile = workgroup_array(T, BLOCK // SUBGROUP)
            if lane == SUBGROUP - 1:
                tile[subgroup_id()] = value
            barrier()
            above = start
            everything = start
            for group in static_range(BLOCK // SUBGROUP):
                above = select(group < subgroup_id(), combine(above, tile[group]), above)
                everything = combine(everything, tile[group])
            exclusive = select(lane > 0, combine(above, exclusive), above)
            barrier()
    else:
        tile = workgroup_array(T, BLOCK)
        tile[lid] = value
        scan_tile(tile, lid, value, combine, BLOCK)
        exclusive = select(lid > 0, tile[max(lid - 1, 0)], start)
        everything = tile[BLOCK - 1]
        barrier()
    return exclusive, everything


@device
def scan_row(x, y, n, exclusive, reverse, OP, T, ACC, BLOCK, SUBGROUP, VEC):
    """A row of n vectors by one workgroup, BLOCK of them a time."""
    combine = combiner(OP)
    start = convert(1 if OP == "prod" else 0, ACC)
    carry = start
    base = group_id(0) * n
    for first in range(0, n, BLOCK):
        at = first + local_id(0)
        place = base + min(n - 1 - at if reverse != 0 else at, n - 1)
        inside = at < n
        own = registers(ACC, VEC, 0)  # inclusive
        total = start
        if inside:
            values = convert(load(x, place, VEC), ACC)
            for j in static_range(VEC):
                value = values
                if VEC > 1:
                    value = select(reverse != 0, values[VEC - 1 - j], values[j])
                total = combine(total, value)
                own[j] = total
        before, everything = block_scan(total, start, combine, ACC, BLOCK, SUBGROUP)
        before = combine(carry, before)
        carry = combine(carry, everything)
        found = registers(ACC, VEC, 0)
        for j in static_range(VEC):
            earlier = before if j == 0 else combine(before, own[j - 1])
            found[j] = select(exclusive != 0, earlier, combine(before, own[j]))
        if inside:
            if VEC == 1:
                y[place] = convert(found[0], T)
            else:
                result = vec(ACC, VEC)(start)
                for j in static_range(VEC):
                    result[j] = select(reverse != 0, found[VEC - 1 - j], found[j])
                store(y, place, convert(result, T), VEC)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y) // max(cols, 1), 1, 1))
def scan_rows(
    x: Read[T],
    y: Write[T],
    cols: i32,
    exclusive: i32,
    reverse: i32,
    *,
    OP: str = "sum",
    T: DType = f32,
    ACC: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
):
    """y[r, c] = OP (sum or prod) of x[r, :c + 1]; exclusive: of x[r, :c]; reverse: from the end.

    exclusive and reverse are 0 or 1. A NaN makes all that includes it one. In ACC, and rounded to T
    once.
    """
    static_assert(OP in ("sum", "prod"), "OP is sum or prod")
    if cols % VEC == 0:
        scan_row(x, y, cols // VEC, exclusive, reverse, OP, T, ACC, BLOCK, SUBGROUP, VEC)
    else:
        scan_row(x, y, cols, exclusive, reverse, OP, T, ACC, BLOCK, SUBGROUP, 1)


_SPECIAL = ((1.0, np.nan, 3.0, 2.0), (-np.inf, 1.0, 0.5, 2.0), (1.0, np.inf, 2.0, -np.inf))


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    arrays = [(0, sample(rng, shape, constexprs)) for shape in ((1, 1), (2, 1300), (3, 257))]
    arrays += [(3, sample(rng, (2, 2100), constexprs)), (2, sample(rng, (1, 516), constexprs))]
    if t.is_float:
        arrays += [(mode, encode(np.array(_SPECIAL), t)) for mode in (0, 3)]
    for mode, x in arrays:
        yield {
            "x": x,
            "y": empty(x.shape, t),
            "cols": x.shape[1],
            "exclusive": mode & 1,
            "reverse": mode >> 1,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, acc, op = dtype(constexprs), dtype(constexprs, "ACC"), constexprs["OP"]
    scan = np.cumsum if op == "sum" else np.cumprod
    x = decode(args["x"], t)
    if not t.is_float:
        x = x.astype(np.int64)
    x = x[:, ::-1] if args["reverse"] else x
    if args["exclusive"]:
        x = np.hstack([np.full((len(x), 1), op == "prod", x.dtype), x[:, :-1]])
    with np.errstate(all="ignore"):
        value, size = scan(x, -1), np.abs(x).cumsum(-1) if op == "sum" else np.abs(scan(x, -1))
    if args["reverse"]:
        value, size = value[:, ::-1], size[:, ::-1]
    if not t.is_float:
        return {"y": Expected(value.astype(t.storage))}
    # A sum's longest path; a product rounds once for each factor, in whatever order.
    tiles = -(-x.shape[1] // constexprs["BLOCK"])
    path = tiles + constexprs["VEC"] + 80 if op == "sum" else x.shape[1] + 2 * tiles + 80
    tolerance = _BOUND(size=size, path=path, ACC=acc, value=value, T=t)
    return {"y": Expected(value, np.nan_to_num(tolerance, posinf=0.0))}  # infinities are exact


_BOUND = bound(
    "size * gamma(path, ACC) + rounding(value, T) + 2**-126",
    size="the sum of the magnitudes up to the element; of a product, its magnitude",
    path="of a sum tiles + VEC + 80, of a product n + 2 * tiles + 80; a tile is BLOCK elements",
    ACC="the type of the sum",
)
FAMILIES = (
    Family(
        scan_rows,
        _inputs,
        _reference,
        "integers wrap and are exact; floats: one rounding per operation on the path, order fixed",
        {"floats": _BOUND},
    ),
)
