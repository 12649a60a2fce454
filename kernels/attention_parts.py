"""What the subgroups of a workgroup, and the splits of a head's keys, have of attention, brought
together: sums of values at their own maxima of scores, in units of ln 2, and sums of weights.

A subgroup's part lies in workgroup memory: parts [subgroups, 16, HEAD_DIM], and side, whose first
two columns are the maximum and the sum. A split's part lies in partial and stats, as
`attention_decode` lays them out.
"""

from __future__ import annotations

from ..ir.lang import (
    atomic_add,
    convert,
    device,
    exp2,
    f32,
    fence,
    fma,
    fragment,
    fragment_column,
    fragment_store,
    i32,
    load_vector,
    local_id,
    registers,
    row_add,
    select,
    static_range,
    store_vector,
    subgroup_id,
    subgroup_lane,
    u32,
    vec,
)
from .attention_oracle import LOWEST

__all__ = ["comes_last", "gather_splits", "merge_splits", "spread", "write_rows", "write_split"]

_AT_ONCE = 4  # splits
_MERGED = 16  # of them, where an invocation has them alone


@device
def spread(parts, side, out, top, total, HEAD_DIM):
    """What a subgroup has of 16 rows in fragments, to workgroup memory."""
    w = i32(subgroup_id())
    for n in static_range(HEAD_DIM // 16):
        fragment_store(parts, (w, 0, 16 * n), out[n])
    whole = fragment(f32, "acc")(0.0) + row_add(total)
    most = fragment(f32, "acc")(0.0) + top
    first = fragment_column(fragment(f32, "acc")) == 0
    fragment_store(side, (w, 0, 0), select(first, most, whole))


@device
def joined(parts, side, row, col, WARPS):
    """Of 4 columns of a row what all subgroups have: the sum of values, the maximum, the sum of
    weights."""
    most = side[0, row, 0]
    for w in static_range(WARPS - 1):
        most = max(most, side[w + 1, row, 0])
    whole = f32(0)
    value = vec(f32, 4)(0)
    for w in static_range(WARPS):
        factor = exp2(side[w, row, 0] - most)
        whole = fma(side[w, row, 1], factor, whole)
        value = fma(load_vector(parts, (w, row, col), 4), vec(f32, 4)(factor), value)
    return value, most, whole


@device
def write_rows(parts, side, y, line, count, v_scale, T, WARPS, HEAD_DIM):
    """The results of `count` rows of y from row `line` on."""
    for at in range(i32(local_id(0)), count * (HEAD_DIM // 4), WARPS * 32):
        value, _, whole = joined(parts, side, at // (HEAD_DIM // 4), at % (HEAD_DIM // 4), WARPS)
        factor = v_scale / whole if whole != 0 else f32(0)
        store_vector(y, line * (HEAD_DIM // 4) + at, convert(value * vec(f32, 4)(factor), T))


@device
def write_split(parts, side, partial, stats, line, count, splits, split, WARPS, HEAD_DIM):
    """The part that a split has of `count` rows."""
    for at in range(i32(local_id(0)), count * (HEAD_DIM // 4), WARPS * 32):
        row, col = at // (HEAD_DIM // 4), at % (HEAD_DIM // 4)
        value, most, whole = joined(parts, side, row, col, WARPS)
        place = (line + row) * splits + split
        store_vector(partial, place * (HEAD_DIM // 4) + col, value)
        if col == 0:
            stats[2 * place] = most
            stats[2 * place + 1] = whole


@device
def comes_last(arrived, group, splits):
    """Whether this is the last of so many calls for a group, each of which sees what was written
    before those that came earlier; the count then begins anew."""
    fence("device", "acq_rel")
    before = atomic_add(arrived, group, u32(1))
    fence("device", "acq_rel")
    if before == u32(splits - 1):
        arrived[group] = u32(0)
    return before == u32(splits - 1)


@device
def gather_splits(parts, side, partial, stats, line, count, splits, WARPS, HEAD_DIM):
    """The parts of all splits, every WARPS-th of them by a subgroup, to workgroup memory."""
    VEC = HEAD_DIM // 32
    w = i32(subgroup_id())
    lane = i32(subgroup_lane())
    for row in range(count):
        most, whole = f32(LOWEST), f32(0)
        value = vec(f32, VEC)(0)
        for first in range(w, splits, _AT_ONCE * WARPS):
            ahead = registers(vec(f32, VEC), _AT_ONCE, 0)
            told = registers(vec(f32, 2), _AT_ONCE, 0)
            now = most
            for n in static_range(_AT_ONCE):
                s = first + n * WARPS
                at = (line + row) * splits + min(s, splits - 1)
                ahead[n] = load_vector(partial, at * 32 + lane, VEC)
                known = load_vector(stats, at, 2)
                told[n] = known if s < splits else vec(f32, 2)(LOWEST, 0)
                now = max(now, told[n][0])
            shrink = exp2(most - now)
            whole = whole * shrink
            value = value * vec(f32, VEC)(shrink)
            for n in static_range(_AT_ONCE):
                inside = first + n * WARPS < splits
                factor = select(inside, exp2(told[n][0] - now), f32(0))
                whole = fma(told[n][1], factor, whole)
                value = fma(ahead[n], vec(f32, VEC)(factor), value)
            most = now
        store_vector(parts, (w, row, lane), value)
        if lane == 0:
            side[w, row, 0] = most
            side[w, row, 1] = whole


@device
def merge_splits(partial, stats, y, line, count, splits, v_scale, T, WARPS, HEAD_DIM):
    """The results of `count` rows of y from row `line` on, of all splits: four columns of a row by
    an invocation, which reads many splits at once."""
    ACROSS = HEAD_DIM // 4
    for item in range(i32(local_id(0)), count * ACROSS, WARPS * 32):
        first = (line + item // ACROSS) * splits
        col = item % ACROSS
        most, whole = f32(LOWEST), f32(0)
        value = vec(f32, 4)(0)
        for start in range(0, splits, _MERGED):
            ahead = registers(vec(f32, 4), _MERGED, 0)
            told = registers(vec(f32, 2), _MERGED, 0)
            now = most
            for n in static_range(_MERGED):
                at = first + min(start + n, splits - 1)
                ahead[n] = load_vector(partial, at * ACROSS + col, 4)
                told[n] = load_vector(stats, at, 2)
                now = max(now, told[n][0])
            shrink = exp2(most - now)
            whole = whole * shrink
            value = value * vec(f32, 4)(shrink)
            for n in static_range(_MERGED):
                factor = select(start + n < splits, exp2(told[n][0] - now), f32(0))
                whole = fma(told[n][1], factor, whole)
                value = fma(ahead[n], vec(f32, 4)(factor), value)
            most = now
        factor = v_scale / whole if whole != 0 else f32(0)
        store_vector(y, line * ACROSS + item, convert(value * vec(f32, 4)(factor), T))
