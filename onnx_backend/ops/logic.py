"""Comparisons, bools, bits and choice."""

from __future__ import annotations

import math

from ..layout import full
from ..machine import Machine
from ..node import Node
from ..pieces import binary, broadcast, chosen, compared, inverted, unary
from ..refusal import Missing
from ..registry import op
from ..tensor import Tensor


@op("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def comparison(m: Machine, node: Node) -> Tensor:
    """Greater is less with the operands exchanged."""
    a, b = node[0], node[1]
    if node.op.startswith("Greater"):
        a, b = b, a
    name = "eq" if node.op == "Equal" else "le" if node.op.endswith("Equal") else "lt"
    return compared(m, name, a, b)


@op("And", "Or", "Xor")
def logic(m: Machine, node: Node) -> Tensor:
    """Of bools, as choices: one of the operands, or a constant."""
    a, b = node[0], node[1]
    if node.op == "And":
        return chosen(m, a, b, m.constant(False, "bool"))
    if node.op == "Or":
        return chosen(m, a, m.constant(True, "bool"), b)
    return chosen(m, a, inverted(m, b), b)


@op("Not")
def negation(m: Machine, node: Node) -> Tensor:
    """Of bools."""
    return inverted(m, node[0])


@op("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
def bits(m: Machine, node: Node) -> Tensor:
    """Of integers; of wider ones as 32-bit words."""
    x = node[0]
    name = node.op.removeprefix("Bitwise").lower()
    other = node[1] if name != "not" else full(m, x.shape, -1, _signed(x.dtype)).seen_as(x.dtype)
    name = "xor" if name == "not" else name
    if x.itemsize < 4:
        return binary(m, name, x, other)
    x, other = broadcast(m, x, other)
    found = binary(m, name, x.seen_as("i32"), other.seen_as("i32"))
    return Tensor(found.buffer.view(0, x.size, x.dtype), x.shape, x.dtype)


def _signed(dtype: str) -> str:
    return dtype.replace("u", "i")


@op("Where")
def where(m: Machine, node: Node) -> Tensor:
    """Elements move as bits."""
    return chosen(m, node[0], node[1], node[2])


@op("IsNaN")
def is_nan(m: Machine, node: Node) -> Tensor:
    """What is unequal to itself."""
    return inverted(m, compared(m, "eq", node[0], node[0]))


@op("IsInf")
def is_inf(m: Machine, node: Node) -> Tensor:
    """Both infinities, or one of them."""
    x = node[0]
    up, down = node.attribute("detect_positive"), node.attribute("detect_negative")
    if up and down:
        return compared(m, "eq", unary(m, "abs", x), m.constant(math.inf, x.dtype))
    if not (up or down):
        raise Missing("an IsInf that detects nothing")
    return compared(m, "eq", x, m.constant(math.inf if up else -math.inf, x.dtype))


@op("BitShift")
def shift(m: Machine, node: Node) -> Tensor:
    """By a count outside the width nothing is left, or the sign."""
    x, count = node[0], node[1]
    if x.dtype == "u32" and node.attribute("direction") == "RIGHT":
        raise Missing("kernel binary shr_u32")
    return binary(m, "shl" if node.attribute("direction") == "LEFT" else "shr", x, count)
