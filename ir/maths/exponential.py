"""exp, exp2 and expm1: x = n ln 2 + r, a polynomial in r, and a scaling by 2**n in two steps.

The whole number n comes from adding 1.5 * 2**mantissa, whose sum holds n in its low bits as well,
so that no conversion to integer is needed. Two factors of about half the exponent reach from
denormal results, rounded once, to the overflow threshold. ln 2 is a sum of a short part, whose
product with n is exact, and a rest (Cody and Waite, Software Manual for the Elementary Functions).
"""

from __future__ import annotations

from .coefficients import COEFFICIENTS
from .term import Number, Term, polynomial, where

LOG2_E = 1.4426950408889634


def coefficients(name: str, x: Term) -> tuple[float, ...]:
    """The coefficients of `name` in the format of x."""
    return COEFFICIENTS[name][x.format.dtype.name]


def clamp(x: Term, low: Number, high: Number) -> Term:
    """x between low and high; a NaN stays a NaN (min and max would lose it)."""
    x = where(x > high, high, x)
    return where(x < low, low, x)


def whole(product: tuple[Term, Number], summand: Number = 0) -> tuple[Term, Term]:
    """factor * constant + summand to the nearest integer: a float, and a word with its low bits."""
    factor, constant = product
    magic = factor.format.rounder + summand
    total = factor + magic if constant == 1 else factor.fma(constant, magic)
    return total - magic, total.bits()


def scale(value: Term, word: Term) -> Term:
    """value * 2**n, where `word` holds n + 2 * bias in its low bits, for |n| < 2 * bias."""
    form = value.format
    low = (word << (form.mantissa - 1)) & form.exponent_mask
    high = (word << form.mantissa) - low
    return value * low.real() * high.real()


def reduced(x: Term, shift: int = 0) -> tuple[Term, Term]:
    """r = x - n ln 2 and the word of n + shift for `scale`."""
    high, low = coefficients("ln2", x)
    n, word = whole((x, LOG2_E), 2 * x.format.bias)
    if shift:
        word = word + shift
    # The exact product stays apart from fma: a driver may gather n * high + n * low otherwise.
    return n.fma(-low, x - n * high), word


def exp_of_reduced(r: Term) -> Term:
    return polynomial(r, (1.0, 1.0, *coefficients("exp", r)))


def exp(x: Term) -> Term:
    """e**x. 0 below -104 (f64 -746), inf above 88.7 (709.8); denormal results rounded once."""
    x = clamp(x, x.format.pick(-104.5, -746.0), x.format.pick(89.0, 710.0))
    r, word = reduced(x)
    return scale(exp_of_reduced(r), word)


def exp2_of_sum(high: Term, low: Term | None = None, factor: Term | None = None) -> Term:
    """factor * 2**(high + low), |high| limited to where the result is 0 or inf; |low| << |high|."""
    bounded = clamp(high, high.format.pick(-160.0, -1090.0), high.format.pick(140.0, 1030.0))
    n, word = whole((bounded, 1), 2 * high.format.bias)
    r = bounded - n
    if low is not None:
        r = r + where(bounded.ne(high), 0.0, low)
    value = polynomial(r, (1.0, *coefficients("exp2", r)))
    return scale(value if factor is None else value * factor, word)


def exp2(x: Term) -> Term:
    """2**x, exact for whole x."""
    return exp2_of_sum(x)


def expm1(x: Term) -> Term:
    """e**x - 1 = 2 (2**(n-1) (e**r - 1) + 2**(n-1) - 1/2), without cancellation for small x."""
    form = x.format
    z = clamp(x, form.pick(-18.0, -40.0), form.pick(89.0, 710.0))
    r, word = reduced(z, -1)
    half = ((word - form.bias) << form.mantissa).real()
    value = r.fma(r * polynomial(r, coefficients("exp", r)), r)
    total = half.fma(value, half - 0.5) * 2.0
    return where(abs(x) < form.pick(2.0**-25, 2.0**-54), x, total)


def exp_of_sum(high: Term, low: Term, factor: Term) -> Term:
    """factor * e**(high + low) for high in the range of e**high, |low| << 1."""
    r, word = reduced(clamp(high, high.format.pick(-200.0, -1400.0), high.format.pick(89.0, 710.0)))
    return scale(exp_of_reduced(r + low) * factor, word)
