"""Addresses of elements where LLVM does not optimise (`effort`).

They are made as the assembler does not make them of itself (`simt.addresses`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.core import Value
from ..simt.addresses import plus

if TYPE_CHECKING:
    from .lowering import Lowering, Memory


def address(x: Lowering, memory: Memory, index: Value, size: int, certain: bool) -> str:
    """The address of memory[index], of `size` bytes. certain: an access there follows."""

    def make() -> str:
        return plus(x.f, memory, memory.pointer, _offset(x, index, size))

    return x.addresses.reach(memory, index, size, make) if certain else make()


def _offset(x: Lowering, index: Value, size: int) -> str:
    """`index * size` in 64 bits; an index is not negative.

    By the instruction that the assembler joins with the addition of the base. LLVM selects it of
    itself only where it optimises.
    """
    f, t = x.f, x.type_of(index)
    text, signed = x.scalar(index), t.dtype.is_signed
    if t.dtype.bits == 64:
        return f.value(f"mul nuw nsw i64 {text}, {size}")
    extend = "sext" if signed else "zext"
    if size == 1:
        return f.value(f"{extend} {t.text} {text} to i64")
    if t.dtype.bits < 32:
        text = f.value(f"{extend} {t.text} {text} to i32")
    product = f"mul.wide.{'s' if signed else 'u'}32 $0, $1, {size};"
    return f.value(f'call i64 asm "{product}", "=l,r"(i32 {text})')
