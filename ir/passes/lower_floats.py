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


def trunc(c: Context, a: Value) -> Value:
    """The bits behind the point cleared: all of them, but the sign, of what is below 1."""
    t = element_of(a.type)
    word = unsigned(t)
    fraction = {32: 23, 64: 52}[t.bits]
    bias = (1 << (t.bits - 2 - fraction)) - 1
    x = c.bits(a, word)
    magnitude = c.e("and", x, c.k((1 << (t.bits - 1)) - 1, x))
    exponent = c.e("shr", magnitude, c.k(fraction, x))
    small = c.e("lt", exponent, c.k(bias, x))
    whole = c.e("ge", exponent, c.k(bias + fraction, x))
    behind = c.e("shr", c.k((1 << fraction) - 1, x), c.e("sub", exponent, c.k(bias, x)))
    kept = c.e("select", whole, x, c.e("and", x, c.e("not", behind)))
    sign = c.e("and", x, c.k(1 << (t.bits - 1), x))
    return c.bits(c.e("select", small, sign, kept), t)


def floor(c: Context, a: Value) -> Value:
    towards = c.e("trunc", a)
    return c.e("select", c.e("lt", a, towards), c.e("sub", towards, c.k(1.0, a)), towards)


def ceil(c: Context, a: Value) -> Value:
    towards = c.e("trunc", a)
    return c.e("select", c.e("gt", a, towards), c.e("add", towards, c.k(1.0, a)), towards)


def rint(c: Context, a: Value) -> Value:
    """The integer towards zero or the next one, of two as near the even one, all of it exact."""
    half, one = c.k(0.5, a), c.k(1.0, a)
    towards = c.e("trunc", a)
    over = c.e("abs", c.e("sub", a, towards))
    pairs = c.e("mul", towards, half)
    odd = c.e("ne", c.e("trunc", pairs), pairs)
    on = c.e("or", c.e("gt", over, half), c.e("and", c.e("eq", over, half), odd))
    away = c.e(
        "select", c.e("lt", a, c.k(0.0, a)), c.e("sub", towards, one), c.e("add", towards, one)
    )
    return c.e("select", on, away, towards)
