"""Integer and bit ops made of others: any width, scalars and vectors, exactly `ir.ops.meaning`."""

from __future__ import annotations

from ..core import Value
from ..dtypes import element_of, i32, i64, u32, u64, unsigned
from .context import Context


def dot4(c: Context, a: Value, b: Value, acc: Value) -> Value:
    total = c.bits(acc, i32)
    for lane in range(4):
        x, y = _byte(c, a, lane), _byte(c, b, lane)
        total = c.e("add", total, c.e("mul", x, y))
    return c.bits(total, element_of(acc.type))


def _byte(c: Context, word: Value, lane: int) -> Value:
    """Lane of four packed bytes as i32, extended as the word's type says."""
    left = c.e("shl", word, c.k(24 - 8 * lane, word)) if lane < 3 else word
    return c.bits(c.e("shr", left, c.k(24, word)), i32)


def mul_high(c: Context, a: Value, b: Value) -> Value:
    t = element_of(a.type)
    wide = {8: i32, 16: i32 if t.is_signed else u32}.get(t.bits)
    if t.bits == 32 and {"i64", "u64"} <= c.support.arithmetic:
        wide = i64 if t.is_signed else u64
    if wide is not None:
        product = c.e("mul", c.cast(a, wide), c.cast(b, wide))
        return c.cast(c.e("shr", product, c.k(t.bits, product)), t)
    word = unsigned(t)
    x, y = c.bits(a, word), c.bits(b, word)
    high = _mul_high_unsigned(c, x, y)
    if t.is_signed:  # take away what reading a sign bit as a value bit added
        zero = c.k(0, a)
        minus = c.e("select", c.e("lt", a, zero), y, c.k(0, x))
        high = c.e("sub", high, minus)
        minus = c.e("select", c.e("lt", b, zero), x, c.k(0, x))
        high = c.e("sub", high, minus)
    return c.bits(high, t)


def _mul_high_unsigned(c: Context, x: Value, y: Value) -> Value:
    half = element_of(x.type).bits // 2
    mask, shift = c.k((1 << half) - 1, x), c.k(half, x)
    x0, x1 = c.e("and", x, mask), c.e("shr", x, shift)
    y0, y1 = c.e("and", y, mask), c.e("shr", y, shift)
    low = c.e("shr", c.e("mul", x0, y0), shift)
    middle = c.e("add", c.e("mul", x1, y0), low)
    other = c.e("add", c.e("mul", x0, y1), c.e("and", middle, mask))
    high = c.e("add", c.e("mul", x1, y1), c.e("shr", middle, shift))
    return c.e("add", high, c.e("shr", other, shift))


def _by_width(c: Context, name: str, a: Value) -> Value | None:
    """The op through its u32 form; None where `a` is u32 itself."""
    t = element_of(a.type)
    if t == u32:
        return None
    x = c.bits(a, unsigned(t))
    if t.bits == 32:
        return c.bits(c.e(name, x), t)
    if t.bits < 32:
        word = _ADJUST[name](c, c.cast(x, u32), t.bits)
    else:
        low, high = c.cast(x, u32), c.cast(c.e("shr", x, c.k(32, x)), u32)
        return c.bits(_JOIN[name](c, low, high), t)
    return c.bits(c.cast(word, unsigned(t)), t)


def popcount(c: Context, a: Value) -> Value:
    if (done := _by_width(c, "popcount", a)) is not None:
        return done
    k = c.k
    x = c.e("sub", a, c.e("and", c.e("shr", a, k(1, a)), k(0x55555555, a)))
    low = c.e("and", x, k(0x33333333, a))
    x = c.e("add", low, c.e("and", c.e("shr", x, k(2, a)), k(0x33333333, a)))
    x = c.e("and", c.e("add", x, c.e("shr", x, k(4, a))), k(0x0F0F0F0F, a))
    return c.e("shr", c.e("mul", x, k(0x01010101, a)), k(24, a))


def clz(c: Context, a: Value) -> Value:
    if (done := _by_width(c, "clz", a)) is not None:
        return done
    for step in (1, 2, 4, 8, 16):  # every bit below the first one becomes one
        a = c.e("or", a, c.e("shr", a, c.k(step, a)))
    return c.e("popcount", c.e("not", a))


def ctz(c: Context, a: Value) -> Value:
    if (done := _by_width(c, "ctz", a)) is not None:
        return done
    below = c.e("and", c.e("not", a), c.e("sub", a, c.k(1, a)))
    return c.e("popcount", below)


def reverse_bits(c: Context, a: Value) -> Value:
    if (done := _by_width(c, "reverse_bits", a)) is not None:
        return done
    for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        high = c.e("and", c.e("shr", a, c.k(step, a)), c.k(mask, a))
        a = c.e("or", high, c.e("shl", c.e("and", a, c.k(mask, a)), c.k(step, a)))
    return c.e("or", c.e("shr", a, c.k(16, a)), c.e("shl", a, c.k(16, a)))


# The u32 op on a zero-extended word of `bits` bits, made the op on that many bits.
_ADJUST = {
    "popcount": lambda c, x, bits: c.e("popcount", x),
    "clz": lambda c, x, bits: c.e("sub", c.e("clz", x), c.k(32 - bits, x)),
    "ctz": lambda c, x, bits: c.e("ctz", c.e("or", x, c.k(1 << bits, x))),
    "reverse_bits": lambda c, x, bits: c.e("shr", c.e("reverse_bits", x), c.k(32 - bits, x)),
}


def _first_of(c: Context, name: str, near: Value, far: Value) -> Value:
    beyond = c.e("add", c.e(name, far), c.k(32, far))
    return c.cast(c.e("select", c.e("eq", near, c.k(0, near)), beyond, c.e(name, near)), u64)


def _reversed(c: Context, low: Value, high: Value) -> Value:
    top = c.cast(c.e("reverse_bits", low), u64)
    return c.e("or", c.e("shl", top, c.k(32, top)), c.cast(c.e("reverse_bits", high), u64))


# The op on 64 bits from its u32 form on both halves.
_JOIN = {
    "popcount": lambda c, low, high: c.cast(
        c.e("add", c.e("popcount", low), c.e("popcount", high)), u64
    ),
    "clz": lambda c, low, high: _first_of(c, "clz", high, low),
    "ctz": lambda c, low, high: _first_of(c, "ctz", low, high),
    "reverse_bits": _reversed,
}
