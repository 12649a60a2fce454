"""Sum, mean, product, norm, max and min: of every row of a matrix, and of an array in two steps.

`reduce_rows` reduces each row with one workgroup. A whole array is reduced by `reduce_partials`
to one value per workgroup and those by `reduce_rows` as a single row (`mean`: the partial results
are already divided by the element count, so the second step is a `sum`). Accumulation is in ACC:
each invocation adds every BLOCK-th element in order, then a tree of fixed shape adds the
invocations, so a result is reproducible bit for bit. Of bools, seen as u8, `min` is whether all are
true and `max` whether any is.
"""

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
    num_groups,
    sqrt,
    static_assert,
)
from .common import across, add, block_reduce, greater, lesser, load, spread
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
    special_rows,
)

ROW_OPS = ("sum", "mean", "prod", "l2", "max", "min")


@device
def combiner(OP):
    """What joins two partial results."""
    if OP == "max":
        return greater
    if OP == "min":
        return lesser
    if OP == "prod":
        return times
    return add


@device
def times(a, b):
    """The product."""
    return a * b


@device
def prepared(value, OP):
    """An element as it enters the reduction."""
    return value * value if OP == "l2" else value


@device
def finished(total, n, OP, ACC):
    """The result for n elements."""
    if OP == "mean":
        return total / convert(n, ACC)
    return sqrt(total) if OP == "l2" else total


@device
def reduce_run(x, first, count, start, OP, ACC, BLOCK, VEC):
    """What this invocation makes of `count` elements from `first` on, a multiple of VEC.

    It joins every BLOCK-th vector to `start`, then what is left of less than a vector.
    """
    lid = local_id(0)
    combine = combiner(OP)
    whole = count // VEC
    parts = spread(start, ACC, VEC)
    for i in range(lid, whole, BLOCK):
        parts = combine(parts, prepared(convert(load(x, first // VEC + i, VEC), ACC), OP))
    total = across(parts, combine, VEC)
    if VEC > 1:
        for i in range(first + whole * VEC + lid, first + count, BLOCK):
            total = combine(total, prepared(convert(x[i], ACC), OP))
    return total


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y), 1, 1))
def reduce_rows(
    x: Read[T],
    y: Write[ACC],
    cols: i32,
    *,
    OP: str = "sum",
    T: DType = f32,
    ACC: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
):
    """y[r] = OP of the cols elements of row r; x is row-major. A max or min skips NaNs; "l2" is the
    root of the sum of squares.

    A max or min needs a row of at least one element. VEC neighbours are read at a time where VEC
    divides cols.
    """
    static_assert(OP in ROW_OPS, "OP is sum, mean, prod, l2, max or min")
    row = group_id(0)
    base = row * cols
    lid = local_id(0)
    start = convert(1 if OP == "prod" else 0, ACC)
    if OP == "max" or OP == "min":
        start = convert(x[base + min(lid, cols - 1)], ACC)
    total = start
    if VEC > 1 and cols % VEC == 0:
        total = reduce_run(x, base, cols, start, OP, ACC, BLOCK, VEC)
    else:
        total = reduce_run(x, base, cols, start, OP, ACC, BLOCK, 1)
    total = block_reduce(total, combiner(OP), ACC, BLOCK, SUBGROUP)
    if lid == 0:
        y[row] = finished(total, cols, OP, ACC)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(partials), 1, 1))
def reduce_partials(
    x: Read[T],
    partials: Write[ACC],
    *,
    OP: str = "sum",
    T: DType = f32,
    ACC: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
):
    """partials[g] = OP of the g-th of len(partials) runs of x; x is not empty.

    The runs are equal, of a multiple of VEC elements, but for the last ones. An empty run gives 0
    for a sum and an element of x otherwise.
    """
    static_assert(OP in ("sum", "mean", "max", "min"), "OP is sum, mean, max or min")
    group = group_id(0)
    lid = local_id(0)
    run = ceil_div(ceil_div(len(x), num_groups(0)), VEC) * VEC
    # The comparison, not min(): group * run may pass the end of the index type.
    first = group * run if group < ceil_div(len(x), run) else len(x)
    count = min(run, len(x) - first)
    start = convert(0, ACC)
    if OP == "max" or OP == "min":
        start = convert(x[min(first + lid, len(x) - 1)], ACC)
    total = reduce_run(x, first, count, start, OP, ACC, BLOCK, VEC)
    total = block_reduce(total, combiner(OP), ACC, BLOCK, SUBGROUP)
    if OP == "mean":
        total = total / convert(len(x), ACC)
    if lid == 0:
        partials[group] = total


PATH = "terms(n, BLOCK), on the longest path of a sum: ceil(n / BLOCK) + log2(BLOCK) + 65 at most"
BOUNDS = {
    "sum, mean": bound(
        "size * gamma(path + 4, T) + rounding(value, T)",
        size="the sum of the magnitudes (of a mean: over n)",
        path=PATH,
    ),
    "prod": bound("abs(value) * gamma(n, T) + 2**-126", n="factors"),
    "l2": bound("value * gamma(path / 2 + 8, T) + rounding(value, T)", path=PATH),
}


def terms(n: int, block: int) -> int:
    """Roundings on the longest path of a sum of n elements by a workgroup of `block`."""
    return -(-n // block) + block.bit_length() + 64  # 64: at most that many subgroup partials


def _norm(x: np.ndarray, axis: int) -> np.ndarray:
    return np.sqrt((x * x).sum(axis))


_NUMPY = {"sum": np.sum, "mean": np.mean, "max": np.fmax.reduce, "min": np.fmin.reduce}
_NUMPY |= {"prod": np.prod, "l2": _norm}


def expected(x: np.ndarray, constexprs: Constexprs) -> Expected:
    """The reduction of x along its last axis."""
    op, acc = constexprs["OP"], dtype(constexprs, "ACC")
    with np.errstate(all="ignore"):
        value = _NUMPY[op](x, axis=-1)
    if op in ("max", "min"):
        return Expected(value)
    if op == "prod":  # each factor is rounded in once, in whatever order
        tolerance = BOUNDS["prod"](value=value, n=x.shape[-1], T=acc)
        return Expected(value, np.nan_to_num(tolerance, posinf=0.0))
    path = terms(x.shape[-1], constexprs["BLOCK"])
    if op == "l2":  # a relative error of the sum counts half in its root
        tolerance = BOUNDS["l2"](value=value, path=path, T=acc)
        return Expected(value, np.nan_to_num(tolerance, posinf=0.0))
    if not acc.is_float:
        return Expected(x.astype(np.int64).sum(-1).astype(acc.storage))
    size = np.abs(x).sum(-1) / (x.shape[-1] if op == "mean" else 1)
    tolerance = BOUNDS["sum, mean"](size=size, path=path, value=value, T=acc)
    return Expected(value, np.nan_to_num(tolerance, posinf=0.0))  # infinities are exact


# A NaN is skipped by max and min and kept by the others, as are infinities.
_SPECIAL = ((1.0, np.nan, 3.0, 2.0), (-np.inf, 1.0, 0.5, 2.0), (np.inf, 1.0, -np.inf, 2.0))


def sample(rng: np.random.Generator, shape: tuple[int, ...], constexprs: Constexprs) -> np.ndarray:
    """Elements whose product is neither out of range nor zero, where a product is wanted."""
    t = dtype(constexprs)
    if constexprs["OP"] != "prod":
        return normal(rng, shape, t)
    return encode(np.exp(rng.standard_normal(shape) * 0.05) * rng.choice((-1, 1), shape), t)


def _rows_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, acc = dtype(constexprs), dtype(constexprs, "ACC")
    for rows, cols in ((1, 1), (3, 1000), (17, 257), (2, 8192)):
        yield {"x": sample(rng, (rows, cols), constexprs), "y": empty(rows, acc), "cols": cols}
    if t.is_float:
        x = encode(np.array(_SPECIAL), t)
        yield {"x": x, "y": empty(len(x), acc), "cols": x.shape[1]}


def _rows_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": expected(decode(args["x"], dtype(constexprs)), constexprs)}


def _partials_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, acc = dtype(constexprs), dtype(constexprs, "ACC")
    for n, groups in ((1, 1), (10_000, 7), (4096, 16)):
        yield {"x": normal(rng, n, t), "partials": empty(groups, acc)}
    if t.is_float:
        x = special_rows(rng, 1000, t)
        yield {"x": x.reshape(-1), "partials": empty(len(x), acc)}


def _partials_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    x, groups = decode(args["x"], dtype(constexprs)), len(args["partials"])
    vec = constexprs["VEC"]
    run = -(-len(x) // groups // vec) * vec
    parts = [expected(x[g * run : (g + 1) * run], constexprs) for g in range(groups)]
    scale: np.ndarray | float = 1.0
    lengths = np.array([len(x[g * run : (g + 1) * run]) for g in range(groups)])
    if constexprs["OP"] == "mean":
        scale = lengths / len(x)
    value = np.array([p.value for p in parts])
    if constexprs["OP"] not in ("sum", "mean") or value.dtype.kind != "f":
        return {"partials": Expected(value)}
    return {"partials": Expected(value * scale, np.array([p.tolerance for p in parts]) * scale)}


WORDS = "sums: one rounding per addition on the longest path; max, min: exact; order fixed"
SPECIAL = "max and min skip NaNs; the others keep them, and infinities"
_PARTS = {"sum, mean": BOUNDS["sum, mean"]}
FAMILIES = (
    Family(reduce_rows, _rows_inputs, _rows_reference, WORDS, BOUNDS, SPECIAL),
    Family(reduce_partials, _partials_inputs, _partials_reference, WORDS, _PARTS, SPECIAL),
)
