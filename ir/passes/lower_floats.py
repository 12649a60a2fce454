"""Float ops made of others, for f32 and f64, scalars and vectors: exactly `ir.ops.meaning`, but for
fma, which stays within the bound of its row."""

from __future__ import annotations

import math

from ..core import Value
from ..dtypes import element_of, unsigned
from .context import Context


def fma(c: Context, a: Value, b: Value, d: Value) -> Value:
    """Two roundings instead of one: within the row's bound, which no target calls exact."""
    return c.e("add", c.e("mul", a, b), d)


def sign(c: Context, a: Value) -> Value:
    t = element_of(a.type)
    zero = c.k(0, a)
    if not t.is_float and not t.is_signed:
        return c.e("min", a, c.k(1, a))
    if not t.is_float:
        return c.e("min", c.e("max", a, c.k(-1, a)), c.k(1, a))
    low = c.e("select", c.e("lt", a, zero), c.k(-1, a), a)  # keeps a NaN
    low = c.e("select", c.e("eq", a, zero), zero, low)
    return c.e("select", c.e("gt", a, zero), c.k(1, a), low)


def copysign(c: Context, a: Value, b: Value) -> Value:
    t = element_of(a.type)
    word = unsigned(t)
    x, y = c.bits(a, word), c.bits(b, word)
    magnitude = c.e("and", x, c.k((1 << (t.bits - 1)) - 1, x))
    return c.bits(c.e("or", magnitude, c.e("and", y, c.k(1 << (t.bits - 1), y))), t)


def isnan(c: Context, a: Value) -> Value:
    return c.e("ne", a, a)


def isinf(c: Context, a: Value) -> Value:
    return c.e("eq", c.e("abs", a), c.k(math.inf, a))


def isfinite(c: Context, a: Value) -> Value:
    return c.e("lt", c.e("abs", a), c.k(math.inf, a))


def rint(c: Context, a: Value) -> Value:
    """Adding and taking away 2**23 (2**52) rounds to an integer, ties to even."""
    t = element_of(a.type)
    big = c.k(2.0 ** {32: 23, 64: 52}[t.bits], a)
    magnitude = c.e("abs", a)
    rounded = c.e("sub", c.e("add", magnitude, big), big)
    kept = c.e("select", c.e("lt", magnitude, big), rounded, a)
    return c.e("copysign", kept, a)


def floor(c: Context, a: Value) -> Value:
    near = c.e("rint", a)
    return c.e("select", c.e("gt", near, a), c.e("sub", near, c.k(1.0, a)), near)


def ceil(c: Context, a: Value) -> Value:
    near = c.e("rint", a)
    up = c.e("select", c.e("lt", near, a), c.e("add", near, c.k(1.0, a)), near)
    return c.e("copysign", up, a)  # of what is above -1, and below 0


def trunc(c: Context, a: Value) -> Value:
    return c.e("copysign", c.e("floor", c.e("abs", a)), a)
