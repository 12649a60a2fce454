"""Rounding to types that a target does not have, in ops that it has.

A value of a narrow type is held in a wide one (`Support.register`) that represents it exactly:
i8 and i16 sign-extended in i32, u8 and u16 zero-extended in u32, bf16 and f16 in f32. These
functions bring the result of a wide op back into the narrow type's set of values. All take
scalars and vectors.
"""

from __future__ import annotations

import math

from ..builder import Builder
from ..core import Value
from ..dtypes import DType, element_of, f16, f32, f64, i32, u32, u64, with_element


class Wide:
    """Emits into a builder; `e`, `k` and `cast` are its shorthands."""

    def __init__(self, builder: Builder, half_type: bool) -> None:
        self.b = builder
        self.half_type = half_type  # whether the target converts to and from a 16-bit float type

    def e(self, name: str, *operands: Value) -> Value:
        return self.b.emit(name, *operands)

    def k(self, number: float, like: Value) -> Value:
        return self.b.const(number, like.type)

    def cast(self, v: Value, element: DType) -> Value:
        t = with_element(v.type, element)
        return v if t == v.type else self.b.emit("convert", v, type=t)

    def bits(self, v: Value, element: DType) -> Value:
        t = with_element(v.type, element)
        return v if t == v.type else self.b.emit("bitcast", v, type=t)

    def select(self, c: Value, a: Value, b: Value) -> Value:
        return self.b.emit("select", c, a, b)

    # into the set of values of a narrow type

    def wrap(self, v: Value, narrow: DType) -> Value:
        """An i32 or u32 modulo 2**bits, extended as `narrow` is."""
        if not narrow.is_signed:
            return self.e("and", v, self.k(narrow.max, v))
        up = self.k(32 - narrow.bits, v)
        return self.e("shr", self.e("shl", v, up), up)

    def round(self, v: Value, narrow: DType) -> Value:
        """An f32 rounded to nearest even in bf16 or f16."""
        if narrow.name == "bf16":
            return self.round_bf16(v)
        if self.half_type:
            return self.cast(self.cast(v, f16), f32)
        return self.half_to_float(self.float_to_half(v))

    def round_bf16(self, v: Value) -> Value:
        """f32 to the nearest bf16, ties to even, as f32; the quiet NaN for every NaN."""
        word = self.bits(v, u32)
        odd = self.e("and", self.e("shr", word, self.k(16, word)), self.k(1, word))
        up = self.e("add", self.e("add", word, self.k(0x7FFF, word)), odd)
        kept = self.e("and", up, self.k(0xFFFF0000, word))
        # By its bits: NVIDIA's compiler knows no NaNs, and its own, 0x7FFFFFFF, would become -0.
        size = self.e("and", word, self.k(0x7FFFFFFF, word))
        nan = self.e("gt", size, self.k(0x7F800000, word))
        return self.bits(self.select(nan, self.k(0x7FC00000, word), kept), f32)

    # 16-bit patterns in u32

    def pattern(self, v: Value, narrow: DType) -> Value:
        """The bits of a held value, zero-extended in u32."""
        if narrow.name == "bf16":
            word = self.bits(v, u32)
            return self.e("shr", word, self.k(16, word))
        if narrow.name == "f16":
            return self.float_to_half(v)
        word = self.bits(v, u32)
        if not narrow.is_signed:
            return word
        return self.e("and", word, self.k((1 << narrow.bits) - 1, word))

    def unpattern(self, word: Value, narrow: DType) -> Value:
        """The held value of a bit pattern, which is zero-extended in u32."""
        if narrow.name == "bf16":
            return self.bits(self.e("shl", word, self.k(16, word)), f32)
        if narrow.name == "f16":
            return self.half_to_float(word)
        return self.wrap(self.bits(word, i32), narrow) if narrow.is_signed else word

    def half_to_float(self, word: Value) -> Value:
        """The f32 with the value of f16 bits."""
        size = self.e("and", word, self.k(0x7FFF, word))
        moved = self.e("shl", size, self.k(13, word))
        normal = self.e("add", moved, self.k(112 << 23, word))
        large = self.e("ge", size, self.k(0x7C00, word))  # infinity and NaN
        normal = self.select(large, self.e("or", moved, self.k(0x7F800000, word)), normal)
        number = self.cast(size, f32)
        tiny = self.bits(self.e("mul", number, self.k(2.0**-24, number)), u32)
        small = self.e("lt", size, self.k(0x0400, word))
        magnitude = self.select(small, tiny, normal)
        sign = self.e("shl", self.e("and", word, self.k(0x8000, word)), self.k(16, word))
        return self.bits(self.e("or", magnitude, sign), f32)

    def float_to_half(self, v: Value) -> Value:
        """f32 rounded to nearest even in f16, as bits in u32; the quiet NaN for every NaN."""
        word = self.bits(v, u32)
        size = self.e("and", word, self.k(0x7FFFFFFF, word))
        odd = self.e("and", self.e("shr", size, self.k(13, word)), self.k(1, word))
        # The exponent moves from bias 127 to 15; the carry of the rounding runs into it.
        moved = self.e("sub", size, self.k((112 << 23) - 0xFFF, word))
        normal = self.e("shr", self.e("add", moved, odd), self.k(13, word))
        # Below the normal numbers: the sum with 1/2 has the f16 denormal in its last bits.
        half = self.b.const(0.5, v.type)
        fixed = self.bits(self.e("add", self.bits(size, f32), half), u32)
        small = self.e("sub", fixed, self.k(0x3F000000, word))
        result = self.select(self.e("lt", size, self.k(113 << 23, word)), small, normal)
        over = self.e("ge", size, self.k(0x477FF000, word))
        result = self.select(over, self.k(0x7C00, word), result)
        nan = self.e("gt", size, self.k(0x7F800000, word))
        result = self.select(nan, self.k(0x7E00, word), result)
        sign = self.e("and", self.e("shr", word, self.k(16, word)), self.k(0x8000, word))
        return self.e("or", result, sign)

    # conversions to narrow types

    def to_float(self, v: Value, narrow: DType, small: bool = False) -> Value:
        """Convert any wide value to bf16 or f16, rounded once, held in f32. small: an integer
        that f32 represents exactly."""
        source = element_of(v.type)
        if source.name == "f64":
            return self._from_f64(v, narrow)
        if source.bits == 64 and not source.is_bool:
            return self._from_i64(v, narrow)
        if source.is_int and small:
            return self.round(self.cast(v, f32), narrow)
        if source.is_int:
            return self.round(self._odd(v, 24), narrow)
        return self.round(self.cast(v, f32), narrow)

    def _odd(self, v: Value, keep: int) -> Value:
        """A 32-bit integer as an f32 that rounds to fewer bits as the integer itself does."""
        sign = None
        if element_of(v.type).is_signed:
            sign = self.e("lt", v, self.k(0, v))
            v = self.bits(self.e("abs", v), u32)
        rest = self.e("and", v, self.k((1 << (32 - keep)) - 1, v))
        top = self.e("sub", v, rest)
        sticky = self.e("or", top, self.k(1 << (32 - keep), v))
        cut = self.select(self.e("ne", rest, self.k(0, v)), sticky, top)
        big = self.e("ge", v, self.k(1 << keep, v))
        value = self.cast(self.select(big, cut, v), f32)
        return value if sign is None else self.select(sign, self.e("neg", value), value)

    def _from_i64(self, v: Value, narrow: DType) -> Value:
        sign = None
        if element_of(v.type).is_signed:
            sign = self.e("lt", v, self.k(0, v))
            v = self.bits(self.e("abs", v), u64)
        # The leading 32 bits, made odd where a bit below them is set; then the power of two again.
        rest = self.cast(self.e("shr", v, self.k(32, v)), u32)
        count = self.k(0, rest)
        for step in (16, 8, 4, 2, 1):
            shorter = self.e("shr", rest, self.k(step, rest))
            more = self.e("ne", shorter, self.k(0, rest))
            rest = self.select(more, shorter, rest)
            count = self.select(more, self.e("add", count, self.k(step, count)), count)
        count = self.e("add", count, rest)
        shift = self.cast(count, u64)
        kept = self.e("shr", v, shift)
        lost = self.e("ne", self.e("shl", kept, shift), v)
        top = self.cast(kept, u32)
        top = self.select(lost, self.e("or", top, self.k(1, top)), top)
        exponent = self.e("add", count, self.k(127, count))
        factor = self.bits(self.e("shl", exponent, self.k(23, count)), f32)
        value = self.round(self.e("mul", self._odd(top, 24), factor), narrow)
        return value if sign is None else self.select(sign, self.e("neg", value), value)

    def _from_f64(self, v: Value, narrow: DType) -> Value:
        if narrow.name == "f16" and self.half_type:
            return self.cast(self.cast(v, f16), f32)
        return self.round(self.odd_single(v), narrow)

    def odd_single(self, v: Value) -> Value:
        """An f64 as an f32 that rounds to fewer bits as the f64 itself does."""
        single = self.cast(v, f32)
        back = self.cast(single, f64)
        word = self.bits(single, u32)
        # Rounding twice differs only at a tie that is not one in f64: make the f32 odd there.
        inexact = self.e("ne", back, v)
        even = self.e("eq", self.e("and", word, self.k(1, word)), self.k(0, word))
        finite = self.e("lt", self.e("abs", single), self.k(math.inf, single))
        fix = self.e("and", self.e("and", inexact, even), finite)
        away = self.e("gt", self.e("abs", v), self.e("abs", back))
        moved = self.select(
            away, self.e("add", word, self.k(1, word)), self.e("sub", word, self.k(1, word))
        )
        return self.bits(self.select(fix, moved, word), f32)
