"""Elementwise ops where LLVM's usual form is one that its SPIR-V backend gets wrong.

NaNs are told by their bits: LLVM makes the comparison for it an instruction that Vulkan lacks. The
saturating conversions become the undefined ones of SPIR-V, so their operands are kept in range.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import DType, f32, i32, i64, u32, u64
from ..llvm.arithmetic import Arithmetic
from ..llvm.convert import Converter
from ..llvm.text import Function
from ..llvm.types import Ty

_INFINITY = {32: 0x7F800000, 64: 0x7FF << 52}


def _size(f: Function, converter: Converter, t: Ty, a: str) -> tuple[str, Ty]:
    """The bits of a float without its sign, as an unsigned integer."""
    w = Ty(u32 if t.dtype.bits == 32 else u64)
    bits = converter.bits(a, t, w.dtype)
    return f.value(f"and {w.text} {bits}, {w.const((1 << (w.dtype.bits - 1)) - 1)}"), w


class VulkanConverter(Converter):
    """Conversions between dtypes."""

    def __init__(self, f: Function) -> None:
        super().__init__(f, native_f16=True)

    def nan(self, a: str, t: Ty) -> str:
        """Whether a float is a NaN, as i1."""
        size, w = _size(self.f, self, t, a)
        return self.f.value(f"icmp ugt {w.text} {size}, {w.const(_INFINITY[t.dtype.bits])}")

    def convert(self, a: str, t: Ty, dtype: DType) -> str:
        """Types of less than 32 bits are widened first and narrowed last, with nothing between."""
        f, source = self.f, t.dtype
        if source == dtype:
            return a
        if source.is_int and source.bits < 32:
            wide = i32 if source.is_signed else u32
            word = "sext" if source.is_signed else "zext"
            return self.convert(f.value(f"{word} {t.text} {a} to i32"), Ty(wide), dtype)
        if source.is_float and source.bits == 16:
            return self.convert(self.widen(a, t), Ty(f32), dtype)
        if source.is_bool and dtype.bits < 32:
            one = {"f16": 0x3C00, "bf16": 0x3F80}.get(dtype.name, 1)
            word = f.value(f"select i1 {a}, i32 {one}, i32 0")
            return f.value(f"trunc i32 {word} to {Ty(dtype).text}")
        return super().convert(a, t, dtype)

    def _float_to_int(self, a: str, t: Ty, dtype: DType) -> str:
        f, through = self.f, i32 if dtype.bits < 32 else dtype
        to, sign = Ty(through), "s" if through.is_signed else "u"
        least, most = float(through.min), float(through.max + 1)
        low, high = (t.const(_float_bits(v, t.dtype)) for v in (least, most))
        reaches = f.value(f"fcmp oge {t.text} {a}, {high}")
        below = f.value(f"fcmp ole {t.text} {a}, {low}")
        apart = f.value(f"or i1 {f.value(f'or i1 {reaches}, {below}')}, {self.nan(a, t)}")
        safe = f.value(f"select i1 {apart}, {t.text} {t.const(0)}, {t.text} {a}")
        whole = f.value(f"fpto{sign}i {t.text} {safe} to {to.text}")
        for where, limit in ((reaches, through.max), (below, through.min)):
            limit_text = to.const(limit)
            whole = f.value(f"select i1 {where}, {to.text} {limit_text}, {to.text} {whole}")
        if through == dtype:
            return whole
        for word, bound in (("slt", dtype.min), ("sgt", dtype.max)):
            beyond = f.value(f"icmp {word} i32 {whole}, {bound}")
            whole = f.value(f"select i1 {beyond}, i32 {bound}, i32 {whole}")
        return f.value(f"trunc {to.text} {whole} to {Ty(dtype).text}")

    def _int_to_float(self, a: str, t: Ty, dtype: DType) -> str:
        """Words by halves: SwiftShader rounds those from 2**31 on wrongly. The sum rounds once."""
        if t.dtype != u32 or dtype != f32:
            return super()._int_to_float(a, t, dtype)
        f = self.f
        halves = (f.value(f"lshr i32 {a}, 16"), f.value(f"and i32 {a}, 65535"))
        high, low = (f.value(f"uitofp i32 {half} to float") for half in halves)
        return f.value(f"fadd float {f.value(f'fmul float {high}, 65536.0')}, {low}")

    def _narrow_bf16(self, word: str, w: Ty, a: str, t: Ty) -> str:
        f = self.f
        odd = f.value(f"and i32 {f.value(f'lshr i32 {word}, 16')}, 1")
        up = f.value(f"add i32 {word}, {f.value(f'add i32 {odd}, 32767')}")
        out = f.value(f"lshr i32 {up}, 16")
        return f.value(f"select i1 {self.nan(a, t)}, i32 {0x7FC0}, i32 {out}")


class VulkanArithmetic(Arithmetic):
    """Emits elementwise ops of scalars."""

    converter: VulkanConverter

    def __init__(self, f: Function) -> None:
        super().__init__(f, native_f16=True, native_fma=True)
        self.converter = VulkanConverter(f)

    def _float(self, name: str, t: Ty, args: Sequence[str]) -> str:
        f = self.f
        match name:
            case "isnan":
                return self.converter.nan(args[0], t)
            case "isinf" | "isfinite":
                size, w = _size(f, self.converter, t, args[0])
                word = "eq" if name == "isinf" else "ult"
                return f.value(f"icmp {word} {w.text} {size}, {w.const(_INFINITY[t.dtype.bits])}")
            case "rint":
                return f.call(f"llvm.rint.{t.suffix}", t.text, (t.text, args[0]))
        return super()._float(name, t, args)

    def _int(
        self, name: str, t: Ty, args: Sequence[str], types: Sequence[DType], divisor: int | None
    ) -> str:
        if name == "mul_high":
            return self._mul_high(t, *args)
        if name in ("min", "max"):  # SwiftShader errs in GLSL's own
            less = self._compare("lt", t, args)
            pair = args if name == "min" else (args[1], args[0])
            chosen = f"select i1 {less}, {t.text} {pair[0]}, {t.text} {pair[1]}"
            return self.f.value(chosen)
        return super()._int(name, t, args, types, divisor)

    def _compare(self, name: str, t: Ty, args: Sequence[str]) -> str:
        """Orderings of i64 are those of u64 with the top bit flipped: Mesa's compiler (22.3) takes
        an ordering of a widened i32 with a constant for known, whatever it is."""
        if t.dtype != i64 or name in ("eq", "ne"):
            return super()._compare(name, t, args)
        flipped = [self.f.value(f"xor i64 {v}, {t.const(i64.min)}") for v in args]
        return super()._compare(name, Ty(u64), flipped)

    def _mul_high(self, t: Ty, a: str, b: str) -> str:
        """The upper word of a product of two, by halves: not every device has 64-bit integers."""
        f = self.f
        low, high = zip(
            *((f.value(f"and i32 {v}, 65535"), f.value(f"lshr i32 {v}, 16")) for v in (a, b)),
            strict=True,
        )
        least = f.value(f"lshr i32 {f.value(f'mul i32 {low[0]}, {low[1]}')}, 16")
        total = f.value(f"mul i32 {high[0]}, {high[1]}")
        for n in (0, 1):
            cross = f.value(f"mul i32 {low[n]}, {high[1 - n]}")
            least = f.value(f"add i32 {least}, {f.value(f'and i32 {cross}, 65535')}")
            total = f.value(f"add i32 {total}, {f.value(f'lshr i32 {cross}, 16')}")
        total = f.value(f"add i32 {total}, {f.value(f'lshr i32 {least}, 16')}")
        if not t.dtype.is_signed:
            return total
        for v, other in ((a, b), (b, a)):  # a negative number is 2**32 less than its bits
            negative = f.value(f"ashr i32 {v}, 31")
            total = f.value(f"sub i32 {total}, {f.value(f'and i32 {negative}, {other}')}")
        return total

    def minmax(self, name: str, t: Ty, a: str, b: str) -> str:
        """GLSL's NMin and NMax, of which a NaN is never the result where there is a number."""
        return self.f.call(f"llvm.{name}num.{t.suffix}", t.text, (t.text, a), (t.text, b))


def _float_bits(value: float, dtype: DType) -> int:
    import struct

    if dtype == f32:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
