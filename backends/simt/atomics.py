"""Atomics, faults, fences and barriers.

Atomics are relaxed, of device scope on buffers and of workgroup scope on workgroup arrays. What the
hardware does not update itself becomes a loop around a compare-and-swap, which LLVM writes.
"""

from __future__ import annotations

from ...ir.core import Op
from ..llvm.fences import emit_fence
from ..llvm.types import Ty
from .lowering import GLOBAL, SHARED, Lowering
from .memory import place

_WHOLE = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}
_FLOAT = {"add": "fadd", "min": "fmin", "max": "fmax", "exchange": "xchg"}


def emit_atomic(x: Lowering, op: Op) -> None:
    """`atomic` and `compare_exchange`: define the old values."""
    memory = x.memory[op.operands[0].id]
    scope = x.scopes[memory.space]
    pointer = place(x, memory, op.operands[1])
    t = Ty(memory.type.element)
    given = [x.scalar(v) for v in op.operands[2:]]
    if op.name == "compare_exchange":
        x.set(op.result, [_compare_exchange(x, t, f"{memory.space} {pointer}", given, scope)])
        return
    kind = str(op.attr("kind"))
    if t.dtype.is_float:
        word = _FLOAT[kind]
    elif kind in ("min", "max"):
        word = kind if t.dtype.is_signed else f"u{kind}"
    else:
        word = _WHOLE[kind]
    update = f"atomicrmw {word} {memory.space} {pointer}, {t.text} {given[0]} {scope} monotonic"
    x.set(op.result, [x.f.value(update + x.atomic_note(memory, word, t))])


def _compare_exchange(x: Lowering, t: Ty, pointer: str, given: list[str], scope: str) -> str:
    """Floats are compared by their bits."""
    word = f"i{t.dtype.bits}"
    if t.dtype.is_float:
        given = [x.f.value(f"bitcast {t.text} {v} to {word}") for v in given]
    pair = x.f.value(
        f"cmpxchg {pointer}, {word} {given[0]}, {word} {given[1]} {scope} monotonic monotonic"
    )
    old = x.f.value(f"extractvalue {{ {word}, i1 }} {pair}, 0")
    return x.f.value(f"bitcast {word} {old} to {t.text}") if t.dtype.is_float else old


def emit_assert(x: Lowering, op: Op) -> None:
    """Set the fault bit of the site where the condition is false."""
    f = x.f
    fault, fine = f.label("fault"), f.label("fine")
    f.branch_if(x.scalar(op.operands[0]), fine, fault)
    f.block(fault)
    bitmap, base = x.fault
    bit = f.value(f"add i32 {base}, {op.attr('site')}")
    word = f.value(f"zext i32 {f.value(f'lshr i32 {bit}, 5')} to i64")
    pointer = f.value(f"getelementptr i32, {GLOBAL} {bitmap}, i64 {word}")
    mask = f.value(f"shl i32 1, {f.value(f'and i32 {bit}, 31')}")
    f.value(f"atomicrmw or {GLOBAL} {pointer}, i32 {mask} {x.scopes[GLOBAL]} monotonic")
    f.branch(fine)
    f.block(fine)


def emit_sync(x: Lowering, op: Op) -> None:
    """A barrier orders all memory among the invocations of the workgroup; a fence as it says."""
    if op.name == "barrier":
        x.barrier(op)
        return
    scope = x.scopes[{"workgroup": SHARED, "device": GLOBAL}[str(op.attr("scope"))]]
    emit_fence(x.f, scope, str(op.attr("order")))
