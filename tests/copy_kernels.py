"""A kernel that reverses blocks through workgroup memory, filled by asynchronous copies."""

from __future__ import annotations

import numpy as np

from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.lang import *

WORKGROUP = 32
COPIES = tuple(
    (t, size // DTYPES[t].bytes)
    for t in ("f32", "f16", "bf16", "i8", "i64", "f64", "bool")
    for size in (4, 8, 16)
    if size >= DTYPES[t].bytes and (t != "bool" or size // DTYPES[t].bytes <= 8)
)


@kernel(workgroup=lambda: (WORKGROUP, 1, 1), grid=lambda: (1, 1, 1))
def reversed_blocks(
    x: Read[T], y: Write[T], blocks: i32, *, T: DType = f32, COUNT: int = 4, STAGES: int = 3,
    FILL: bool = True,
):  # fmt: skip
    """Each block of WORKGROUP * COUNT elements back to front; zeros where x has no more."""
    size = WORKGROUP * COUNT
    tile = workgroup_array(T, (STAGES, size))
    i = local_id(0)
    for b in static_range(STAGES - 1):
        at = b * size + COUNT * i
        if FILL:
            copy_async(tile, (b, COUNT * i), x, at, COUNT, len(x) - at)
        elif b < blocks:
            copy_async(tile, (b, COUNT * i), x, at, COUNT)
        copy_commit()
    for b in range(blocks):
        copy_wait(STAGES - 2)
        barrier()
        ahead = b + STAGES - 1
        at = ahead * size + COUNT * i
        if ahead < blocks:
            place = ahead % STAGES
            if FILL:
                copy_async(tile, (place, COUNT * i), x, at, COUNT, len(x) - at)
            else:
                copy_async(tile, (place, COUNT * i), x, at, COUNT)
        copy_commit()
        for n in static_range(COUNT):
            y[b * size + n * WORKGROUP + i] = tile[b % STAGES, size - 1 - n * WORKGROUP - i]
    copy_wait()


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (1, 1, 1))
def copies_before(x: Read[f32], y: Write[f32], start: u32, *, BY_SHIFT: bool = False):
    """Blocks of four, each copied to a place that is a 32-bit unsigned sum less a constant."""
    tile = workgroup_array(f32, 128)
    i = u32(local_id(0))
    at = start + i * u32(4) - u32(16)
    if BY_SHIFT:
        at = (start + i - u32(4)) << u32(2)
    copy_async(tile, at, x, 4 * local_id(0), 4)
    copy_commit()
    copy_wait()
    barrier()
    for n in static_range(4):
        y[4 * local_id(0) + n] = tile[4 * local_id(0) + n]


def case(
    rng: np.random.Generator, t: str, count: int, fill: bool
) -> tuple[Kernel, list, np.ndarray]:
    """A traced kernel, its arguments and the answer."""
    stages, blocks = int(rng.integers(2, 5)), int(rng.integers(1, 8))
    traced = reversed_blocks.trace("test", T=t, COUNT=count, STAGES=stages, FILL=fill)
    total = blocks * WORKGROUP * count
    length = total - int(rng.integers(1, total)) if fill else total
    dtype = DTYPES[t]
    x = rng.integers(0, 2 if dtype.is_bool else 100, length).astype(dtype.storage)
    padded = np.concatenate([x, np.zeros(total - length, x.dtype)])
    expected = padded.reshape(blocks, -1)[:, ::-1].reshape(-1)
    return traced, [x, np.ones(total, x.dtype), blocks], expected
