"""Matrix product by fragments: tiles in workgroup memory, copied there some stages ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Function,
    Read,
    Write,
    barrier,
    ceil_div,
    convert,
    copy_async,
    copy_commit,
    copy_wait,
    device,
    f16,
    f32,
    fragment,
    fragment_store,
    group_id,
    i32,
    kernel,
    local_id,
    registers,
    static_assert,
    static_range,
    subgroup_id,
    subgroup_lane,
    workgroup_array,
)
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    dtype,
)
from .fragment_products import multiply
from .matmul import expected_product, identity, product_args, product_bound, relu
from .matmul_ahead import multiply_ahead
from .matmul_compact import multiply_compact, store_compact

__all__ = ["FAMILIES", "identity", "matmul_fragments", "relu"]


@device
def copy_tile(tile, stage, source, row0, col0, rows, cols, HEIGHT, WIDTH, THREADS, RUN, INSIDE):
    """tile[stage] = source[row0 : row0 + HEIGHT, col0 : col0 + WIDTH], by asynchronous copies of
    RUN elements; zero outside of rows x cols unless INSIDE. cols is a multiple of RUN."""
    across = WIDTH // RUN
    static_assert(THREADS % across == 0, "a row of a tile has more copies than invocations")
    first = local_id(0) // across
    col = local_id(0) % across * RUN
    for step in static_range(ceil_div(HEIGHT * across, THREADS)):
        row = first + step * (THREADS // across)
        if HEIGHT * across % THREADS == 0 or row < HEIGHT:
            start = (row0 + row) * cols + col0 + col
            if INSIDE:
                copy_async(tile, (stage, row, col), source, start, RUN)
            else:
                given = RUN if row0 + row < rows and col0 + col < cols else 0
                copy_async(tile, (stage, row, col), source, start, RUN, given)


@device
def fill_tile(tile, stage, source, row0, col0, rows, cols, HEIGHT, WIDTH, THREADS, AT_ONCE):
    """tile[stage] = the same part of any matrix, element by element, AT_ONCE of an invocation in
    turn. What lies outside is read at the first element instead: no read waits for a branch."""
    for first in range(local_id(0), HEIGHT * WIDTH, AT_ONCE * THREADS):
        for step in static_range(AT_ONCE):
            at = first + step * THREADS
            row = at // WIDTH
            col = at % WIDTH
            if THREADS % WIDTH == 0:  # the column is the same in all steps
                row = first // WIDTH + step * (THREADS // WIDTH)
                col = first % WIDTH
            if HEIGHT * WIDTH % (AT_ONCE * THREADS) == 0 or at < HEIGHT * WIDTH:
                there = row0 + row < rows and col0 + col < cols
                value = source[(row0 + row) * cols + col0 + col if there else 0]
                tile[stage, row, col] = value if there else tile.dtype(0)


@device
def copy_step(
    a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
    BM, BN, BK, THREADS, RUN, B_COLUMNS, INSIDE,
):  # fmt: skip
    """What the step from k0 on needs of both operands, copied to tiles of a stage."""
    copy_tile(tile_a, stage, a, top, k0, m, k, BM, BK, THREADS, RUN, INSIDE)
    if B_COLUMNS:
        copy_tile(tile_b, stage, b, left, k0, n, k, BN, BK, THREADS, RUN, INSIDE)
    else:
        copy_tile(tile_b, stage, b, k0, left, k, n, BK, BN, THREADS, RUN, INSIDE)


@device
def copy_next(
    inside, a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
    BM, BN, BK, THREADS, RUN, B_COLUMNS,
):  # fmt: skip
    """The same, in less time where all of it lies `inside` of the operands."""
    if inside:
        copy_step(a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
                  BM, BN, BK, THREADS, RUN, B_COLUMNS, True)  # fmt: skip
    else:
        copy_step(a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
                  BM, BN, BK, THREADS, RUN, B_COLUMNS, False)  # fmt: skip


@device
def fill_step(
    a, b, tile_a, tile_b, stage, k0, m, n, k, top, left,
    BM, BN, BK, THREADS, AT_ONCE, B_COLUMNS,
):  # fmt: skip
    """The same, element by element."""
    fill_tile(tile_a, stage, a, top, k0, m, k, BM, BK, THREADS, AT_ONCE)
    if B_COLUMNS:
        fill_tile(tile_b, stage, b, left, k0, n, k, BN, BK, THREADS, AT_ONCE)
    else:
        fill_tile(tile_b, stage, b, k0, left, k, n, BK, BN, THREADS, AT_ONCE)


@device
def pipelined(
    a, b, tile_a, tile_b, acc, T, steps, m, n, k, top, left, row, col,
    BM, BN, BK, TM, TN, STAGES, THREADS, RUN, B_COLUMNS,
):  # fmt: skip
    """acc += the products of all steps, whose tiles are copied STAGES - 1 steps ahead."""
    inside = top + BM <= m and left + BN <= n and k % BK == 0
    for ahead in static_range(STAGES - 1):
        k0 = ahead * BK
        if k0 < k:
            copy_step(a, b, tile_a, tile_b, ahead, k0, m, n, k, top, left,
                      BM, BN, BK, THREADS, RUN, B_COLUMNS, False)  # fmt: skip
        copy_commit()
    stage = 0
    behind = STAGES - 1
    for step in range(steps):
        copy_wait(STAGES - 2)
        barrier()
        k0 = (step + STAGES - 1) * BK
        if k0 < k:
            copy_next(inside, a, b, tile_a, tile_b, behind, k0, m, n, k, top, left,
                      BM, BN, BK, THREADS, RUN, B_COLUMNS)  # fmt: skip
        copy_commit()
        multiply(tile_a, tile_b, stage, acc, T, row, col, BK, TM, TN, B_COLUMNS)
        stage = stage + 1 if stage < STAGES - 1 else 0
        behind = behind + 1 if behind < STAGES - 1 else 0
    copy_wait()


@device
def store_whole(c, acc, n, top, left, row, col, OUT, EPILOGUE, TM, TN):
    """The results of a subgroup, as fragments."""
    for i in static_range(TM):
        for j in static_range(TN):
            at = (top + row + 16 * i) * n + left + col + 16 * j
            fragment_store(c, at, convert(EPILOGUE(acc[i, j]), fragment(OUT, "acc")), n)


@device
def store_within(
    c, acc, m, n, top, left, row, col, OUT, EPILOGUE, TM, TN, THREADS, SUBGROUP
):  # fmt: skip
    """Those of them that lie in c, element by element, a fragment at a time."""
    part = workgroup_array(f32, (THREADS // SUBGROUP, 16, 20))
    for i in static_range(TM):
        for j in static_range(TN):
            fragment_store(part, (subgroup_id(), 0, 0), acc[i, j])
            barrier()
            for at in range(subgroup_lane(), 256, SUBGROUP):
                r = top + row + 16 * i + at // 16
                q = left + col + 16 * j + at % 16
                if r < m and q < n:
                    value = part[subgroup_id(), at // 16, at % 16]
                    c[r * n + q] = convert(EPILOGUE(value), OUT)
            barrier()


@device
def place_of_group(m, n, BM, BN, BAND):
    """First row and column of a workgroup: BAND rows of tiles at a time, down each column, so that
    neighbours in time share panels of both operands."""
    down = ceil_div(m, BM)
    across = ceil_div(n, BN)
    group = group_id(0)
    band = group // (BAND * across) * BAND
    height = min(down - band, BAND)
    within = group % (BAND * across)
    return (band + within % height) * BM, within // height * BN


@kernel(
    workgroup=lambda: (BM // WM * (BN // WN) * SUBGROUP, 1, 1),
    grid=lambda: (ceil_div(m, BM) * ceil_div(n, BN), 1, 1),
)
def matmul_fragments(
    a: Read[T],
    b: Read[T],
    c: Write[OUT],
    m: i32,
    n: i32,
    k: i32,
    *,
    T: DType = f16,
    OUT: DType = f16,
    EPILOGUE: Function = identity,
    BM: int = 64,
    BN: int = 64,
    BK: int = 32,
    WM: int = 32,
    WN: int = 32,
    STAGES: int = 2,
    BAND: int = 8,
    SWIZZLE: bool = False,
    B_COLUMNS: bool = False,
    COOPERATIVE: bool = False,
    COMPACT: bool = False,
    WIDEN: bool = False,
    AHEAD: bool = False,
    SUBGROUP: int = 32,
):
    """c = EPILOGUE(a @ b); a is m x k, b is k x n (with B_COLUMNS n x k, as weights often are), c
    is m x n, all row-major; T is f16, bf16 or an 8-bit float.

    A workgroup makes BM x BN results, each of its subgroups WM x WN, in steps of BK along k, whose
    tiles are copied STAGES - 1 steps ahead. Rows of operands whose length is no multiple of 16
    bytes are copied element by element instead. SWIZZLE: tiles are swizzled, for which BK is 64 or
    more; else their rows are padded. COOPERATIVE: as cooperative matrices where SPIR-V has them.
    COMPACT: less code, for compilers that are slow with what is long (`matmul_compact`); tiles have
    the columns of b as rows. WIDEN: there, 8-bit floats become f16 on their way to workgroup
    memory, once for all subgroups, where matrix instructions take none. AHEAD: one tile, whose next
    contents wait in registers (`matmul_ahead`), where no copy is asynchronous.
    """
    static_assert(STAGES >= 2, "STAGES is 2 or more")
    static_assert((COMPACT and T.bytes == 1) or not WIDEN, "WIDEN is for 8-bit floats and COMPACT")
    HELD = f16 if WIDEN else T
    static_assert(BK % (32 // HELD.bytes) == 0, "BK is a multiple of 16, of 32 for 8-bit floats")
    static_assert(WM % 16 == 0 and WN % 16 == 0, "tiles are multiples of 16")
    static_assert(BM % WM == 0 and BN % WN == 0, "BM, BN are multiples of WM, WN")
    static_assert(not (SWIZZLE and B_COLUMNS), "columns of b are not loaded from swizzled tiles")
    RUN = 8 if COMPACT else 16 // T.bytes  # elements of 16 bytes, where a vector has so many
    THREADS = BM // WM * (BN // WN) * SUBGROUP
    TM = WM // 16
    TN = WN // 16
    # The rows of a fragment lie in different banks: rows are swizzled, or padded by 16 bytes.
    PAD = 0 if SWIZZLE else 16 // HELD.bytes
    TILES = 1 if AHEAD else STAGES
    tile_a = workgroup_array(HELD, (TILES, BM, BK + PAD), SWIZZLE)
    TURNED = B_COLUMNS or COMPACT
    shape_b = (TILES, BN, BK + PAD) if TURNED else (TILES, BK, BN + PAD)
    tile_b = workgroup_array(HELD, shape_b, SWIZZLE)
    top, left = place_of_group(m, n, BM, BN, BAND)
    row = subgroup_id() // (BN // WN) * WM
    col = subgroup_id() % (BN // WN) * WN
    acc = registers(fragment(f32, "acc"), (TM, TN), 0.0)
    steps = ceil_div(k, BK)
    runs = k % RUN == 0 and (B_COLUMNS or n % RUN == 0)
    if COMPACT:
        multiply_compact(a, b, tile_a, tile_b, acc, HELD, steps, m, n, k, top, left, row, col,
                         BM, BN, BK, TM, TN, STAGES, THREADS, RUN, B_COLUMNS)  # fmt: skip
    elif AHEAD:
        multiply_ahead(a, b, tile_a, tile_b, acc, T, steps, m, n, k, top, left, row, col,
                       BM, BN, BK, TM, TN, THREADS, B_COLUMNS)  # fmt: skip
    elif runs:
        pipelined(a, b, tile_a, tile_b, acc, T, steps, m, n, k, top, left, row, col,
                  BM, BN, BK, TM, TN, STAGES, THREADS, RUN, B_COLUMNS)  # fmt: skip
    else:
        for step in range(steps):
            fill_step(a, b, tile_a, tile_b, 0, step * BK, m, n, k, top, left,
                      BM, BN, BK, THREADS, 8, B_COLUMNS)  # fmt: skip
            barrier()
            multiply(tile_a, tile_b, 0, acc, T, row, col, BK, TM, TN, B_COLUMNS)
            barrier()
    barrier()
    if COMPACT:
        store_compact(c, acc, m, n, top, left, row, col, OUT, EPILOGUE, TM, TN, THREADS, SUBGROUP)
    else:
        whole = top + BM <= m and left + BN <= n and n % (16 // OUT.bytes) == 0
        if whole and (EPILOGUE is identity or not COOPERATIVE):
            store_whole(c, acc, n, top, left, row, col, OUT, EPILOGUE, TM, TN)
        else:
            store_within(c, acc, m, n, top, left, row, col, OUT, EPILOGUE, TM, TN,
                         THREADS, SUBGROUP)  # fmt: skip


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    height, width = int(constexprs["BM"]), int(constexprs["BN"])
    shapes = ((height, width, 64), (height + 8, 2 * width, 200), (1, 1, 1), (40, 33, 100))
    for shape in (*shapes, (2 * height, width - 8, 1024)):
        yield product_args(rng, shape, t, out, bool(constexprs["B_COLUMNS"]))


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    error = _ERROR(k=args["k"])
    if dtype(constexprs).bytes == 1:
        error = _ERROR8(k=args["k"], BK=int(constexprs["BK"]))
    columns = bool(constexprs["B_COLUMNS"])
    return expected_product(args, constexprs, dtype(constexprs, "OUT"), error, columns)


# Products are exact in f32; each of k additions is rounded or cut off, and one more for each
# product of fragments aligns its terms. Of 8-bit floats: in each step of BK, to at least 14 bits.
_ERROR = bound("1 / (1 - (k * 17 // 16 + 1) * 2 * u(f32)) - 1", k="the argument")
_ERROR8 = bound(
    "1 / (1 - (BK * 33 // 32 + 1) * 2**-13 - (k // BK + 2) * 2 * u(f32)) - 1",
    k="the argument",
    BK="the constexpr",
)
FAMILIES = (
    Family(
        matmul_fragments,
        _inputs,
        _reference,
        "f32 accumulation in any order, each addition rounded or cut off; rounded once. Of 8-bit"
        " floats, BK products at a time may be added in 14 bits",
        {"": product_bound(_ERROR), "8-bit floats": product_bound(_ERROR8)},
    ),
)
