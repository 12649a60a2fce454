"""Elementwise ops where AMD's hardware has an instruction of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import DType
from ..llvm.arithmetic import Arithmetic
from ..llvm.text import Function
from ..llvm.types import Ty
from ..simt.halves import native_half
from .arch import Arch

_SIGNS = str(0x80808080 - (1 << 32))  # of four bytes, as an i32
_WORD = str((1 << 32) - 1)
_SIXTY_FOURS = str(0x40404040)


class HsacoArithmetic(Arithmetic):
    """Emits elementwise ops of scalars."""

    def __init__(self, f: Function, arch: Arch, fast: Sequence[str]) -> None:
        super().__init__(f, True, True, fast, native_bf16=arch.processor.bf16)
        self.arch = arch

    def _int(
        self, name: str, t: Ty, args: Sequence[str], types: Sequence[DType], divisor: int | None
    ) -> str:
        if name == "mul_high" and t.dtype.bits == 64:
            return self._mul_high(t, *args)
        return super()._int(name, t, args, types, divisor)

    def _mul_high(self, t: Ty, a: str, b: str) -> str:
        """Products of words of 32 bits, which the hardware adds to 64. Not of 128 bits: LLVM
        compares those where it can, and its processes end on some such comparisons (release 22)."""
        f = self.f
        words = [(f.value(f"and i64 {v}, {_WORD}"), f.value(f"lshr i64 {v}, 32")) for v in (a, b)]
        (low, high), (other_low, other_high) = words
        least = f.value(f"lshr i64 {f.value(f'mul i64 {low}, {other_low}')}, 32")
        one = f.value(f"add i64 {f.value(f'mul i64 {high}, {other_low}')}, {least}")
        part = f.value(f"and i64 {one}, {_WORD}")
        other = f.value(f"add i64 {f.value(f'mul i64 {low}, {other_high}')}, {part}")
        total = f.value(f"mul i64 {high}, {other_high}")
        for word in (one, other):
            total = f.value(f"add i64 {total}, {f.value(f'lshr i64 {word}, 32')}")
        if not t.dtype.is_signed:
            return total
        for v, w in ((a, b), (b, a)):  # a negative number is 2**64 less than its bits
            negative = f.value(f"ashr i64 {v}, 63")
            total = f.value(f"sub i64 {total}, {f.value(f'and i64 {negative}, {w}')}")
        return total

    def dot4(self, t: Ty, args: Sequence[str], signed: tuple[bool, bool]) -> str:
        """Where only bytes of one kind are multiplied, an unsigned one is a signed one plus twice
        64."""
        if not self.arch.processor.dot4:
            return super().dot4(t, args, signed)
        a, b, total = args
        if signed[0] == signed[1]:
            return self._dot4("sdot4" if signed[0] else "udot4", a, b, total)
        if self.arch.dot4_mixed:
            signs = [("i1", str(s).lower()) for s in signed]
            words = (signs[0], ("i32", a), signs[1], ("i32", b), ("i32", total), ("i1", "false"))
            return self.f.call("llvm.amdgcn.sudot4", "i32", *words)
        one, other = (a, b) if signed[0] else (b, a)
        lower = self.f.value(f"xor i32 {other}, {_SIGNS}")
        for word in (lower, _SIXTY_FOURS, _SIXTY_FOURS):
            total = self._dot4("sdot4", one, word, total)
        return total

    def _dot4(self, name: str, a: str, b: str, total: str) -> str:
        words = [("i32", word) for word in (a, b, total)]
        return self.f.call(f"llvm.amdgcn.{name}", "i32", *words, ("i1", "false"))

    def native_narrow(self, name: str, t: Ty, args: Sequence[str]) -> str | None:
        return native_half(self.f, self.flags, name, t, args)
