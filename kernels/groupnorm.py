"""GroupNorm (Wu and He, arXiv:1803.08494): each group of channels of each image, normalised."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    convert,
    copy_async,
    copy_commit,
    copy_wait,
    device,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    sqrt,
    static_range,
    u32,
    workgroup_array,
)
from .common import add, block_reduce, load, load_row, spread, store
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    decode,
    dtype,
    empty,
    normal,
    special_rows,
)
from .movement import divided
from .normalization import (
    LAYER_BOUND,
    SPECIAL,
    WORDS,
    kept_moments,
    normal_error,
    row_spread,
    row_sum,
)
from .reduction import terms


@device
def scaled_group(
    source, start, weight, bias, y, base, first, mean, scale, n, pixels, T, BLOCK, VEC
):  # fmt: skip
    """The group at `base` of y, of n vectors, from the one at `start` of the source; its channels,
    of `pixels` vectors, begin at `first`."""
    for c in range(local_id(0), n, BLOCK):
        channel = first + i32(divided(u32(c), u32(pixels))[0])
        factor = scale * convert(weight[channel], f32)
        shift = spread(convert(bias[channel], f32), f32, VEC)
        d = convert(load(source, start + c, VEC), f32) - mean
        store(y, base + c, convert(d * spread(factor, f32, VEC) + shift, T), VEC)


@device
def group_row(
    source, start, weight, bias, y, channels, pixels, eps, T, BLOCK, SUBGROUP, VEC
):  # fmt: skip
    """One group by one workgroup, from where it starts in the source; `pixels` counts vectors."""
    n = channels * pixels
    base = group_id(0) * n
    count = convert(n * VEC, f32)
    sums = row_sum(source, start, n, BLOCK, VEC)
    mean = block_reduce(sums, add, f32, BLOCK, SUBGROUP) / count
    squares = row_spread(source, start, mean, n, BLOCK, VEC)
    scale = 1 / sqrt(block_reduce(squares, add, f32, BLOCK, SUBGROUP) / count + eps)
    first = group_id(0) * channels % len(weight)
    scaled_group(source, start, weight, bias, y, base, first, mean, scale, n, pixels,
                 T, BLOCK, VEC)  # fmt: skip


@device
def group_copied(x, weight, bias, y, channels, pixels, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """The same of a group that is copied to workgroup memory first: registers for a group would be
    those of a whole multiprocessor, on which then nothing else reads while this one writes."""
    n = channels * pixels
    tile = workgroup_array(T, BLOCK * KEEP * VEC)
    for k in static_range(KEEP):
        c = local_id(0) + k * BLOCK
        if c < n:
            copy_async(tile, c * VEC, x, (group_id(0) * n + c) * VEC, VEC)
    copy_commit()
    copy_wait()
    group_row(tile, 0, weight, bias, y, channels, pixels, eps, T, BLOCK, SUBGROUP, VEC)


@device
def group_kept(x, weight, bias, y, channels, pixels, eps, T, BLOCK, SUBGROUP, VEC, KEEP):
    """One group by one workgroup that reads it once: up to KEEP vectors stay with each
    invocation."""
    n = channels * pixels
    base = group_id(0) * n
    row = load_row(x, base, n, T, BLOCK, VEC, KEEP)
    mean, scale = kept_moments(row, n, eps, BLOCK, SUBGROUP, VEC, KEEP)
    first = group_id(0) * channels % len(weight)
    for k in static_range(KEEP):
        c = local_id(0) + k * BLOCK
        if c < n:
            channel = first + i32(divided(u32(c), u32(pixels))[0])
            factor = scale * convert(weight[channel], f32)
            shift = spread(convert(bias[channel], f32), f32, VEC)
            d = convert(row[k], f32) - mean
            store(y, base + c, convert(d * spread(factor, f32, VEC) + shift, T), VEC)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y) // max(channels * pixels, 1), 1, 1))
def groupnorm(
    x: Read[T],
    weight: Read[T],
    bias: Read[T],
    y: Write[T],
    channels: i32,
    pixels: i32,
    eps: f32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
    KEEP: int = 0,
    COPIED: bool = False,
):
    """y = (x - mean) / sqrt(var + eps) * weight[c] + bias[c], in f32; mean and var of a group.

    x and y are images x len(weight) x pixels; each `channels` of the len(weight) channels are a
    group. The variance is that of the differences from the mean. A group of up to BLOCK * VEC *
    KEEP elements is read once and kept in registers; COPIED: in workgroup memory.
    """
    if KEEP > 0 and pixels % VEC == 0 and channels * (pixels // VEC) <= BLOCK * KEEP:
        if COPIED:
            group_copied(x, weight, bias, y, channels, pixels // VEC, eps,
                         T, BLOCK, SUBGROUP, VEC, KEEP)  # fmt: skip
        else:
            group_kept(x, weight, bias, y, channels, pixels // VEC, eps,
                       T, BLOCK, SUBGROUP, VEC, KEEP)  # fmt: skip
    else:
        base = group_id(0) * (channels * pixels)
        if pixels % VEC == 0:
            group_row(x, base // VEC, weight, bias, y, channels, pixels // VEC, eps,
                      T, BLOCK, SUBGROUP, VEC)  # fmt: skip
        else:
            group_row(x, base, weight, bias, y, channels, pixels, eps,
                      T, BLOCK, SUBGROUP, 1)  # fmt: skip


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for images, groups, channels, pixels in (
        (1, 1, 1, 1),
        (2, 3, 4, 64),
        (1, 2, 3, 35),
        (0, 2, 2, 4),
    ):
        yield {
            "x": normal(rng, (images, groups * channels, pixels), t),
            "weight": normal(rng, groups * channels, t),
            "bias": normal(rng, groups * channels, t),
            "y": empty((images, groups * channels, pixels), t),
            "channels": channels,
            "pixels": pixels,
            "eps": 1e-5,
        }
    x = special_rows(rng, 3 * 20, t).reshape(1, 7 * 3, 20)
    of_channels = {name: normal(rng, 7 * 3, t) for name in ("weight", "bias")}
    yield {"x": x, **of_channels, "y": empty(x.shape, t), "channels": 3, "pixels": 20, "eps": 1e-5}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    shape = args["x"].shape
    run = args["channels"] * args["pixels"]
    x = decode(args["x"], t).reshape(-1, run)
    weight, bias = (
        np.broadcast_to(decode(args[name], t)[:, None], shape).reshape(-1, run)
        for name in ("weight", "bias")
    )
    eps = float(np.float32(args["eps"]))
    with np.errstate(invalid="ignore"):
        mean = x.mean(-1, keepdims=True)
        scale = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
        value = (x - mean) * scale * weight + bias
    path = terms(run, constexprs["BLOCK"])
    return {"y": Expected(value, normal_error(x, mean, scale, weight, bias, value, path, t))}


FAMILIES = (Family(groupnorm, _inputs, _reference, WORDS, {"": LAYER_BOUND}, SPECIAL),)
