"""Escape times of the Mandelbrot set: a loop whose length differs from invocation to invocation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import Write, ceil_div, convert, f32, global_id, i32, kernel
from .family import Args, Constexprs, Expected, Family, empty


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(width, BLOCK), len(y) // width, 1))
def mandelbrot(
    y: Write[i32],
    width: i32,
    left: f32,
    top: f32,
    step: f32,
    limit: i32,
    *,
    BLOCK: int = 64,
    SUBGROUP: int = 1,
):
    """y[r, c] = steps of z := z*z + p until |z| > 2, at most limit.

    p = (left + c * step, top + r * step).
    """
    column = global_id(0)
    row = global_id(1)
    if column < width:
        px = left + convert(column, f32) * step
        py = top + convert(row, f32) * step
        zx = f32(0)
        zy = f32(0)
        count = i32(0)
        while count < limit and zx * zx + zy * zy <= 4:
            zx, zy = zx * zx - zy * zy + px, 2 * zx * zy + py
            count += 1
        y[row * width + column] = count


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for height, width in ((1, 1), (33, 70)):
        yield {
            "y": empty((height, width), i32),
            "width": width,
            "left": -2.0,
            "top": -1.25,
            "step": 2.5 / width,
            "limit": 100,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    """The same steps in float32: every operation is exact by the op table, so counts are equal."""
    height, width = args["y"].shape
    step = np.float32(args["step"])
    px = np.float32(args["left"]) + np.arange(width, dtype=np.float32)[None, :] * step
    py = np.float32(args["top"]) + np.arange(height, dtype=np.float32)[:, None] * step
    px, py = np.broadcast_arrays(px, py)
    zx, zy = np.zeros_like(px), np.zeros_like(px)
    count = np.zeros(px.shape, np.int32)
    for _ in range(args["limit"]):
        live = zx * zx + zy * zy <= np.float32(4)
        zx, zy = (
            np.where(live, zx * zx - zy * zy + px, zx),
            np.where(live, np.float32(2) * zx * zy + py, zy),
        )
        count += live
    return {"y": Expected(count)}


FAMILIES = (
    Family(mandelbrot, _inputs, _reference, "exact: additions and multiplications of f32 only"),
)
