"""Float ops made of others, for f32 and f64, scalars and vectors: exactly `ir.ops.meaning`, but for
rsqrt and fma, which stay within the bounds of their rows."""

from __future__ import annotations

import math

from ..core import Value
from ..dtypes import element_of, i32, signed, unsigned
from .context import Context


def rsqrt(c: Context, a: Value) -> Value:
    return c.e("div", c.k(1.0, a), c.e("sqrt", a))


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
    if c.support.has("copysign", a.type):
        return c.e("copysign", kept, a)
    return copysign(c, kept, a)


def ldexp(c: Context, a: Value, n: Value) -> Value:
    """a * 2**n with one rounding.

    The exponent is taken in steps that do not round: down to the edge of the normal numbers, the
    last step alone reaches the denormal ones; up, an overflow in any step is one in the end.
    """
    t = element_of(a.type)
    mantissa, bias = {32: (23, 127), 64: (52, 1023)}[t.bits]
    reach = 3 * bias  # beyond it every operand overflows or vanishes
    n = c.e("max", c.e("min", n, c.k(reach, n)), c.k(-reach, n))
    # A denormal operand is made normal first: then each step below is exact until the last.
    lifted = c.e("mul", a, c.k(2.0 ** (mantissa + 1), a))
    word = c.bits(lifted, signed(t))
    field = c.e("and", c.e("shr", word, c.k(mantissa, word)), c.k(2 * bias + 1, word))
    exponent = c.e("sub", c.cast(field, i32), c.k(mantissa + 1, n))
    small = c.e("lt", c.e("abs", a), c.k(2.0 ** (1 - bias), a))
    word = c.bits(a, signed(t))
    own = c.cast(c.e("and", c.e("shr", word, c.k(mantissa, word)), c.k(2 * bias + 1, word)), i32)
    exponent = c.e("select", small, exponent, own)
    # exponent: biased, as if unbounded. The target's, clamped so that it stays a normal number.
    total = c.e("add", exponent, n)
    inside = c.e("max", c.e("min", total, c.k(2 * bias, n)), c.k(1, n))
    source = c.e("select", small, lifted, a)
    word = c.bits(source, signed(t))
    mask = ~((2 * bias + 1) << mantissa)
    moved = c.e("and", word, c.k(mask, word))
    moved = c.e("or", moved, c.e("shl", c.cast(inside, signed(t)), c.k(mantissa, word)))
    normal = c.bits(moved, t)
    rest = c.e("sub", total, inside)  # < 0: towards the denormals, > 0: overflow
    rest = c.e("max", c.e("min", rest, c.k(bias, n)), c.k(-(mantissa + 2), n))
    power = c.cast(c.e("add", rest, c.k(bias, n)), signed(t))
    scale = c.bits(c.e("shl", power, c.k(mantissa, power)), t)
    scaled = c.e("mul", normal, scale)
    plain = c.e("or", c.e("eq", a, c.k(0.0, a)), c.e("not", isfinite(c, a)))
    return c.e("select", plain, a, scaled)
