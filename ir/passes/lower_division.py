"""Division and remainder of 64-bit integers, of ops that are exact on every device that has them.

Some drivers divide 64-bit integers wrongly (NVIDIA's Vulkan compiler, 580.159). Here a quotient is
summed up of estimates in f32, each of which takes 19 bits off the rest; one by a
constant is the upper half of a product with its inverse. Signed operands are brought to unsigned
ones whose quotient, complemented where the signs differ, is the floor.
"""

from __future__ import annotations

from ..core import Value
from ..dtypes import element_of, f32, i64, u64
from .context import Context

_STEPS = 4
# Both conversions, the division (2.5 ulp) and two products err by less than 2**-20 together, so
# that a quotient with this much taken off is never too great, and too small by 2**-19 at most.
_BELOW = 1.0 - 2.0**-20


def floordiv(c: Context, a: Value, b: Value) -> Value:
    """Floor division: x // 0 = x, MIN // -1 = MIN."""
    return _divide(c, a, b)[0]


def mod(c: Context, a: Value, b: Value) -> Value:
    """The remainder with the divisor's sign: x % 0 = 0."""
    return _divide(c, a, b)[1]


def _divide(c: Context, a: Value, b: Value) -> tuple[Value, Value]:
    bits = c.attrs.get("by")
    if isinstance(bits, int):
        return _by_constant(c, a, b, bits)
    one, t = c.k(1, b), element_of(a.type)
    b = c.e("select", c.e("eq", b, c.k(0, b)), one, b)  # x // 1 = x, x % 1 = 0
    if not t.is_signed:
        return _unsigned(c, a, b)
    # With sign(b) as s and n = a * s: a // b is n // |b|, which is ~(~n // |b|) for n below 0.
    sign = c.e("shr", b, c.k(63, b))
    n = c.e("sub", c.e("xor", a, sign), sign)
    # -MIN is MIN in i64, but no number below 0.
    top = c.e("and", n, c.e("not", c.e("and", a, b)))
    flip = c.e("shr", top, c.k(63, top))
    size = c.e("sub", c.e("xor", b, sign), sign)
    quotient, rest = _unsigned(c, c.bits(c.e("xor", n, flip), u64), c.bits(size, u64))
    quotient, rest = (c.e("xor", c.bits(v, i64), flip) for v in (quotient, rest))
    rest = c.e("add", rest, c.e("and", flip, size))
    return quotient, c.e("sub", c.e("xor", rest, sign), sign)


def _unsigned(c: Context, a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient and remainder of u64, b not 0."""
    divisor = c.cast(b, f32)
    inverse = c.e("div", c.k(_BELOW, divisor), divisor)
    quotient: Value | None = None
    for _ in range(_STEPS):
        part = c.cast(c.e("mul", c.cast(a, f32), inverse), u64)
        a = c.e("sub", a, c.e("mul", part, b))
        quotient = part if quotient is None else c.e("add", quotient, part)
    assert quotient is not None
    # By less than b. No selection of x or x + 1: NVIDIA's compiler (580.159) inverted the lowest
    # bit of such quotients of constants where that bit alone was used.
    more = c.cast(c.e("ge", a, b), u64)
    rest = c.e("sub", a, c.e("and", b, c.e("neg", more)))
    return c.e("add", quotient, more), rest


def _by_constant(c: Context, a: Value, b: Value, bits: int) -> tuple[Value, Value]:
    t = element_of(a.type)
    divisor = bits - (1 << 64) if t.is_signed and bits >> 63 else bits
    if divisor == 0:
        return a, c.k(0, a)
    if divisor > 0 and not divisor & (divisor - 1):
        log = divisor.bit_length() - 1
        return c.e("shr", a, c.k(log, a)), c.e("and", a, c.k(divisor - 1, a))
    if not t.is_signed:
        quotient = _by(c, a, divisor)
    else:
        n, flip = a, c.e("shr", a, c.k(63, a))
        if divisor < 0:
            n = c.e("neg", a)
            flip = c.e("select", c.e("gt", a, c.k(0, a)), c.k(-1, a), c.k(0, a))
        part = _by(c, c.bits(c.e("xor", n, flip), u64), abs(divisor))
        quotient = c.e("xor", c.bits(part, i64), flip)
    return quotient, c.e("sub", a, c.e("mul", quotient, b))


def _by(c: Context, a: Value, divisor: int) -> Value:
    """u64 by a constant: Granlund and Montgomery, Division by Invariant Integers using
    Multiplication (1994), figure 4.1."""
    log = (divisor - 1).bit_length()
    if divisor == 1 << log:
        return c.e("shr", a, c.k(log, a))
    inverse = ((1 << 64) * ((1 << log) - divisor)) // divisor + 1
    high = c.e("mul_high", a, c.k(inverse, a))
    rest = c.e("shr", c.e("sub", a, high), c.k(1, a))
    return c.e("shr", c.e("add", high, rest), c.k(log - 1, a))
