"""Elementwise ops where NVIDIA's hardware has an instruction of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.arithmetic import Arithmetic
from ..llvm.text import Function
from ..llvm.types import Ty
from ..simt.halves import native_half
from .arch import Arch


class PtxArithmetic(Arithmetic):
    """Emits elementwise ops of scalars."""

    def __init__(self, f: Function, arch: Arch, fast: Sequence[str]) -> None:
        super().__init__(f, True, True, fast, native_bf16=arch.bf16)
        self.flushes = "approximate" in fast

    def dot4(self, t: Ty, args: Sequence[str], signed: tuple[bool, bool]) -> str:
        kinds = ".".join("s" if s else "u" for s in signed)
        return self.f.call(f"llvm.nvvm.idp4a.{kinds}", "i32", *(("i32", a) for a in args))

    def native_narrow(self, name: str, t: Ty, args: Sequence[str]) -> str | None:
        """Where f32 flushes denormals LLVM would have f16 do so too. Sums, products and comparisons
        go through f32 there, where denormals of f16 are none."""
        if not self.flushes:
            return native_half(self.f, self.flags, name, t, args)
        if name != "fma":
            return None
        return native_half(self.f, self.flags, name, t, args, "llvm.nvvm.fma.rn.f16")
