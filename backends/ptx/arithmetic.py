"""Elementwise ops where NVIDIA's hardware has an instruction of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import f16
from ..llvm.arithmetic import Arithmetic
from ..llvm.text import Function
from ..llvm.types import Ty
from .arch import Arch

_HALF = {
    **{name: f"f{name}" for name in ("add", "sub", "mul", "fma")},
    **{name: f"fcmp o{name}" for name in ("eq", "lt", "le", "gt", "ge")},
    "ne": "fcmp une",
}


class PtxArithmetic(Arithmetic):
    """Emits elementwise ops of scalars."""

    def __init__(self, f: Function, arch: Arch, fast: Sequence[str]) -> None:
        super().__init__(f, True, True, fast, native_bf16=arch.bf16)
        self.flushes = "approximate" in fast

    def dot4(self, t: Ty, args: Sequence[str], signed: tuple[bool, bool]) -> str:
        kinds = ".".join("s" if s else "u" for s in signed)
        return self.f.call(f"llvm.nvvm.idp4a.{kinds}", "i32", *(("i32", a) for a in args))

    def native_narrow(self, name: str, t: Ty, args: Sequence[str]) -> str | None:
        """f16 has sums, products, fused products and comparisons; bf16 goes through f32, which
        rounds a fused product twice as its meaning says.

        Where f32 flushes denormals LLVM would have f16 do so too. Sums, products and comparisons go
        through f32 there, where denormals of f16 are none.
        """
        if t.dtype != f16 or name not in _HALF or (self.flushes and name != "fma"):
            return None
        f = self.f
        halves = [f.value(f"bitcast i16 {a} to half") for a in args]
        word = _HALF[name]
        if word.startswith("fcmp"):
            return f.value(f"{word} half {halves[0]}, {halves[1]}")
        if name == "fma":
            intrinsic = "llvm.nvvm.fma.rn.f16" if self.flushes else "llvm.fma.f16"
            result = f.call(intrinsic, "half", *(("half", h) for h in halves))
        else:
            result = f.value(f"{word} {self.flags}half {halves[0]}, {halves[1]}")
        return f.value(f"bitcast half {result} to i16")
