"""erf and erfc.

erf is an odd polynomial up to 1. erfc(x) = exp(-x*x) g(x) / (1 + 2 x) for x > 1/4, with g a
polynomial in (x - 3) / (x + 3) (Shepherd and Laframboise, Math. Comp. 36, 1981).
"""

from __future__ import annotations

from . import double_word as dw
from .exponential import coefficients, exp_of_sum, whole
from .term import Term, polynomial, where


def _tail(a: Term) -> Term:
    """erfc(a) for a >= 1/4."""
    a = where(a > a.format.pick(10.5, 27.9), a.format.pick(10.5, 27.9), a)
    square = dw.two_product(a, a)
    t = (a - 3.0) / (a + 3.0)
    factor = polynomial(t, coefficients("erfc", a)) / (a + a + 1.0)
    return exp_of_sum(-square.high, -square.low, factor)


def _near(x: Term) -> Term:
    """erf(x) up to 1."""
    return x.fma(polynomial(x * x, coefficients("erf", x)), x)


def erf(x: Term) -> Term:
    """The error function; in f32 1 - 2**P(a) from 1 on, where errors of P hardly count."""
    a = abs(x)
    if x.format.mantissa == 52:
        far = _tail(a)
    else:
        logarithm = polynomial(where(a > 3.93, 3.93, a), coefficients("erfc_log2", x))
        n, word = whole((logarithm, 1), x.format.bias)
        power = polynomial(logarithm - n, (1.0, *coefficients("exp2_short", x)))
        far = power * (word << x.format.mantissa).real()
    return where(a < 1.0, _near(x), (1.0 - far).copysign(x))


def erfc(x: Term) -> Term:
    """1 - erf(x), without cancellation."""
    tail = _tail(abs(x))
    return where(x > 0.25, tail, where(x < -1.0, 2.0 - tail, 1.0 - _near(x)))
