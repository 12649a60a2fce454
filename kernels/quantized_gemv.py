"""Quantized matrix times vector: weights are decoded where they are multiplied.

An invocation takes units of 32 weights, LANES apart, of ROWS rows at a time, for which it reads x
once. What the weights of a group share, scale and offset, is applied to the sum of their products.
"""

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
    device,
    f32,
    f32x4,
    fma,
    group_id,
    i32,
    kernel,
    load_vector,
    local_id,
    registers,
    select,
    static_assert,
    static_range,
    u32,
)
from .common import across, add, block_reduce
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
)

# Configurations name decoders.
from .quantized_formats import *
from .quantized_inputs import arguments, columns, format_name, matrix, offsets_of, weights
from .quantized_sizes import is_matrix
from .quantized_superblocks import *
from .quantized_words import leveled, traits_of_target


@device
def unit_of_x(x, groups):
    """(values, sums): x under the runs of a unit, leveled as their quants are not, and its sum
    under each group."""
    values = registers(f32x4, 8, 0)
    sums = registers(f32, 4, 0)
    n = 0
    for g in static_range(len(groups)):
        total = f32x4(0)
        for col, _, at in groups[g][2]:
            value = convert(load_vector(x, col // 4, 4), f32)
            values[n] = leveled(value, at)
            total = total + value
            n += 1
        sums[g] = across(total, add, 4)
    return values, sums


@device
def within(unit, units, factor, DEEP):
    """The factor, or 0 behind the row, whose last unit stands for those."""
    return factor if DEEP == 1 else select(unit < units, factor, f32(0))


@kernel(
    workgroup=lambda: (LANES * TEAMS, 1, 1),
    grid=lambda: (ceil_div(len(y), ROWS * TEAMS), 1, 1),
)
def quantized_gemv(
    w: Buffers[Read[W], PARTS],
    x: Read[T],
    y: Write[OUT],
    cols: i32,
    *,
    FORMAT: Function = q4_k,
    W: DType = u32,
    PARTS: int = 1,
    GROUP: int = 128,
    T: DType = f32,
    OUT: DType = f32,
    NATIVE: bool = False,
    OPAQUE: bool = False,
    LANES: int = 32,
    TEAMS: int = 1,
    ROWS: int = 1,
    DEEP: int = 1,
    SUBGROUP: int = 1,
):
    """y = w @ x; w is len(y) x cols; f32 accumulation.

    LANES invocations share ROWS rows, DEEP units of each at a time; TEAMS of LANES are a workgroup,
    several of which need LANES = SUBGROUP. NATIVE and OPAQUE: see `traits_of_target`. A `w` of
    another size, as one of other groups has, a short x, or columns that are no whole blocks are a
    fault, and y is zeros.
    """
    static_assert(TEAMS == 1 or SUBGROUP == LANES, "several TEAMS need LANES = SUBGROUP")
    lane = local_id(0) % LANES
    first = (group_id(0) * TEAMS + local_id(0) // LANES) * ROWS
    sized = is_matrix(w, i32(len(y)), cols, FORMAT, GROUP) and len(x) >= cols
    assert sized, "quantized_gemv: parts, columns or x of another size than the matrix"
    units = cols // 32 if sized else i32(0)
    TRAITS = traits_of_target(cols, NATIVE, OPAQUE)
    totals = registers(f32x4, ROWS, 0)
    apart = registers(f32, ROWS, 0)  # what offsets add
    for start in range(lane, units, LANES * DEEP):
        for step in static_range(DEEP):
            unit = start + step * LANES
            at = unit if DEEP == 1 else min(unit, units - 1)
            for r in static_range(ROWS):
                row = min(first + r, len(y) - 1)
                groups = FORMAT(w, row, at, cols, GROUP, TRAITS)
                if r == 0:
                    values, sums = unit_of_x(x, groups)
                n = 0
                for g in static_range(len(groups)):
                    scale, offsets, runs = groups[g]
                    products = f32x4(0)
                    for _, quant, _ in runs:
                        products = fma(quant, values[n], products)
                        n += 1
                    totals[r] = fma(f32x4(within(unit, units, scale, DEEP)), products, totals[r])
                    for offset in offsets:
                        factor = within(unit, units, offset, DEEP)
                        apart[r] = fma(factor, sums[g], apart[r])
    for r in static_range(ROWS):
        total = across(totals[r], add, 4) + apart[r]
        total = block_reduce(total, add, f32, LANES, SUBGROUP)
        if lane == 0 and first + r < len(y):
            y[first + r] = convert(total, OUT)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    unit = columns(format_name(constexprs)[0])
    for rows, cols in ((1, unit), (5, 1280)):
        parts = matrix(rng, rows, cols, constexprs)
        yield {
            **arguments(parts),
            "x": normal(rng, cols, t),
            "y": empty(rows, out),
            "cols": cols,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    parts = [args[f"w_{n}"] for n in range(constexprs["PARTS"])]
    rows, cols, x = args["y"].size, args["cols"], decode(args["x"], t)
    w = weights(parts, rows, cols, constexprs).astype(np.float64)
    value = w @ x
    # The products of an offset and of a quant cancel: their magnitudes count apart.
    offset = offsets_of(parts, rows, cols, constexprs)
    sizes = np.abs(w - offset) + np.abs(offset)
    # A lane's chain: 8 products, or as many sums of x and three across; then up to four scales or
    # offsets a unit; each fma two roundings at most; four sums across, seven over the lanes; a
    # scale, and a weight of the reference.
    units = -(-(cols // 32) // constexprs["LANES"])
    path = 2 * (8 + 4 * units) + 3 + 4 + 7 + 2
    told = {"size": sizes @ np.abs(x), "small": sizes.sum(-1), "path": path}
    return {"y": Expected(value, _BOUND(value=value, T=out, **told))}


_BOUND = bound(
    # x times 2**-16 may be a denormal, and be taken for zero.
    "size * gamma(path, f32) + abs(value) * u(T) + least(T) + small * 2**-110",
    size="the sum over the row of (abs(scale * quant) + abs(offset)) * abs(x)",
    small="the same without x",
    path="2 * (8 + 4 * ceil(cols / 32 / LANES)) + 16",
)
FAMILIES = (
    Family(
        quantized_gemv,
        _inputs,
        _reference,
        "f32 accumulation in fixed order, quants exact; rounded once",
        {"": _BOUND},
        "a row with an infinite or NaN scale gives an infinity or a NaN",
    ),
)
