"""A kernel's own vectors, which emitters keep as one LLVM value per component.

Ops that build vectors and take them apart then only rename components.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op
from ...ir.dtypes import lanes_of
from .text import Function
from .types import Ty

REARRANGE = frozenset(("vector", "splat", "extract", "insert", "shuffle"))


def rearrange(op: Op, operands: Sequence[list[str]]) -> list[str]:
    """The components of the result of an op of `REARRANGE` from those of its operands."""
    match op.name:
        case "vector":
            return [p for (p,) in operands]
        case "splat":
            return operands[0] * lanes_of(op.result.type)
        case "extract":
            return [operands[0][_lane(op)]]
        case "insert":
            parts = list(operands[0])
            parts[_lane(op)] = operands[1][0]
            return parts
    chosen = op.attr("lanes")
    assert isinstance(chosen, tuple)
    both = operands[0] + operands[1]
    return [both[n] for n in chosen if isinstance(n, int)]


def _lane(op: Op) -> int:
    lane = op.attr("lane")
    assert isinstance(lane, int)
    return lane


def bitcast_parts(f: Function, a: Ty, b: Ty, parts: Sequence[str], count: int) -> list[str]:
    """Components of type `a` as `count` components of type `b`: through the integer of all."""
    total = a.dtype.bits * len(parts)
    whole = a.wrap(f"i{total}")
    word = f"{a.literal('0', f'i{total}')}"
    small = a.wrap(f"i{a.dtype.bits}")
    for n, part in enumerate(parts):
        bits = f.value(f"bitcast {a.text} {part} to {small}")
        if a.dtype.bits < total:
            bits = f.value(f"zext {small} {bits} to {whole}")
            bits = f.value(f"shl {whole} {bits}, {a.literal(str(n * a.dtype.bits), f'i{total}')}")
        word = f.value(f"or {whole} {word}, {bits}")
    found = []
    small = b.wrap(f"i{b.dtype.bits}")
    for n in range(count):
        bits = word
        if b.dtype.bits < total:
            bits = f.value(f"lshr {whole} {word}, {b.literal(str(n * b.dtype.bits), f'i{total}')}")
            bits = f.value(f"trunc {whole} {bits} to {small}")
        found.append(f.value(f"bitcast {small} {bits} to {b.text}"))
    return found
