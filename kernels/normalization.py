"""RMSNorm and LayerNorm over the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    convert,
    device,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    sqrt,
    static_assert,
    static_range,
)
from .common import across, add, block_reduce, load, load_row, store, zeros
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    normal,
    special_rows,
)
from .reduction import PATH, terms


@device
def partial_squares(x, base, n, BLOCK, VEC):
    """The sum of squares of this invocation's elements of the row at `base`, of n vectors."""
    squares = zeros(f32, VEC)
    for c in range(local_id(0), n, BLOCK):
        v = convert(load(x, base + c, VEC), f32)
        squares = squares + v * v
    return across(squares, add, VEC)


@device
def rms_scale(squares, cols, eps, BLOCK, SUBGROUP):
    """1 / sqrt(mean of squares + eps) of a row, from every invocation's sum."""
    total = block_reduce(squares, add, f32, BLOCK, SUBGROUP)
    return 1 / sqrt(total / convert(cols, f32) + eps)


@device
def scaled_row(x, weight, y, base, following, scale, n, T, BLOCK, VEC, AHEAD):
    """The row at `base` times `scale` and weights; n elements of VEC neighbours each.

    AHEAD: gives this invocation's sum of squares of the row at `following`, so that reading that
    row overlaps with writing this one.
    """
    squares = zeros(f32, VEC)
    for c in range(local_id(0), n, BLOCK):
        v = convert(load(x, base + c, VEC), f32) * scale
        store(y, base + c, convert(v * convert(load(weight, c, VEC), f32), T), VEC)
        if AHEAD:
            ahead = convert(load(x, following + c, VEC), f32)
            squares = squares + ahead * ahead
    return across(squares, add, VEC)


@device
def rmsnorm_row(x, weight, y, cols, eps, T, BLOCK, SUBGROUP, VEC):
    """A row by one workgroup, VEC neighbouring elements at a time where VEC divides cols."""
    n = cols // VEC
    wide = cols % VEC == 0
    if wide:
        squares = partial_squares(x, group_id(0) * n, n, BLOCK, VEC)
    else:
        squares = partial_squares(x, group_id(0) * cols, cols, BLOCK, 1)
    scale = rms_scale(squares, cols, eps, BLOCK, SUBGROUP)
    if wide:
        base = group_id(0) * n
        scaled_row(x, weight, y, base, base, scale, n, T, BLOCK, VEC, False)
    else:
        base = group_id(0) * cols
        scaled_row(x, weight, y, base, base, scale, cols, T, BLOCK, 1, False)


@device
def rmsnorm_rows(x, weight, y, cols, eps, T, BLOCK, SUBGROUP, ROWS):
    """ROWS rows by one workgroup, which reads the next one while it writes the one before."""
    first = group_id(0) * ROWS
    squares = partial_squares(x, first * cols, cols, BLOCK, 1)
    count = len(y) // cols
    for row in range(first, min(first + ROWS, count)):
        scale = rms_scale(squares, cols, eps, BLOCK, SUBGROUP)
        following = min(row + 1, count - 1) * cols
        squares = scaled_row(x, weight, y, row * cols, following, scale, cols, T, BLOCK, 1, True)


@device
def scale_kept(row, weights, y, base, n, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """The row at `base` of y, of n vectors, from one that is kept as `load_row` gives it."""
    lid = local_id(0)
    squares = zeros(f32, VEC)
    for k in static_range(KEEP):
        if lid + k * BLOCK < n:
            v = convert(row[k], f32)
            squares = squares + v * v
    scale = rms_scale(across(squares, add, VEC), cols, eps, BLOCK, SUBGROUP)
    for k in static_range(KEEP):
        c = lid + k * BLOCK
        if c < n:
            v = convert(row[k], f32) * scale * convert(weights[k], f32)
            store(y, base + c, convert(v, T), VEC)


@device
def rmsnorm_kept(x, weight, y, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """A row by one workgroup that reads it once: up to KEEP vectors stay with each invocation."""
    n = cols // VEC
    base = group_id(0) * n
    row = load_row(x, base, n, T, BLOCK, VEC, KEEP)
    weights = load_row(weight, 0, n, T, BLOCK, VEC, KEEP)
    scale_kept(row, weights, y, base, n, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP)


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(len(y) // max(cols, 1), ROWS), 1, 1),
)
def rmsnorm(
    x: Read[T],
    weight: Read[T],
    y: Write[T],
    cols: i32,
    eps: f32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
    ROWS: int = 1,
    KEEP: int = 0,
):
    """y[r, :] = x[r, :] / sqrt(mean(x[r, :]**2) + eps) * weight, in f32 (Zhang and Sennrich).

    A row of up to BLOCK * VEC * KEEP elements is read once and kept in registers. Several ROWS by
    one workgroup need KEEP = 0 and VEC = 1.
    """
    static_assert(ROWS == 1 or (KEEP == 0 and VEC == 1), "several rows need KEEP = 0 and VEC = 1")
    if KEEP > 0 and cols % VEC == 0 and cols // VEC <= BLOCK * KEEP:
        rmsnorm_kept(x, weight, y, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP)
    elif ROWS == 1:
        rmsnorm_row(x, weight, y, cols, eps, T, BLOCK, SUBGROUP, VEC)
    else:
        rmsnorm_rows(x, weight, y, cols, eps, T, BLOCK, SUBGROUP, ROWS)


@device
def row_sum(x, base, n, BLOCK, VEC):
    """The sum of this invocation's elements of the row at `base`, of n vectors."""
    sums = zeros(f32, VEC)
    for c in range(local_id(0), n, BLOCK):
        sums = sums + convert(load(x, base + c, VEC), f32)
    return across(sums, add, VEC)


@device
def row_spread(x, base, mean, n, BLOCK, VEC):
    """The sum of squares of the differences from the mean."""
    squares = zeros(f32, VEC)
    for c in range(local_id(0), n, BLOCK):
        d = convert(load(x, base + c, VEC), f32) - mean
        squares = squares + d * d
    return across(squares, add, VEC)


@device
def normal_row(x, weight, bias, y, base, mean, scale, n, T, BLOCK, VEC):
    """The row at `base` of y."""
    for c in range(local_id(0), n, BLOCK):
        d = (convert(load(x, base + c, VEC), f32) - mean) * scale
        scaled = d * convert(load(weight, c, VEC), f32) + convert(load(bias, c, VEC), f32)
        store(y, base + c, convert(scaled, T), VEC)


@device
def layernorm_row(x, weight, bias, y, cols, eps, T, BLOCK, SUBGROUP, VEC):
    """A row by one workgroup, VEC neighbouring elements at a time where VEC divides cols."""
    count = cols // VEC
    n = convert(cols, f32)
    wide = cols % VEC == 0
    base = group_id(0) * count
    start = group_id(0) * cols
    total = row_sum(x, base, count, BLOCK, VEC) if wide else row_sum(x, start, cols, BLOCK, 1)
    mean = block_reduce(total, add, f32, BLOCK, SUBGROUP) / n
    if wide:
        squares = row_spread(x, base, mean, count, BLOCK, VEC)
    else:
        squares = row_spread(x, start, mean, cols, BLOCK, 1)
    scale = 1 / sqrt(block_reduce(squares, add, f32, BLOCK, SUBGROUP) / n + eps)
    if wide:
        normal_row(x, weight, bias, y, base, mean, scale, count, T, BLOCK, VEC)
    else:
        normal_row(x, weight, bias, y, start, mean, scale, cols, T, BLOCK, 1)


@device
def kept_moments(row, count, eps, BLOCK, SUBGROUP, VEC, KEEP):
    """The mean of a row of `count` vectors that is kept as `load_row` gives it, and 1 over the root
    of its variance, the mean square of the differences from that, plus eps."""
    lid = local_id(0)
    n = convert(count * VEC, f32)
    sums = zeros(f32, VEC)
    squares = zeros(f32, VEC)
    for k in static_range(KEEP):
        if lid + k * BLOCK < count:
            sums = sums + convert(row[k], f32)
    mean = block_reduce(across(sums, add, VEC), add, f32, BLOCK, SUBGROUP) / n
    for k in static_range(KEEP):
        if lid + k * BLOCK < count:
            d = convert(row[k], f32) - mean
            squares = squares + d * d
    total = block_reduce(across(squares, add, VEC), add, f32, BLOCK, SUBGROUP)
    return mean, 1 / sqrt(total / n + eps)


@device
def normal_kept(row, weight, bias, y, base, count, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """The row at `base` of y, of `count` vectors, from one that is kept as `load_row` gives it."""
    mean, scale = kept_moments(row, count, eps, BLOCK, SUBGROUP, VEC, KEEP)
    for k in static_range(KEEP):
        c = local_id(0) + k * BLOCK
        near = min(c, count - 1)
        w = convert(load(weight, near, VEC), f32)
        b = convert(load(bias, near, VEC), f32)
        if c < count:
            d = (convert(row[k], f32) - mean) * scale
            store(y, base + c, convert(d * w + b, T), VEC)


@device
def layernorm_kept(x, weight, bias, y, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """A row by one workgroup that reads it once: up to KEEP vectors stay with each invocation."""
    count = cols // VEC
    base = group_id(0) * count
    row = load_row(x, base, count, T, BLOCK, VEC, KEEP)
    normal_kept(row, weight, bias, y, base, count, eps, T, BLOCK, SUBGROUP, VEC, KEEP)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y) // max(cols, 1), 1, 1))
def layernorm(
    x: Read[T],
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
    """y[r, :] = (x[r, :] - mean) / sqrt(var + eps) * weight + bias, in f32 (Ba, Kiros, Hinton).

    The variance is that of the differences from the mean (two passes), so it does not cancel. A
    row of up to BLOCK * VEC * KEEP elements is read once and kept in registers.
    """
    if KEEP > 0 and cols % VEC == 0 and cols // VEC <= BLOCK * KEEP:
        layernorm_kept(x, weight, bias, y, cols, eps, T, BLOCK, SUBGROUP, VEC, KEEP)
    else:
        layernorm_row(x, weight, bias, y, cols, eps, T, BLOCK, SUBGROUP, VEC)


def _matrices(rng: np.random.Generator, t: DType) -> Iterator[np.ndarray]:
    for shape in ((1, 1), (3, 1000), (7, 257), (1, 8192), (2, 9000)):
        yield normal(rng, shape, t)
    yield special_rows(rng, 257, t)
    yield special_rows(rng, 1000, t)


def _rms_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for x in _matrices(rng, t):
        yield {
            "x": x,
            "weight": normal(rng, x.shape[1], t),
            "y": empty(x.shape, t),
            "cols": x.shape[1],
            "eps": 1e-5,
        }


def _rms_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    x, weight = decode(args["x"], t), decode(args["weight"], t)
    eps = float(np.float32(args["eps"]))
    with np.errstate(invalid="ignore"):
        value = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight
    path = terms(x.shape[-1], constexprs["BLOCK"])
    return {"y": Expected(value, _RMS_BOUND(value=value, path=path, T=t))}


def _layer_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for x in _matrices(rng, t):
        yield {
            "x": x,
            "weight": normal(rng, x.shape[1], t),
            "bias": normal(rng, x.shape[1], t),
            "y": empty(x.shape, t),
            "cols": x.shape[1],
            "eps": 1e-5,
        }


def _layer_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    x, weight, bias = (decode(args[n], t) for n in ("x", "weight", "bias"))
    eps = float(np.float32(args["eps"]))
    with np.errstate(invalid="ignore"):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        scale = 1 / np.sqrt(var + eps)
        value = (x - mean) * scale * weight + bias
    path = terms(x.shape[-1], constexprs["BLOCK"])
    return {"y": Expected(value, normal_error(x, mean, scale, weight, bias, value, path, t))}


def normal_error(
    x: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    value: np.ndarray,
    path: int,
    t: DType,
) -> np.ndarray:
    """How far from `value` elements of rows may be that are brought to a mean of 0 and a variance
    of 1."""
    off = _OFF(size=np.abs(x).mean(-1, keepdims=True), path=path, x=x)
    worst = off.max(-1, initial=0, keepdims=True)
    told = {"x": x, "mean": mean, "scale": scale, "weight": weight, "bias": bias}
    with np.errstate(invalid="ignore"):
        return LAYER_BOUND(off=off, worst=worst, path=path, value=value, T=t, **told)


_RMS_BOUND = bound(
    "abs(value) * (gamma(path / 2 + 16, f32) + u(T)) + least(T) + 2**-126", path=PATH
)
# The mean is off by gamma * mean|x|; that error moves every element, and the variance by its square
# and by its product with differences that sum to zero.
_OFF = bound(
    "gamma(path + 16, f32) * size + u(f32) * abs(x)",
    size="the mean of the magnitudes of a row",
    path=PATH,
    x="the element",
)
LAYER_BOUND = bound(
    "(off + abs(x - mean) * (gamma(path / 2 + 24, f32) + worst**2 * scale**2)) * scale"
    " * abs(weight) + abs(value) * (u(T) + 2 * u(f32)) + abs(bias) * u(f32) + least(T) + 2**-126",
    off=f"what a difference to the mean is off by: {_OFF.formula}, size being "
    + _OFF.terms["size"],
    worst="the greatest of those of a row",
    x="the element",
    mean="of its row",
    scale="1 over the root of the variance and eps",
    weight="of its column",
    bias="of its column",
    path=PATH,
)
WORDS = "f32 inside, sums in fixed order; rounded to T once"
SPECIAL = "a NaN or an infinity makes its row NaN"
FAMILIES = (
    Family(rmsnorm, _rms_inputs, _rms_reference, WORDS, {"": _RMS_BOUND}),
    Family(layernorm, _layer_inputs, _layer_reference, WORDS, {"": LAYER_BOUND}, SPECIAL),
)
