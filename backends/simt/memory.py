"""Loads, stores and private arrays.

A vector is one access of up to 16 bytes: buffers begin at multiples of 16 bytes and so do arrays,
and an index of a vector access counts whole vectors.
"""

from __future__ import annotations

from ...ir.core import Op, Value
from ...ir.dtypes import MemType, Space, bool_, lanes_of, u8
from ..llvm.types import Ty, memory_type
from .lowering import Lowering, Memory


def place(x: Lowering, memory: Memory, index: Value, count: int = 1, certain: bool = True) -> str:
    """The address of memory[index * count]. certain: an access there follows."""
    known = x.constant(index)
    if known is not None:
        return _element(x, memory, str(known * count))
    return x.address(memory, index, count, certain)


def plain_address(x: Lowering, memory: Memory, index: Value, count: int) -> str:
    """The address of memory[index * count], for LLVM to simplify."""
    at = index64(x, index)
    if count > 1:
        at = x.f.value(f"mul nuw nsw i64 {at}, {count}")
    return _element(x, memory, at)


def _element(x: Lowering, memory: Memory, at: str) -> str:
    kind = memory_type(memory.type.element)
    return x.f.value(f"getelementptr inbounds {kind}, {memory.space} {memory.pointer}, i64 {at}")


def folded_place(x: Lowering, memory: Memory, index: Value) -> str:
    """The address of memory[index], with constants anywhere in the sum as an offset of the access:
    neighbours then share one address."""
    t = x.type_of(index)
    terms, offset = _terms(x, index) if t.dtype.bits == 32 else ([], 0)
    if not terms or offset < 0:
        return place(x, memory, index)
    total = terms[0]
    for term in terms[1:]:
        total = x.f.value(f"add {t.text} {total}, {term}")
    # The sum lies within 2**31 of the index, which is not negative, so it does not wrap.
    wide = x.f.value(f"sext {t.text} {total} to i64")
    kind = memory_type(memory.type.element)
    base = x.f.value(f"getelementptr {kind}, {memory.space} {memory.pointer}, i64 {wide}")
    return x.f.value(f"getelementptr {kind}, {memory.space} {base}, i64 {offset}")


def _terms(x: Lowering, value: Value) -> tuple[list[str], int]:
    """A sum of 32-bit numbers as its terms and its constant, which wraps as they do; sums without
    a constant stay whole."""
    known = x.constant(value)
    if known is not None:
        return [], _signed(known)
    op = x.defs.get(value.id)
    if op is not None and op.name == "add":
        left, right = (_terms(x, v) for v in op.operands)
        if left[1] or right[1] or not (left[0] and right[0]):
            return [*left[0], *right[0]], _signed(left[1] + right[1])
    factor = _factor(x, op)
    if op is not None and factor is not None:
        terms, offset = _terms(x, op.operands[0])
        if offset:
            t = x.type_of(value).text
            products = [x.f.value(f"mul {t} {term}, {factor}") for term in terms]
            return products, _signed(offset * factor)
    return [x.scalar(value)], 0


def _signed(number: int) -> int:
    """The number from -2**31 to 2**31 - 1 with the same 32 bits."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _factor(x: Lowering, op: Op | None) -> int | None:
    """The constant that an op multiplies its first operand with; None for any other op."""
    if op is None or op.name not in ("mul", "shl"):
        return None
    known = x.constant(op.operands[1])
    if known is None or op.name == "mul":
        return known
    return 1 << known if 0 <= known < 31 else None


def index64(x: Lowering, index: Value) -> str:
    """An index in 64 bits. It lies within its memory, so it is not negative."""
    t = x.type_of(index)
    text = x.scalar(index)
    if t.dtype.bits == 64:
        return text
    word = "sext" if t.dtype.is_signed else "zext"
    return x.f.value(f"{word} {t.text} {text} to i64")


def _align(x: Lowering, memory: Memory, count: int) -> int:
    return min(memory.type.element.bytes * count, x.widest)


def emit_load(x: Lowering, op: Op) -> None:
    """Define the result of a load."""
    f, memory = x.f, x.memory[op.operands[0].id]
    count = lanes_of(op.result.type)
    pointer = place(x, memory, op.operands[1], count)
    element = memory_type(memory.type.element)
    kind = element if count == 1 else f"<{count} x {element}>"
    note = ", !invariant.load !0" if memory.constant else ""
    align = _align(x, memory, count)
    whole = f.value(f"load {kind}, {memory.space} {pointer}, align {align}{note}")
    if memory.type.element == bool_:
        parts = [whole]
        if count > 1:
            parts = [f.value(f"extractelement {kind} {whole}, i64 {n}") for n in range(count)]
        x.set(op.result, [f.value(f"icmp ne i8 {part}, 0") for part in parts])
    elif count > 1:
        x.set_vector(op.result, kind, whole)
    else:
        x.set(op.result, [whole])


def emit_store(x: Lowering, op: Op) -> None:
    """Store a scalar or a vector."""
    f, memory = x.f, x.memory[op.operands[0].id]
    value = op.operands[2]
    count = lanes_of(value.type)
    kind = memory_type(memory.type.element)
    pointer = place(x, memory, op.operands[1], count)
    if count > 1:
        kind = f"<{count} x {kind}>"
    if memory.type.element == bool_:
        whole = _stored_bools(x, value, kind)
    else:
        whole = x.vector(value, kind) if count > 1 else x.scalar(value)
    f.do(f"store {kind} {whole}, {memory.space} {pointer}, align {_align(x, memory, count)}")


def _stored_bools(x: Lowering, value: Value, kind: str) -> str:
    """Bools as the bytes that memory holds."""
    words = [x.arith.converter.convert(part, Ty(bool_), u8) for part in x.parts(value)]
    if len(words) == 1:
        return words[0]
    whole = "poison"
    for n, word in enumerate(words):
        whole = x.f.value(f"insertelement {kind} {whole}, i8 {word}, i64 {n}")
    return whole


def emit_alloc(x: Lowering, op: Op) -> None:
    """Zero a private array; a workgroup array needs nothing."""
    memory = op.result.type
    assert isinstance(memory, MemType)
    if memory.space is not Space.PRIVATE:
        return
    assert memory.count is not None
    kind = f"[{memory.count} x {memory_type(memory.element)}]"
    space = x.private
    pointer = x.f.alloca(kind, x.widest, space)
    size = memory.count * memory.element.bytes
    x.memory[op.result.id] = Memory(memory, pointer, space)
    number = space.removeprefix("ptr addrspace(").rstrip(")") if space != "ptr" else "0"
    x.f.call(
        f"llvm.memset.p{number}.i64", "void",
        (space, pointer), ("i8", "0"), ("i64", str(size)), ("i1", "false"),
    )  # fmt: skip
