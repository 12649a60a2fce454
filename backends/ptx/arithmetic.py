"""Elementwise ops where NVIDIA's hardware has an instruction of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import f16
from ..llvm.arithmetic import Arithmetic
from ..llvm.text import Function
from ..llvm.types import Ty
from .arch import Arch


class PtxArithmetic(Arithmetic):
    """Emits elementwise ops of scalars."""

    def __init__(self, f: Function, arch: Arch, fast: Sequence[str]) -> None:
        super().__init__(f, True, True, fast, native_bf16=arch.bf16)

    def minmax(self, name: str, t: Ty, a: str, b: str) -> str:
        """`min` and `max` of PTX are minimumNumber and maximumNumber."""
        word = {"min": "minimumnum", "max": "maximumnum"}[name]
        return self.f.call(f"llvm.{word}.{t.suffix}", t.text, (t.text, a), (t.text, b))

    def dot4(self, t: Ty, args: Sequence[str], signed: tuple[bool, bool]) -> str:
        kinds = ".".join("s" if s else "u" for s in signed)
        return self.f.call(f"llvm.nvvm.idp4a.{kinds}", "i32", *(("i32", a) for a in args))

    def narrow_fma(self, t: Ty, args: Sequence[str], operands: Sequence[str]) -> str:
        """f16 has a fused instruction; bf16 is rounded through f32 as its meaning says."""
        if t.dtype != f16:
            return super().narrow_fma(t, args, operands)
        halves = [self.f.value(f"bitcast i16 {a} to half") for a in args]
        fused = self.f.call("llvm.fma.f16", "half", *(("half", h) for h in halves))
        return self.f.value(f"bitcast half {fused} to i16")
