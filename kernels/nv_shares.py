"""Shares of the tiles of a matrix product for a fixed number of workgroups, whole tiles or not.

Where several workgroups share a tile, each leaves its sums in memory, and the one that comes last
adds them in the order of k, so that results do not depend on who that is.
"""

from __future__ import annotations

from ..ir.lang import (
    atomic_add,
    ceil_div,
    device,
    f32x4,
    fence,
    group_id,
    i32,
    load_vector,
    local_linear_id,
    num_groups,
    nv,
    select,
    static_range,
    store_vector,
    subgroup_any,
)


@device
def group_of(CLUSTER):
    """Number of this workgroup, or of its cluster, which makes tiles below each other together."""
    return group_id(0) // CLUSTER


@device
def groups_of(CLUSTER):
    """How many of these there are."""
    return num_groups(0) // CLUSTER


@device
def whole_tiles(tiles, LEAST, CLUSTER):
    """How many tiles, the first ones, are made by one workgroup each: all, or as many rounds as
    leave more than one and less than two to be shared evenly."""
    groups = groups_of(CLUSTER)
    if LEAST == 0:
        return tiles
    return select(tiles % groups == 0, tiles, max(tiles // groups - 1, 0) * groups)


@device
def items_of(tiles, steps, LEAST, CLUSTER):
    """(whole, shared, first, low, high): tiles of this workgroup that are whole and parts of
    others, of which the first one is number `first`; its units of those, each a step of a tile."""
    group = group_of(CLUSTER)
    groups = groups_of(CLUSTER)
    alone = whole_tiles(tiles, LEAST, CLUSTER)
    whole = max(ceil_div(alone - group, groups), 0)
    if LEAST == 0:
        return whole, i32(0), i32(0), i32(0), i32(0)
    units = (tiles - alone) * steps
    low = units * group // groups
    high = units * (group + 1) // groups
    first = low // steps
    shared = select(high > low, (high - 1) // steps - first + 1, i32(0))
    return whole, shared, first, low, high


@device
def item_of(item, tiles, steps, whole, first, low, high, LEAST, CLUSTER):
    """(tile, begin, end) of an item: the steps of a tile."""
    alone = group_of(CLUSTER) + item * groups_of(CLUSTER)
    if LEAST == 0:
        return alone, i32(0), steps
    tile = first + item - whole
    begin = max(low - tile * steps, 0)
    end = min(high - tile * steps, steps)
    full = item < whole
    return (
        select(full, alone, whole_tiles(tiles, LEAST, CLUSTER) + tile),
        select(full, i32(0), begin),
        select(full, steps, end),
    )


@device
def last_of(counts, place, pieces, said, own):
    """Whether this warpgroup is the last one to have left its sums of a tile."""
    nv.named_barrier(1 + own, 128)
    if local_linear_id() % 128 == 0:
        fence("device")  # for all that met at the barrier
        come = atomic_add(counts, place, 1)
        if come == pieces - 1:
            counts[place] = 0  # for the next launch
            fence("device")
        said[own] = come
    nv.named_barrier(1 + own, 128)
    return subgroup_any(said[own] == pieces - 1)  # all lanes read the same


@device
def joined(totals, partial, counts, said, tile, spread, own, lane, BLOCKS, BN, STRIPES):
    """Leave the sums of a part of a tile; the last one to come gets those of all parts, added in
    the order of k. Whether that is this one."""
    steps, units, first = spread
    groups = num_groups(0)
    words = BLOCKS * BN // 8
    begin = ((tile * steps + 1) * groups - 1) // units
    end = ((tile + 1) * steps * groups - 1) // units
    mine = 2 * group_id(0) + min(tile - first, 1)
    for r in static_range(BLOCKS):
        for i in static_range(BN // 8):
            at = ((mine * STRIPES + lane) * words + r * (BN // 8) + i) * 128
            value = f32x4(
                totals[r][4 * i], totals[r][4 * i + 1], totals[r][4 * i + 2], totals[r][4 * i + 3]
            )
            store_vector(partial, at + local_linear_id() % 128, value)
    if not last_of(counts, tile * STRIPES + lane, end - begin + 1, said, own):
        return False
    for r in static_range(BLOCKS):
        for i in static_range(BN // 2):
            totals[r][i] = 0.0
    for group in range(begin, end + 1):
        slot = 2 * group + min(tile - units * group // groups // steps, 1)
        for r in static_range(BLOCKS):
            for i in static_range(BN // 8):
                at = ((slot * STRIPES + lane) * words + r * (BN // 8) + i) * 128
                value = load_vector(partial, at + local_linear_id() % 128, 4)
                for j in static_range(4):
                    totals[r][4 * i + j] += value[j]
    return True
