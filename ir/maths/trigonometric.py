"""sin, cos and tan: a quarter turn around a multiple of pi/2, on which either polynomial serves.

What the remainder of the reduction lost to rounding enters the sine behind the cubic term, so that
the rounding of the angle costs next to nothing.
"""

from __future__ import annotations

from .exponential import coefficients
from .reduction import remainder
from .term import Term, polynomial, where


def _sine_and_cosine(r: Term, excess: Term) -> tuple[Term, Term]:
    """Of r - excess, |r| up to pi/4; the sine of -0 is -0."""
    z = r * r
    sine = r - (r * z).fma(polynomial(z, coefficients("sin", z)), excess)
    return sine, polynomial(z, (1.0, -0.5, *coefficients("cos", z)))


def sin(x: Term) -> Term:
    """The sine; NaN of inf."""
    word, r, excess = remainder(x)
    sine, cosine = _sine_and_cosine(r, excess)
    value = where((word & 1).ne(0), cosine, sine)
    return value.with_sign((word & 2) << (x.format.dtype.bits - 2))


def cos(x: Term) -> Term:
    """The cosine; NaN of inf. Exactly 1 at 0."""
    word, r, excess = remainder(x)
    sine, cosine = _sine_and_cosine(r, excess)
    value = where((word & 1).ne(0), sine, cosine)
    return value.with_sign(((word + 1) & 2) << (x.format.dtype.bits - 2))


def tan(x: Term) -> Term:
    """The tangent; NaN of inf."""
    word, r, excess = remainder(x)
    sine, cosine = _sine_and_cosine(r, excess)
    odd = (word & 1).ne(0)
    return where(odd, -cosine, sine) / where(odd, sine, cosine)
