"""fmod: the exact remainder by long division on the significands."""

from __future__ import annotations

import math

from ..core import Value
from ..dtypes import DType, VectorType, element_of, i32, unsigned
from .context import Context


def fmod(c: Context, a: Value, b: Value) -> Value:
    """The remainder of a / b with the sign of a; lane by lane for vectors."""
    if not isinstance(a.type, VectorType):
        return _scalar(c, a, b)
    lanes = range(a.type.lanes)
    done = [_scalar(c, c.e("extract", a, lane=n), c.e("extract", b, lane=n)) for n in lanes]
    return c.e("vector", *done)


def _scalar(c: Context, a: Value, b: Value) -> Value:
    t = element_of(a.type)
    mantissa = {32: 23, 64: 52}[t.bits]
    x, ex = _split(c, a, mantissa)
    y, ey = _split(c, b, mantissa)
    rest = _divide(c, x, y, c.e("sub", ex, ey), t.bits - mantissa - 1)
    result = _join(c, rest, ey, a, mantissa)
    size_a, size_b = c.e("abs", a), c.e("abs", b)
    result = c.e("select", c.e("lt", size_a, size_b), a, result)
    valid = c.e("and", c.e("lt", size_a, c.k(math.inf, a)), c.e("gt", size_b, c.k(0.0, b)))
    # NaN operands: a NaN |a| fails the first test, a NaN |b| the second.
    return c.e("select", valid, result, c.k(math.nan, a))


def _split(c: Context, v: Value, mantissa: int) -> tuple[Value, Value]:
    """|v| as an integer significand and the biased exponent (1 for denormals)."""
    t = element_of(v.type)
    word = c.bits(v, unsigned(t))
    word = c.e("and", word, c.k((1 << (t.bits - 1)) - 1, word))
    exponent = c.e("shr", word, c.k(mantissa, word))
    fraction = c.e("and", word, c.k((1 << mantissa) - 1, word))
    normal = c.e("gt", exponent, c.k(0, word))
    significand = c.e("or", fraction, c.k(1 << mantissa, word))
    significand = c.e("select", normal, significand, fraction)
    return significand, c.cast(c.e("max", exponent, c.k(1, word)), i32)


def _divide(c: Context, x: Value, y: Value, places: Value, step: int) -> Value:
    """x * 2**places mod y, `step` bits a turn: that many are free above a significand."""
    first = c.e("mod", x, y)
    places = c.e("max", places, c.k(0, places))
    turns = c.e("floordiv", c.e("add", places, c.k(step - 1, places)), c.k(step, places))
    with c.b.region(i32, x.type, i32) as body:
        _, rest, left = body.args
        now = c.e("min", left, c.k(step, left))
        count = c.cast(now, _element(x))
        rest = c.e("mod", c.e("shl", rest, count), y)
        c.b.do("continue", rest, c.e("sub", left, now))
    operands = (c.k(0, turns), turns, first, places)
    return c.b.op("for", operands, {}, (x.type, i32), (body.region,)).results[0]


def _element(v: Value) -> DType:
    return element_of(v.type)


def _join(c: Context, rest: Value, exponent: Value, sign_of: Value, mantissa: int) -> Value:
    """rest * 2**(exponent of a significand) as a float with the sign of `sign_of`."""
    t = element_of(sign_of.type)
    free = c.e("sub", c.cast(c.e("clz", rest), i32), c.k(t.bits - mantissa - 1, exponent))
    # Up to the leading one's place, but not below the exponent of the denormals.
    up = c.e("min", free, c.e("sub", exponent, c.k(1, exponent)))
    moved = c.e("shl", rest, c.cast(up, _element(rest)))
    field = c.cast(c.e("sub", c.e("sub", exponent, up), c.k(1, up)), _element(rest))
    word = c.e("add", moved, c.e("shl", field, c.k(mantissa, field)))
    word = c.e("select", c.e("eq", rest, c.k(0, rest)), rest, word)
    negative = c.e("and", c.bits(sign_of, _element(word)), c.k(1 << (t.bits - 1), word))
    return c.bits(c.e("or", word, negative), t)
