"""asin, acos, atan, atan2: one quotient or square root, and an odd polynomial near 0."""

from __future__ import annotations

import math

from .exponential import coefficients
from .term import Term, polynomial, where

TAN_EIGHTH = math.tan(math.pi / 8)


def odd(x: Term, name: str) -> Term:
    """x + x*z*P(z), z = x*x."""
    z = x * x
    return (x * z).fma(polynomial(z, coefficients(name, x)), x)


def _angle(a: Term, b: Term) -> Term:
    """The angle of the point (b, a) of the first quadrant: around 0, pi/4 or pi/2 by the ratio."""
    high, low = coefficients("half_pi_pair", a)
    steep, flat = a * TAN_EIGHTH > b, a < b * TAN_EIGHTH
    top = where(flat, a, where(steep, -b, a - b))
    bottom = where(flat, b, where(steep, a, a + b))
    base = where(flat, 0.0, where(steep, a.lift(high), high / 2))
    rest = where(flat, 0.0, where(steep, a.lift(low), low / 2))
    t = top / bottom
    z = t * t
    tail = (t * z).fma(polynomial(z, coefficients("atan", t)), rest)
    return base + (t + tail)


def atan(x: Term) -> Term:
    """The arc tangent, in [-pi/2, pi/2]."""
    return _angle(abs(x), x.lift(1.0)).copysign(x)


def atan2(y: Term, x: Term) -> Term:
    """The angle of the point (x, y) in [-pi, pi], signs of zeros and infinities as in C."""
    form = x.format
    a, b = abs(y), abs(x)
    big = where(a > b, a, b) > 2.0 ** (form.bias - 1)
    shrink = where(big, a.lift(0.25), 1.0)
    small = where(a > b, a, b) < form.pick(2.0**-100, 2.0**-960)
    shrink = where(small, form.pick(2.0**30, 2.0**60), shrink)
    angle = _angle(a * shrink, b * shrink)
    infinite = where(b.eq(math.inf), where(a.eq(math.inf), a.lift(math.pi / 4), 0.0), math.pi / 2)
    angle = where(a.eq(math.inf) | b.eq(math.inf), infinite, angle)
    angle = where(a.eq(0.0) & b.eq(0.0), 0.0, angle)
    high, low = coefficients("pi_pair", x)
    back = x.sign_bit().ne(0)
    angle = where(back, high - (angle - low), angle)
    return where(x.ne(x) | y.ne(y), math.nan, angle.copysign(y))


def _root_part(a: Term) -> tuple[Term, Term]:
    """asin(a) = pi/2 - 2 asin(sqrt((1 - a)/2)): the root and the inner arc sine less the root."""
    z = (1.0 - a) * 0.5
    root = z.op("sqrt")
    return root, root * z * polynomial(z, coefficients("asin", a))


def asin(x: Term) -> Term:
    """The arc sine; NaN outside [-1, 1]."""
    a = abs(x)
    high, low = coefficients("half_pi_pair", x)
    root, tail = _root_part(a)
    far = (high - 2.0 * root) - (2.0 * tail - low)
    return where(a < 0.5, odd(x, "asin"), far.copysign(x))


def acos(x: Term) -> Term:
    """The arc cosine; NaN outside [-1, 1]."""
    a = abs(x)
    high, low = coefficients("half_pi_pair", x)
    root, tail = _root_part(a)
    z = x * x
    near = high - (x - (low - x * z * polynomial(z, coefficients("asin", x))))
    far = 2.0 * (root + tail)
    far = where(x < 0.0, 2.0 * high - (far - 2.0 * low), far)
    return where(a < 0.5, near, far)
