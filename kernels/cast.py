"""Conversion between element types."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    convert,
    f16,
    f32,
    global_id,
    kernel,
    load_vector,
    store_vector,
)
from ..ir.ops import meaning
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, encode, normal


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1))
def cast(
    x: Read[T], y: Write[U], *, T: DType = f32, U: DType = f16, BLOCK: int = 256, VEC: int = 1
):
    """y = x as U: floats round to nearest even, float to integer truncates and saturates."""
    i = global_id(0)
    if VEC == 1:
        if i < len(y):
            y[i] = convert(x[i], U)
    elif i < len(y) // VEC:
        store_vector(y, i, convert(load_vector(x, i, VEC), U))
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            y[i * VEC + n] = convert(x[i * VEC + n], U)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, target = dtype(constexprs), dtype(constexprs, "U")
    for n in (1, 300, 10_007):
        yield {"x": normal(rng, n, t, 50.0), "y": empty(n, target)}
    if t.is_float:
        edge = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 0.5, 1.5, -2.5, 65519.0, 65520.0]
        yield {"x": encode(np.array(edge), t), "y": empty(len(edge), target)}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, target = dtype(constexprs), dtype(constexprs, "U")
    x = decode(args["x"], t)
    if target.is_float:  # numpy's own rounding, to nearest even
        return {"y": Expected(decode(encode(x, target), target))}
    return {"y": Expected(meaning.convert(x, out=target))}


FAMILIES = (Family(cast, _inputs, _reference, "exact: one rounding to nearest even"),)
