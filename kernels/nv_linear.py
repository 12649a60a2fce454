"""Products with the weights of linear layers on Hopper, for few rows and many."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Function,
    Read,
    ReadWrite,
    Write,
    barrier,
    ceil_div,
    convert,
    device,
    f16,
    f32,
    i32,
    kernel,
    local_linear_id,
    num_groups,
    nv,
    registers,
    select,
    static_assert,
    static_range,
    workgroup_array,
)
from .family import Args, Constexprs, Expected, Family, bound, dtype
from .matmul import (  # noqa: F401 (specializations name relu)
    expected_product,
    identity,
    product_args,
    product_bound,
    relu,
)
from .nv_matmul import give_back, place_of, rank_of, write_rows
from .nv_ring import next_stage
from .nv_shares import item_of, items_of, joined, whole_tiles

DEPTH = 64  # of a tile: 128 bytes


@device
def fill(tile_l, tile_r, full, free, high, wide, k, maps, BN, STAGES, ROWS, CLUSTER,
         GROUP, LEAST):  # fmt: skip
    """One invocation fills the ring, for one item after the other."""
    map_l, map_r = maps
    everyone = (1 << CLUSTER) - 1 if CLUSTER > 1 else None
    rank = rank_of(CLUSTER)
    steps = ceil_div(k, DEPTH)
    tiles = high * wide
    whole, shared, first, low, top = items_of(tiles, steps, LEAST, CLUSTER)
    stage = i32(0)
    turn = i32(0)
    for item in range(whole + shared):
        tile, begin, end = item_of(item, tiles, steps, whole, first, low, top, LEAST, CLUSTER)
        row, column = place_of(tile, high, wide, GROUP)
        for step in range(begin, end):
            nv.wait(free, stage, turn ^ 1)
            nv.expect(full, stage, (ROWS + BN) * 128)
            top_l = (row * CLUSTER + rank) * ROWS
            nv.tensor_load(map_l, (top_l, step * DEPTH), tile_l, (stage, 0, 0), full, stage)
            part = rank * (BN // CLUSTER)  # of the right tile, which this workgroup copies to all
            at = (column * BN + part, step * DEPTH)
            nv.tensor_load(map_r, at, tile_r, (stage, part, 0), full, stage, multicast=everyone)
            stage, turn = next_stage(stage, turn, STAGES)


@device
def announce(map_b, high, wide, k, BN, ROWS, CLUSTER, GROUP, LEAST, SWAP, AHEAD):
    """One invocation lets the cache fetch the first AHEAD tiles of b of its first item."""
    steps = ceil_div(k, DEPTH)
    tiles = high * wide
    whole, _, first, low, last = items_of(tiles, steps, LEAST, CLUSTER)
    tile, begin, end = item_of(i32(0), tiles, steps, whole, first, low, last, LEAST, CLUSTER)
    row, column = place_of(tile, high, wide, GROUP)
    rank = rank_of(CLUSTER)
    top = (row * CLUSTER + rank) * ROWS if SWAP else column * BN + rank * (BN // CLUSTER)
    for step in range(begin, min(end, begin + AHEAD)):
        nv.tensor_prefetch(map_b, (top, step * DEPTH))


@device
def write_columns(total, map_c, out, top, left, side, own, scale, OUT, BN, EPILOGUE):
    """`write_rows` where the sums are those of c transposed: their columns are rows of c."""
    leads = local_linear_id() % 128 == 0
    line = nv.wgmma_row(0)
    inner = nv.wgmma_column(0)
    if leads:
        nv.bulk_wait(pending=1, read=True)
    nv.named_barrier(1 + own, 128)
    place = 2 * own + side
    for i in static_range(BN // 2):
        down = inner + 8 * (i // 4) + i % 2
        across = line + 8 * (i // 2 % 2)
        chunk = (across // 8) ^ (down % 8)
        out[(place * BN + down) * 64 + chunk * 8 + across % 8] = convert(
            EPILOGUE(total[i] * scale), OUT
        )
    nv.fence_async()
    nv.named_barrier(1 + own, 128)
    if leads:
        nv.tensor_store(map_c, (left, top), out, (place * BN * 64,))
        nv.bulk_commit()
    return side ^ 1


@device
def multiply(tile_l, tile_r, out, said, full, free, order, map_c, partial, counts, high, wide, k,
             scale, OUT, BN, STAGES, BLOCKS, ROWS, STRIPES, CLUSTER, GROUP, LEAST, SWAP,
             TURNS, EPILOGUE):  # fmt: skip
    """A warpgroup makes 64 * BLOCKS rows of each item; with TURNS all rows of every TURNS-th."""
    steps = ceil_div(k, DEPTH)
    tiles = high * wide
    whole, shared, first, low, top = items_of(tiles, steps, LEAST, CLUSTER)
    own = i32(nv.warpgroup()) - 1
    rank = rank_of(CLUSTER)
    lane = i32(0) if TURNS > 1 else own  # which rows of a tile
    leads = local_linear_id() % 32 == 0
    side = i32(0)
    done = i32(0)  # steps of the items before
    for item in range(whole + shared):
        tile, begin, end = item_of(item, tiles, steps, whole, first, low, top, LEAST, CLUSTER)
        if TURNS == 1 or item % TURNS == own:
            stage = done % STAGES
            turn = done // STAGES % 2
            before = i32(0)
            totals = (registers(f32, BN // 2), registers(f32, BN // 2))
            if TURNS > 1:  # a phase is told from the one before by its parity alone
                nv.wait(order, own, (item // TURNS + select(own == 0, i32(1), i32(0))) % 2)
            for step in range(begin, end):
                nv.wait(full, stage, turn)
                nv.wgmma_fence()
                for r in static_range(BLOCKS):
                    at = (stage, 64 * (lane * BLOCKS + r), 0)
                    nv.wgmma(totals[r], tile_l, at, tile_r, (stage, 0, 0))
                nv.wgmma_commit()
                nv.wgmma_wait(pending=1)
                if leads and step > begin:
                    give_back(free, before, CLUSTER)  # its products are done
                before = stage
                stage, turn = next_stage(stage, turn, STAGES)
            if TURNS > 1 and local_linear_id() % 128 == 0:
                nv.arrive(order, (own + 1) % TURNS)
            for r in static_range(BLOCKS):
                nv.wgmma_wait(totals[r])
            if leads:
                give_back(free, before, CLUSTER)
            mine = True
            if LEAST > 0 and end - begin < steps:
                alone = whole_tiles(tiles, LEAST, CLUSTER)
                spread = (steps, (tiles - alone) * steps, first)
                mine = joined(totals, partial, counts, said, tile - alone, spread, own, lane,
                              BLOCKS, BN, STRIPES)  # fmt: skip
            if mine:
                row, column = place_of(tile, high, wide, GROUP)
                for r in static_range(BLOCKS):
                    at = (row * CLUSTER + rank) * ROWS + 64 * (lane * BLOCKS + r)
                    if SWAP:
                        side = write_columns(totals[r], map_c, out, at, column * BN, side, own,
                                             scale, OUT, BN, EPILOGUE)  # fmt: skip
                    else:
                        side = write_rows(totals[r], map_c, out, at, column * BN, side, own,
                                          scale, OUT, BN, EPILOGUE)  # fmt: skip
        done += end - begin
    if local_linear_id() % 128 == 0:
        nv.bulk_wait(read=True)


@kernel(
    workgroup=lambda: (128 * (1 + CONSUMERS), 1, 1),
    # Tiles, or shares of their steps.
    grid=lambda: (
        min(
            max(
                ceil_div(n if SWAP else m, 64 * BLOCKS * CONSUMERS // TURNS * CLUSTER)
                * ceil_div(m if SWAP else n, BN),
                ceil_div(
                    ceil_div(n if SWAP else m, 64 * BLOCKS * CONSUMERS // TURNS * CLUSTER)
                    * ceil_div(m if SWAP else n, BN)
                    * ceil_div(k, 64),
                    LEAST if LEAST else 1048576,
                ),
            ),
            GROUPS // CLUSTER,
        )
        * CLUSTER
    ),
)
def nv_linear(
    a: Read[T],
    b: Read[T],
    c: Write[OUT],
    partial: ReadWrite[f32],
    counts: ReadWrite[i32],
    m: i32,
    n: i32,
    k: i32,
    scale: f32,
    *,
    T: DType = f16,
    OUT: DType = f16,
    EPILOGUE: Function = identity,
    BN: int = 256,
    STAGES: int = 4,
    CONSUMERS: int = 2,
    BLOCKS: int = 1,
    TURNS: int = 1,
    SWAP: bool = False,
    LEAST: int = 0,
    AHEAD: int = 0,
    CLUSTER: int = 1,
    GROUP: int = 8,
    GROUPS: int = 132,
    SUBGROUP: int = 32,
):
    """c = EPILOGUE(scale * (a @ b.T)): a is m x k, b is n x k, as the weights of a linear layer
    are, c is m x n, all row-major and of 16-bit elements; n and k are multiples of 8.

    A workgroup makes tiles of c, or parts of tiles; its first warpgroup copies operands to a ring
    of STAGES tiles 64 deep, each of CONSUMERS others multiplies 64 * BLOCKS rows with BN columns.
    TURNS = CONSUMERS: they take turns at tiles, so that one multiplies while the other writes.
    SWAP: tiles are those of c transposed, so that rows are of b: m may be as small as a column of
    tiles is wide. LEAST: what are not whole rounds of tiles for all workgroups is shared evenly
    along k, by workgroups with so many steps of 64 or more; 0: tiles are whole. The results are
    the same bits each time. AHEAD: tiles of b that the cache fetches for a workgroup while what was
    launched before still runs.

    partial and counts are workspace, which nothing else may use at the same time: two tiles of sums
    and 2 * CONSUMERS counts for each workgroup; 1,048,576 and 256 elements are enough for every
    variant that ships, too few are a fault. What is in partial does not matter; counts are zeros,
    and zeros again afterwards. GROUPS: as many workgroups as the device holds at
    once, 132 on an H200.
    """
    static_assert(T.bits == 16 and OUT.bits == 16, "16-bit elements and results")
    static_assert(BN % 8 == 0 and (SWAP or BN >= 64), "BN is a multiple of 8, 64 at least")
    static_assert(BN % (8 * CLUSTER) == 0, "BN is a multiple of 8 columns for each of a cluster")
    static_assert(LEAST == 0 or CLUSTER == 1, "workgroups of a cluster make whole tiles")
    static_assert(TURNS in (1, CONSUMERS), "all warpgroups take turns, or none")
    many = BLOCKS * BN >= 192  # registers of sums
    # 40 + 2 * 232 of the 504 that a launch has for each lane of three warpgroups: a fourth one
    # would wait for registers that nobody gives back.
    static_assert(
        not many or CONSUMERS <= 2, "registers of BLOCKS * BN >= 192 are for CONSUMERS <= 2"
    )
    STRIPES = CONSUMERS // TURNS  # warpgroups that share a tile
    ROWS = 64 * BLOCKS * STRIPES
    tile_l = workgroup_array(T, (STAGES, ROWS, DEPTH))
    tile_r = workgroup_array(T, (STAGES, BN, DEPTH))
    out = workgroup_array(OUT, CONSUMERS * 2 * 64 * (BN if SWAP else 64))
    said = workgroup_array(i32, CONSUMERS)
    full = nv.mbarriers(STAGES)
    free = nv.mbarriers(STAGES)
    order = nv.mbarriers(TURNS)
    if LEAST > 0:
        room = 2 * i32(num_groups(0))
        enough = i32(len(partial)) >= room * (ROWS * BN) and i32(len(counts)) >= room * STRIPES
        assert enough, "nv_linear: partial or counts are too short"
        if not enough:
            return
    number = local_linear_id()
    if number < STAGES:
        nv.init(full, number, 1)
        nv.init(free, number, 4 * STRIPES * CLUSTER)
    elif number < STAGES + TURNS:
        nv.init(order, number - STAGES, 1)
    barrier()
    if CLUSTER > 1:
        nv.cluster_barrier()
    if SWAP:
        maps = (
            nv.tensor_map(b, (n, k), (ROWS, DEPTH)),
            nv.tensor_map(a, (m, k), (BN // CLUSTER, DEPTH)),
        )
        map_c = nv.tensor_map(c, (m, n), (BN, 64))
    else:
        maps = (
            nv.tensor_map(a, (m, k), (ROWS, DEPTH)),
            nv.tensor_map(b, (n, k), (BN // CLUSTER, DEPTH)),
        )
        map_c = nv.tensor_map(c, (m, n), (64, 64))
    high = ceil_div(n if SWAP else m, ROWS * CLUSTER)
    wide = ceil_div(m if SWAP else n, BN)
    nv.launch_next()
    if AHEAD > 0 and number == 0:
        map_b = maps[0] if SWAP else maps[1]
        announce(map_b, high, wide, k, BN, ROWS, CLUSTER, GROUP, LEAST, SWAP, AHEAD)
    nv.wait_for_previous()
    if nv.role(0, 4):
        if many:
            nv.set_max_registers(40)
        if local_linear_id() == 0:
            fill(tile_l, tile_r, full, free, high, wide, k, maps, BN, STAGES, ROWS, CLUSTER,
                 GROUP, LEAST)  # fmt: skip
    else:
        if many:
            nv.set_max_registers(232)
        multiply(tile_l, tile_r, out, said, full, free, order, map_c, partial, counts, high, wide,
                 k, scale, OUT, BN, STAGES, BLOCKS, ROWS, STRIPES, CLUSTER, GROUP, LEAST,
                 SWAP, TURNS, EPILOGUE)  # fmt: skip
    if CLUSTER > 1:
        nv.cluster_barrier()  # the others still copy to this one, and arrive at its mbarriers


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    c = constexprs
    for shape in ((1, 8, 16), (128, 256, 64), (200, 264, 144), (130, 40, 528), (40, 840, 2056)):
        args = product_args(rng, shape, t, out, True)
        found = {name: args[name] for name in "abc"}
        # What every variant takes that ships: a device may choose another one for these sizes.
        places = 2 * c["GROUPS"] * c["CONSUMERS"]
        room = max(1 << 20, places * 64 * c["BLOCKS"] * c["BN"] if c["LEAST"] else 0)
        found |= {"partial": np.full(room, np.nan, np.float32)}
        found |= {"counts": np.zeros(max(256, places), np.int32)}
        found |= {name: args[name] for name in "mnk"}
        yield found | {"scale": 1.0 if shape[0] == 1 else 0.37}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    error = _ERROR(k=args["k"])
    found = expected_product(args, constexprs, dtype(constexprs, "OUT"), error, True)
    return {**found, "counts": Expected(np.zeros(args["counts"].shape))}


# As of nv_matmul: to add the sums of parts costs no more roundings than to add up along k.
_ERROR = bound("2 * gamma(k + 3, f32)", k="the argument")
FAMILIES = (
    Family(
        nv_linear,
        _inputs,
        _reference,
        "f32 accumulation in an order that the variant fixes; rounded once",
        {"": product_bound(_ERROR)},
    ),
)
