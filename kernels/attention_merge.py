"""The splits of `attention_decode` brought together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    convert,
    exp2,
    f16,
    f32,
    fma,
    global_id,
    i32,
    kernel,
    load_vector,
    static_assert,
    store_vector,
    vec,
)
from .attention_oracle import LOWEST
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    dtype,
    empty,
)


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(len(y) // VEC, BLOCK), 1, 1),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def attention_merge(
    partial: Read[f32],
    stats: Read[f32],
    y: Write[T],
    splits: i32,
    *,
    T: DType = f16,
    HEAD_DIM: int = 128,
    BLOCK: int = 64,
    VEC: int = 4,
    FAST: bool = False,
):
    """y[r, :] from the splits of row r that `attention_decode` has left in partial
    [rows, splits, HEAD_DIM] and stats [rows, splits, 2]; zeros where no split had a key, and, as a
    fault, where one of them is too short."""
    static_assert(HEAD_DIM % VEC == 0, "VEC divides HEAD_DIM")
    i = global_id(0)
    rows = len(y) // HEAD_DIM
    held = splits > 0 and rows <= len(stats) // 2 // splits
    held = held and rows <= len(partial) // HEAD_DIM // splits
    if i < len(y) // VEC:
        assert held, "attention_merge: partial or stats without the splits of all rows"
        row = i // (HEAD_DIM // VEC)
        most = f32(LOWEST)
        count = splits if held else i32(0)
        for s in range(count):
            most = max(most, stats[2 * (row * splits + s)])
        whole = f32(0)
        total = vec(f32, VEC)(0)
        for s in range(count):
            line = row * splits + s
            weight = exp2(stats[2 * line] - most)
            whole = fma(stats[2 * line + 1], weight, whole)
            part = load_vector(partial, line * (HEAD_DIM // VEC) + i % (HEAD_DIM // VEC), VEC)
            total = fma(part, vec(f32, VEC)(weight), total)
        factor = 1 / whole if whole != 0 else f32(0)
        store_vector(y, i, convert(total * vec(f32, VEC)(factor), T))


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    dim, t = int(constexprs["HEAD_DIM"]), dtype(constexprs)
    for rows, splits in ((1, 2), (5, 7)):
        top = rng.normal(0, 9, (rows, splits)).astype(np.float32)
        whole = rng.uniform(1, 50, (rows, splits)).astype(np.float32)
        partial = rng.standard_normal((rows, splits, dim)).astype(np.float32)
        for s in (slice(None), slice(splits // 2))[: rows > 1]:  # rows and splits without keys
            top[rows // 2, s], whole[rows // 2, s], partial[rows // 2, s] = LOWEST, 0.0, 0.0
        top[-1, 0], whole[-1, 0], partial[-1, 0] = LOWEST, 0.0, 0.0
        yield {
            "partial": partial,
            "stats": np.stack([top, whole], -1),
            "y": empty((rows, dim), t),
            "splits": splits,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, partial = dtype(constexprs), args["partial"].astype(np.float64)
    top, whole = args["stats"].astype(np.float64).transpose(2, 0, 1)
    weight = np.exp2(top - top.max(-1, keepdims=True))
    sums = (weight * whole).sum(-1)[:, None]
    value = (weight[..., None] * partial).sum(1) / np.where(sums, sums, 1)
    size = (weight[..., None] * np.abs(partial)).sum(1) / np.where(sums, sums, 1)
    greatest = np.where(top > LOWEST, np.abs(top), 0).max(-1)[:, None]
    told = {"size": size, "top": greatest, "splits": args["splits"]}
    return {"y": Expected(value, _BOUND(value=value, T=t, **told))}


# exp2: its argument is rounded once, then 2 ulp; sums of all splits, a division and products.
_BOUND = bound(
    "2 * size * (4 * log(2) * u(f32) * top + gamma(3 * splits + 12, f32)) + abs(value) * u(T)"
    " + least(T)",
    size="the mean of abs(partial) with the splits' weights, over their sums",
    top="the greatest magnitude of a maximum of the row",
    splits="the argument",
)
FAMILIES = (
    Family(
        attention_merge,
        _inputs,
        _reference,
        "f32 inside, splits in order; rounded once",
        {"": _BOUND},
    ),
)
