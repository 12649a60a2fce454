"""gamma and lgamma.

gamma(a) = sqrt(2 pi) a**(a - 1/2) e**-a P(1/a) (Stirling) with the exponent in twice the
precision. Below that, gamma(2 + f) or its logarithm is a polynomial, and whole steps lead there,
as factors or as the logarithm of their product. Negative arguments are reflected by
gamma(-a) gamma(a) = -pi / (a sin(pi a)); near the zeros of lgamma there, only the absolute error
is small (relative to log(gamma(|x|)) and 1).
"""

from __future__ import annotations

import math

from . import double_word as dw
from .double_word import Pair
from .exponential import coefficients, exp2_of_sum
from .logarithm import decompose, log_of_parts
from .power import log2_pair
from .term import Term, polynomial, where

ROOT_TWO_PI = math.sqrt(2 * math.pi)
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _start(x: Term) -> int:
    """From where on Stirling's polynomials hold."""
    return 4 if x.format.mantissa == 23 else 8


def sin_pi(a: Term) -> Term:
    """sin(pi a) for a >= 0; exactly 0 for whole a."""
    n = a.op("rint")
    r = a - n
    half = n * 0.5
    odd = half.op("trunc").ne(half)
    value = r * polynomial(r * r, coefficients("sinpi", a))
    return where(odd, -value, value)


def gamma(x: Term) -> Term:
    """The gamma function; NaN at negative whole numbers and -inf, an infinity of its sign at 0.

    Exact for whole numbers below 4 (f64: 8), where Stirling's formula sets in.
    """
    form = x.format
    a = abs(x)
    large = a >= float(_start(x))
    exponent, series = _stirling(where(large, where(a > 200.0, 200.0, a), float(_start(x))))
    factor = where(large, ROOT_TWO_PI * series, _gamma_by_steps(a))
    negative = x < 0.0
    factor = where(negative, -math.pi / (a * sin_pi(a) * factor), factor)
    high, low = (where(large, part, 0.0) for part in (exponent.high, exponent.low))
    high, low = (where(negative, -part, part) for part in (high, low))
    value = exp2_of_sum(high, low, factor)
    value = where(negative & x.op("trunc").eq(x), math.nan, value)
    value = where(a < form.pick(2.0**-27, 2.0**-56), 1.0 / x, value)
    return where(x.ne(x), x, value)


def _steps(a: Term) -> tuple[Term, Term]:
    """f in [-1/2, 1/2] and the product of the steps from 2 + f up to a.

    a < 1/2: f = a; a < 3/2: f = a - 1, and the product, then of steps down, is not to be used;
    else (a - 1)(a - 2)... down to 2 + f, as far as a < 4 (f64: 8). No difference is rounded.
    """
    steps = (a - 1.5).op("floor").op("max", 0.0)
    product = a.lift(1.0)
    for j in range(1, _start(a) - 1):
        product = product * where(steps >= float(j), a - float(j), 1.0)
    return where(a < 0.5, a, where(a < 1.5, a - 1.0, a - (steps + 2.0))), product


def _gamma_by_steps(a: Term) -> Term:
    f, product = _steps(a)
    near = polynomial(f, (1.0, *coefficients("gamma", a)))
    return where(a < 1.5, near / where(a < 0.5, a * (a + 1.0), a), near * product)


def _stirling(a: Term) -> tuple[Pair, Term]:
    """(e, s) with gamma(a) = sqrt(2 pi) 2**e s."""
    growth = dw.multiply_float(log2_pair(a), a - 0.5)
    log2_e = dw.constant(a, coefficients("log2_e_pair", a))
    decay = dw.multiply_float(log2_e, a)
    exponent = dw.add(growth, Pair(-decay.high, -decay.low))
    return exponent, polynomial(1.0 / a, coefficients("stirling", a))


def lgamma(x: Term) -> Term:
    """log(|gamma(x)|); inf at 0, negative whole numbers and infinities."""
    form = x.format
    a = abs(x)
    positive = _lgamma_positive(a)
    tiny = form.pick(2.0**-30, 2.0**-60)
    sine = sin_pi(where(a < tiny, tiny, a))
    ratio = math.pi / (where(a < tiny, tiny, a) * abs(sine))
    reflected = where(a < tiny, positive, log_of_parts(*decompose(ratio)) - positive)
    pole = (x.op("trunc").eq(x) & (x <= 0.0)) | a.eq(math.inf)
    value = where(x < 0.0, reflected, positive)
    return where(pole, math.inf, where(x.ne(x), x, value))


def _lgamma_positive(a: Term) -> Term:
    large = a >= float(_start(a))
    f, product = _steps(a)
    down = where(a < 0.5, a * (a + 1.0), a)
    argument = where(large, a, where(a < 1.5, down, product))
    logarithm = log_of_parts(*decompose(argument))
    f = where(large, 0.0, f)
    small = f * polynomial(f, coefficients("lgamma", a)) + where(a < 1.5, -logarithm, logarithm)
    inverse = 1.0 / a
    tail = inverse.fma(
        polynomial(inverse * inverse, coefficients("binet", a)), HALF_LOG_TWO_PI - 0.5
    )
    stirling = (a - 0.5).fma(logarithm - 1.0, tail)
    return where(large, stirling, small)
