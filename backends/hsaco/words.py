"""Vectors as values of other sizes, and back, as vectors of LLVM.

LLVM then loads the halves of a word where they belong (`ds_load_u16_d16_hi`), which it does not see
behind shifts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op
from ...ir.dtypes import element_of, lanes_of
from ..llvm.types import Ty
from .lowering import Lowering


def reshapes(op: Op) -> bool:
    """Whether an op is a bitcast between different numbers of components."""
    return op.name == "bitcast" and lanes_of(op.result.type) != lanes_of(op.operands[0].type)


def emit(x: Lowering, op: Op) -> None:
    (operand,) = op.operands
    given, wanted = x.type_of(operand).text, Ty(element_of(op.result.type)).text
    parts, count = x.parts(operand), lanes_of(op.result.type)
    whole = gather(x, given, parts)
    group = wanted if count == 1 else f"<{count} x {wanted}>"
    of = given if len(parts) == 1 else f"<{len(parts)} x {given}>"
    x.set(op.result, spread(x, group, x.f.value(f"bitcast {of} {whole} to {group}"), count))


def gather(x: Lowering, kind: str, parts: Sequence[str]) -> str:
    """Components as a vector; one as it is."""
    if len(parts) == 1:
        return parts[0]
    whole = "poison"
    for n, part in enumerate(parts):
        whole = x.f.value(f"insertelement <{len(parts)} x {kind}> {whole}, {kind} {part}, i32 {n}")
    return whole


def spread(x: Lowering, group: str, whole: str, count: int, step: int = 1) -> list[str]:
    """Every so many components of a vector; one as it is."""
    if count == 1:
        return [whole]
    at = range(0, count, step)
    return [x.f.value(f"extractelement {group} {whole}, i32 {n}") for n in at]
