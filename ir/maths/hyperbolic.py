"""sinh, cosh and tanh and their inverses."""

from __future__ import annotations

import math

from .exponential import exp_of_reduced, reduced, scale
from .inverse import odd
from .logarithm import log1p
from .term import Term, where


def _half_exp(a: Term) -> Term:
    """e**a / 2 for a >= 0, as far as it is finite: past the overflow of e**a."""
    a = where(a > a.format.pick(90.0, 711.0), a.format.pick(90.0, 711.0), a)
    r, word = reduced(a, -1)
    return scale(exp_of_reduced(r), word)


def cosh(x: Term) -> Term:
    """The hyperbolic cosine."""
    half = _half_exp(abs(x))
    return half + 0.25 / half


def sinh(x: Term) -> Term:
    """The hyperbolic sine; an odd polynomial up to 1."""
    half = _half_exp(abs(x))
    return where(abs(x) < 1.0, odd(x, "sinh"), (half - 0.25 / half).copysign(x))


def tanh(x: Term) -> Term:
    """The hyperbolic tangent: an odd polynomial up to 5/8, then 1 - 2 / (e**2a + 1)."""
    limit = x.format.pick(9.02, 19.1)
    a = abs(x)
    r, word = reduced(where(a > limit, limit, a) * 2.0)
    power = exp_of_reduced(r) * ((word - x.format.bias) << x.format.mantissa).real()
    far = 1.0 - 2.0 / (power + 1.0)
    return where(a < 0.625, odd(a, "tanh"), far).copysign(x)


def asinh(x: Term) -> Term:
    """The inverse hyperbolic sine."""
    a = abs(x)
    large = a > a.format.pick(2.0**13, 2.0**28)
    s = where(large, 0.0, a)
    z = s * s
    inner = a + z / (1.0 + (z + 1.0).op("sqrt"))
    value = log1p(where(large, a - 1.0, inner)) + where(large, a.lift(math.log(2.0)), 0.0)
    return where(x.eq(0.0), x, value.copysign(x))


def acosh(x: Term) -> Term:
    """The inverse hyperbolic cosine; NaN below 1."""
    large = x > x.format.pick(2.0**13, 2.0**28)
    t = x - 1.0
    s = where(large, 0.0, t)
    inner = t + (s * (s + 2.0)).op("sqrt")
    value = log1p(inner) + where(large, x.lift(math.log(2.0)), 0.0)
    return where(x < 1.0, math.nan, value)


def atanh(x: Term) -> Term:
    """The inverse hyperbolic tangent; NaN outside [-1, 1], infinities at its ends."""
    a = abs(x)
    value = 0.5 * log1p((a + a) / (1.0 - a))
    return where(a < x.format.pick(2.0**-13, 2.0**-28), x, value.copysign(x))
