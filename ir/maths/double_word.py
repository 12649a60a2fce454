"""Error-free transformations and numbers held as the sum of two floats.

All hold without fma and are not spoiled by one: factors are split by masking their bits, so that
partial products are exact and rounding them apart or within a sum is the same. Sources: Dekker, A
Floating-Point Technique for Extending the Available Precision (1971); Knuth, The Art of Computer
Programming 2, 4.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from .term import Number, Term


@dataclass(frozen=True, slots=True)
class Pair:
    """high + low, |low| at most about an ulp of high."""

    high: Term
    low: Term


def quick_two_sum(a: Term, b: Term) -> Pair:
    """a + b exactly, where |a| >= |b| or a == 0."""
    total = a + b
    return Pair(total, b - (total - a))


def two_sum(a: Term, b: Term | Number) -> Pair:
    """a + b exactly."""
    b = a.lift(b)
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def halves(a: Term) -> Pair:
    """a as two floats of half its bits (f64: 26 and 27), by masking. a is finite."""
    form = a.format
    dropped = (1 << ((form.precision + 1) // 2)) - 1
    high = (a.bits() & ~dropped).real()
    return Pair(high, a - high)


def two_product(a: Term, b: Term | Number) -> Pair:
    """a * b with a relative error below 2**-36 (f64: 2**-78), overflow and underflow apart.

    Not Dekker's: the rounded product a * b itself never occurs, as a compiler that contracts it
    into a later sum would leave its rounding error, already accounted for, without its cause.
    """
    b = a.lift(b)
    x, y = halves(a), halves(b)
    total = quick_two_sum(x.high * y.high, x.high * y.low + x.low * y.high)
    return Pair(total.high, total.low + x.low * y.low)


def add(a: Pair, b: Pair) -> Pair:
    """a + b with a relative error of about 2 ulp of ulp where their signs agree."""
    s = two_sum(a.high, b.high)
    return quick_two_sum(s.high, s.low + (a.low + b.low))


def add_float(a: Pair, b: Term | Number) -> Pair:
    s = two_sum(a.high, b)
    return quick_two_sum(s.high, s.low + a.low)


def multiply(a: Pair, b: Pair) -> Pair:
    p = two_product(a.high, b.high)
    return quick_two_sum(p.high, p.low + (a.high * b.low + a.low * b.high))


def multiply_float(a: Pair, b: Term | Number) -> Pair:
    b = a.high.lift(b)
    p = two_product(a.high, b)
    return quick_two_sum(p.high, p.low + a.low * b)


def quotient(a: Term, b: Pair) -> Pair:
    """a / b; its first quotient may be off by several ulp, which the second one repairs."""
    first = a / b.high
    p = two_product(first, b.high)
    rest = ((a - p.high) - p.low) - first * b.low
    return quick_two_sum(first, rest / b.high)


def constant(model: Term, parts: tuple[float, ...]) -> Pair:
    """A constant given as its float and the rest."""
    return Pair(model.lift(parts[0]), model.lift(parts[1]))


def add_to_float(a: Term, b: Pair) -> Pair:
    """a + b where |a| may be less than b's high part only if it is 0."""
    s = two_sum(a, b.high)
    return quick_two_sum(s.high, s.low + b.low)
