"""Conversions between dtypes, on scalars and vectors, without library calls.

f16 and bf16 are bit patterns in 16-bit integers (`types`). Rounding is to nearest even. A value
that does not fit f32 exactly reaches a 16-bit type through rounding to odd, so that rounding twice
is rounding once.
"""

from __future__ import annotations

from ...ir.dtypes import DType, bf16, f16, f32, f64, i16, i32, u32
from .text import Function
from .types import Ty


class Converter:
    """Emits conversions into a function. native_f16: the target converts f16 in hardware;
    native_bf16: it rounds f32 to bf16 there."""

    def __init__(self, f: Function, native_f16: bool, native_bf16: bool = False) -> None:
        self.f, self.native_f16, self.native_bf16 = f, native_f16, native_bf16

    def convert(self, a: str, t: Ty, dtype: DType) -> str:
        """The value `a` of type `t` as `dtype`."""
        source, f = t.dtype, self.f
        if source == dtype:
            return a
        if dtype.is_bool:
            return self._to_bool(a, t)
        if source.is_bool:
            return self._from_bool(a, t, dtype)
        if source.is_int and dtype.is_int:
            return self._int_to_int(a, t, dtype)
        if source.is_int:
            return self._int_to_float(a, t, dtype)
        if source.bits == 16:
            return self.convert(self.widen(a, t), t.of(f32), dtype)
        if dtype.is_int:
            return self._float_to_int(a, t, dtype)
        if dtype.bits == 16:
            single = a if source == f32 else self._odd_f32(a, t)
            return self.narrow(single, t.of(f32), dtype)
        word = "fpext" if dtype == f64 else "fptrunc"
        return f.value(f"{word} {t.text} {a} to {t.of(dtype).text}")

    def bits(self, a: str, t: Ty, dtype: DType) -> str:
        """The same bits as another dtype of the same width."""
        if t.text == t.of(dtype).text:
            return a
        return self.f.value(f"bitcast {t.text} {a} to {t.of(dtype).text}")

    def _to_bool(self, a: str, t: Ty) -> str:
        if t.dtype.is_int:
            return self.f.value(f"icmp ne {t.text} {a}, {t.const(0)}")
        if t.dtype.bits == 16:  # zero of either sign
            a, t = self.f.value(f"and {t.text} {a}, {t.of(i16).const(0x7FFF)}"), t.of(i16)
            return self._to_bool(a, t)
        return self.f.value(f"fcmp une {t.text} {a}, {t.const(0)}")

    def _from_bool(self, a: str, t: Ty, dtype: DType) -> str:
        to = t.of(dtype)
        if dtype.is_int:
            return self.f.value(f"zext {t.text} {a} to {to.text}")
        one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF << 52}[dtype.name]
        return self.f.value(
            f"select {t.text} {a}, {to.text} {to.const(one)}, {to.text} {to.const(0)}"
        )

    def _int_to_int(self, a: str, t: Ty, dtype: DType) -> str:
        if dtype.bits == t.dtype.bits:
            return a
        word = "trunc" if dtype.bits < t.dtype.bits else "sext" if t.dtype.is_signed else "zext"
        return self.f.value(f"{word} {t.text} {a} to {t.of(dtype).text}")

    def _int_to_float(self, a: str, t: Ty, dtype: DType) -> str:
        word = "sitofp" if t.dtype.is_signed else "uitofp"
        if dtype.bits > 16:
            return self.f.value(f"{word} {t.text} {a} to {t.of(dtype).text}")
        if t.dtype.bits <= 16:  # exact in f32
            single = self.f.value(f"{word} {t.text} {a} to {t.of(f32).text}")
            return self.narrow(single, t.of(f32), dtype)
        if t.dtype.bits == 64:
            a = self._sticky(a, t)
        wide = self.f.value(f"{word} {t.text} {a} to {t.of(f64).text}")
        return self.narrow(self._odd_f32(wide, t.of(f64)), t.of(f32), dtype)

    def _sticky(self, a: str, t: Ty) -> str:
        """A 64-bit integer that f64 holds exactly and that rounds to 16 bits as `a` does."""
        f, signed = self.f, t.dtype.is_signed
        magnitude = a
        if signed:
            magnitude = f.call(f"llvm.abs.{t.suffix}", t.text, (t.text, a), ("i1", "false"))
        big = f.value(f"icmp uge {t.text} {magnitude}, {t.const(1 << 53)}")
        low = f.value(f"and {t.text} {magnitude}, {t.const(0x7FF)}")
        any_ = f.value(f"icmp ne {t.text} {low}, {t.const(0)}")
        bit = f.value(
            f"select {t.wrap('i1')} {any_}, {t.text} {t.const(0x800)}, {t.text} {t.const(0)}"
        )
        high = f.value(f"and {t.text} {magnitude}, {t.const(~0x7FF)}")
        kept = f.value(f"or {t.text} {high}, {bit}")
        value = f.value(f"select {t.wrap('i1')} {big}, {t.text} {kept}, {t.text} {magnitude}")
        if not signed:
            return value
        negative = f.value(f"icmp slt {t.text} {a}, {t.const(0)}")
        minus = f.value(f"sub {t.text} {t.const(0)}, {value}")
        return f.value(f"select {t.wrap('i1')} {negative}, {t.text} {minus}, {t.text} {value}")

    def _float_to_int(self, a: str, t: Ty, dtype: DType) -> str:
        # Narrow types go through i32, whose saturation costs least, and are clamped there.
        through = i32 if dtype.bits < 32 else dtype
        sign = "s" if through.is_signed else "u"
        to = t.of(through)
        name = f"llvm.fpto{sign}i.sat.{to.suffix}.{t.suffix}"
        whole = self.f.call(name, to.text, (t.text, a))
        if through == dtype:
            return whole
        for name, bound in (("smax", dtype.min), ("smin", dtype.max)):
            args = (to.text, whole), (to.text, to.const(bound))
            whole = self.f.call(f"llvm.{name}.{to.suffix}", to.text, *args)
        return self.f.value(f"trunc {to.text} {whole} to {t.of(dtype).text}")

    def _odd_f32(self, a: str, t: Ty) -> str:
        """An f64 as f32, truncated, with the last bit set where that was inexact."""
        f, s, w = self.f, t.of(f32), t.of(u32)
        near = f.value(f"fptrunc {t.text} {a} to {s.text}")
        back = f.value(f"fpext {s.text} {near} to {t.text}")
        bits = self.bits(near, s, u32)
        inexact = f.value(f"fcmp one {t.text} {a}, {back}")
        mags = [f.call(f"llvm.fabs.{t.suffix}", t.text, (t.text, x)) for x in (a, back)]
        above = f.value(f"fcmp ogt {t.text} {mags[1]}, {mags[0]}")
        less = f.value(f"sub {w.text} {bits}, {w.const(1)}")
        cut = f.value(f"select {w.wrap('i1')} {above}, {w.text} {less}, {w.text} {bits}")
        odd = f.value(f"or {w.text} {cut}, {w.const(1)}")
        out = f.value(f"select {w.wrap('i1')} {inexact}, {w.text} {odd}, {w.text} {bits}")
        return self.bits(out, w, f32)

    def widen(self, a: str, t: Ty) -> str:
        """An f16 or bf16 as f32; exact."""
        f, s, w = self.f, t.of(f32), t.of(u32)
        if t.dtype == f16 and self.native_f16:
            half = f.value(f"bitcast {t.text} {a} to {t.wrap('half')}")
            return f.value(f"fpext {t.wrap('half')} {half} to {s.text}")
        word = f.value(f"zext {t.text} {a} to {w.text}")
        if t.dtype == bf16:
            return self.bits(f.value(f"shl {w.text} {word}, {w.const(16)}"), w, f32)
        return self._widen_f16(word, w)

    def _widen_f16(self, word: str, w: Ty) -> str:
        f, s, c = self.f, w.of(f32), w.wrap("i1")
        body = f.value(f"and {w.text} {word}, {w.const(0x7FFF)}")
        body = f.value(f"shl {w.text} {body}, {w.const(13)}")
        exponent = f.value(f"and {w.text} {body}, {w.const(0x7C00 << 13)}")
        normal = f.value(f"add {w.text} {body}, {w.const(112 << 23)}")
        special = f.value(f"add {w.text} {normal}, {w.const(112 << 23)}")
        tiny = self.bits(f.value(f"add {w.text} {normal}, {w.const(1 << 23)}"), w, f32)
        tiny = f.value(f"fsub {s.text} {tiny}, {s.const(113 << 23)}")
        tiny = self.bits(tiny, s, u32)
        is_special = f.value(f"icmp eq {w.text} {exponent}, {w.const(0x7C00 << 13)}")
        is_tiny = f.value(f"icmp eq {w.text} {exponent}, {w.const(0)}")
        out = f.value(f"select {c} {is_special}, {w.text} {special}, {w.text} {normal}")
        out = f.value(f"select {c} {is_tiny}, {w.text} {tiny}, {w.text} {out}")
        sign = f.value(f"and {w.text} {word}, {w.const(0x8000)}")
        sign = f.value(f"shl {w.text} {sign}, {w.const(16)}")
        return self.bits(f.value(f"or {w.text} {out}, {sign}"), w, f32)

    def narrow(self, a: str, t: Ty, dtype: DType) -> str:
        """An f32 rounded to f16 or bf16."""
        f, to = self.f, t.of(dtype)
        if self.native_f16 if dtype == f16 else self.native_bf16:
            narrow = t.wrap("half" if dtype == f16 else "bfloat")
            rounded = f.value(f"fptrunc {t.text} {a} to {narrow}")
            return f.value(f"bitcast {narrow} {rounded} to {to.text}")
        word = self.bits(a, t, u32)
        w = t.of(u32)
        out = self._narrow_bf16(word, w, a, t) if dtype == bf16 else self._narrow_f16(word, w)
        return f.value(f"trunc {w.text} {out} to {to.text}")

    def _narrow_bf16(self, word: str, w: Ty, a: str, t: Ty) -> str:
        f = self.f
        high = f.value(f"lshr {w.text} {word}, {w.const(16)}")
        odd = f.value(f"and {w.text} {high}, {w.const(1)}")
        up = f.value(f"add {w.text} {odd}, {w.const(0x7FFF)}")
        up = f.value(f"add {w.text} {word}, {up}")
        out = f.value(f"lshr {w.text} {up}, {w.const(16)}")
        nan = f.value(f"fcmp uno {t.text} {a}, {a}")
        return f.value(f"select {w.wrap('i1')} {nan}, {w.text} {w.const(0x7FC0)}, {w.text} {out}")

    def _narrow_f16(self, word: str, w: Ty) -> str:
        f, s, c = self.f, w.of(f32), w.wrap("i1")
        sign = f.value(f"and {w.text} {word}, {w.const(0x80000000)}")
        body = f.value(f"xor {w.text} {word}, {sign}")
        nan = f.value(f"icmp ugt {w.text} {body}, {w.const(0x7F800000)}")
        big = f.value(f"select {c} {nan}, {w.text} {w.const(0x7E00)}, {w.text} {w.const(0x7C00)}")
        # The addition of a power of two rounds a denormal result at the right bit.
        magic = (127 - 15 + 23 - 10 + 1) << 23
        tiny = f.value(f"fadd {s.text} {self.bits(body, w, f32)}, {s.const(magic)}")
        tiny = f.value(f"sub {w.text} {self.bits(tiny, s, u32)}, {w.const(magic)}")
        odd = f.value(f"lshr {w.text} {body}, {w.const(13)}")
        odd = f.value(f"and {w.text} {odd}, {w.const(1)}")
        out = f.value(f"add {w.text} {body}, {w.const(((15 - 127) << 23) + 0xFFF)}")
        out = f.value(f"add {w.text} {out}, {odd}")
        out = f.value(f"lshr {w.text} {out}, {w.const(13)}")
        is_tiny = f.value(f"icmp ult {w.text} {body}, {w.const(113 << 23)}")
        is_big = f.value(f"icmp uge {w.text} {body}, {w.const(143 << 23)}")
        out = f.value(f"select {c} {is_tiny}, {w.text} {tiny}, {w.text} {out}")
        out = f.value(f"select {c} {is_big}, {w.text} {big}, {w.text} {out}")
        high = f.value(f"lshr {w.text} {sign}, {w.const(16)}")
        return f.value(f"or {w.text} {out}, {high}")
