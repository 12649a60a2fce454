"""Loads, stores and private arrays.

A vector is one access of up to 16 bytes: buffers begin at multiples of 16 bytes and so do arrays,
and an index of a vector access counts whole vectors.
"""

from __future__ import annotations

from ...ir.core import Op, Value
from ...ir.dtypes import MemType, Space, bool_, lanes_of, u8
from ..llvm.types import Ty, memory_type
from .lowering import FLAT, Lowering, Memory

_WIDEST = 16


def place(x: Lowering, memory: Memory, index: Value, count: int = 1) -> str:
    """The address of memory[index * count]."""
    element = memory_type(memory.type.element)
    known = x.constant(index)
    if known is not None:
        at = str(known * count)
    else:
        at = index64(x, index)
        if count > 1:
            at = x.f.value(f"mul nuw nsw i64 {at}, {count}")
    return x.f.value(f"getelementptr inbounds {element}, {memory.space} {memory.pointer}, i64 {at}")


def index64(x: Lowering, index: Value) -> str:
    """An index in 64 bits. It lies within its memory, so it is not negative."""
    t = x.type_of(index)
    text = x.scalar(index)
    if t.dtype.bits == 64:
        return text
    word = "sext" if t.dtype.is_signed else "zext"
    return x.f.value(f"{word} {t.text} {text} to i64")


def _align(memory: Memory, count: int) -> int:
    return min(memory.type.element.bytes * count, _WIDEST)


def emit_load(x: Lowering, op: Op) -> None:
    """Define the result of a load."""
    f, memory = x.f, x.memory[op.operands[0].id]
    count = lanes_of(op.result.type)
    pointer = place(x, memory, op.operands[1], count)
    element = memory_type(memory.type.element)
    kind = element if count == 1 else f"<{count} x {element}>"
    tail = ", !invariant.load !0" if memory.constant else ""
    whole = f.value(f"load {kind}, {memory.space} {pointer}, align {_align(memory, count)}{tail}")
    parts = [whole]
    if count > 1:
        parts = [f.value(f"extractelement {kind} {whole}, i64 {n}") for n in range(count)]
    if memory.type.element == bool_:
        parts = [f.value(f"icmp ne i8 {part}, 0") for part in parts]
    x.set(op.result, parts)


def emit_store(x: Lowering, op: Op) -> None:
    """Store a scalar or a vector."""
    f, memory = x.f, x.memory[op.operands[0].id]
    parts = x.parts(op.operands[2])
    count = len(parts)
    if memory.type.element == bool_:
        parts = [x.arith.converter.convert(part, Ty(bool_), u8) for part in parts]
    pointer = place(x, memory, op.operands[1], count)
    kind = element = memory_type(memory.type.element)
    whole = parts[0]
    if count > 1:
        kind, whole = f"<{count} x {element}>", "poison"
        for n, part in enumerate(parts):
            whole = f.value(f"insertelement {kind} {whole}, {element} {part}, i64 {n}")
    f.do(f"store {kind} {whole}, {memory.space} {pointer}, align {_align(memory, count)}")


def emit_alloc(x: Lowering, op: Op) -> None:
    """Zero a private array; a workgroup array needs nothing."""
    memory = op.result.type
    assert isinstance(memory, MemType)
    if memory.space is not Space.PRIVATE:
        return
    assert memory.count is not None
    kind = f"[{memory.count} x {memory_type(memory.element)}]"
    pointer = x.f.alloca(kind, _WIDEST)
    size = memory.count * memory.element.bytes
    x.memory[op.result.id] = Memory(memory, pointer, FLAT)
    x.f.call(
        "llvm.memset.p0.i64", "void",
        (FLAT, pointer), ("i8", "0"), ("i64", str(size)), ("i1", "false"),
    )  # fmt: skip
