"""pow, by a base-2 logarithm of twice the precision, and the roots: cbrt, hypot, rsqrt."""

from __future__ import annotations

import math

from . import double_word as dw
from .double_word import Pair
from .exponential import coefficients, exp2_of_sum
from .logarithm import decompose
from .term import Term, polynomial, where


def log2_pair(x: Term) -> Pair:
    """log2 of a positive finite x with a relative error below 2**-33 (f64: 2**-64)."""
    e, f = decompose(x)
    s = dw.quotient(f, dw.quick_two_sum(f.lift(2.0), f))
    z = dw.multiply(s, s)
    second = dw.constant(f, coefficients("log2_second", f))
    series = dw.add_float(second, z.high * polynomial(z.high, coefficients("log2_tail", f)))
    first = dw.constant(f, coefficients("log2_first", f))
    slope = dw.add(first, dw.multiply(z, series))
    return dw.add_to_float(e, dw.multiply(s, slope))


def pow(x: Term, y: Term) -> Term:
    """x ** y with the special values of C's pow (annex F)."""
    form = x.format
    a = abs(x)
    whole = y.op("trunc").eq(y)
    half = y * 0.5
    odd = whole & half.op("trunc").ne(half)
    limit = form.pick(2.0**34, 2.0**66)
    bounded = where(y > limit, limit, where(y < -limit, -limit, y))
    exponent = dw.multiply_float(log2_pair(a), bounded)
    value = exp2_of_sum(exponent.high, exponent.low)
    unbounded = a.eq(0.0) | a.eq(math.inf)
    value = where(unbounded, where(a.eq(0.0) ^ (y < 0.0), x.lift(0.0), math.inf), value)
    value = value.with_sign(where(odd, x.sign_bit(), 0))
    value = where((x < 0.0) & (a < math.inf) & ~whole & y.eq(y), math.nan, value)
    value = where(x.ne(x) | y.ne(y), math.nan, value)
    return where(x.eq(1.0) | y.eq(0.0), 1.0, value)


def cbrt(x: Term) -> Term:
    """The cube root: an inverse root from the exponent, two or three steps, one exact residual."""
    form = x.format
    a = abs(x)
    small = a < form.pick(2.0**-100, 2.0**-960)  # the residual would be denormal
    up = int(form.pick(54, 114))
    a = where(small, a * 2.0**up, a)
    y = _inverse_cbrt_guess(a)
    for _ in range(2 if form.mantissa == 23 else 3):
        d = 1.0 - a * y * y * y
        y = (y * d).fma(d.fma(2 / 9, 1 / 3), y)
    t = dw.halves(a * y * y).high  # short: its square is exact, and its cube in two parts
    square = dw.halves(t * t)
    rest = ((a - square.high * t) - square.low * t) * y * y * y
    root = t + t * (rest * rest.fma(2 / 9, 1 / 3))
    root = where(small, root * 2.0 ** (-up // 3), root)
    return where(abs(x) < math.inf, root, abs(x)).copysign(x)


def _inverse_cbrt_guess(a: Term) -> Term:
    """a**(-1/3) within 4%, from the bits taken as a logarithm."""
    form = a.format
    magic = int(4 * 2**form.mantissa * (form.bias - 0.0450465) / 3)
    third = 0x55555556  # 2**32 / 3, rounded up
    if form.mantissa == 23:
        return (magic - a.bits().op("mul_high", third)).real()
    return (magic - ((((a.bits() >> 32) * third) >> 32) << 32)).real()


def hypot(x: Term, y: Term) -> Term:
    """sqrt(x*x + y*y) without overflow of the squares; inf beside a NaN is inf."""
    form = x.format
    a, b = abs(x), abs(y)
    greatest = where(a < b, b, a)
    large = greatest > form.pick(2.0**40, 2.0**300)
    small = greatest < form.pick(2.0**-40, 2.0**-300)
    down, up = form.pick(2.0**-80, 2.0**-600), form.pick(2.0**100, 2.0**700)
    factor = where(large, x.lift(down), where(small, x.lift(up), 1.0))
    back = where(large, x.lift(1 / down), where(small, x.lift(1 / up), 1.0))
    a, b = a * factor, b * factor
    root = (a * a + b * b).op("sqrt") * back
    return where(abs(x).eq(math.inf) | abs(y).eq(math.inf), math.inf, root)


def rsqrt(x: Term) -> Term:
    """1 / sqrt(x)."""
    return 1.0 / x.op("sqrt")
