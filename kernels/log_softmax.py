"""The logarithm of softmax, and of the sum of exponentials, over the rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    convert,
    device,
    exp,
    f32,
    group_id,
    i32,
    isinf,
    kernel,
    local_id,
    log,
    select,
    static_range,
)
from .common import (
    across,
    add,
    block_reduce,
    greater,
    is_product,
    load,
    load_row,
    store,
    zeros,
)
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
from .reduction import PATH, terms
from .softmax import partial_top


@device
def sum_exp(x, base, top, n, BLOCK, VEC):
    """The sum of exp(element - top) of this invocation's elements of the row at `base`."""
    sums = zeros(f32, VEC)
    for c in range(local_id(0), n, BLOCK):
        sums = sums + exp(convert(load(x, base + c, VEC), f32) - top)
    return across(sums, add, VEC)


@device
def top_and_log(x, base, n, BLOCK, SUBGROUP, VEC):
    """The greatest element of the row at `base`, of n vectors, and the log of its sum_exp.

    A greatest element that is infinite counts as 0: the log is then that infinity by itself.
    """
    top = partial_top(x, base, n, BLOCK, VEC)
    top = block_reduce(top, greater, f32, BLOCK, SUBGROUP)
    top = select(isinf(top), f32(0), top)
    total = sum_exp(x, base, top, n, BLOCK, VEC)
    return top, log(block_reduce(total, add, f32, BLOCK, SUBGROUP))


@device
def log_softmax_row(x, y, n, T, BLOCK, SUBGROUP, VEC):
    """A row of n vectors by one workgroup."""
    base = group_id(0) * n
    top, logarithm = top_and_log(x, base, n, BLOCK, SUBGROUP, VEC)
    for c in range(local_id(0), n, BLOCK):
        value = convert(load(x, base + c, VEC), f32) - top - logarithm
        store(y, base + c, convert(value, T), VEC)


@device
def log_softmax_kept(x, y, n, T, BLOCK, SUBGROUP, VEC, KEEP):
    """A row of n vectors by one workgroup that reads it once: up to KEEP stay with each
    invocation."""
    base = group_id(0) * n
    row = load_row(x, base, n, T, BLOCK, VEC, KEEP)
    tops = convert(row[0], f32)
    for k in static_range(KEEP):
        tops = max(tops, convert(row[k], f32))
    top = block_reduce(across(tops, greater, VEC), greater, f32, BLOCK, SUBGROUP)
    top = select(isinf(top), f32(0), top)
    sums = zeros(f32, VEC)
    for k in static_range(KEEP):
        if local_id(0) + k * BLOCK < n:
            sums = sums + exp(convert(row[k], f32) - top)
    logarithm = log(block_reduce(across(sums, add, VEC), add, f32, BLOCK, SUBGROUP))
    for k in static_range(KEEP):
        c = local_id(0) + k * BLOCK
        if c < n:
            store(y, base + c, convert(convert(row[k], f32) - top - logarithm, T), VEC)


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (len(y) // max(cols, 1), 1, 1),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def log_softmax(
    x: Read[T],
    y: Write[T],
    cols: i32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
    KEEP: int = 0,
    FAST: bool = False,
):
    """y[r, :] = x[r, :] - max - log(sum(exp(x[r, :] - max))), in f32; x and y are row-major.

    A NaN makes its row NaN; +inf becomes NaN and what stands beside it -inf; -inf stays, but a row
    of nothing else is NaN. A row of up to BLOCK * VEC * KEEP elements is read once and kept in
    registers. FAST: by the target's approximate exp and log, for narrower T. Where x and y differ
    in length, or cols is not positive, that is a fault, and nothing is written.
    """
    sized = len(x) == len(y) and cols > 0
    assert sized, "log_softmax: x and y differ in length, or rows of no elements"
    if not sized:
        return
    if KEEP > 0 and cols % VEC == 0 and cols // VEC <= BLOCK * KEEP:
        log_softmax_kept(x, y, cols // VEC, T, BLOCK, SUBGROUP, VEC, KEEP)
    elif cols % VEC == 0:
        log_softmax_row(x, y, cols // VEC, T, BLOCK, SUBGROUP, VEC)
    else:
        log_softmax_row(x, y, cols, T, BLOCK, SUBGROUP, 1)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(y), 1, 1))
def logsumexp_rows(
    x: Read[T],
    y: Write[f32],
    cols: i32,
    *,
    T: DType = f32,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    VEC: int = 1,
):
    """y[r] = log(sum(exp(x[r, :]))), in f32, of rows of at least one element.

    A NaN makes its row NaN, else +inf makes it +inf; a row of nothing but -inf gives -inf. An x
    that is not len(y) rows of such is a fault, and nothing is written.
    """
    sized = cols > 0 and is_product(len(x), (i32(len(y)), cols))
    assert sized, "logsumexp_rows: x of another size than rows of y, or rows of no elements"
    if not sized:
        return
    if cols % VEC == 0:
        n = cols // VEC
        top, logarithm = top_and_log(x, group_id(0) * n, n, BLOCK, SUBGROUP, VEC)
    else:
        top, logarithm = top_and_log(x, group_id(0) * cols, cols, BLOCK, SUBGROUP, 1)
    if local_id(0) == 0:
        y[group_id(0)] = top + logarithm


_SPECIAL = (
    (0.0, -np.inf, 1.0, 2.0),
    (np.inf, 0.0, -np.inf, 1.0),
    (-np.inf,) * 4,
    (1.0, np.nan, np.inf, 3.0),
)


def _rows(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[np.ndarray]:
    t = dtype(constexprs)
    for rows, cols, scale in ((1, 1, 1.0), (3, 1000, 4.0), (5, 257, 30.0)):
        yield normal(rng, (rows, cols), t, scale)
    yield encode(np.array(_SPECIAL), t)


def _softmax_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for x in _rows(rng, constexprs):
        yield {"x": x, "y": empty(x.shape, dtype(constexprs)), "cols": x.shape[1]}


def _sum_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for x in _rows(rng, constexprs):
        yield {"x": x, "y": empty(len(x), f32), "cols": x.shape[1]}


def _logarithms(args: Args, constexprs: Constexprs) -> tuple[np.ndarray, ...]:
    """x, the log of the sum of exponentials of each row, and the error of it in f32.

    An exponential errs by its argument's rounding and 2 ulp, the sum of positive terms by its
    path; the log of what errs by e is off by e, and by 1 ulp.
    """
    x = decode(args["x"], dtype(constexprs))
    path = terms(x.shape[-1], constexprs["BLOCK"])
    with np.errstate(all="ignore"):
        top = np.where(np.isinf(x.max(-1, keepdims=True)), 0, x.max(-1, keepdims=True))
        e = np.exp(x - top)
        total = e.sum(-1, keepdims=True)
        worst = np.nan_to_num(np.abs(x - top) * e).sum(-1, keepdims=True) / total
        value = top + np.log(total)
        fast = bool(constexprs.get("FAST", False))
        told = {"spread": worst, "path": path, "logarithm": np.log(total), "value": value}
        error = _SUM_BOUND(**told, times=3 if fast else 1, fast=int(fast))
    return x, value, np.nan_to_num(error, posinf=0.0)


def _softmax_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    x, logarithm, error = _logarithms(args, constexprs)
    with np.errstate(all="ignore"):
        value = x - logarithm
        size = np.abs(x) + np.abs(x.max(-1, keepdims=True)) + np.abs(value)
        tolerance = _BOUND(error=error, size=size, value=value, T=t)
    return {"y": Expected(value, np.nan_to_num(tolerance, posinf=0.0))}


def _sum_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    _, value, error = _logarithms(args, constexprs)
    return {"y": Expected(value[:, 0], error[:, 0])}


_SUM_BOUND = bound(
    "spread * times * u(f32) + gamma(path + 8, f32) + (2 * abs(logarithm) + abs(value)) * u(f32)"
    " + fast * (2**-22 + 4 * abs(logarithm) * u(f32)) + 2**-126",
    spread="the mean of abs(x - top) with the exponentials as weights",
    times="1; of FAST 3",
    fast="0; of FAST 1",
    path=PATH,
    logarithm="of the sum of exp(x - top)",
    value="top + logarithm",
)
_BOUND = bound(
    "error + 2 * u(f32) * size + abs(value) * u(T) + least(T)",
    error=f"that of logsumexp: {_SUM_BOUND.formula}",
    size="abs(x) + abs(top) + abs(value)",
)
_ROW = (
    "a NaN makes its row NaN; +inf becomes NaN and what stands beside it -inf; a row of -inf is NaN"
)
_SUM_SPECIAL = "a NaN makes its row NaN, else +inf +inf; a row of -inf gives -inf"
_WORDS = "f32 inside: exp 2 ulp, log 1 ulp, sum in fixed order; rounded once"
FAMILIES = (
    Family(log_softmax, _softmax_inputs, _softmax_reference, _WORDS, {"": _BOUND}, _ROW),
    Family(logsumexp_rows, _sum_inputs, _sum_reference, _WORDS, {"": _SUM_BOUND}, _SUM_SPECIAL),
)
