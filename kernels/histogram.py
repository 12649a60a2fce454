"""Counting how often each integer occurs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    atomic_add,
    barrier,
    ceil_div,
    convert,
    group_id,
    i32,
    kernel,
    local_id,
    num_groups,
    u32,
    workgroup_array,
)
from .family import Args, Constexprs, Expected, Family, dtype


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (max(1, min(GROUPS, ceil_div(len(x), BLOCK))), 1, 1),
)
def histogram(
    x: Read[T],
    counts: ReadWrite[u32],
    *,
    T: DType = i32,
    BINS: int = 256,
    BLOCK: int = 256,
    GROUPS: int = 256,
):
    """counts[v] += occurrences of v in x, for 0 <= v < BINS; other values are not counted.

    counts has BINS elements. Each workgroup counts in its own memory first.
    """
    local = workgroup_array(u32, BINS)
    lid = local_id(0)
    for b in range(lid, BINS, BLOCK):
        local[b] = u32(0)
    barrier()
    for i in range(group_id(0) * BLOCK + lid, len(x), num_groups(0) * BLOCK):
        value = convert(x[i], i32)
        if value >= 0 and value < BINS:
            atomic_add(local, value, u32(1))
    barrier()
    for b in range(lid, BINS, BLOCK):
        if local[b] > 0:
            atomic_add(counts, b, local[b])


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, bins = dtype(constexprs), constexprs["BINS"]
    for n in (1, 1000, 100_003):
        low, high = max(t.min, -5), min(t.max, bins + 5)
        x = rng.integers(low, high, n, endpoint=True).astype(t.storage)
        yield {"x": x, "counts": rng.integers(0, 9, bins).astype(np.uint32)}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    x, bins = args["x"].astype(np.int64), constexprs["BINS"]
    inside = x[(x >= 0) & (x < bins)]
    return {"counts": Expected(args["counts"] + np.bincount(inside, minlength=bins))}


FAMILIES = (Family(histogram, _inputs, _reference, "exact; counts wrap at 2**32"),)
