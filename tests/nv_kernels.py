"""Kernels with extensions, their arguments and answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.ir.dtypes import DTYPES
from gristmill.ir.lang import *
from gristmill.kernels.family import encode

# Families that are built for no other target.
FOR_HOPPER = {"nv_attention_prefill", "nv_linear", "nv_matmul", "nv_quantized_gemv"}
FOR_NVIDIA = FOR_HOPPER | {"attention_prefill", "attention_decode_fragments"}
FOR_NVIDIA |= {"nv_attention_decode"}
Case = tuple[list[Any], dict[int, np.ndarray]]  # arguments; by position, what they become


@kernel(workgroup=lambda: 64, grid=lambda: len(x) // 64)
def grid_sums(x: Read[i32], part: ReadWrite[i32], y: ReadWrite[i32]):
    """Each workgroup's sum, and then the sum of those of all workgroups up to it, twice."""
    tile = workgroup_array(i32, 64)
    i = local_id(0)
    tile[i] = x[global_id(0)]
    barrier()
    if i == 0:
        total = 0
        for n in range(64):
            total += tile[n]
        part[group_id(0)] = total
    for step in range(2):
        grid_barrier()
        if i == 0:
            total = 0
            for n in range(num_groups(0)):
                total += part[n]
            y[group_id(0)] = total
        grid_barrier()
        if i == 0:
            part[group_id(0)] = total_of(y, group_id(0), step)


@device
def total_of(y, at, step):
    return y[at] + at + step


@kernel(workgroup=lambda: 64, grid=lambda: 1)
def bulk_turned(x: Read[T], y: Write[T], blocks: i32, *, T: DType = f32, SIZE: int = 128):
    """Blocks of SIZE elements in reverse order, each as it is plus one."""
    tile = workgroup_array(T, (2, SIZE))
    ready = nv.mbarriers(2)
    i = local_id(0)
    if i == 0:
        nv.init(ready, 0, 1)
        nv.init(ready, 1, 1)
    barrier()
    for block in range(blocks):
        side = block % 2
        if i == 0:
            nv.bulk_wait(pending=1, read=True)
            nv.expect(ready, side, SIZE * T.bytes)
            nv.bulk_load(tile, (side, 0), x, block * SIZE, SIZE, ready, side)
        nv.wait(ready, side, block // 2 % 2)
        for n in range(i, SIZE, 64):
            tile[side, n] = tile[side, n] + 1
        nv.fence_async()
        barrier()
        if i == 0:
            nv.bulk_store(y, (blocks - 1 - block) * SIZE, tile, (side, 0), SIZE)
            nv.bulk_commit()
    if i == 0:
        nv.bulk_wait()


def bulk_case(rng: np.random.Generator, t: str) -> Case:
    blocks = int(rng.integers(1, 6))
    x = rng.integers(0, 100, (blocks, 128)).astype(DTYPES[t].storage)
    return [x.reshape(-1), np.zeros(x.size, x.dtype), blocks], {1: (x[::-1] + 1).reshape(-1)}


@kernel(workgroup=lambda: 32, grid=lambda: 1)
def box_moved(
    x: Read[T], y: ReadWrite[T], n0: i32, n1: i32, at: i32, to: i32,
    *, T: DType = f16, RANK: int = 2, ROWS: int = 8, WIDE: int = 64, SWIZZLE: int = 128,
):  # fmt: skip
    """A box of x at (at, at + 1, ...) to (to, to + 1, ...) of y: n0 x n1, 3 in each dimension
    before."""
    before = (3,) * (RANK - 2)
    shape = (n1,) if RANK == 1 else (*before, n0, n1)
    box = (WIDE,) if RANK == 1 else (*(2,) * (RANK - 2), ROWS, WIDE)
    many = (2 ** max(RANK - 2, 0)) * (1 if RANK == 1 else ROWS) * WIDE
    map_x = nv.tensor_map(x, shape, box, swizzle=SWIZZLE)
    map_y = nv.tensor_map(y, shape, box, swizzle=SWIZZLE)
    tile = workgroup_array(T, many)
    ready = nv.mbarriers(1)
    if local_id(0) == 0:
        nv.init(ready, 0, 1)
        nv.expect(ready, 0, many * T.bytes)
        nv.tensor_load(map_x, from_on(at, RANK), tile, 0, ready, 0)
        nv.wait(ready, 0, 0)
        nv.tensor_store(map_y, from_on(to, RANK), tile, 0)
        nv.bulk_commit()
        nv.bulk_wait()


@device
def from_on(at, RANK):
    """The first RANK of (at, at + 1, ...)."""
    if RANK == 1:
        return (at,)
    if RANK == 2:
        return (at, at + 1)
    if RANK == 3:
        return (at, at + 1, at + 2)
    if RANK == 4:
        return (at, at + 1, at + 2, at + 3)
    return (at, at + 1, at + 2, at + 3, at + 4)


def box_case(rng: np.random.Generator, t: str, rank: int, rows: int, wide: int) -> Case:
    dtype = DTYPES[t]
    unit = 16 // dtype.bytes
    n0, n1 = int(rng.integers(rows, 3 * rows)), unit * int(rng.integers(1, 3 * wide // unit))
    at, to = (int(rng.integers(-3, 4)) for _ in range(2))
    shape = (n1,) if rank == 1 else (*(3,) * (rank - 2), n0, n1)
    box = (wide,) if rank == 1 else (*(2,) * (rank - 2), rows, wide)
    x = rng.integers(1, 100, shape).astype(dtype.storage)
    y = np.zeros(shape, x.dtype)
    expected = y.copy()
    for place in np.ndindex(*box):
        source = tuple(at + d + p for d, p in enumerate(place))
        target = tuple(to + d + p for d, p in enumerate(place))
        inside = [all(0 <= i < n for i, n in zip(w, shape, strict=True)) for w in (source, target)]
        if inside[1]:
            expected[target] = x[source] if inside[0] else 0
    args = [x.reshape(-1), y.reshape(-1), n0, n1, at, to]
    return args, {1: expected.reshape(-1)}


@kernel(workgroup=lambda: 256, grid=lambda: 1)
def product(
    a: Read[T], b: Read[T], c: ReadWrite[SUM],
    *, T: DType = f16, SUM: DType = f32, N: int = 64, DEPTH: int = 64,
    TRANSPOSED: bool = False, WORDS: bool = False, BEGINS: bool = False,
):  # fmt: skip
    """c += a @ b of 128 rows, or with BEGINS c = a @ b: b is N x K, or with TRANSPOSED DEPTH x N;
    rows of 128 bytes."""
    row_ = 128 // T.bytes
    map_a = nv.tensor_map(a, (128, row_), (128, row_))
    tile_a = workgroup_array(T, (128, row_))
    wide = min(N, 64)
    tile_b = workgroup_array(T, (DEPTH * N // wide, 64) if TRANSPOSED else (N, row_))
    ready = nv.mbarriers(1)
    if local_id(0) == 0:
        nv.init(ready, 0, 1)
        nv.expect(ready, 0, 128 * 128 + (DEPTH * N * T.bytes if TRANSPOSED else N * 128))
        nv.tensor_load(map_a, (0, 0), tile_a, 0, ready, 0)
        if TRANSPOSED:
            map_t = nv.tensor_map(b, (DEPTH, N), (DEPTH, 64))
            for part in static_range(N // 64):
                nv.tensor_load(map_t, (0, 64 * part), tile_b, (DEPTH * part, 0), ready, 0)
        else:
            map_b = nv.tensor_map(b, (N, row_), (N, row_))
            nv.tensor_load(map_b, (0, 0), tile_b, 0, ready, 0)
    barrier()
    nv.wait(ready, 0, 0)
    own = i32(nv.warpgroup())
    total = registers(SUM, N // 2)
    lane = i32(local_linear_id()) % 32
    top = own * 64
    for i in static_range(N // 2):
        total[i] = c[(top + nv.wgmma_row(i)) * N + nv.wgmma_column(i)]
    nv.wgmma_fence()
    if WORDS:
        per = 4 // T.bytes
        words = registers(u32, DEPTH * T.bytes // 8)
        first = i32(local_linear_id()) % 128 // 32 * 16 + lane // 4
        for n in static_range(DEPTH * T.bytes // 8):
            line = top + first + 8 * (n % 2)
            column = n // 4 * (32 // T.bytes) + n // 2 % 2 * 4 * per + lane % 4 * per
            words[n] = packed(a, line * row_ + column, per)
        nv.wgmma_fence()
        nv.wgmma(total, words, None, tile_b, 0, depth=DEPTH, transposed=TRANSPOSED,
                 accumulate=not BEGINS)  # fmt: skip
    else:
        nv.wgmma(total, tile_a, (top, 0), tile_b, 0, depth=DEPTH, transposed=TRANSPOSED,
                 accumulate=not BEGINS)  # fmt: skip
    nv.wgmma_commit()
    nv.wgmma_wait(total)
    for i in static_range(N // 2):
        c[(top + nv.wgmma_row(i)) * N + nv.wgmma_column(i)] = total[i]


@device
def packed(a, at, per):
    if per == 1:
        return bitcast(a[at], u32)
    return bitcast(load_vector(a, at // per, per), u32)


@kernel(workgroup=lambda: 128, grid=lambda: len(x) // 128)
def shared_out(x: Read[i32], y: Write[i32], *, CLUSTER: int = 2):
    """Each workgroup of a cluster copies its part of x to all of them; y: the first of them."""
    tile = workgroup_array(i32, 64 * CLUSTER)
    ready = nv.mbarriers(1)
    gone = nv.mbarriers(1)
    if local_id(0) == 0:
        nv.init(ready, 0, 1)
        nv.init(gone, 0, CLUSTER)
    nv.launch_next()
    nv.wait_for_previous()
    nv.cluster_barrier()
    map_x = nv.tensor_map(x, (len(x),), (64,), swizzle=0)
    if local_id(0) == 0:
        nv.expect(ready, 0, 256 * CLUSTER)
        rank = i32(nv.cluster_rank())
        at = i32(group_id(0)) * 128
        nv.tensor_load(map_x, at, tile, rank * 64, ready, 0, multicast=(1 << CLUSTER) - 1)
    done = False
    while not done:
        done = nv.try_wait(ready, 0, 0)
    y[global_id(0)] = tile[local_id(0)]
    if local_id(0) == 0:
        for other in static_range(CLUSTER):
            nv.arrive(gone, 0, rank=other)
    nv.wait(gone, 0, 0)
    nv.cluster_barrier()


def shared_case(rng: np.random.Generator) -> Case:
    x = rng.integers(0, 1000, 512).astype(np.int32)
    parts = x.reshape(4, 128)[:, :64]
    both = parts.reshape(2, 128).repeat(2, axis=0)
    return [x, np.zeros_like(x)], {1: both.reshape(-1)}


PRODUCTS: tuple[dict[str, Any], ...] = (
    {"T": "f16", "N": 64},
    {"T": "f16", "N": 8, "DEPTH": 16},
    {"T": "f16", "N": 256},
    {"T": "f16", "N": 128, "TRANSPOSED": True},
    {"T": "bf16", "N": 64, "DEPTH": 32, "TRANSPOSED": True},
    {"T": "bf16", "N": 24, "DEPTH": 48},
    {"T": "f32", "N": 32, "DEPTH": 32},
    {"T": "i8", "SUM": "i32", "N": 64, "DEPTH": 128},
    {"T": "u8", "SUM": "i32", "N": 16, "DEPTH": 32},
    {"T": "f16", "N": 64, "WORDS": True},
    {"T": "bf16", "N": 64, "DEPTH": 64, "WORDS": True, "TRANSPOSED": True},
    {"T": "f32", "N": 16, "DEPTH": 16, "WORDS": True},
    {"T": "i8", "SUM": "i32", "N": 8, "DEPTH": 64, "WORDS": True},
    {"T": "f16", "SUM": "f16", "N": 64, "DEPTH": 32},
    {"T": "f16", "SUM": "f16", "N": 64, "DEPTH": 16, "WORDS": True, "TRANSPOSED": True},
    {"T": "f8e4m3", "N": 64, "DEPTH": 128},
    {"T": "f8e5m2", "N": 16, "DEPTH": 64, "WORDS": True},
    {"T": "f8e4m3", "SUM": "f16", "N": 32, "DEPTH": 32},
    {"T": "f8e5m2", "SUM": "f16", "N": 8, "DEPTH": 32, "WORDS": True},
    {"T": "f16", "N": 64, "BEGINS": True},
    {"T": "bf16", "N": 128, "DEPTH": 16, "BEGINS": True, "WORDS": True, "TRANSPOSED": True},
    {"T": "f16", "SUM": "f16", "N": 64, "DEPTH": 32, "BEGINS": True},
    {"T": "i8", "SUM": "i32", "N": 64, "DEPTH": 128, "BEGINS": True},
)


def product_case(rng: np.random.Generator, constexprs: dict[str, Any]) -> tuple[Case, float]:
    """Arguments, the answer, and its error bound relative to the sum of the magnitudes. What a sum
    was before does not count with BEGINS: it is an infinity or a NaN where it can be."""
    t, n = DTYPES[constexprs["T"]], constexprs["N"]
    depth, row = constexprs.get("DEPTH", 64), 128 // t.bytes
    total = DTYPES[constexprs.get("SUM", "f32")]
    most = 4 if total.name == "f16" else 8  # sums of integers below 2048 are exact
    low = -most if t.is_signed or t.is_float else 0
    a = rng.integers(low, most + 1, (128, row))
    shape = (depth, n) if constexprs.get("TRANSPOSED") else (n, row)
    b = rng.integers(low, most + 1, shape)
    c = rng.integers(-8, 9, (128, n))
    right = b if constexprs.get("TRANSPOSED") else b.T[:depth]
    expected = a[:, :depth] @ right
    if not constexprs.get("BEGINS"):
        expected = c + expected
    elif total.is_float:
        c = rng.choice([np.inf, -np.inf, np.nan], c.shape)

    def stored(values: np.ndarray) -> np.ndarray:
        return encode(values, t).reshape(-1)

    kind = total.storage
    args = [stored(a), stored(b), c.astype(kind).reshape(-1)]
    return (args, {2: expected.astype(kind).reshape(-1)}), 0.0


@kernel(workgroup=lambda: 256, grid=lambda: len(y) // 256)
def passed_on(x: Read[i32], y: Write[i32], *, LOST: bool = False):
    """One warpgroup hands elements to the other through workgroup memory, four rounds."""
    tile = workgroup_array(i32, 128)
    full = nv.mbarriers(1)
    free = nv.mbarriers(1)
    i = i32(local_id(0)) % 128
    if local_id(0) == 0:
        nv.init(full, 0, 128)
        nv.init(free, 0, 128)
    barrier()
    if nv.role(4, 4):
        for turn in range(2):
            nv.wait(free, 0, (turn + 1) % 2)
            tile[i] = x[(group_id(0) * 2 + turn) * 128 + i]
            if not LOST:
                nv.arrive(full, 0)
            nv.named_barrier(1, 128)
    else:
        for turn in range(2):
            nv.wait(full, 0, turn % 2)
            y[(group_id(0) * 2 + turn) * 128 + i] = tile[127 - i] + i32(nv.warpgroup()) + 1
            nv.arrive(free, 0)


@kernel(workgroup=lambda: 256, grid=lambda: 1)
def in_turns(y: ReadWrite[i32], turns: i32, *, LOST: bool = False):
    """Two warpgroups write their numbers below each other, in turns."""
    count = workgroup_array(i32, 1)
    if local_id(0) == 0:
        count[0] = 0
    barrier()
    if nv.role(0, 4):
        take_turns(y, count, turns, 0, LOST)
    else:
        nv.named_arrive(2, 256)
        take_turns(y, count, turns, 1, LOST)


@device
def take_turns(y, count, turns, own, LOST):
    for _ in range(turns):
        nv.named_barrier(2 + own, 256)
        if local_id(0) % 128 == 0:
            y[count[0]] = i32(1 + own)
            count[0] = count[0] + 1
        if not LOST:
            nv.named_arrive(3 - own, 256)


def turns_case(rng: np.random.Generator) -> Case:
    turns = int(rng.integers(2, 9))
    return [np.zeros(2 * turns, np.int32), turns], {0: np.tile([1, 2], turns).astype(np.int32)}


def passed_case(rng: np.random.Generator, groups: int) -> Case:
    x = rng.integers(0, 1000, 256 * groups).astype(np.int32)
    y = x.reshape(-1, 128)[:, ::-1].reshape(-1) + 1
    return [x, np.zeros_like(x)], {1: y}
