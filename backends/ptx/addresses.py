"""Addresses of elements where LLVM does not optimise (`effort`).

They are made as the assembler does not make them of itself: an element whose index differs by a
constant from one before is reached from there, since an access has room for a constant.
"""

from __future__ import annotations

from ...ir.core import Value
from ...ir.dtypes import i32
from .lowering import Lowering, Memory


def address(x: Lowering, memory: Memory, index: Value, size: int, certain: bool) -> str:
    """The address of memory[index], of `size` bytes. certain: an access there follows."""
    if not certain or index.type != i32:
        return _at(x, memory, memory.pointer, _offset(x, index, size))
    form = x.sums.of(index)
    place = memory.pointer, form.terms, size
    if place not in x.addresses:
        first = _at(x, memory, memory.pointer, _offset(x, index, size))
        x.addresses[place] = first, form.constant
    first, constant = x.addresses[place]
    # Both are indexes of elements, from 0 to 2**31 - 1: they lie as far apart as their sums do.
    apart = (form.constant - constant + (1 << 31)) % (1 << 32) - (1 << 31)
    return _at(x, memory, first, apart * size) if apart else first


def _at(x: Lowering, memory: Memory, pointer: str, offset: int | str) -> str:
    return x.f.value(f"getelementptr inbounds i8, {memory.space} {pointer}, i64 {offset}")


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
