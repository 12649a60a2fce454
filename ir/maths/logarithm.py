"""log, log2, log10 and log1p: x = 2**e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).

log(1 + f) = f - f*f/2 + f**3 P(f) in f32 (after Moshier's Cephes: no division), and in f64 the
series in s = f / (2 + f) that corrects f - f*f/2 (after Sun's fdlibm). Both leave f itself exact,
so that the result is good near 1. Logarithms to other bases split f and the constant into
short parts, whose product is exact, and rests, and add the largest terms last.
"""

from __future__ import annotations

import math

from .double_word import halves
from .exponential import coefficients
from .term import Term, polynomial, where

SQRT_HALF = {23: 0x3F3504F3, 52: 0x3FE6A09E667F3BCD}


def decompose(x: Term) -> tuple[Term, Term]:
    """e as a float and f for a positive finite x, denormals included."""
    form = x.format
    up = form.precision
    denormal = x < form.min_normal
    x = where(denormal, x * 2.0**up, x)
    low = SQRT_HALF[form.mantissa]
    bits = x.signed_bits()
    shifted = bits - where(denormal, bits.lift(low + (up << form.mantissa)), low)
    m = ((shifted & form.mantissa_mask) + low).real()
    return (shifted >> form.mantissa).convert(form.dtype), m - 1.0


def log1p_tail(f: Term) -> Term:
    """log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    if f.format.mantissa == 23:
        return f * f * f.fma(polynomial(f, coefficients("log", f)), -0.5)
    half_square = 0.5 * f * f
    s = f / (f + 2.0)
    z = s * s
    return s * z.fma(polynomial(z, coefficients("log", f)), half_square) - half_square


def specials(x: Term, result: Term) -> Term:
    """The result with NaN below 0, -inf at 0, and inf and NaN as they are."""
    result = where(x < math.inf, result, x)
    return where(x > 0.0, result, where(x.eq(0.0), x.lift(-math.inf), math.nan))


def log_of_parts(e: Term, f: Term) -> Term:
    high, low = coefficients("ln2", f)
    return e.fma(high, f + e.fma(low, log1p_tail(f)))


def log(x: Term) -> Term:
    """The natural logarithm; log(0) = -inf, NaN below."""
    return specials(x, log_of_parts(*decompose(x)))


def log2(x: Term) -> Term:
    """The logarithm to base 2, exact for powers of 2."""
    e, f = decompose(x)
    exact, rest = _scaled(f, "log2_e")
    return specials(x, (rest + exact) + e)


def log10(x: Term) -> Term:
    """The logarithm to base 10."""
    e, f = decompose(x)
    exact, rest = _scaled(f, "log10_e")
    high, low = coefficients("log10_2", x)
    return specials(x, (e.fma(low, rest) + exact) + e * high)


def _scaled(f: Term, name: str) -> tuple[Term, Term]:
    """log(1 + f) times a constant, as an unrounded product of the greatest parts and the rest."""
    high, low = coefficients(name, f)
    tail = log1p_tail(f)
    parts = halves(f)
    return parts.high * high, (tail + f).fma(low, (tail + parts.low) * high)


def log1p(x: Term) -> Term:
    """log(1 + x): the rounding error of 1 + x is brought back into f."""
    form = x.format
    one_plus = x + 1.0
    back = one_plus - x
    error = where(x > 1.0, x - (one_plus - 1.0), 1.0 - back)
    low = SQRT_HALF[form.mantissa]
    shifted = one_plus.signed_bits() - low
    exponent = shifted >> form.mantissa
    m = ((shifted & form.mantissa_mask) + low).real()
    factor = ((form.bias + 1 - exponent) << form.mantissa).real()  # 0 for the greatest exponent
    f = where(exponent.eq(0), x, (m - 1.0) + error * 0.5 * factor)
    result = log_of_parts(exponent.convert(form.dtype), f)
    result = where(x < math.inf, result, x)
    result = where(x > -1.0, result, where(x.eq(-1.0), x.lift(-math.inf), math.nan))
    return where(abs(x) < form.pick(2.0**-25, 2.0**-54), x, result)
