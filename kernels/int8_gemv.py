"""Matrix times vector of 8-bit integers on both sides (W8A8): integer sums, scaled once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    convert,
    dot4,
    f32,
    group_id,
    i32,
    kernel,
    load_vector,
    local_id,
    registers,
    static_assert,
    static_range,
)
from .common import add, block_reduce
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    dtype,
    empty,
)


@kernel(
    workgroup=lambda: (LANES * TEAMS, 1, 1),
    grid=lambda: (ceil_div(len(y), ROWS * TEAMS), 1, 1),
)
def int8_gemv(
    w: Read[i32],
    scales: Read[f32],
    x: Read[i32],
    x_scale: Read[f32],
    y: Write[OUT],
    cols: i32,
    *,
    OUT: DType = f32,
    LANES: int = 32,
    TEAMS: int = 1,
    ROWS: int = 1,
    SUBGROUP: int = 1,
):
    """y[r] = (w[r, :] @ x) * (scales[r] * x_scale[0]); w is len(y) x cols.

    w and x are words of four signed bytes; cols is a multiple of 16, and up to 131,071, beyond
    which a sum may not fit 32 bits; anything else is a fault, as are a w, x or scales of another
    size, and y is zeros. LANES, TEAMS and ROWS are as `quantized_gemv` has them.
    """
    static_assert(TEAMS == 1 or SUBGROUP == LANES, "several TEAMS need LANES = SUBGROUP")
    lane = local_id(0) % LANES
    first = (group_id(0) * TEAMS + local_id(0) // LANES) * ROWS
    sized = cols > 0 and cols % 16 == 0 and cols <= 131_071 and len(w) == len(y) * (cols // 4)
    sized = sized and len(scales) == len(y) and len(x) >= cols // 4 and len(x_scale) > 0
    assert sized, "int8_gemv: columns, or sizes that are not those of the matrix"
    units = cols // 16 if sized else i32(0)
    totals = registers(i32, ROWS, 0)
    for unit in range(lane, units, LANES):
        b = load_vector(x, unit, 4)
        for r in static_range(ROWS):
            a = load_vector(w, min(first + r, len(y) - 1) * units + unit, 4)
            for k in static_range(4):
                totals[r] = dot4(a[k], b[k], totals[r])
    for r in static_range(ROWS):
        total = block_reduce(totals[r], add, i32, LANES, SUBGROUP)
        if lane == 0 and first + r < len(y):
            factor = f32(0)
            if sized:
                factor = scales[first + r] * x_scale[0]
            y[first + r] = convert(f32(total) * factor, OUT)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for rows, cols in ((1, 16), (5, 1296)):
        yield {
            "w": rng.integers(-128, 128, (rows, cols), np.int8).view(np.int32),
            "scales": rng.uniform(0.001, 0.1, rows).astype(np.float32),
            "x": rng.integers(-128, 128, cols, np.int8).view(np.int32),
            "x_scale": rng.uniform(0.001, 0.1, 1).astype(np.float32),
            "y": empty(rows, dtype(constexprs, "OUT")),
            "cols": cols,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    out = dtype(constexprs, "OUT")
    w, x = (np.ascontiguousarray(args[n]).view(np.int8).astype(np.float64) for n in ("w", "x"))
    value = (w @ x) * args["scales"].astype(np.float64) * float(args["x_scale"][0])
    return {"y": Expected(value, _BOUND(value=value, T=out))}


# The sum is exact; it is rounded to f32, the scales' product, and their product.
_BOUND = bound("abs(value) * (gamma(3, f32) + u(T)) + least(T)")
FAMILIES = (
    Family(
        int8_gemv, _inputs, _reference, "integer sums; three roundings, then to OUT", {"": _BOUND}
    ),
)
