"""Matrix products: a launch for each matrix of a batch, one for all where they share a factor."""

from __future__ import annotations

import math

import numpy as np

from ..layout import expanded, moved, permuted, place
from ..machine import Machine
from ..node import Node
from ..pieces import binary, cast, scaled
from ..refusal import InvalidNode, Missing
from ..registry import op
from ..tensor import Tensor

# Integers below this are exact in f32, and sums of them while they stay below it.
EXACT = 1 << 24


def product(m: Machine, a: Tensor, b: Tensor) -> Tensor:
    """a @ b by numpy's rule, accumulated in f32."""
    if a.rank == 1 and b.rank == 1:
        return product(m, a.reshaped(1, *a.shape), b).reshaped()
    if a.rank == 1:
        found = product(m, a.reshaped(1, *a.shape), b)
        return found.reshaped(*found.shape[:-2], found.shape[-1])
    if b.rank == 1:
        found = product(m, a, b.reshaped(*b.shape, 1))
        return found.reshaped(*found.shape[:-1])
    if a.shape[-1] != b.shape[-2]:
        raise InvalidNode(f"a product of {a.shape} and {b.shape}", expected="equal inner sizes")
    if a.dtype == "bf16":
        return cast(m, product(m, cast(m, a, "f32"), cast(m, b, "f32")), "bf16")
    if b.rank == 2:
        rows = math.prod(a.shape[:-1])
        found = _matrix(m, a.reshaped(rows, a.shape[-1]), b)
        return found.reshaped(*a.shape[:-1], b.shape[-1])
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = expanded(m, a, (*batch, *a.shape[-2:]))
    b = expanded(m, b, (*batch, *b.shape[-2:]))
    count = math.prod(batch)
    many = a.reshaped(count, *a.shape[-2:]), b.reshaped(count, *b.shape[-2:])
    y = m.empty((count, a.shape[-2], b.shape[-1]), a.dtype)
    for n in range(count):
        one, other = (moved(m, t, lambda v, n=n: v[n]) for t in many)
        place(m, _matrix(m, one, other), y, lambda v, n=n: v[n])
    return y.reshaped(*batch, a.shape[-2], b.shape[-1])


def _matrix(m: Machine, a: Tensor, b: Tensor) -> Tensor:
    (rows, inner), cols = a.shape, b.shape[1]
    c = m.empty((rows, cols), a.dtype)
    m.launch("matmul", a.dtype, a, b, c, rows, cols, inner)
    return c


@op("MatMul")
def matmul(m: Machine, node: Node) -> Tensor:
    """By numpy's rule."""
    return product(m, node[0], node[1])


@op("Gemm")
def gemm(m: Machine, node: Node) -> Tensor:
    """alpha * a @ b + beta * c, a and b transposed where asked for."""
    a = permuted(m, node[0], (1, 0)) if node.attribute("transA") else node[0]
    b = permuted(m, node[1], (1, 0)) if node.attribute("transB") else node[1]
    y = scaled(m, product(m, a, b), node.attribute("alpha"))
    c = node.get(2)
    return y if c is None else binary(m, "add", y, scaled(m, c, node.attribute("beta")))


def exact_product(m: Machine, a: Tensor, b: Tensor, places: tuple[Tensor | None, ...]) -> Tensor:
    """The product of 8-bit integers less their zero points, as f32 that are exact: refused where a
    sum could need more than 24 bits."""
    if a.itemsize != 1 or b.itemsize != 1:
        raise Missing(f"kernel for a product of {a.dtype} and {b.dtype}")
    if a.shape[-1] * 255 * 255 >= EXACT:
        raise Missing("kernel for a product of integers of more than 258 terms")
    parts = [
        _less(m, t, zero, rows) for t, zero, rows in zip((a, b), places, (True, False), strict=True)
    ]
    return product(m, *(cast(m, t, "f32") for t in parts))


def _less(m: Machine, x: Tensor, zero: Tensor | None, rows: bool) -> Tensor:
    """x - zero as i32; a row of zero points is one for each row of a, each column of b."""
    wide = cast(m, x, "i32")
    if zero is None:
        return wide
    if rows and zero.rank == 1 and zero.size > 1:
        zero = zero.reshaped(zero.size, 1)
    return binary(m, "sub", wide, cast(m, zero, "i32"))


@op("MatMulInteger")
def matmul_integer(m: Machine, node: Node) -> Tensor:
    """i32 of 8-bit integers."""
    return cast(m, exact_product(m, node[0], node[1], (node.get(2), node.get(3))), "i32")
