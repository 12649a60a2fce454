"""gamma and lgamma.

gamma(a) = sqrt(2 pi) a**(a - 1/2) e**-a P(1/a) (Stirling) with the exponent in twice the
precision; smaller arguments are shifted up by whole steps. lgamma takes log(gamma(2 + f)) from a
polynomial and shifts by logarithms of products. Negative arguments are reflected by
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
    """The gamma function; NaN at negative whole numbers and -inf, an infinity of its sign at 0."""
    limit = x.format.pick(60.0, 200.0)
    a = where(abs(x) > limit, limit, abs(x))
    product, exponent, series = _stirling(a)
    negative = x < 0.0
    reflected = (product / a) * (-math.pi / ROOT_TWO_PI) / (sin_pi(a) * series)
    factor = where(negative, reflected, ROOT_TWO_PI * series / product)
    high = where(negative, -exponent.high, exponent.high)
    low = where(negative, -exponent.low, exponent.low)
    value = exp2_of_sum(high, low, factor)
    value = where(negative & x.op("trunc").eq(x), math.nan, value)
    value = where(x.eq(0.0), x.lift(math.inf).copysign(x), value)
    return where(x.ne(x), x, value)


def _stirling(a: Term) -> tuple[Term, Pair, Term]:
    """(p, e, s) with gamma(a) = sqrt(2 pi) 2**e s / p, p the product of the steps up."""
    start = _start(a)
    steps = (start - a).op("ceil").op("max", 0.0)
    product = where(steps > 0.0, a, 1.0)
    for j in range(1, start):
        product = product * where(steps > float(j), a + float(j), 1.0)
    shifted = dw.two_sum(a, steps)
    b = shifted.high
    logarithm = log2_pair(b)
    growth = dw.multiply_float(logarithm, b - 0.5)
    log2_e = dw.constant(a, coefficients("log2_e_pair", a))
    decay = dw.multiply_float(log2_e, b)
    exponent = dw.add(growth, Pair(-decay.high, -decay.low))
    # d/db of the exponent is log2(b) and a little less: what rounding a + steps lost
    slope = logarithm.high - (0.5 / math.log(2)) / b
    exponent = Pair(exponent.high, shifted.low.fma(slope, exponent.low))
    return product, exponent, polynomial(1.0 / b, coefficients("stirling", a))


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
    form = a.format
    start = _start(a)
    large = a >= float(start)
    below = a < 0.5
    # a < 1/2: f = a, -log(a (1 + a)); a < 3/2: f = a - 1, -log(a); else f in [-1/2, 1/2) around 2
    # and the logarithm of (a - 1)(a - 2)... down to there
    steps = (a - 1.5).op("floor").op("max", 0.0)
    product = a.lift(1.0)
    for j in range(1, start - 1):
        product = product * where(steps >= float(j), a - float(j), 1.0)
    f = where(below, a, where(a < 1.5, a - 1.0, a - (steps + 2.0)))
    argument = where(below, a * (a + 1.0), where(a < 1.5, a, product))
    logarithm = log_of_parts(*decompose(where(large, a, argument)))
    f = where(large, 0.0, f)
    small = f * polynomial(f, coefficients("lgamma", a)) + where(a < 1.5, -logarithm, logarithm)
    inverse = 1.0 / a
    tail = inverse.fma(polynomial(inverse * inverse, coefficients("binet", a)), 0.5 * math.log(2 * math.pi) - 0.5)
    stirling = (a - 0.5).fma(logarithm - 1.0, tail)
    del form
    return where(large, stirling, small)
