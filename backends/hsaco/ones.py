"""64-bit `or`s, kept from a fault of LLVM.

In vector registers an `or` of 64 bits is one of each half. Where LLVM 22 learns late, from another
basic block, that a half of one operand is all ones, it gives the other operand's half instead
(mended in a later release: pull request 189655 of LLVM). An operand that has such a half is hidden
from it. Sums that no carry crosses are `or`s to LLVM as well.
"""

from __future__ import annotations

from ...ir.core import Kernel, Op, walk
from ...ir.dtypes import lanes_of
from .joins import hide
from .known import Known, note, width
from .lowering import Lowering

_HALVES = (0xFFFFFFFF, 0xFFFFFFFF << 32)


def filled(kernel: Kernel) -> dict[int, int]:
    """Result of an `or` or a sum -> number of an operand that has a half of all ones, and is no
    constant."""
    if not any(map(_source, walk(kernel.body))):
        return {}
    known: Known = {}
    constants: set[int] = set()
    found: dict[int, int] = {}
    for op in walk(kernel.body):
        note(known, op)
        if op.name == "const":
            constants.add(op.result.id)
        elif op.name in ("or", "add") and width(op.result) == 64:
            for n, v in enumerate(op.operands):
                halves = any(o & h == h for _, o in known.get(v.id, ()) for h in _HALVES)
                if halves and constants.isdisjoint(v.id for v in op.operands):
                    found[op.result.id] = n
    return found


def _source(op: Op) -> bool:
    """Where a half of all ones comes from."""
    if op.name == "not":
        return width(op.result) == 64
    if op.name != "const" or width(op.result) != 64:
        return False
    word = op.attr("bits")
    return isinstance(word, int) and any(word & half == half for half in _HALVES)


def emit_filled(x: Lowering, op: Op, number: int) -> None:
    """Such an op, with that operand hidden."""
    parts = [x.parts(v) for v in op.operands]
    parts[number] = [hide(x.f, "i64", part) for part in parts[number]]
    pairs = [[p[n if len(p) > 1 else 0] for p in parts] for n in range(lanes_of(op.result.type))]
    x.set(op.result, [x.f.value(f"{op.name} i64 {a}, {b}") for a, b in pairs])
