"""What elementwise ops mean, in numpy: the definition that interpreter and fold pass share.

Each function takes numpy arrays (f16 as float16, bf16 and f8 as float32) and the result dtype
`out`. Integer arithmetic wraps; no input is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .. import float8
from ..dtypes import DType
from .log_gamma import log_gamma

Array = np.ndarray


def _native(fn: Callable[..., Array]) -> Callable[..., Array]:
    """A numpy function, silent about overflow, invalid operands and division by zero."""

    def meaning(*args: Array, out: DType) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(fn(*args))

    return meaning


def _wide(fn: Callable[..., Array]) -> Callable[..., Array]:
    """A function evaluated in float64 and rounded once to the operand's type."""

    def meaning(*args: Array, out: DType) -> Array:
        kind = args[0].dtype
        with np.errstate(all="ignore"):
            wide = (a.astype(np.float64) if a.dtype.kind == "f" else a for a in args)
            return np.asarray(fn(*wide)).astype(kind)

    return meaning


def _scalar(fn: Callable[..., float]) -> Callable[..., Array]:
    """A function of Python's math module applied element by element in float64."""

    def safe(*values: float) -> float:
        try:
            return fn(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.nan

    vector = np.vectorize(safe, otypes=[np.float64])
    return _wide(lambda *args: vector(*args) if args[0].size else args[0])


def floordiv(a: Array, b: Array, *, out: DType) -> Array:
    """Floor division; x//0 = x and MIN//-1 = MIN."""
    with np.errstate(all="ignore"):
        wraps = (a == np.iinfo(a.dtype).min) & (b == -1) if a.dtype.kind == "i" else False
        safe = np.where((b == 0) | wraps, np.ones_like(b), b)
        return np.where(b == 0, a, np.floor_divide(a, safe)).astype(a.dtype)


def mod(a: Array, b: Array, *, out: DType) -> Array:
    """The remainder with the divisor's sign; x%0 = 0."""
    with np.errstate(all="ignore"):
        trivial = (b == 0) | (b == -1) if a.dtype.kind == "i" else b == 0
        safe = np.where(trivial, np.ones_like(b), b)
        return np.where(b == 0, np.zeros_like(a), np.mod(a, safe)).astype(a.dtype)


def _extreme(fn: Callable[..., Array], a: Array, b: Array) -> Array:
    # Not np.fmin: what it makes of a signaling NaN differs between its vector and its scalar code.
    if a.dtype.kind != "f":
        return np.asarray(fn(a, b))
    with np.errstate(all="ignore"):
        return np.asarray(np.where(np.isnan(a), b, np.where(np.isnan(b), a, fn(a, b))))


def minimum(a: Array, b: Array, *, out: DType) -> Array:
    """IEEE minimumNumber: a NaN operand loses. The sign of a zero result is unspecified."""
    return _extreme(np.minimum, a, b)


def maximum(a: Array, b: Array, *, out: DType) -> Array:
    """IEEE maximumNumber: a NaN operand loses. The sign of a zero result is unspecified."""
    return _extreme(np.maximum, a, b)


def shift_left(a: Array, n: Array, *, out: DType) -> Array:
    return np.asarray(np.left_shift(a, n & np.asarray(out.bits - 1, a.dtype)))


def shift_right(a: Array, n: Array, *, out: DType) -> Array:
    """Arithmetic for signed types, logical for unsigned ones; the count is modulo the width."""
    return np.asarray(np.right_shift(a, n & np.asarray(out.bits - 1, a.dtype)))


def _bits(a: Array) -> Array:
    """The operand as an array of its bits, most significant first, along a new last axis."""
    width = a.dtype.itemsize * 8
    words = a.view(f"u{a.dtype.itemsize}")
    places = np.arange(width - 1, -1, -1, dtype=words.dtype)
    return np.asarray((words[..., None] >> places) & words.dtype.type(1)).astype(bool)


def popcount(a: Array, *, out: DType) -> Array:
    return np.asarray(_bits(a).sum(-1)).astype(a.dtype)


def clz(a: Array, *, out: DType) -> Array:
    """Leading zero bits; the width for 0."""
    bits = _bits(a)
    places = np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1])
    return np.asarray(places).astype(a.dtype)


def ctz(a: Array, *, out: DType) -> Array:
    """Trailing zero bits; the width for 0."""
    bits = _bits(a)[..., ::-1]
    places = np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1])
    return np.asarray(places).astype(a.dtype)


def reverse_bits(a: Array, *, out: DType) -> Array:
    bits = _bits(a)
    words = np.zeros(a.shape, f"u{a.dtype.itemsize}")
    for place in range(bits.shape[-1]):
        words |= bits[..., place].astype(words.dtype) << words.dtype.type(place)
    return words.view(a.dtype)


def mul_high(a: Array, b: Array, *, out: DType) -> Array:
    """The upper half of the double-width product."""
    if out.bits < 64:
        wide = np.int64 if out.is_signed else np.uint64
        return np.asarray((a.astype(wide) * b.astype(wide)) >> wide(out.bits)).astype(a.dtype)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    with np.errstate(over="ignore"):
        high = _unsigned_high(x, y)
        if out.is_signed:  # a negative operand stands for itself minus 2**64
            zero = np.uint64(0)
            high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return np.asarray(high).astype(a.dtype)


def _unsigned_high(x: Array, y: Array) -> Array:
    """The upper 64 bits of the product of two uint64, from products of their halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x_high, x_low, y_high, y_low = x >> half, x & mask, y >> half, y & mask
    middle = x_high * y_low + ((x_low * y_low) >> half)
    other = x_low * y_high + (middle & mask)
    return np.asarray(x_high * y_high + (middle >> half) + (other >> half))


def dot4(a: Array, b: Array, acc: Array, *, out: DType) -> Array:
    """acc + the sum of four products of 8-bit lanes; signedness of lanes as of each word."""
    total = acc.astype(np.int64)
    for lane in range(4):
        x, y = (_byte(word, lane) for word in (a, b))
        total = total + x * y
    return np.asarray(total & 0xFFFFFFFF).astype(np.uint32).view(acc.dtype)


def _byte(word: Array, lane: int) -> Array:
    byte = (word >> word.dtype.type(8 * lane)) & word.dtype.type(0xFF)
    wide = np.asarray(byte).astype(np.int64)
    return np.where(wide >= 128, wide - 256, wide) if word.dtype.kind == "i" else wide


def select(c: Array, a: Array, b: Array, *, out: DType) -> Array:
    if c.ndim < a.ndim:
        c = c[..., None]
    return np.where(c, a, b)


def convert(a: Array, *, out: DType) -> Array:
    """Integers wrap; float to integer truncates, saturates and maps NaN to 0; floats round to
    nearest even, 8-bit ones as `ir.float8` says; a bool is `!= 0` (NaN is true)."""
    with np.errstate(all="ignore"):
        if out.is_bool:
            return np.asarray(a != 0)
        if out.is_int and a.dtype.kind == "f":
            return _float_to_int(a, out)
        if not out.computes:
            return float8.decode(float8.rounded(a, out.name), out.name)
        if out.name == "bf16":
            return round_bf16(a) if a.dtype.kind == "f" else _int_to_bf16(a)
        if out.is_float and a.dtype.kind in "iu" and out.name == "f16":
            return _odd_float64(a).astype(np.float16)
        return a.astype(out.storage)


def _float_to_int(a: Array, out: DType) -> Array:
    whole = np.trunc(np.where(np.isnan(a), 0, a).astype(np.float64))
    low, high = float(out.min), float(out.max)  # high rounds up to 2**63 or 2**64 where inexact
    inside = np.where((whole > low) & (whole < high), whole, 0).astype(out.storage)
    result = np.where(whole >= high, out.storage.type(out.max), inside)
    return np.where(whole <= low, out.storage.type(out.min), result).astype(out.storage)


def _int_to_bf16(a: Array) -> Array:
    if a.dtype.kind == "b" or a.dtype.itemsize < 4:
        return round_bf16(a.astype(np.float64))
    return round_bf16(_odd_float64(a))


def _odd_float64(a: Array) -> Array:
    """A float64 with the integer's value, sticky in the last place where it does not fit."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64)
    words, low = a.view(np.uint64), np.uint64(0x7FF)
    magnitude = np.where(a < 0, ~words + np.uint64(1), words)
    sticky = np.where((magnitude & low) != 0, low + np.uint64(1), np.uint64(0))
    big = magnitude >= np.uint64(1 << 53)
    kept = np.where(big, (magnitude & ~low) | sticky, magnitude)
    value = kept.astype(np.float64)
    return np.where(a < 0, -value, value)


def round_bf16(a: Array) -> Array:
    """Round float32 or float64 values to the nearest bf16, ties to even, as float32."""
    with np.errstate(all="ignore"):
        return _round_bf16(np.asarray(a))


def _round_bf16(a: Array) -> Array:
    single = a.astype(np.float32)
    words = np.ascontiguousarray(single).view(np.uint32).copy().reshape(single.shape)
    if a.dtype == np.float64:  # round to odd first, so that rounding twice is rounding once
        back = single.astype(np.float64)
        tie = ((words & np.uint32(0xFFFF)) == 0x8000) & (back != a) & np.isfinite(back)
        up = np.abs(a) > np.abs(back)
        words = np.where(tie, np.where(up, words + np.uint32(1), words - np.uint32(1)), words)
    nan = np.isnan(single)
    rounded = words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))
    kept = np.where(nan, np.uint32(0x7FC00000), rounded & np.uint32(0xFFFF0000)).astype(np.uint32)
    return kept.view(np.float32)


def fma(a: Array, b: Array, c: Array, *, out: DType) -> Array:
    """a * b + c with one rounding."""
    with np.errstate(all="ignore"):
        if a.dtype == np.float64:
            return _fma64(a, b, c)
        wide = a.astype(np.float64) * b.astype(np.float64)  # exact: 24 + 24 bits
        total = wide + c.astype(np.float64)
        error = _sum_error(wide, c.astype(np.float64), total)
        return _to_odd(total, error).astype(a.dtype)


def _sum_error(a: Array, b: Array, s: Array) -> Array:
    """What a + b lost when it was rounded to s (Knuth's two-sum)."""
    bb = s - a
    return np.asarray((a - (s - bb)) + (b - bb))


def _to_odd(total: Array, error: Array) -> Array:
    """Round to odd: make the last bit sticky, so that a second rounding is right."""
    bits = np.ascontiguousarray(total).view(np.int64).reshape(total.shape)
    inexact = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
    away = (error > 0) == (total > 0)
    moved = np.where(inexact, np.where(away, bits + 1, bits - 1), bits)
    return moved.view(np.float64)


def _fma64(a: Array, b: Array, c: Array) -> Array:
    def one(x: float, y: float, z: float) -> float:
        if not (math.isfinite(x) and math.isfinite(y)):
            return x * y + z
        if not math.isfinite(z):  # the product is finite, even where x * y rounds to infinity
            return z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            return x * y + z
        try:
            return exact.numerator / exact.denominator
        except OverflowError:
            return math.inf if exact > 0 else -math.inf

    return np.vectorize(one, otypes=[np.float64])(a, b, c) if a.size else a


def sign(a: Array, *, out: DType) -> Array:
    """-1, 0 or 1; NaN stays NaN."""
    with np.errstate(all="ignore"):
        return np.asarray(np.sign(a))


def absolute(a: Array, *, out: DType) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(a))


def ldexp(a: Array, n: Array, *, out: DType) -> Array:
    """a * 2**n, rounded once."""
    with np.errstate(all="ignore"):
        wide = np.ldexp(a.astype(np.float64), np.clip(n, -4000, 4000))
        return np.asarray(wide).astype(a.dtype)


add, sub, mul = _native(np.add), _native(np.subtract), _native(np.multiply)
neg, invert = _native(np.negative), _native(np.invert)
div = _native(np.divide)
and_, or_, xor = _native(np.bitwise_and), _native(np.bitwise_or), _native(np.bitwise_xor)
eq, ne, lt = _native(np.equal), _native(np.not_equal), _native(np.less)
le, gt, ge = _native(np.less_equal), _native(np.greater), _native(np.greater_equal)
sqrt = _native(np.sqrt)
floor, ceil, trunc, rint = _native(np.floor), _native(np.ceil), _native(np.trunc), _native(np.rint)
copysign, fmod = _native(np.copysign), _native(np.fmod)
isnan, isinf, isfinite = _native(np.isnan), _native(np.isinf), _native(np.isfinite)
rsqrt = _wide(lambda a: 1.0 / np.sqrt(a))
exp, exp2, expm1 = _wide(np.exp), _wide(np.exp2), _wide(np.expm1)
log, log2, log10, log1p = _wide(np.log), _wide(np.log2), _wide(np.log10), _wide(np.log1p)
sin, cos, tan = _wide(np.sin), _wide(np.cos), _wide(np.tan)
asin, acos, atan = _wide(np.arcsin), _wide(np.arccos), _wide(np.arctan)
sinh, cosh, tanh = _wide(np.sinh), _wide(np.cosh), _wide(np.tanh)
asinh, acosh, atanh = _wide(np.arcsinh), _wide(np.arccosh), _wide(np.arctanh)
cbrt, hypot, atan2, pow_ = _wide(np.cbrt), _wide(np.hypot), _wide(np.arctan2), _wide(np.power)
erf, erfc = _scalar(math.erf), _scalar(math.erfc)


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


gamma, lgamma = _scalar(_gamma), _scalar(log_gamma)
