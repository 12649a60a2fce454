"""Arguments of a convolution of arrays; inputs that reach its edges, and what it is to give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..ir.lang import DType
from .family import (
    Args,
    Constexprs,
    Expected,
    bound,
    decode,
    dtype,
    empty,
    encode,
    normal,
)


class Geometry(NamedTuple):
    """Of windows over rows and columns, two numbers each. before, after: elements of padding."""

    size: list[int]
    window: list[int]
    out: list[int]
    strides: list[int]
    before: list[int]
    after: list[int]
    dilations: list[int]


def each_axis(value: int | Sequence[int], axes: int, name: str) -> list[int]:
    """`value` for each axis, an axis of one row put before a single one. ValueError: another
    number of them than of axes, or one that is not positive."""
    values = [int(v) for v in ([value] * axes if isinstance(value, int) else value)]
    if len(values) != axes or min(values) < 1:
        raise ValueError(f"{name} {value!r}: a positive number for each of {axes} axes")
    return [1] * (2 - axes) + values


def around(pads: Sequence[int], axes: int) -> tuple[list[int], list[int]]:
    """Elements of padding before and behind each axis, as `each_axis` has them, of pads in ONNX's
    order; nothing stands for none. ValueError: not two for each axis, or a negative one."""
    found = [int(p) for p in pads] or [0] * (2 * axes)
    if axes not in (1, 2) or len(found) != 2 * axes or min(found) < 0:
        raise ValueError(f"pads {pads!r}: two numbers from 0 on for each of {axes} axes, 1 or 2")
    flat = [0] * (2 - axes)
    return flat + found[:axes], flat + found[axes:]


def geometry(
    size: Sequence[int],
    window: Sequence[int],
    strides: int | Sequence[int],
    pads: Sequence[int],
    dilations: int | Sequence[int],
    round_up: bool = False,
) -> Geometry:
    """Windows over one axis or two. pads: as ONNX orders them; nothing stands for none.

    round_up: the last window may begin before the end and reach beyond all padding. ValueError:
    see `arguments`.
    """
    axes = len(size)
    before, after = around(pads, axes)
    step, apart = each_axis(strides, axes, "strides"), each_axis(dilations, axes, "dilations")
    sizes, wide = [1] * (2 - axes) + [*size], each_axis(window, axes, "a window")
    out = []
    for n, k, b, a, s, d in zip(sizes, wide, before, after, step, apart, strict=True):
        room = n + b + a - d * (k - 1) - 1
        if room < 0:
            raise ValueError(f"a window of {tuple(window)} is longer than padded {tuple(size)}")
        count = (room + (s - 1 if round_up else 0)) // s + 1
        out.append(count - 1 if round_up and (count - 1) * s >= n + b else count)
    return Geometry(sizes, wide, out, step, before, after, apart)


def arguments(
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    groups: int = 1,
    strides: int | Sequence[int] = 1,
    pads: Sequence[int] = (),
    dilations: int | Sequence[int] = 1,
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The shape of y and the scalars of `conv2d`, for x and w of these shapes: N x C x H x W, or
    N x C x W for signals.

    pads: elements of padding, first those before each axis, then those behind (ONNX's order);
    nothing stands for none. ValueError: shapes that do not fit each other, numbers that are not
    positive (of pads: negative), or a window that is longer than the padded x.
    """
    axes = len(x) - 2
    if axes not in (1, 2) or len(w) != len(x):
        raise ValueError(f"a convolution of {x} by {w}: both are of 3 axes, or of 4")
    if groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        raise ValueError(f"{groups} groups of a convolution of {x} by {w} do not share evenly")
    g = geometry(x[2:], w[2:], strides, pads, dilations)
    names = "channels height width filters kernel_h kernel_w out_h out_w groups stride_h stride_w"
    names += " pad_top pad_left dilation_h dilation_w"
    values = (x[1], *g.size, w[0], *g.window, *g.out, groups, *g.strides, *g.before, *g.dilations)
    return (x[0], w[0], *g.out[2 - axes :]), dict(zip(names.split(), values, strict=True))


def _case(
    rng: np.random.Generator,
    t: DType,
    x: tuple[int, ...],
    w: tuple[int, ...],
    biased: bool = True,
    **how: int | Sequence[int],
) -> Args:
    shape, scalars = arguments(x, w, **how)  # type: ignore[arg-type]
    return {
        "x": normal(rng, x, t),
        "w": normal(rng, w, t),
        "bias": normal(rng, w[0] if biased else 0, t),
        "y": empty(shape, t),
        **scalars,
    }


def inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    yield _case(rng, t, (1, 1, 1, 1), (1, 1, 1, 1))
    yield _case(rng, t, (2, 3, 9, 11), (70, 3, 3, 3), pads=(1, 1, 1, 1))
    # a channel for each group, and two filters; more padding than a window is long
    yield _case(
        rng, t, (1, 5, 7, 10), (10, 1, 3, 2), False, groups=5, strides=(2, 3), pads=(4, 3, 0, 1)
    )
    yield _case(rng, t, (3, 4, 12, 9), (6, 2, 2, 3), groups=2, dilations=(3, 2), pads=(0, 2, 1, 5))
    # rows of more than a subgroup, consecutive from image to image and not
    yield _case(rng, t, (2, 2, 5, 41), (3, 2, 3, 3), pads=(1, 1, 1, 1))
    # signals, and more weights than a tile is deep
    channels = constexprs["TK"] // 5 + 3
    yield _case(rng, t, (2, channels, 20), (8, channels, 5), strides=2, pads=(4, 0))
    yield _case(rng, t, (0, 3, 4, 4), (2, 3, 3, 3))
    yield _case(rng, t, (2, 0, 4, 4), (2, 0, 3, 3))
    wild = _case(rng, t, (1, 2, 8, 8), (3, 2, 3, 3), pads=(1, 1, 1, 1))
    for place, value in enumerate((np.inf, -np.inf, np.nan)):
        wild["x"][0, 0, 2 * place, 3 * place] = encode(np.array([value]), t)[0]
    yield wild


def _windows(x: np.ndarray, args: Args, r: int, s: int) -> np.ndarray:
    """Element (r, s) of all windows of x, which is padded: images x channels x out_h x out_w."""
    rows = r * args["dilation_h"] + np.arange(args["out_h"]) * args["stride_h"]
    columns = s * args["dilation_w"] + np.arange(args["out_w"]) * args["stride_w"]
    return x[:, :, rows[:, None], columns]


def reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    images = len(args["y"])
    groups, out = args["groups"], (args["out_h"], args["out_w"])
    x = decode(args["x"], t).reshape(images, args["channels"], args["height"], args["width"])
    far = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in _axes(args)]
    low = (args["pad_top"], args["pad_left"])
    high = [max(f - p - n, 0) for f, p, n in zip(far, low, x.shape[2:], strict=True)]
    x = np.pad(x, ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])))
    w = decode(args["w"], t).reshape(
        args["filters"], args["channels"] // groups, args["kernel_h"], args["kernel_w"]
    )
    value, size = np.zeros((2, images, groups, args["filters"] // groups, *out))
    with np.errstate(all="ignore"):
        for r, s in np.ndindex(*w.shape[2:]):
            part = _windows(x, args, r, s).reshape(images, groups, w.shape[1], *out)
            weights = w[:, :, r, s].reshape(groups, len(w) // groups, w.shape[1])
            value += np.einsum("gfc,ngcpq->ngfpq", weights, part)
            size += np.einsum("gfc,ngcpq->ngfpq", np.abs(weights), np.abs(part))
        value, size = (a.reshape(images, len(w), *out) for a in (value, size))
        if len(args["bias"]):
            bias = decode(args["bias"], t)[:, None, None]
            value, size = value + bias, size + np.abs(bias)
        error = BOUND(size=size, n=w[0].size, value=value, T=t)
    if str(getattr(constexprs["EPILOGUE"], "name", constexprs["EPILOGUE"])).endswith("relu"):
        value = np.fmax(value, 0)  # of a NaN 0, as the language's max
    value = value.reshape(args["y"].shape)
    return {"y": Expected(value, np.where(np.isfinite(value), error.reshape(value.shape), 0))}


def _axes(args: Args) -> list[tuple[int, int, int, int]]:
    """For each axis: length of y, stride, length of the window, dilation."""
    return [
        (args[f"out_{a}"], args[f"stride_{a}"], args[f"kernel_{a}"], args[f"dilation_{a}"])
        for a in "hw"
    ]


# Not every target fuses: two roundings a term, and one of the bias.
BOUND = bound(
    "size * gamma(2 * n + 3, f32) + abs(value) * u(T) + least(T)",
    size="the sum of the magnitudes of the products and of the bias",
    n="weights of a filter",
)
