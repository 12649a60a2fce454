"""Quantized matrix times vector on NVIDIA's tensor cores, which sum what each invocation decodes.

A subgroup takes 16 rows and four units of 32 weights of each: invocation (g, t) decodes unit t of
rows g and g + 8, into the registers that the product has them in. Columns of the product keep the
four units apart: column 2t has x where the weights of unit t are, and zeros elsewhere, so that the
sums of an invocation's own units come back to it, which has their scales. Tensor copies bring the
weights to workgroup memory, a ring of its own for each subgroup.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    Buffers,
    DType,
    Function,
    Read,
    Write,
    barrier,
    ceil_div,
    convert,
    device,
    f16,
    f32,
    fma,
    global_id,
    group_id,
    i32,
    kernel,
    local_id,
    num_groups,
    nv,
    registers,
    select,
    static_assert,
    static_range,
    store_vector,
    subgroup_id,
    subgroup_lane,
    subgroup_shuffle_xor,
    u32,
    u32x4,
    workgroup_array,
)
from .family import Args, Constexprs, Expected, Family, bound, decode, dtype, empty, normal
from .nv_quantized_units import CHUNKS, UNIT, add_unit, block_of, fetch, following, stage
from .nv_ring import next_stage

# Configurations name decoders.
from .quantized_formats import *
from .quantized_inputs import arguments, extremes, matrix, weights
from .quantized_sizes import is_matrix
from .quantized_superblocks import *


@device
def write_rows(y, partial, flip, totals, apart, tile, rows, team, lane, SCALE, OUT, SPLIT, TILES):
    """The sums of a tile's rows over the invocations, and over the SPLIT subgroups, that have
    them."""
    g, t = lane // 4, lane % 4
    for i in static_range(2 * TILES):
        value = fma(totals[i], f32(SCALE), apart[i])
        value += subgroup_shuffle_xor(value, 1)
        value += subgroup_shuffle_xor(value, 2)
        if t == 0:
            partial[flip, team, 8 * i + g] = value
    nv.named_barrier(1 + team // SPLIT, 32 * SPLIT)
    row = tile * (16 * TILES) + lane
    if team % SPLIT == 0 and lane < 16 * TILES and row < rows:
        total = f32(0)
        for other in static_range(SPLIT):
            total += partial[flip, team + other, lane]
        y[row] = convert(total, OUT)


@device
def multiply(w, y, rings, full, free, pairs, sums, start, cols, spans, FORMAT, GROUP, TRAITS, BLOCK,
             SCALE, OUT, TEAMS, SPLIT, TILES, SPAN, STAGES, COLS):  # fmt: skip
    """A subgroup's share of one tile after the other, from `start` on."""
    lane, team = i32(subgroup_lane()), i32(subgroup_id())
    g, t = lane // 4, lane % 4
    rows, tall, share = i32(len(y)), 16 * TILES, team % SPLIT
    stride = i32(num_groups(0)) * (TEAMS // SPLIT)
    tiles = ceil_div(rows, tall)
    partial = workgroup_array(f32, (2, TEAMS, tall))
    # Where an invocation finds x for the product: zeros but in column 2t, for unit t.
    holds = g == 2 * t
    along = select(holds, i32(4 * CHUNKS), i32(0))
    chunk = select(holds, t, i32(COLS // 8))
    next_tile, next_span = start, share
    for _ in static_range(STAGES):
        next_tile, next_span = following(next_tile, next_span, share, spans, stride, SPLIT)
    stage, turn, flip = i32(0), i32(0), i32(0)
    for tile in range(start, tiles, stride):
        totals = registers(f32, 2 * TILES, 0)
        apart = registers(f32, 2 * TILES, 0)  # what offsets add
        for span in range(share, spans, SPLIT):
            slot = team * STAGES + stage
            nv.wait(full, slot, turn)
            for step in static_range(SPAN // 128):
                first = span * (SPAN // 128) + step
                add_unit(totals, apart, rings, pairs, sums, slot * tall + g, 4 * step + t,
                         4 * first + t, chunk + first * along, FORMAT, GROUP, TRAITS, SPAN,
                         TILES)  # fmt: skip
            nv.arrive(free, slot)
            if lane == 0 and next_tile < tiles:
                nv.wait(free, slot, turn)
                fetch(w, rings, full, slot, next_tile, next_span, rows, cols, BLOCK, SPAN, tall)
            next_tile, next_span = following(next_tile, next_span, share, spans, stride, SPLIT)
            stage, turn = next_stage(stage, turn, STAGES)
        write_rows(y, partial, flip, totals, apart, tile, rows, team, lane, SCALE, OUT, SPLIT,
                   TILES)  # fmt: skip
        flip ^= 1


@device
def whole(w, x, y, cols, FORMAT, GROUP, OUT, TEAMS, SPLIT, TILES, SPAN, STAGES, COLS):
    """y = w @ x, of a matrix that has its size."""
    TRAITS = True, u32(0), True
    BLOCK = block_of(FORMAT, GROUP)
    COLUMNS, SIZES = BLOCK
    groups = FORMAT(w, i32(0), i32(0), cols, GROUP, TRAITS)
    _, _, (BITS, _) = groups[0][2][0]
    pairs = workgroup_array(u32, COLS // 2 + 64)
    sums = workgroup_array(f32, COLS // UNIT * len(groups))
    BLOCKS = TEAMS * STAGES * 16 * TILES * (SPAN // COLUMNS)  # of the rings
    ring = workgroup_array(w[0].dtype, BLOCKS * SIZES[0] // w[0].dtype.bytes)
    rings = (ring,)
    if len(SIZES) == 2:
        rings = ring, workgroup_array(w[1].dtype, BLOCKS * SIZES[1] // w[1].dtype.bytes)
    full = nv.mbarriers(TEAMS * STAGES)
    free = nv.mbarriers(TEAMS * STAGES)
    lid, team = i32(local_id(0)), i32(subgroup_id())
    if lid < TEAMS * STAGES:
        nv.init(full, lid, 1)
        nv.init(free, lid, 32)
    barrier()
    rows, share = i32(len(y)), team % SPLIT
    spans = ceil_div(cols, SPAN)
    start = i32(group_id(0)) * (TEAMS // SPLIT) + team // SPLIT
    stride = i32(num_groups(0)) * (TEAMS // SPLIT)
    # The first weights are on their way while x is laid out.
    tile, span = start, share
    for n in static_range(STAGES):
        if subgroup_lane() == 0 and span < spans and tile < ceil_div(rows, 16 * TILES):
            fetch(w, rings, full, team * STAGES + n, tile, span, rows, cols, BLOCK, SPAN,
                  16 * TILES)  # fmt: skip
        tile, span = following(tile, span, share, spans, stride, SPLIT)
    stage(w, x, pairs, sums, cols, FORMAT, GROUP, TRAITS, SPAN, 32 * TEAMS)
    if lid < 16:
        store_vector(pairs, COLS // 8 + lid, u32x4(0))  # what stands in columns of other units
    barrier()
    multiply(w, y, rings, full, free, pairs, sums, start, cols, spans, FORMAT, GROUP, TRAITS, BLOCK,
             2.0 ** (14 + BITS), OUT, TEAMS, SPLIT, TILES, SPAN, STAGES, COLS)  # fmt: skip


@kernel(
    workgroup=lambda: (32 * TEAMS, 1, 1),
    grid=lambda: (min(ceil_div(len(y), 16 * TILES * (TEAMS // SPLIT)), WORKGROUPS), 1, 1),
)
def nv_quantized_gemv(
    w: Buffers[Read[W], PARTS],
    x: Read[f16],
    y: Write[OUT],
    cols: i32,
    *,
    FORMAT: Function = q4_k,
    W: DType = u32,
    PARTS: int = 1,
    GROUP: int = 128,
    OUT: DType = f32,
    TEAMS: int = 8,
    SPLIT: int = 4,
    TILES: int = 1,
    SPAN: int = 512,
    STAGES: int = 2,
    COLS: int = 16384,
    WORKGROUPS: int = 264,
    SUBGROUP: int = 32,
):
    """y = w @ x; w is len(y) x cols, in a format whose quants are integers; f32 accumulation.

    FORMAT: q4_0, q4_1, q5_0, q5_1, q8_0, q2_k (SPAN a multiple of 1024), q4_k, q5_k, q4_0_planes,
    q5_0_planes, q8_0_planes, q3_k_planes (SPAN a multiple of 2048) or u4; tracing refuses others.

    Of the TEAMS subgroups of a workgroup, every SPLIT take 16 * TILES rows, then the next ones,
    SPAN columns at a time, of which each has a share; a ring of STAGES holds what comes next.
    WORKGROUPS: as many as the device holds at once. x lies in workgroup memory: COLS columns at
    most. A `w` of another size, as one of other groups has, a short x, or columns that are no whole
    blocks are a fault, and y is zeros. So are rows of a part that are no multiples of 16 bytes, and
    more columns than COLS.
    """
    COLUMNS, SIZES = block_of(FORMAT, GROUP)
    static_assert(SPAN % COLUMNS == 0 and SPAN % 128 == 0, "SPAN is whole blocks, and steps of 128")
    static_assert(COLS % SPAN == 0, "COLS is a multiple of SPAN")
    static_assert(TEAMS % SPLIT == 0 and TEAMS // SPLIT < 16, "TEAMS is 1 to 15 times SPLIT")
    static_assert(TILES in (1, 2), "TILES is 1 or 2")
    sized = is_matrix(w, i32(len(y)), cols, FORMAT, GROUP) and len(x) >= cols and cols <= COLS
    for size in SIZES:
        sized = sized and cols % COLUMNS == 0 and cols // COLUMNS * size % 16 == 0
    assert sized, "nv_quantized_gemv: parts, columns or x of another size than the matrix"
    if sized:
        whole(w, x, y, cols, FORMAT, GROUP, OUT, TEAMS, SPLIT, TILES, SPAN, STAGES, COLS)
    else:
        for row in range(global_id(0), len(y), num_groups(0) * (32 * TEAMS)):
            y[row] = convert(0, OUT)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    out = dtype(constexprs, "OUT")
    for rows, cols in ((1, 512), (5, 1536), (37, 2560)):
        yield {
            **arguments(matrix(rng, rows, cols, constexprs)),
            "x": normal(rng, cols, f16),
            "y": empty(rows, out),
            "cols": cols,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    out = dtype(constexprs, "OUT")
    parts = [args[f"w_{n}"] for n in range(constexprs["PARTS"])]
    rows, cols, x = args["y"].size, args["cols"], decode(args["x"], f16)
    value = weights(parts, rows, cols, constexprs).astype(np.float64) @ x
    low, high, bits = extremes(parts, rows, cols, constexprs)
    sizes = np.abs(high - low) * (2**bits / (2**bits - 1)) + np.abs(low)
    # 32 products and the sum of x, cut off; that sum; then two roundings of up to four scales and
    # offsets each in a chain, and the sum over four invocations; a scale, and a weight of the
    # reference.
    path = 2 * (32 + 3) + 11 + 2 * 4 * -(-cols // 128) + 4 + constexprs["SPLIT"] + 2
    size = sizes @ np.abs(x)
    return {"y": Expected(value, _BOUND(value=value, T=out, size=size, path=path))}


_BOUND = bound(
    "size * gamma(path, f32) + abs(value) * u(T) + least(T)",
    size="the sum over the row of (abs(scale) * 2**bits of a quant + abs(offset)) * abs(x), offset "
    "being that of quant 0",
    path="8 * ceil(cols / 128) + 87 + SPLIT",
)
FAMILIES = (
    Family(
        nv_quantized_gemv,
        _inputs,
        _reference,
        "exact products, f32 accumulation cut off, quants exact; rounded once",
        {"": _BOUND},
        "a row with an infinite or NaN scale gives an infinity or a NaN",
    ),
)
