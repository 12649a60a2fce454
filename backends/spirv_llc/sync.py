"""Atomics, faults and fences.

LLVM's backend has no compare-and-swap, no atomics of 64 bits and no memory barrier that it could
select. Where one stands, the IR calls a function that exists nowhere, and `corrections` puts the
instruction in its place.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ..llvm.types import Ty
from ..spirv.opcodes import Scope, Semantics
from .lowering import SCOPES, STORAGE, Lowering
from .memory import BITS, Array, Memories

# `atomic.KIND.SCOPE.TYPE`, called with the operands; the result, which is the old value, is then
# stored in the place that the atomic is to update.
ATOMIC = "atomic."
FENCE = "fence."  # `fence.SCOPE.SEMANTICS`, both in decimal

_KINDS = {
    **{"add": "add", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"},
    **{"min": "min", "max": "max"},
}
_ORDER = {
    "acquire": Semantics.ACQUIRE,
    "release": Semantics.RELEASE,
    "acq_rel": Semantics.ACQUIRE_RELEASE,
}

__all__ = ["ATOMIC", "FENCE", "atomic", "check", "fence"]


def atomic(x: Lowering, memories: Memories, op: Op) -> None:
    """`atomic` and `compare_exchange`: define the old values."""
    f, memory = x.f, memories.known[op.operands[0].id]
    t = Ty(memory.element)
    real, word = t.dtype.is_float, f"i{t.dtype.bits}"
    place = memories.place(memory, memories.index(op.operands[1]), BITS if real else 1)
    scope = SCOPES[memory.space if isinstance(memory, Array) else STORAGE]
    given = [x.scalar(v) for v in op.operands[2:]]

    def bits(value: str) -> str:
        return f.value(f"bitcast {t.text} {value} to {word}") if real else value

    def value(word_: str) -> str:
        return f.value(f"bitcast {word} {word_} to {t.text}") if real else word_

    def called(name: str, *operands: str) -> str:
        number = Scope.WORKGROUP if isinstance(memory, Array) else Scope.DEVICE
        pairs = [(word, operand) for operand in operands]
        old = f.call(f"{ATOMIC}{name}.{number}.{word}", word, *pairs)
        f.do(f"store {word} {old}, {place}")
        return old

    def update(name: str, operand: str) -> str:
        if t.dtype.bits == 64:
            return called(name, operand)
        return f.value(f"atomicrmw {name} {place}, {word} {operand} {scope} monotonic")

    def swap(expected: str, desired: str) -> str:
        return called("swap_if", expected, desired)

    if op.name == "compare_exchange":
        x.set(op.result, [value(swap(*map(bits, given)))])
        return
    kind = str(op.attr("kind"))
    if not real:
        unsigned = kind in ("min", "max") and not t.dtype.is_signed
        x.set(op.result, [update("u" * unsigned + _KINDS[kind], given[0])])
    elif kind == "exchange":
        x.set(op.result, [value(update("xchg", bits(given[0])))])
    else:

        def changed(old: str) -> str:
            return bits(x.arith.op(kind, t, [value(old), given[0]], t.dtype))

        x.set(op.result, [value(_until_done(x, lambda: update("or", "0"), changed, swap, word))])


def _until_done(
    x: Lowering,
    read: Callable[[], str],
    changed: Callable[[str], str],
    swap: Callable[[str, str], str],
    word: str,
) -> str:
    """Replace what `read` gives until nobody else has done so in between; the old bits."""
    f = x.f
    head, again, out = (f.label(w) for w in ("update", "again", "updated"))
    found = f.alloca(word)
    f.branch(head)
    f.block(head)
    expected = read()
    old = swap(expected, changed(expected))
    f.do(f"store {word} {old}, ptr {found}")
    f.branch_if(f.value(f"icmp eq {word} {old}, {expected}"), out, again)
    f.block(again)
    f.branch(head)
    f.block(out)
    return f.value(f"load {word}, ptr {found}")


def check(x: Lowering, memories: Memories, op: Op) -> None:
    """Set the fault bit of the site where the condition is false."""
    f, where = x.f, memories.faults()
    fault, fine = f.label("fault"), f.label("fine")
    f.branch_if(x.scalar(op.operands[0]), fine, fault)
    f.block(fault)
    bit = f.value(f"add i32 {x.fault[1]}, {op.attr('site')}")
    at = f.value(f"lshr i32 {bit}, 5")
    place = f.value(f"getelementptr {where}, i32 0, i32 0, i32 {at}")
    mask = f.value(f"shl i32 1, {f.value(f'and i32 {bit}, 31')}")
    f.value(f"atomicrmw or {STORAGE} {place}, i32 {mask} {SCOPES[STORAGE]} monotonic")
    f.branch(fine)
    f.block(fine)


def fence(x: Lowering, op: Op) -> None:
    """Order the memory of this invocation as others see it."""
    scope = Scope.DEVICE if op.attr("scope") == "device" else Scope.WORKGROUP
    semantics = _ORDER[str(op.attr("order"))] | Semantics.UNIFORM_MEMORY
    if x.usage.workgroup_arrays:
        semantics |= Semantics.WORKGROUP_MEMORY
    x.f.call(f"{FENCE}{scope}.{semantics}", "void")
