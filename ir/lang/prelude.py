"""Library functions that are written in the kernel language and inlined where called.

Their ops bear the place of the call. Each works for every float (or integer) type and for vectors,
unless it says otherwise.
"""

# mypy: disallow-untyped-defs=False, check-untyped-defs=False, disallow-untyped-calls=False
from __future__ import annotations

import math
from typing import Any

from ..dtypes import DTYPES
from . import functions as _functions  # noqa: F401  (fills the table)
from .decorator import device
from .surface import TABLE

select: Any = TABLE["select"]
fmod: Any = TABLE["fmod"]
copysign: Any = TABLE["copysign"]
floor: Any = TABLE["floor"]
trunc: Any = TABLE["trunc"]
rint: Any = TABLE["rint"]
exp: Any = TABLE["exp"]
exp2: Any = TABLE["exp2"]
log1p: Any = TABLE["log1p"]
sin: Any = TABLE["sin"]
isnan: Any = TABLE["isnan"]
isinf: Any = TABLE["isinf"]
isfinite: Any = TABLE["isfinite"]
bitcast: Any = TABLE["bitcast"]
convert: Any = TABLE["convert"]
i32: Any = DTYPES["i32"]
u16: Any = DTYPES["u16"]
u32: Any = DTYPES["u32"]
u64: Any = DTYPES["u64"]
f32: Any = DTYPES["f32"]
f64: Any = DTYPES["f64"]


@device
def float_mod(a, b):
    """a % b as Python has it: the sign of b; NaN for b = 0."""
    r = fmod(a, b)
    return select(r == 0.0, copysign(r, b), select((r < 0.0) != (b < 0.0), r + b, r))


@device
def float_floordiv(a, b):
    """a // b as Python and numpy have it: the floor of the exact quotient; a / b for b = 0."""
    r = fmod(a, b)
    q = (a - r) / b  # close to a whole number
    q = select((r != 0.0) & ((r < 0.0) != (b < 0.0)), q - 1.0, q)
    whole = floor(q)
    whole = select(q - whole > 0.5, whole + 1.0, whole)
    whole = select(q == 0.0, copysign(q, a / b) * 0.0, whole)
    return select(b == 0.0, a / b, whole)


@device
def int_power(base, exponent):
    """base ** exponent for scalar integers; wraps; 0 for a negative exponent, but 1 of 1 or -1."""
    result = base.dtype(1)
    if exponent < 0:
        if base == 1:
            return result
        if (base < 0) & (base + 1 == 0):
            return select(exponent % 2 == 0, result, base)
        return base.dtype(0)
    while exponent != 0:
        if exponent % 2 != 0:
            result *= base
        base *= base
        exponent = exponent // 2
    return result


@device
def int_ceil_div(a, b):
    """The quotient rounded up; a for b = 0."""
    q = a // b
    return select((b != 0) & (q * b != a), q + 1, q)


@device
def degrees(a):
    return a * (180.0 / math.pi)


@device
def radians(a):
    return a * (math.pi / 180.0)


@device
def square(a):
    return a * a


@device
def reciprocal(a):
    return 1.0 / a


@device
def modf(a):
    """(fraction, whole), both with the sign of a."""
    whole = trunc(a)
    return copysign(select(isinf(a), 0.0, a - whole), a), whole


@device
def signbit(a):
    return copysign(1.0, a) < 0.0


@device
def frexp(a):
    """(m, e) with a = m * 2**e and 0.5 <= |m| < 1; (a, 0) for zero, infinity and NaN."""
    if a.dtype is f64:
        return _frexp64(a)
    m, e = _frexp32(convert(a, f32))
    return convert(m, a.dtype), e


@device
def _frexp32(a):
    small = abs(a) < 1.1754943508222875e-38
    bits = bitcast(select(small, a * 16777216.0, a), u32)
    e = convert((bits >> 23) & 0xFF, i32) - 126 - select(small, i32(24), i32(0))
    m = bitcast((bits & 0x807FFFFF) | 0x3F000000, f32)
    special = (a == 0.0) | ~isfinite(a)
    return select(special, a, m), select(special, i32(0), e)


@device
def _frexp64(a):
    small = abs(a) < 2.2250738585072014e-308
    bits = bitcast(select(small, a * 18014398509481984.0, a), u64)
    e = convert((bits >> 52) & 0x7FF, i32) - 1022 - select(small, i32(54), i32(0))
    m = bitcast((bits & 0x800FFFFFFFFFFFFF) | 0x3FE0000000000000, f64)
    special = (a == 0.0) | ~isfinite(a)
    return select(special, a, m), select(special, i32(0), e)


@device
def nextafter(a, b):
    """The next value after a towards b."""
    if a.dtype.bits == 16:
        return _nextafter(a, b, u16)
    if a.dtype.bits == 32:
        return _nextafter(a, b, u32)
    return _nextafter(a, b, u64)


@device
def _nextafter(a, b, word):
    bits = bitcast(a, word)
    outward = (b > a) == (a > 0.0)
    stepped = bitcast(select(outward, bits + 1, bits - 1), a.dtype)
    least = copysign(bitcast(select(a == 0.0, word(1), bits), a.dtype), b)
    moved = select(a == b, b, select(a == 0.0, least, stepped))
    return select(isnan(a) | isnan(b), a + b, moved)


@device
def remainder(a, b):
    """IEEE remainder: a minus b times the nearest whole quotient, ties to even; exact."""
    x, y = abs(a), abs(b)
    m = fmod(x, y)
    c = y - m
    tie = m - 2.0 * fmod(0.5 * (x - m), y)
    r = select(m < c, m, select(m > c, -c, tie))
    return select(signbit(a), -r, r)


@device
def round_half_even(a):
    return rint(a)


@device
def fdim(a, b):
    return select(a > b, a - b, select(isnan(a) | isnan(b), a + b, 0.0))


@device
def heaviside(a, b):
    return select(isnan(a), a, select(a < 0.0, 0.0, select(a > 0.0, 1.0, b)))


@device
def sinc(a):
    x = a * math.pi
    return select(a == 0.0, 1.0, sin(x) / x)


@device
def logaddexp(a, b):
    """log(exp(a) + exp(b)) without overflow."""
    high, low = max(a, b), min(a, b)
    sum_ = high + log1p(exp(low - high))
    return select(isnan(a) | isnan(b), a + b, select(a == b, a + math.log(2.0), sum_))


@device
def logaddexp2(a, b):
    """log2(2**a + 2**b) without overflow."""
    high, low = max(a, b), min(a, b)
    sum_ = high + log1p(exp2(low - high)) * (1.0 / math.log(2.0))
    return select(isnan(a) | isnan(b), a + b, select(a == b, a + 1.0, sum_))


@device
def gcd(a, b):
    """The greatest common divisor of scalar integers, not negative."""
    a, b = abs(a), abs(b)
    while b != 0:
        a, b = b, a % b
    return abs(a)


@device
def lcm(a, b):
    """The least common multiple of scalar integers; 0 where one is 0."""
    return abs(a // gcd(a, b) * b)
