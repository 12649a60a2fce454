"""Matrix product on Hopper: tensor copies fill a ring of tiles, warpgroups multiply them."""

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
    device,
    f16,
    f32,
    group_id,
    i32,
    kernel,
    local_linear_id,
    num_groups,
    nv,
    registers,
    static_assert,
    static_range,
    store_vector,
    vec,
    workgroup_array,
)
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    encode,
    u,
)
from .matmul import (  # noqa: F401 (specializations name relu)
    expected_product,
    identity,
    product_args,
    product_bound,
    relu,
)
from .nv_ring import next_stage


@device
def place_of(number, high, wide, GROUP):
    """Row and column of a tile: GROUP rows of tiles go along together, so that what one of them
    copies is in the cache when its neighbours do."""
    across = GROUP * wide
    first = number // across * GROUP
    tall = min(high - first, GROUP)
    rest = number % across
    return first + rest % tall, rest // tall


@device
def rank_of(CLUSTER):
    """Number of this workgroup in its cluster."""
    return i32(nv.cluster_rank()) if CLUSTER > 1 else i32(0)


@device
def give_back(free, stage, CLUSTER):
    """A warp has done with a stage, of which the whole cluster fills a part."""
    if CLUSTER == 1:
        nv.arrive(free, stage)
    else:
        for rank in static_range(CLUSTER):
            nv.arrive(free, stage, rank=rank)


@device
def fill(a, b, tile_a, tile_b, full, free, m, n, k, DEPTH, BN, STAGES, CONSUMERS, CLUSTER, GROUP,
         B_COLUMNS):  # fmt: skip
    """One invocation fills the ring, for one tile of c after the other."""
    rows = 64 * CONSUMERS
    high = ceil_div(m, rows * CLUSTER)
    wide = ceil_div(n, BN)
    share = BN // CLUSTER  # columns of b that this workgroup copies, to all of its cluster
    everyone = (1 << CLUSTER) - 1 if CLUSTER > 1 else None
    rank = rank_of(CLUSTER)
    map_a = nv.tensor_map(a, (m, k), (rows, DEPTH))
    if B_COLUMNS:
        map_b = nv.tensor_map(b, (n, k), (share, DEPTH))
    else:
        map_b = nv.tensor_map(b, (k, n), (64, 64))
    stage = i32(0)
    turn = i32(0)
    for number in range(group_id(0) // CLUSTER, high * wide, num_groups(0) // CLUSTER):
        row, column = place_of(number, high, wide, GROUP)
        for step in range(ceil_div(k, DEPTH)):
            nv.wait(free, stage, turn ^ 1)
            nv.expect(full, stage, (rows + BN) * 128)
            top = (row * CLUSTER + rank) * rows
            nv.tensor_load(map_a, (top, step * DEPTH), tile_a, (stage, 0, 0), full, stage)
            if B_COLUMNS:
                at = (column * BN + rank * share, step * DEPTH)
                to = (stage, rank * share, 0)
                nv.tensor_load(map_b, at, tile_b, to, full, stage, multicast=everyone)
            else:
                for part in static_range(0, share, 64):
                    at = (step * 64, column * BN + rank * share + part)
                    to = (stage, rank * share + part, 0)
                    nv.tensor_load(map_b, at, tile_b, to, full, stage, multicast=everyone)
            stage, turn = next_stage(stage, turn, STAGES)


@device
def write_rows(total, map_c, out, top, left, side, own, scale, OUT, BN, EPILOGUE):
    """c = the sums of 64 rows; returns the place for the next 64 columns on their way to c. Some
    are written twice where BN is no multiple of 64."""
    leads = local_linear_id() % 128 == 0
    line = nv.wgmma_row(0)
    inner = nv.wgmma_column(0)
    for part in static_range(0, BN, 64):
        start = min(part, BN - 64)
        if leads:
            nv.bulk_wait(pending=1, read=True)  # the copy before the last has left its place
        nv.named_barrier(1 + own, 128)
        place = 2 * own + side
        side ^= 1
        for i in static_range(0, 32, 2):
            at = start // 2 + i
            down = line + 8 * (i // 2 % 2)
            chunk = (i // 4) ^ (down % 8)
            pair = vec(f32, 2)(EPILOGUE(total[at] * scale), EPILOGUE(total[at + 1] * scale))
            store_vector(
                out, ((place * 64 + down) * 64 + chunk * 8 + inner) // 2, convert(pair, OUT)
            )
        nv.fence_async()
        nv.named_barrier(1 + own, 128)
        if leads:
            nv.tensor_store(map_c, (top, left + start), out, (place * 64 * 64,))
            nv.bulk_commit()
    return side


@device
def multiply(c, tile_a, tile_b, out, full, free, m, n, k, scale, OUT, DEPTH, BN, STAGES, CONSUMERS,
             CLUSTER, GROUP, B_COLUMNS, EPILOGUE):  # fmt: skip
    """A warpgroup makes 64 rows of each tile of c."""
    rows = 64 * CONSUMERS
    high = ceil_div(m, rows * CLUSTER)
    rank = rank_of(CLUSTER)
    wide = ceil_div(n, BN)
    map_c = nv.tensor_map(c, (m, n), (64, 64))
    own = i32(nv.warpgroup()) - 1
    first = local_linear_id() % 128 == 0
    leads = local_linear_id() % 32 == 0
    stage = i32(0)
    turn = i32(0)
    flip = i32(0)  # which of the two places for 64 columns on their way to c
    for number in range(group_id(0) // CLUSTER, high * wide, num_groups(0) // CLUSTER):
        row, column = place_of(number, high, wide, GROUP)
        total = registers(f32, BN // 2)
        before = i32(0)
        steps = ceil_div(k, DEPTH)
        for step in range(steps):
            nv.wait(full, stage, turn)
            nv.wgmma_fence()
            nv.wgmma(
                total, tile_a, (stage, 64 * own, 0), tile_b, (stage, 0, 0), transposed=not B_COLUMNS
            )
            nv.wgmma_commit()
            nv.wgmma_wait(pending=1)
            if leads and step > 0:
                give_back(free, before, CLUSTER)  # its products are done
            before = stage
            stage, turn = next_stage(stage, turn, STAGES)
        nv.wgmma_wait(total)
        if leads:
            give_back(free, before, CLUSTER)
        top = (row * CLUSTER + rank) * rows + own * 64
        flip = write_rows(total, map_c, out, top, column * BN, flip, own, scale, OUT, BN, EPILOGUE)
    if first:
        nv.bulk_wait()


@kernel(
    workgroup=lambda: (128 * (1 + CONSUMERS), 1, 1),
    grid=lambda: (
        min(ceil_div(m, 64 * CONSUMERS * CLUSTER) * ceil_div(n, BN), GROUPS // CLUSTER) * CLUSTER
    ),
)
def nv_matmul(
    a: Read[T],
    b: Read[T],
    c: Write[OUT],
    m: i32,
    n: i32,
    k: i32,
    scale: f32,
    *,
    T: DType = f16,
    OUT: DType = f16,
    EPILOGUE: Function = identity,
    B_COLUMNS: bool = False,
    BN: int = 256,
    STAGES: int = 4,
    CONSUMERS: int = 2,
    CLUSTER: int = 1,
    GROUP: int = 8,
    GROUPS: int = 132,
):
    """c = EPILOGUE(scale * (a @ b)): a is m x k, b is k x n, c is m x n, all row-major; with
    B_COLUMNS the columns of b lie as rows, n x k, as the weights of a linear layer do, and as 8-bit
    elements have to. Rows begin at multiples of 16 bytes: k and n are multiples of 8, k one of 16
    for 8-bit elements.

    A workgroup makes tiles of 64 * CONSUMERS x BN one after the other; the first warpgroup copies
    operands to a ring of STAGES tiles 128 bytes deep, each other one multiplies 64 rows. The
    workgroups of a cluster make tiles below each other, and copy the tiles of b once for all of
    them. GROUPS: as many workgroups as the device holds at once, which is one for each of its
    multiprocessors.
    """
    static_assert(T.bits == 16 or (T.bits == 8 and B_COLUMNS), "16-bit elements, or 8-bit columns")
    static_assert(OUT.bits == 16, "16-bit results")
    static_assert(BN % (64 * CLUSTER) == 0, "BN is a multiple of 64 columns for each of a cluster")
    DEPTH = 1024 // T.bits
    tile_a = workgroup_array(T, (STAGES, 64 * CONSUMERS, DEPTH))
    tile_b = workgroup_array(T, (STAGES, BN, DEPTH))
    out = workgroup_array(OUT, CONSUMERS * 2 * 64 * 64)
    full = nv.mbarriers(STAGES)
    free = nv.mbarriers(STAGES)
    if local_linear_id() == 0:
        for stage in static_range(STAGES):
            nv.init(full, stage, 1)
            nv.init(free, stage, 4 * CONSUMERS * CLUSTER)
    barrier()
    if CLUSTER > 1:
        nv.cluster_barrier()
    if nv.role(0, 4):
        nv.set_max_registers(40)
        if local_linear_id() == 0:
            fill(a, b, tile_a, tile_b, full, free, m, n, k, DEPTH, BN, STAGES, CONSUMERS, CLUSTER,
                 GROUP, B_COLUMNS)  # fmt: skip
    else:
        nv.set_max_registers(232)
        multiply(c, tile_a, tile_b, out, full, free, m, n, k, scale, OUT, DEPTH, BN, STAGES,
                 CONSUMERS, CLUSTER, GROUP, B_COLUMNS, EPILOGUE)  # fmt: skip
    if CLUSTER > 1:
        nv.cluster_barrier()  # the others still copy to this one, and arrive at its mbarriers


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    for shape in ((1, 8, 16), (128, 256, 64), (200, 264, 144), (130, 40, 528)):
        args = product_args(rng, shape, t, out, constexprs["B_COLUMNS"])
        if t.bits == 8 and shape[0] > 1:  # whose sums need no more bits than are kept
            for name in "ab":
                args[name] = encode(rng.integers(-1, 2, args[name].shape), t)
        yield args | {"scale": 1.0 if shape[0] == 1 else 0.37}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    error = _ERROR(k=args["k"])
    if t.bits == 8:
        a, b = (decode(args[name], t) for name in "ab")
        most = np.abs(a).max() * np.abs(b).max() * args["k"]
        exact = most < 2**13 and all((x == np.rint(x)).all() for x in (a, b))
        error = np.float64(4 * u(f32)) if exact else _ERROR8(k=args["k"])
    return expected_product(
        args, constexprs, dtype(constexprs, "OUT"), error, constexprs["B_COLUMNS"]
    )


# Products are exact; the hardware cuts sums off at 24 bits, which costs twice as much as rounding
# them. Of 8-bit floats, it adds 32 products to a sum at a time, to 14 bits or more.
_ERROR = bound("2 * gamma(k + 3, f32)", k="the argument")
_ERROR8 = bound("(k * 33 // 32 + 2) * 2**-13", k="the argument")
FAMILIES = (
    Family(
        nv_matmul,
        _inputs,
        _reference,
        "f32 accumulation in any order; rounded once. Of 8-bit floats, 14 bits of a sum are kept",
        {"": product_bound(_ERROR), "8-bit floats": product_bound(_ERROR8)},
    ),
)
