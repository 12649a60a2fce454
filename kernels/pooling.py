"""Pooling of images: the greatest, or the mean, of every window of rows and columns.

x is planes x height x width, a plane for each channel of each image; signals are images of one
row. Over whole images it is `reduce_rows`, whose rows are the planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    convert,
    device,
    f32,
    global_id,
    i32,
    kernel,
    select,
    static_assert,
    u32,
)
from .common import is_product
from .convolution import quotient, split
from .convolution_inputs import geometry
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    encode,
    normal,
)

LOWEST = float("-inf")


@device
def within(begin, size, window, dilation):
    """How many of the elements begin, begin + dilation, ... of a window lie in 0 ... size - 1."""
    before = min(max(ceil_div(-begin, dilation), 0), window)
    return min(max(ceil_div(size - begin, dilation), before), window) - before


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK), 1, 1))
def pool2d(
    x: Read[T],
    y: Write[T],
    height: i32,
    width: i32,
    kernel_h: i32,
    kernel_w: i32,
    out_h: i32,
    out_w: i32,
    stride_h: i32,
    stride_w: i32,
    pad_top: i32,
    pad_left: i32,
    pad_bottom: i32,
    pad_right: i32,
    dilation_h: i32,
    dilation_w: i32,
    count_pads: i32,
    *,
    OP: str = "max",
    T: DType = f32,
    BLOCK: int = 256,
):
    """y[n, p, q] = OP over r, s of x[n, p * stride_h - pad_top + r * dilation_h, q * stride_w -
    pad_left + s * dilation_w], of what lies inside; y is planes x out_h x out_w.

    "max": a NaN loses, and a window outside of x gives -inf. "mean": in f32, in the order of rows
    and columns, over the elements inside, or, where count_pads is not 0, over those within the
    padding as well, which counts as zeros; of no element it is a NaN.
    """
    static_assert(OP in ("max", "mean"), "OP is max or mean")
    planes = quotient(i32(len(y)), out_h * out_w)
    sized = is_product(len(y), (planes, out_h, out_w))
    sized = sized and is_product(len(x), (planes, height, width))
    assert sized, "pool2d: x or y of another size than its shape"
    spread = min(min(stride_h, stride_w), min(dilation_h, dilation_w)) > 0
    spread = spread and min(kernel_h, kernel_w) > 0
    assert spread, "pool2d: a window, a stride or a dilation that is not positive"
    i = global_id(0)
    if sized and spread and i < len(y):
        plane, p, q = split(i32(i), (out_h, out_w))
        top = p * stride_h - pad_top
        left = q * stride_w - pad_left
        total = f32(LOWEST if OP == "max" else 0)
        for r in range(kernel_h):
            row = top + r * dilation_h
            for s in range(kernel_w):
                column = left + s * dilation_w
                if u32(row) < u32(height) and u32(column) < u32(width):
                    found = convert(x[(plane * height + row) * width + column], f32)
                    total = max(total, found) if OP == "max" else total + found
        if OP == "mean":
            most = select(count_pads != 0, i32(1), i32(0))
            rows = within(top + most * pad_top, height + most * (pad_top + pad_bottom),
                          kernel_h, dilation_h)  # fmt: skip
            columns = within(left + most * pad_left, width + most * (pad_left + pad_right),
                             kernel_w, dilation_w)  # fmt: skip
            total = total / convert(rows * columns, f32)
        y[i] = convert(total, T)


def arguments(
    x: tuple[int, ...],
    window: Sequence[int],
    *,
    strides: int | Sequence[int] = 1,
    pads: Sequence[int] = (),
    dilations: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_pads: bool = False,
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The shape of y and the scalars of `pool2d`, for x of this shape, N x C x H x W or N x C x W.

    pads: as ONNX orders them, first those before each axis, then those behind. ceil_mode: a window
    that begins before the end of x counts, though it reach beyond all padding. ValueError: numbers
    that are not positive (of pads: negative), or a window that is longer than the padded x.
    """
    g = geometry(x[2:], window, strides, pads, dilations, ceil_mode)
    names = "height width kernel_h kernel_w out_h out_w stride_h stride_w pad_top pad_left"
    names += " pad_bottom pad_right dilation_h dilation_w count_pads"
    values = (*g.size, *g.window, *g.out, *g.strides, *g.before, *g.after, *g.dilations)
    out = (*x[:2], *g.out[4 - len(x) :])
    return out, dict(zip(names.split(), (*values, int(count_pads)), strict=True))


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for shape, window, how in (
        ((1, 1, 1, 1), (1, 1), {}),
        ((2, 3, 9, 11), (3, 2), {"strides": (2, 3), "pads": (1, 0, 2, 1)}),
        ((1, 2, 8, 10), (3, 3), {"strides": 2, "ceil_mode": True, "count_pads": True}),
        ((1, 2, 7, 9), (2, 3), {"dilations": (3, 2), "pads": (1, 2, 0, 3), "count_pads": True}),
        ((2, 5, 40), (4,), {"strides": 3, "pads": (0, 3), "ceil_mode": True}),
        ((0, 2, 4, 4), (2, 2), {}),
    ):
        out, scalars = arguments(shape, window, **how)  # type: ignore[arg-type]
        x = normal(rng, shape, t)
        if x.size > 200:
            for place, value in enumerate((np.inf, -np.inf, np.nan)):
                x.reshape(-1)[61 * place] = encode(np.array([value]), t)[0]
        yield {"x": x, "y": empty(out, t), **scalars}


def _windows(x: np.ndarray, args: Args, outside: float) -> np.ndarray:
    """planes x out_h x out_w x (elements of a window) of x, `outside` where there is none."""
    place = []
    for side, low in (("h", "pad_top"), ("w", "pad_left")):
        first = np.arange(args[f"out_{side}"]) * args[f"stride_{side}"] - args[low]
        place.append(first[:, None] + np.arange(args[f"kernel_{side}"]) * args[f"dilation_{side}"])
    rows, columns = place[0][:, None, :, None], place[1][None, :, None, :]
    inside = (rows >= 0) & (rows < args["height"]) & (columns >= 0) & (columns < args["width"])
    found = x[:, np.clip(rows, 0, args["height"] - 1), np.clip(columns, 0, args["width"] - 1)]
    count = args["kernel_h"] * args["kernel_w"]
    return np.where(inside, found, outside).reshape(*found.shape[:3], count)


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    x = decode(args["x"], t).reshape(-1, args["height"], args["width"])
    if constexprs["OP"] == "max":
        value = np.fmax.reduce(_windows(x, args, -np.inf), -1)
        return {"y": Expected(value.reshape(args["y"].shape))}
    windows = _windows(x, args, 0.0)
    counted = np.ones_like(x)
    if args["count_pads"]:
        sides = (("pad_top", "pad_bottom"), ("pad_left", "pad_right"))
        width = [(args[a], args[b]) for a, b in sides]
        counted = np.pad(counted, ((0, 0), *width), constant_values=1)
        moved = {"pad_top": 0, "pad_left": 0}
        moved |= {"height": counted.shape[1], "width": counted.shape[2]}
        count = _windows(counted, {**args, **moved}, 0.0).sum(-1)
    else:
        count = _windows(counted, args, 0.0).sum(-1)
    with np.errstate(all="ignore"):
        value, size = windows.sum(-1) / count, np.abs(windows).sum(-1) / count
        error = _BOUND(size=size, n=windows.shape[-1], value=value, T=t)
    error = np.where(np.isfinite(value), error, 0)
    return {"y": Expected(value.reshape(args["y"].shape), error.reshape(args["y"].shape))}


# A rounding for each addition, one of the division, of 2.5 ulp, and that to T.
_BOUND = bound(
    "size * (gamma(n, f32) + 5 * u(f32)) + abs(value) * u(T) + least(T) + 2**-126",
    size="the mean of the magnitudes of a window",
    n="elements of a window",
)
FAMILIES = (
    Family(
        pool2d,
        _inputs,
        _reference,
        "max: exact; mean: f32 sums in fixed order, rounded once",
        {"mean": _BOUND},
        "max skips NaNs",
    ),
)
