"""Elementwise comparison, choice and limits.

Comparisons are IEEE's: a NaN is unequal to everything and neither less nor greater. `where` takes
elements as they are, of which the one that is not chosen has no part in the result; `clamp` leaves
a NaN one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    bool_,
    ceil_div,
    clamp,
    convert,
    device,
    f32,
    global_id,
    kernel,
    load_vector,
    select,
    static_assert,
    store_vector,
    u32,
)
from .common import spread
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, encode, normal


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1))
def where(
    condition: Read[bool_],
    a: Read[T],
    b: Read[T],
    y: Write[T],
    *,
    T: DType = u32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y = a where the condition holds, else b; elements move as bits."""
    i = global_id(0)
    if VEC == 1:
        if i < len(y):
            y[i] = select(condition[i], a[i], b[i])
    elif i < len(y) // VEC:
        chosen = load_vector(condition, i, VEC)
        store_vector(y, i, select(chosen, load_vector(a, i, VEC), load_vector(b, i, VEC)))
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            k = i * VEC + n
            y[k] = select(condition[k], a[k], b[k])


@device
def compared(a, b, OP):
    """a OP b: "lt", "le" or "eq"."""
    static_assert(OP in ("lt", "le", "eq"), "OP is lt, le or eq")
    if OP == "lt":
        return a < b
    if OP == "le":
        return a <= b
    return a == b


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1))
def compare(
    a: Read[T],
    b: Read[T],
    y: Write[bool_],
    *,
    OP: str = "lt",
    T: DType = f32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y = a OP b; greater is less with a and b exchanged."""
    i = global_id(0)
    if VEC == 1:
        if i < len(y):
            y[i] = compared(a[i], b[i], OP)
    elif i < len(y) // VEC:
        store_vector(y, i, compared(load_vector(a, i, VEC), load_vector(b, i, VEC), OP))
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            k = i * VEC + n
            y[k] = compared(a[k], b[k], OP)


@device
def limited(x, low, high):
    """x between low and high; a NaN as it is."""
    return select(x == x, clamp(x, low, high), x)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1))
def limit(
    x: Read[T],
    y: Write[T],
    low: C,
    high: C,
    *,
    T: DType = f32,
    C: DType = f32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y = min(max(x, low), high), of which low and high are rounded to T; a NaN stays one."""
    i = global_id(0)
    if VEC == 1:
        if i < len(y):
            y[i] = convert(limited(convert(x[i], C), low, high), T)
    elif i < len(y) // VEC:
        value = convert(load_vector(x, i, VEC), C)
        least, most = spread(low, C, VEC), spread(high, C, VEC)
        store_vector(y, i, convert(limited(value, least, most), T))
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            k = i * VEC + n
            y[k] = convert(limited(convert(x[k], C), low, high), T)


_SIZES = (1, 300, 4099)
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0)


def _pairs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[tuple[np.ndarray, ...]]:
    """Arrays of which a third is equal, then every pair of special values."""
    t = dtype(constexprs)
    for n in _SIZES:
        a, b = normal(rng, n, t), normal(rng, n, t)
        yield a, np.where(rng.integers(0, 3, n) == 0, a, b)
    if t.is_float:
        a, b = np.meshgrid(encode(np.array(_SPECIAL), t), encode(np.array(_SPECIAL), t))
        yield a.reshape(-1).copy(), b.reshape(-1).copy()


def _where_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for a, b in _pairs(rng, constexprs):
        chosen = rng.integers(0, 2, a.shape).astype(bool)
        yield {"condition": chosen, "a": a, "b": b, "y": empty(a.shape, dtype(constexprs))}


def _where_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return {"y": Expected(np.where(args["condition"], args["a"], args["b"]))}


def _compare_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for a, b in _pairs(rng, constexprs):
        yield {"a": a, "b": b, "y": empty(a.shape, bool_)}


def _compare_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    meaning = {"lt": np.less, "le": np.less_equal, "eq": np.equal}[constexprs["OP"]]
    return {"y": Expected(meaning(decode(args["a"], t), decode(args["b"], t)))}


def _limit_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for low, high in ((-0.7, 0.3), (0.0, np.inf), (1.0, -1.0)):  # the last: high wins
        for n in _SIZES:
            yield {"x": normal(rng, n, t), "y": empty(n, t), "low": low, "high": high}
    yield {"x": encode(np.array(_SPECIAL), t), "y": empty(7, t), "low": -0.5, "high": 0.5}


def _limit_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    low, high = decode(encode(np.array([args["low"], args["high"]], np.float32), t), t)
    return {"y": Expected(np.minimum(np.maximum(decode(args["x"], t), low), high))}


FAMILIES = (
    Family(where, _where_inputs, _where_reference, "exact: moves bits"),
    Family(compare, _compare_inputs, _compare_reference, "exact"),
    Family(limit, _limit_inputs, _limit_reference, "exact: limits are rounded to T once"),
)
