"""Rows of a quantized matrix as floats: embedding lookup, and what decoders are checked by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    Buffers,
    DType,
    Function,
    Read,
    Write,
    ceil_div,
    convert,
    f32,
    global_id,
    i32,
    kernel,
    store_vector,
    u32,
    vec,
)
from .family import Args, Constexprs, Expected, Family, dtype, empty

# Configurations name decoders.
from .quantized_formats import *
from .quantized_inputs import arguments, columns, format_name, matrix, weights
from .quantized_sizes import is_matrix
from .quantized_superblocks import *
from .quantized_words import leveled, traits_of_target


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * 32), 1, 1))
def dequantize(
    w: Buffers[Read[W], PARTS],
    rows: Read[i32],
    y: Write[T],
    count: i32,
    cols: i32,
    *,
    FORMAT: Function = q4_k,
    W: DType = u32,
    PARTS: int = 1,
    GROUP: int = 128,
    T: DType = f32,
    NATIVE: bool = False,
    BLOCK: int = 64,
):
    """y[r, :] = row rows[r] of a matrix of count x cols, rounded to T once more.

    A row number outside the matrix is a fault; its row of y is filled with zeros. So is a `w` or a
    y of another size, as one of other groups has, or columns that are no whole blocks; all of y is.
    """
    i = global_id(0)
    if i < len(y) // 32:
        sized = is_matrix(w, count, cols, FORMAT, GROUP) and len(y) == len(rows) * cols
        assert sized, "dequantize: parts, columns or result of another size than the matrix"
        TRAITS = traits_of_target(cols, NATIVE, False)
        units = cols // 32
        r = i // units
        row = i32(-1)
        if sized:
            row = rows[r]
        inside = row >= 0 and row < count
        assert inside or not sized, "dequantize: row number outside the matrix"
        if inside:
            for scale, offsets, runs in FORMAT(w, row, i - r * units, cols, GROUP, TRAITS):
                for col, quant, at in runs:
                    value = leveled(quant, at) * scale
                    for offset in offsets:
                        value = value + offset
                    store_vector(y, (r * cols + col) // 4, convert(value, T))
        else:
            for n in range(8):
                store_vector(y, i * 8 + n, vec(T, 4)(0))


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, unit = dtype(constexprs), columns(format_name(constexprs)[0])
    for count, cols, picks in ((1, unit, 1), (4, 2 * unit, 3)):
        yield {
            **arguments(matrix(rng, count, cols, constexprs)),
            "rows": rng.integers(0, count, picks).astype(np.int32),
            "y": empty((picks, cols), t),
            "count": count,
            "cols": cols,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    parts = [args[f"w_{n}"] for n in range(constexprs["PARTS"])]
    value = weights(parts, args["count"], args["cols"], constexprs)[args["rows"]]
    with np.errstate(all="ignore"):
        return {"y": Expected(value.astype(t.storage).astype(np.float64))}


FAMILIES = (Family(dequantize, _inputs, _reference, "exact: as the format's own decoder rounds"),)
