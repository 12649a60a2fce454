"""Matrix product by fragments in little code, for compilers that are slow with what is long.

One loop has all turns, and one function brings tiles to workgroup memory, there and then: by runs
of elements or one by one. Results leave through workgroup memory, by runs or one by one.
"""

from __future__ import annotations

from ..ir.lang import (
    barrier,
    ceil_div,
    convert,
    device,
    f32,
    fragment_store,
    load_vector,
    local_id,
    static_assert,
    static_range,
    store_vector,
    subgroup_id,
    subgroup_lane,
    vec,
    workgroup_array,
)
from .fragment_products import multiply

__all__ = ["multiply_compact", "store_compact"]


@device
def bring(
    tile, stage, source, row0, col0, rows, cols, HEIGHT, WIDTH, THREADS, RUN, AT_ONCE, TURNED
):  # fmt: skip
    """tile[stage] = source[row0 : row0 + HEIGHT, col0 : col0 + WIDTH], zero outside of rows x cols,
    by runs of RUN elements, AT_ONCE of an invocation in turn. RUN divides cols unless it is 1.
    TURNED: columns become rows. What lies outside is read at the first element instead: no read
    waits for a branch."""
    across = WIDTH // RUN
    runs = HEIGHT * across
    down = THREADS // across
    static_assert(THREADS % across == 0, "a row of a tile has more runs than invocations")
    if runs <= AT_ONCE * THREADS:
        bring_runs(tile, stage, source, row0, col0, rows, cols, local_id(0), runs, across, down,
                   THREADS, RUN, ceil_div(runs, THREADS), TURNED)  # fmt: skip
    else:
        for first in range(local_id(0), runs, AT_ONCE * THREADS):
            bring_runs(tile, stage, source, row0, col0, rows, cols, first, runs, across, down,
                       THREADS, RUN, AT_ONCE, TURNED)  # fmt: skip


@device
def bring_runs(
    tile, stage, source, row0, col0, rows, cols, first, runs, across, down,
    THREADS, RUN, COUNT, TURNED,
):  # fmt: skip
    """COUNT runs, of which `first` is the first and each other lies `down` rows below."""
    row = first // across
    col = first % across * RUN
    start = (row0 + row) * cols + col0 + col
    within = col0 + col < cols
    for step in static_range(COUNT):
        if runs % (COUNT * THREADS) == 0 or first + step * THREADS < runs:
            below = step * down
            there = within and row0 + row + below < rows
            at = start + below * cols if there else 0
            if RUN == 1:
                value = source[at]
                zero = source.dtype(0)
            else:
                value = load_vector(source, at // RUN, RUN)
                zero = vec(source.dtype, RUN)(0)
            value = value if there else zero
            put(tile, stage, row + below, col, value, RUN, TURNED)


@device
def put(tile, stage, row, col, value, RUN, TURNED):
    """tile[stage, row, col : col + RUN] = value, in the type of the tile."""
    if RUN == 1:
        if TURNED:
            tile[stage, col, row] = convert(value, tile.dtype)
        else:
            tile[stage, row, col] = convert(value, tile.dtype)
    else:
        held = convert(value, vec(tile.dtype, RUN))
        if TURNED:
            for n in static_range(RUN):
                tile[stage, col + n, row] = held[n]
        else:
            store_vector(tile, (stage, row, col // RUN), held)


@device
def bring_step(
    a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
    BM, BN, BK, THREADS, RUN, AT_ONCE, B_COLUMNS,
):  # fmt: skip
    """What the step from k0 on needs of both operands."""
    bring(tile_a, stage, a, top, k0, m, k, BM, BK, THREADS, RUN, AT_ONCE, False)
    if B_COLUMNS:
        bring(tile_b, stage, b, left, k0, n, k, BN, BK, THREADS, RUN, AT_ONCE, False)
    else:
        bring(tile_b, stage, b, k0, left, k, n, BK, BN, THREADS, RUN, AT_ONCE, True)


@device
def multiply_compact(
    a, b, tile_a, tile_b, acc, T, steps, m, n, k, top, left, row, col,
    BM, BN, BK, TM, TN, STAGES, THREADS, RUN, B_COLUMNS,
):  # fmt: skip
    """acc += the products of all steps, whose tiles are brought STAGES - 1 steps ahead: in the
    first turns, which multiply nothing yet. tile_b has the columns of b as its rows."""
    runs = k % RUN == 0 and (B_COLUMNS or n % RUN == 0)
    SOME = 2 if tile_a.dtype == a.dtype else 1  # conversions of single elements are long
    stage = 0
    for turn in range(steps + STAGES - 1):
        barrier()
        k0 = turn * BK
        if k0 < k:
            if runs:
                bring_step(a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
                           BM, BN, BK, THREADS, RUN, 4, B_COLUMNS)  # fmt: skip
            else:
                bring_step(a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
                           BM, BN, BK, THREADS, 1, SOME, B_COLUMNS)  # fmt: skip
        stage = stage + 1 if stage < STAGES - 1 else 0
        if turn >= STAGES - 1:
            multiply(tile_a, tile_b, stage, acc, T, row, col, BK, TM, TN, True)


@device
def store_compact(
    c, acc, m, n, top, left, row, col, OUT, EPILOGUE, TM, TN, THREADS, SUBGROUP
):  # fmt: skip
    """The results of a subgroup that lie in c, by runs of 16 bytes where rows allow it."""
    RUN = 16 // OUT.bytes
    HEIGHT = 16 * TM
    WIDTH = 16 * TN
    part = workgroup_array(f32, (THREADS // SUBGROUP, HEIGHT, WIDTH + 8))
    for i in static_range(TM):
        for j in static_range(TN):
            fragment_store(part, (subgroup_id(), 16 * i, 16 * j), acc[i, j])
    barrier()
    if n % RUN == 0:
        for at in range(subgroup_lane(), HEIGHT * WIDTH // RUN, SUBGROUP):
            y = at // (WIDTH // RUN)
            x = at % (WIDTH // RUN)
            r = top + row + y
            q = left + col + x * RUN
            if r < m and q < n:
                value = EPILOGUE(load_vector(part, (subgroup_id(), y, x), RUN))
                store_vector(c, (r * n + q) // RUN, convert(value, vec(OUT, RUN)))
    else:
        for at in range(subgroup_lane(), HEIGHT * WIDTH, SUBGROUP):
            r = top + row + at // WIDTH
            q = left + col + at % WIDTH
            if r < m and q < n:
                value = part[subgroup_id(), at // WIDTH, at % WIDTH]
                c[r * n + q] = convert(EPILOGUE(value), OUT)
