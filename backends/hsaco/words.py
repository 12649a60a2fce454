"""Vectors as values of other sizes, and back, parts of two vectors, and one of two, as vectors of
LLVM.

LLVM then loads the halves of a word where they belong (`ds_load_u16_d16_hi`), which it does not see
behind shifts.
"""

from __future__ import annotations

from ...ir.core import Op
from ...ir.dtypes import element_of, lanes_of
from .lowering import Lowering

OPS = frozenset(("bitcast", "shuffle", "select"))


def takes(x: Lowering, op: Op) -> bool:
    """Whether an op is a bitcast between different numbers of components, or picks from vectors
    that are whole, or one of two of which one is."""
    if op.name == "select":
        condition, *choice = op.operands
        words = element_of(op.result.type).bits * lanes_of(op.result.type) % 32 == 0
        whole = any(v.id in x.vectors.whole for v in choice)
        return words and whole and lanes_of(condition.type) == 1
    if op.name == "bitcast":
        return lanes_of(op.result.type) != lanes_of(op.operands[0].type)
    return op.name == "shuffle" and all(v.id in x.vectors.whole for v in op.operands)


def emit(x: Lowering, op: Op) -> None:
    """Define the result of such an op."""
    if op.name == "select":
        _select(x, op)
        return
    wanted, given = x.group_of(op.result), x.group_of(op.operands[0])
    if op.name == "shuffle":
        a, b = (x.vector(v, given) for v in op.operands)
        lanes = op.attr("lanes")
        assert isinstance(lanes, tuple)
        mask = ", ".join(f"i32 {n}" for n in lanes)
        pick = f"shufflevector {given} {a}, {given} {b}, <{len(lanes)} x i32> <{mask}>"
        x.set_vector(op.result, wanted, x.f.value(pick))
        return
    (operand,) = op.operands
    whole = x.vector(operand, given) if lanes_of(operand.type) > 1 else x.scalar(operand)
    done = x.f.value(f"bitcast {given} {whole} to {wanted}")
    if lanes_of(op.result.type) > 1:
        x.set_vector(op.result, wanted, done)
    else:
        x.set(op.result, [done])


def _select(x: Lowering, op: Op) -> None:
    """Word by word."""
    condition, *choice = op.operands
    group = x.group_of(op.result)
    count = element_of(op.result.type).bits * lanes_of(op.result.type) // 32
    words = f"<{count} x i32>" if count > 1 else "i32"
    a, b = (x.vectors.cast(v, group, words) for v in choice)
    done = x.f.value(f"select i1 {x.scalar(condition)}, {words} {a}, {words} {b}")
    x.set_vector(op.result, words, done)
