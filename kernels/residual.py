"""RMSNorm and LayerNorm of a sum: the residual stream and the normalised row in one launch.

What is normalised is the sum as it is stored, so that the result is that of an addition and a
normalisation one after the other, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    Write,
    barrier,
    convert,
    device,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    sqrt,
    static_range,
)
from .common import across, add, block_reduce, load, load_row, store, zeros
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    decode,
    dtype,
    empty,
    encode,
    normal,
    special_rows,
)
from .normalization import FAMILIES as NORMS
from .normalization import (
    normal_kept,
    normal_row,
    rms_scale,
    row_spread,
    scale_kept,
    scaled_row,
)


@device
def summed(a, b, T):
    """a + b as T."""
    return convert(convert(a, f32) + convert(b, f32), T)


@device
def join_row(x, residual, base, n, T, BLOCK, VEC, SQUARES):
    """Add the row at `base`, of n vectors, to the residual's; the sum of this invocation's
    elements of it, or of their squares."""
    total = zeros(f32, VEC)
    for c in range(local_id(0), n, BLOCK):
        h = summed(load(x, base + c, VEC), load(residual, base + c, VEC), T)
        store(residual, base + c, h, VEC)
        v = convert(h, f32)
        total = total + (v * v if SQUARES else v)
    return across(total, add, VEC)


@device
def join_kept(x, residual, base, n, T, BLOCK, VEC, KEEP):
    """The same for a row that stays in registers: KEEP vectors of it, those behind it repeated."""
    row = load_row(x, base, n, T, BLOCK, VEC, KEEP)
    before = load_row(residual, base, n, T, BLOCK, VEC, KEEP)
    barrier()  # what lies behind the row repeats its last vector, which another one writes
    for k in static_range(KEEP):
        row[k] = summed(row[k], before[k], T)
    for k in static_range(KEEP):
        c = local_id(0) + k * BLOCK
        if c < n:
            store(residual, base + c, row[k], VEC)
    return row


@device
def rms_kept(x, residual, weight, y, n, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """A row of n vectors by one workgroup that reads it once."""
    base = group_id(0) * n
    weights = load_row(weight, 0, n, T, BLOCK, VEC, KEEP)
    row = join_kept(x, residual, base, n, T, BLOCK, VEC, KEEP)
    scale_kept(row, weights, y, base, n, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP)


@device
def rms_streamed(x, residual, weight, y, n, cols, eps, T, BLOCK, SUBGROUP, VEC):
    """A row of n vectors, of which each invocation reads again what it has written."""
    base = group_id(0) * n
    squares = join_row(x, residual, base, n, T, BLOCK, VEC, True)
    scale = rms_scale(squares, cols, eps, BLOCK, SUBGROUP)
    scaled_row(residual, weight, y, base, base, scale, n, T, BLOCK, VEC, False)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y) // max(cols, 1), 1, 1))
def rmsnorm_residual(
    x: Read[T],
    residual: ReadWrite[T],
    weight: Read[T],
    y: Write[T],
    cols: i32,
    eps: f32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
    KEEP: int = 0,
):
    """residual += x; y = rmsnorm(residual, weight, eps), row by row.

    A row of up to BLOCK * VEC * KEEP elements is read once and kept in registers; others go element
    by element where KEEP > 0, else in vectors if VEC divides cols.
    """
    n = cols // VEC
    if KEEP > 0 and cols % VEC == 0 and n <= BLOCK * KEEP:
        rms_kept(x, residual, weight, y, n, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP)
    elif KEEP == 0 and cols % VEC == 0:
        rms_streamed(x, residual, weight, y, n, cols, eps, T, BLOCK, SUBGROUP, VEC)
    else:
        rms_streamed(x, residual, weight, y, cols, cols, eps, T, BLOCK, SUBGROUP, 1)


@device
def layer_streamed(x, residual, weight, bias, y, n, cols, eps, T, BLOCK, SUBGROUP, VEC):
    """A row of n vectors, of which each invocation reads again what it has written."""
    base = group_id(0) * n
    count = convert(cols, f32)
    total = join_row(x, residual, base, n, T, BLOCK, VEC, False)
    mean = block_reduce(total, add, f32, BLOCK, SUBGROUP) / count
    squares = row_spread(residual, base, mean, n, BLOCK, VEC)
    scale = 1 / sqrt(block_reduce(squares, add, f32, BLOCK, SUBGROUP) / count + eps)
    normal_row(residual, weight, bias, y, base, mean, scale, n, T, BLOCK, VEC)


@device
def layer_kept(x, residual, weight, bias, y, n, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """A row of n vectors by one workgroup that reads it once."""
    base = group_id(0) * n
    row = join_kept(x, residual, base, n, T, BLOCK, VEC, KEEP)
    normal_kept(row, weight, bias, y, base, n, eps, T, BLOCK, SUBGROUP, VEC, KEEP)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y) // max(cols, 1), 1, 1))
def layernorm_residual(
    x: Read[T],
    residual: ReadWrite[T],
    weight: Read[T],
    bias: Read[T],
    y: Write[T],
    cols: i32,
    eps: f32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
    KEEP: int = 0,
):
    """residual += x; y = layernorm(residual, weight, bias, eps), row by row.

    A row of up to BLOCK * VEC * KEEP elements is read once and kept in registers; others go in
    vectors if VEC divides cols.
    """
    n = cols // VEC
    if KEEP > 0 and cols % VEC == 0 and n <= BLOCK * KEEP:
        layer_kept(x, residual, weight, bias, y, n, eps, T, BLOCK, SUBGROUP, VEC, KEEP)
    elif cols % VEC == 0:
        layer_streamed(x, residual, weight, bias, y, n, cols, eps, T, BLOCK, SUBGROUP, VEC)
    else:
        layer_streamed(x, residual, weight, bias, y, cols, cols, eps, T, BLOCK, SUBGROUP, 1)


def _inputs(rng: np.random.Generator, constexprs: Constexprs, bias: bool) -> Iterator[Args]:
    t = dtype(constexprs)
    shapes = ((1, 1), (3, 1000), (5, 257), (2, 9000))
    for x in (*(normal(rng, shape, t) for shape in shapes), special_rows(rng, 260, t)):
        cols = x.shape[1]
        yield {
            "x": x,
            "residual": normal(rng, x.shape, t),
            "weight": normal(rng, cols, t),
            **({"bias": normal(rng, cols, t)} if bias else {}),
            "y": empty(x.shape, t),
            "cols": cols,
            "eps": 1e-5,
        }


def _reference(args: Args, constexprs: Constexprs, norm: Family) -> dict[str, Expected]:
    """The sum in f32 is rounded to T, as numpy does it."""
    t = dtype(constexprs)
    total = decode(args["x"], t) + decode(args["residual"], t)
    stored = encode(total.astype(np.float32), t)
    found = norm.reference({**args, "x": stored}, constexprs)
    return {"residual": Expected(decode(stored, t)), **found}


_RMS, _LAYER = NORMS
_WORDS = "the sum: one rounding; the rest as without it: f32 inside, sums in fixed order"
FAMILIES = (
    Family(
        rmsnorm_residual,
        lambda rng, c: _inputs(rng, c, bias=False),
        lambda args, c: _reference(args, c, _RMS),
        _WORDS,
        {"y": _RMS.bounds[""]},
        _RMS.special,
    ),
    Family(
        layernorm_residual,
        lambda rng, c: _inputs(rng, c, bias=True),
        lambda args, c: _reference(args, c, _LAYER),
        _WORDS,
        {"y": _LAYER.bounds[""]},
        _LAYER.special,
    ),
)
