"""Elementwise ops where AMD's hardware has an instruction of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ..llvm.arithmetic import Arithmetic
from ..llvm.text import Function
from ..llvm.types import Ty
from ..simt.halves import native_half
from .arch import Arch


class HsacoArithmetic(Arithmetic):
    """Emits elementwise ops of scalars."""

    def __init__(self, f: Function, arch: Arch, fast: Sequence[str]) -> None:
        super().__init__(f, True, True, fast, native_bf16=arch.bf16)

    def native_narrow(self, name: str, t: Ty, args: Sequence[str]) -> str | None:
        return native_half(self.f, self.flags, name, t, args)
