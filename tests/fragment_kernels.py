"""Kernels on matrix fragments, their inputs, and what they must compute within which error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.lang import *
from gristmill.kernels.family import decode, normal

KINDS = (
    ("f16", "f16", "f32", 16), ("f16", "f16", "f16", 16), ("bf16", "bf16", "f32", 16),
    ("f32", "f32", "f32", 8), ("i8", "i8", "i32", 32), ("u8", "u8", "i32", 32),
    ("u8", "i8", "i32", 32), ("i8", "u8", "i32", 32),
    ("f8e4m3", "f8e4m3", "f32", 32), ("f8e5m2", "f8e5m2", "f32", 32),
    ("f8e4m3", "f8e5m2", "f32", 32), ("f8e5m2", "f8e4m3", "f32", 32),
)  # fmt: skip
LAYOUTS = tuple((a, b) for a in ("row", "column") for b in ("row", "column"))
STEPS = 2  # products along k


@device
def stage(tile, source, WIDTH, COUNT, THREADS):
    """Rows of WIDTH elements of `source` into the padded rows of `tile`."""
    for i in range(local_id(0), COUNT, THREADS):
        tile[i // WIDTH, i % WIDTH] = source[i]


@kernel(workgroup=lambda: (2 * SUBGROUP, 1, 1))
def product(
    a: Read[TA],
    b: Read[TB],
    c: ReadWrite[TC],
    *,
    TA: DType = f16,
    TB: DType = f16,
    TC: DType = f32,
    K: int = 16,
    LA: str = "row",
    LB: str = "row",
    SHARED: bool = True,
    SUBGROUP: int = 32,
):
    """c += a @ b, 16 x 2K by 2K x 16, by each of two subgroups for its own c."""
    wa = 2 * K if LA == "row" else 16
    wb = 16 if LB == "row" else 2 * K
    if SHARED:
        x = workgroup_array(TA, (32 * K // wa, wa + 16))
        y = workgroup_array(TB, (32 * K // wb, wb + 16))
        stage(x, a, wa, 32 * K, 2 * SUBGROUP)
        stage(y, b, wb, 32 * K, 2 * SUBGROUP)
        barrier()
        wa = wa + 16
        wb = wb + 16
    else:
        x = a
        y = b
    acc = fragment_load(fragment(TC, "acc"), c, 256 * subgroup_id(), 16)
    for k in range(2):
        left = k * K if LA == "row" else k * K * wa
        right = k * K * wb if LB == "row" else k * K
        one = fragment_load(fragment(TA, "a"), x, left, wa, LA)
        two = fragment_load(fragment(TB, "b"), y, right, wb, LB)
        acc = mma(one, two, acc)
    fragment_store(c, 256 * subgroup_id(), acc, 16)


@dataclass
class Product:
    """One specialization of `product` with its arguments and answer."""

    kernel: Kernel
    args: list[Any]
    expected: np.ndarray
    tolerance: np.ndarray | float
    out: str

    def wrong(self, got: np.ndarray) -> str:
        """What is wrong with an output; empty if nothing is."""
        values = decode(got, DTYPES[self.out]).astype(np.float64)
        error = np.abs(values - self.expected)
        bad = ~(error <= self.tolerance)
        at = int(np.argmax(bad))
        return f"c[{at}] is {values[at]}, not {self.expected[at]}" if bad.any() else ""


def tolerance(a: np.ndarray, b: np.ndarray, c: np.ndarray, kind: str, out: str) -> Any:
    """The error that the op table allows to STEPS products, of float64 operands."""
    if out == "i32":
        return 0.0
    depth, unit = a.shape[1] // STEPS, 2.0**-23 if out == "f32" else 2.0**-10
    unit = 2.0**-13 if not DTYPES[kind].computes else unit
    size = np.abs(a) @ np.abs(b)
    loose = 2 * 2.0**-11 * size * 1.01 if kind == "f32" else 0.0
    least = 2.0**-149 if out == "f32" else 2.0**-24
    return STEPS * (depth + 1) * unit * (np.abs(c) + size) * 1.01 + loose + least


def make_product(
    rng: np.random.Generator,
    kinds: tuple[str, str, str, int],
    layouts: tuple[str, str],
    size: int,
    shared: bool,
) -> Product:
    """A fresh product of these element types and layouts."""
    ta, tb, tc, depth = kinds
    kernel = product.trace(
        "test", TA=ta, TB=tb, TC=tc, K=depth, LA=layouts[0], LB=layouts[1], SHARED=shared,
        SUBGROUP=size,
    )  # fmt: skip
    a = normal(rng, (16, 2 * depth), DTYPES[ta])
    b = normal(rng, (2 * depth, 16), DTYPES[tb])
    c = normal(rng, (2, 16, 16), DTYPES[tc])
    x, y, z = (decode(v, DTYPES[t]).astype(np.float64) for v, t in ((a, ta), (b, tb), (c, tc)))
    value = x @ y + z
    if tc == "i32":
        value = value.astype(np.int64).astype(np.int32).astype(np.float64)
    allowed = tolerance(x, y, z, ta, tc)
    placed = [
        np.ascontiguousarray(v if layout == "row" else v.T).reshape(-1)
        for v, layout in zip((a, b), layouts, strict=True)
    ]
    flat = np.broadcast_to(allowed, value.shape).reshape(-1)
    return Product(kernel, [*placed, c.reshape(-1)], value.reshape(-1), flat, tc)


def products(rng: np.random.Generator, size: int, count: int = 0) -> Iterator[Product]:
    """Every kind of product in some layout; or `count` of all, chosen at random."""
    cases = [(k, n, s) for k in KINDS for n in LAYOUTS for s in (False, True)]
    if count:
        cases = [cases[i] for i in rng.choice(len(cases), count, replace=False)]
    for kinds, layouts, shared in cases:
        yield make_product(rng, kinds, layouts, size, shared)


@kernel(workgroup=lambda: (SUBGROUP, 1, 1), grid=lambda: (n // 16, 1, 1))
def attention(
    q: Read[f16],
    k: Read[f16],
    v: Read[f16],
    o: Write[f32],
    n: i32,
    scale: f32,
    *,
    D: int = 32,
    COOPERATIVE: bool = False,
    SUBGROUP: int = 32,
):
    """Causal attention over n keys of D elements, 16 queries a workgroup, keys 16 at a time."""
    top = group_id(0) * 16
    queries = registers(fragment(f16, "a"), D // 16, fragment(f16, "a")(0.0))
    out = registers(fragment(f32, "acc"), D // 16, 0.0)
    for d in static_range(D // 16):
        queries[d] = fragment_load(fragment(f16, "a"), q, top * D + 16 * d, D)
    most = fragment(f32, "row")(-1e30)
    total = fragment(f32, "row")(0.0)
    for first in range(0, top + 16, 16):
        scores = fragment(f32, "acc")(0.0)
        for d in static_range(D // 16):
            keys = fragment_load(fragment(f16, "b"), k, first * D + 16 * d, D, "column")
            scores = mma(queries[d], keys, scores)
        rows = fragment_row(scores.type) + top
        columns = fragment_column(scores.type) + first
        scores = select(columns <= rows, scores * scale, -1e30)
        new = max(most, row_max(scores))
        p = exp(scores - new)
        shrink = exp(most - new)
        total = total * shrink + row_add(p)
        most = new
        for d in static_range(D // 16):
            values = fragment_load(fragment(f16, "b"), v, first * D + 16 * d, D)
            out[d] = mma(convert(p, fragment(f16, "a")), values, out[d] * shrink)
    for d in static_range(D // 16):
        fragment_store(o, top * D + 16 * d, out[d] / total, D)


def attention_case(
    rng: np.random.Generator, n: int, size: int, depth: int = 32, cooperative: bool = False
) -> Product:
    """`attention` on fresh values; its weights are rounded to f16, which dominates the error."""
    kernel = attention.trace("test", D=depth, COOPERATIVE=cooperative, SUBGROUP=size)
    q, k, v = (rng.standard_normal((n, depth)).astype(np.float16) for _ in range(3))
    scale = 1 / np.sqrt(depth)
    scores = q.astype(np.float64) @ k.astype(np.float64).T * np.float32(scale)
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    value = weights @ v.astype(np.float64)
    allowed = weights @ np.abs(v.astype(np.float64)) * 2.0**-10 + n * 2.0**-24
    out = np.zeros((n, depth), np.float32)
    args = [q.reshape(-1), k.reshape(-1), v.reshape(-1), out.reshape(-1), n, float(scale)]
    return Product(kernel, args, value.reshape(-1), allowed.reshape(-1), "f32")


@kernel(workgroup=lambda: (2 * SUBGROUP, 1, 1), grid=lambda: (1, 1, 1))
def swizzled(
    a: Read[T],
    b: Read[T],
    c: Write[TC],
    y: Write[T],
    *,
    T: DType = f16,
    TC: DType = f32,
    K: int = 16,
    SUBGROUP: int = 32,
):
    """c = a @ b of 16 x 2K by 2K x 128, through swizzled arrays that are filled in several ways;
    y = a as it is read back from there."""
    ROW = 128
    tile_a = workgroup_array(T, (2, 16, ROW), swizzle=True)
    tile_b = workgroup_array(T, (2 * K, ROW), True)
    lid = local_id(0)
    for i in range(lid, 4 * 2 * K, 2 * SUBGROUP):
        for step in static_range(4):
            row = i // (2 * K) + 4 * step
            tile_a[1, row, i % (2 * K)] = a[row * 2 * K + i % (2 * K)]
    unit = 16 // T.bytes
    wide = min(unit, 4)
    for i in range(lid, K * ROW // wide, 2 * SUBGROUP):
        store_vector(tile_b, (i // (ROW // wide), i % (ROW // wide)), load_vector(b, i, wide))
    for i in range(lid, K * ROW // unit, 2 * SUBGROUP):
        at = K * ROW + i * unit
        copy_async(tile_b, (at // ROW, at % ROW), b, at, unit)
    copy_commit()
    copy_wait()
    barrier()
    for part in static_range(4):
        column = 64 * subgroup_id() + 16 * part
        acc = fragment(TC, "acc")(0)
        for k in static_range(2):
            left = fragment_load(fragment(T, "a"), tile_a, (1, 0, k * K))
            row = group_id(0) * 8 + k * K  # a sum with a constant
            right = fragment_load(fragment(T, "b"), tile_b, (row, column))
            acc = mma(left, right, acc)
        fragment_store(c, column, acc, ROW)
    for i in range(lid, 16 * 2 * K, 2 * SUBGROUP):
        y[i] = tile_a[1, i // (2 * K), i % (2 * K)]


def swizzled_case(rng: np.random.Generator, t: str, size: int) -> tuple[Product, np.ndarray]:
    """`swizzled` on fresh values, and its second output."""
    out = "i32" if DTYPES[t].is_int else "f32"
    depth = 32 // DTYPES[t].bytes
    traced = swizzled.trace("test", T=t, TC=out, K=depth, SUBGROUP=size)
    a, b = normal(rng, (16, 2 * depth), DTYPES[t]), normal(rng, (2 * depth, 128), DTYPES[t])
    x, z = (decode(v, DTYPES[t]).astype(np.float64) for v in (a, b))
    value = x @ z
    allowed = np.broadcast_to(tolerance(x, z, np.zeros_like(value), t, out), value.shape)
    c, y = np.zeros(value.size, DTYPES[out].storage), np.zeros_like(a.reshape(-1))
    args = [a.reshape(-1), b.reshape(-1), c, y]
    return Product(traced, args, value.reshape(-1), allowed.reshape(-1), out), a.reshape(-1)
