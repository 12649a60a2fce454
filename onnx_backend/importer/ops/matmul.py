"""Products of matrices. Integers of 8 bits are summed in i32."""

from __future__ import annotations

from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ....ir.graph.composites.linear import linear
from ...refusal import InvalidNode
from ..node import Node
from ..registry import op


def product(a: Array, b: Array) -> Array:
    """By numpy's rule: a vector is a row before a matrix and a column behind one."""
    if not a.rank or not b.rank:
        raise InvalidNode(f"a product of {a.type} and {b.type}", expected="no scalar")
    rows = a.reshape(1, *a.shape) if a.rank == 1 else a
    columns = b.reshape(*b.shape, 1) if b.rank == 1 else b
    found = fn.matmul(rows, columns)
    if a.rank > 1 and b.rank > 1:
        return found
    lead, (m, n) = found.shape[:-2], found.shape[-2:]
    return found.reshape((*lead, *([m] if a.rank > 1 else []), *([n] if b.rank > 1 else [])))


@op("MatMul")
def matmul(node: Node) -> Array:
    """By numpy's rule."""
    return product(node[0], node[1])


@op("Gemm")
def gemm(node: Node) -> Array:
    """alpha * a @ b + beta * c, in f32 where the type is narrower. With a transposed weight and
    a bias a product as checkpoints hold it."""
    a, b, c = node[0], node[1], node.get(2)
    alpha, beta = float(node.attribute("alpha")), float(node.attribute("beta"))
    if a.rank != 2 or b.rank != 2:
        raise InvalidNode(f"a product of {a.type} and {b.type}", expected="two matrices")
    a = a.T if node.attribute("transA") else a
    plain = alpha == 1 and (c is None or (beta == 1 and c.shape == (b.shape[0],)))
    if node.attribute("transB") and plain and a.dtype.is_float:
        found: Array = linear(a, b, *([] if c is None else [c]))
        return found
    b = b.T if node.attribute("transB") else b
    wide = fn.matmul(a, b, dtype="f32" if a.dtype.bits < 32 else a.dtype)
    wide = wide * alpha if alpha != 1 else wide
    if c is not None and beta != 0:
        shift = c.cast(wide.dtype)
        wide = wide + (shift * beta if beta != 1 else shift).broadcast_to(wide.shape)
    return wide.cast(a.dtype)


def whole_product(a: Array, b: Array, a_zero: Array | None, b_zero: Array | None) -> Array:
    """i32: (a - a_zero) @ (b - b_zero) of 8-bit integers, whose sum is taken apart. A zero point is
    one number, or one for each row of a or column of b."""
    if a.rank < 2 or b.rank < 2:
        raise InvalidNode(f"a product of {a.type} and {b.type}", expected="two matrices")
    total = fn.matmul(a, b, dtype="i32")
    inner = a.shape[-1]
    rows = a.cast("i32").sum(-1, keepdims=True)
    columns = b.cast("i32").sum(-2, keepdims=True)
    left = None if a_zero is None else _zero(a_zero, a.rank, rows=True)
    right = None if b_zero is None else _zero(b_zero, b.rank, rows=False)
    if left is not None:
        total = total - left * columns
    if right is not None:
        total = total - rows * right
    return total + left * right * inner if left is not None and right is not None else total


def _zero(zero: Array, rank: int, *, rows: bool) -> Array:
    """A zero point for each row or column of matrices."""
    wide = zero.cast("i32")
    if wide.size == 1:
        return wide.reshape(1, 1)
    if wide.rank == 1:
        return wide.reshape(wide.size, 1) if rows else wide.reshape(1, wide.size)
    return wide


@op("MatMulInteger")
def integer_product(node: Node) -> Array:
    """Of 8-bit integers with zero points."""
    return whole_product(node[0], node[1], node.get(2), node.get(3))
