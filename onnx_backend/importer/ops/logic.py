"""Comparisons, bools, bits and choice."""

from __future__ import annotations

from ....ir.graph import functions as fn
from ....ir.graph.array import Array, binary, together
from ..node import Node
from ..registry import op
from .elementwise import pair

_BINARY = {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge",
    "And": "and", "Or": "or", "Xor": "xor", "BitwiseAnd": "and", "BitwiseOr": "or",
    "BitwiseXor": "xor",
}  # fmt: skip


@op(*_BINARY)
def comparison(node: Node) -> Array:
    """One op for each."""
    return binary(_BINARY[node.op], *pair(node))


@op("Where")
def where(node: Node) -> Array:
    """Elements move as they are."""
    return fn.where(node[0], node[1], node[2])


@op("IsInf")
def is_inf(node: Node) -> Array:
    """Both infinities, one of them, or none."""
    x = node[0]
    up, down = node.attribute("detect_positive"), node.attribute("detect_negative")
    found = fn.isinf(fn.widened(x))
    if up and down:
        return found
    return found & ((x > 0) if up else (x < 0) if down else ~found)


@op("BitShift")
def shift(node: Node) -> Array:
    """By a count outside of the width nothing is left, or the sign."""
    x, count = together(node[0], node[1])
    bits = x.dtype.bits
    within = count < bits
    if x.dtype.is_signed:
        within = within & (count >= 0)
    if node.attribute("direction") == "LEFT":
        return fn.where(within, x << count, 0)
    gone = x >> (bits - 1) if x.dtype.is_signed else 0
    return fn.where(within, x >> count, gone)
