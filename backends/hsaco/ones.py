"""64-bit `or`s, kept from a fault of LLVM.

In vector registers an `or` of 64 bits is one of each half. Where LLVM 22 learns late, from another
basic block, that a half of one operand is all ones, it gives the other operand's half instead
(mended in a later release: pull request 189655 of LLVM). An operand that has such a half is hidden
from it. Sums that no carry crosses are `or`s to LLVM as well.
"""

from __future__ import annotations

from ...ir.core import Kernel, Op, Value, ops_named, walk
from ...ir.dtypes import lanes_of
from .joins import hide
from .known import Known, note, width
from .lowering import Lowering

_HALVES = (0xFFFFFFFF, 0xFFFFFFFF << 32)


def filled(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """Result of an `or` or a sum without constants -> numbers of the operands that have a half of
    all ones."""
    if not any(width(op.result) == 64 for op in ops_named(kernel.body, "or", "add")):
        return {}
    known: Known = {}
    constants: set[int] = set()
    found: dict[int, tuple[int, ...]] = {}
    for op in walk(kernel.body):
        note(known, op)
        if op.name == "const":
            constants.add(op.result.id)
        elif op.name in ("or", "add") and width(op.result) == 64:
            numbers = tuple([n for n, v in enumerate(op.operands) if _has_half(known, v)])
            if numbers and constants.isdisjoint(v.id for v in op.operands):
                found[op.result.id] = numbers
    return found


def _has_half(known: Known, value: Value) -> bool:
    return any(ones & half == half for _, ones in known.get(value.id, ()) for half in _HALVES)


def emit_filled(x: Lowering, op: Op, numbers: tuple[int, ...]) -> None:
    """Such an op, with those operands hidden."""
    parts = [x.parts(v) for v in op.operands]
    for n in numbers:
        parts[n] = [hide(x.f, "i64", part) for part in parts[n]]
    pairs = [[p[n if len(p) > 1 else 0] for p in parts] for n in range(lanes_of(op.result.type))]
    x.set(op.result, [x.f.value(f"{op.name} i64 {a}, {b}") for a, b in pairs])
