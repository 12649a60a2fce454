"""Products of matrices, plain and packed."""

from __future__ import annotations

import math

import numpy as np

from ...ir.dtypes import f32
from ...ir.graph.core import Node, Tensor
from ...ir.graph.types import TensorType
from ..lowering import Lowering
from ..refusal import Missing
from ..view import View
from .copies import aligned, expanded, transposed
from .elementwise import binary, cast
from .indexing import decoded, packed_words


def _matmul(c: Lowering, node: Node) -> tuple[View, ...]:
    a, b = map(c.view, node.operands)
    type_ = node.results[0].type
    y = c.make(type_)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    for number in range(math.prod(a.shape[:-2])):
        parts = (
            a.part(number * m * k, (m, k)),
            b.part(number * k * n, (k, n)),
            y.part(number * m * n, (m, n)),
        )
        if not c.aligned(parts[2]):
            raise Missing("a kernel for products of many small matrices")
        _product(c, aligned(c, parts[0]), aligned(c, parts[1]), parts[2])
    return (y,)


def _product(c: Lowering, a: View, b: View, y: View) -> None:
    if a.dtype != b.dtype:
        raise Missing(f"kernel matmul {a.dtype} x {b.dtype}")
    name = str(a.dtype) if a.dtype == y.dtype else f"{a.dtype}_{y.dtype}"
    c.launch("matmul", name, a, b, y, a.shape[0], b.shape[1], a.shape[1])


def _rows(x: View) -> View:
    return x.reshaped(math.prod(x.shape[:-1]), x.shape[-1])


def _linear(c: Lowering, node: Node) -> tuple[View, ...]:
    """One row by `gemv`; several by `matmul`, of a weight that the load has transposed."""
    x, weight = _rows(c.view(node.operands[0])), c.view(node.operands[1])
    (wide,) = c.once(("cast", str(x.dtype)), (weight,), lambda: (cast(c, weight, x.dtype),))
    type_ = TensorType(x.dtype, (x.shape[0], weight.shape[0]))
    if x.shape[0] == 1:
        y = _one_row(c, wide, x, type_)
    else:
        y = c.make(type_)
        if type_.size:
            _product(c, x, transposed(c, wide), y)
    return (_biased(c, y, node.operands[2:]).reshaped(*node.results[0].type.shape),)


def _one_row(c: Lowering, weight: View, x: View, type_: TensorType) -> View:
    """By a kernel that gives the type of x, or f32, which is rounded then."""
    name = str(x.dtype)
    own = f"{name}_{name}"
    if c.has("gemv", own):
        y = c.make(type_)
        c.launch("gemv", own, weight, x, y, x.shape[1])
        return y
    wide = c.make(type_.with_dtype(f32))
    c.launch("gemv", name, weight, x, wide, x.shape[1])
    return cast(c, wide, x.dtype)


def _biased(c: Lowering, y: View, bias: tuple[Tensor, ...]) -> View:
    for operand in bias:
        shift = cast(c, c.view(operand), y.dtype)
        y = binary(c, "add", y, expanded(c, shift, y.shape))
    return y


MOST_ROWS = 16  # that a packed weight is read for, one after the other


def _unpacked_linear(c: Lowering, node: Node) -> tuple[View, ...]:
    """Of many rows: the weight's numbers, which go again with the step, then a plain product."""
    x, packed = _rows(c.view(node.operands[0])), c.view(node.operands[1])
    if x.shape[0] <= MOST_ROWS:
        raise Missing(f"more than {MOST_ROWS} rows")
    every = c.pool.array(np.arange(packed.shape[0]), "i32")
    numbers = TensorType(x.dtype, (packed.shape[0], x.shape[1]))
    weight = decoded(c, packed, every, str(node.attr("format")), numbers)
    y = c.make(TensorType(x.dtype, (x.shape[0], packed.shape[0])))
    _product(c, x, transposed(c, weight), y)
    return (_biased(c, y, node.operands[2:]).reshaped(*node.results[0].type.shape),)


def _quantized_linear(c: Lowering, node: Node) -> tuple[View, ...]:
    """Of few rows: the packed weight is read once for each."""
    form = str(node.attr("format"))
    x, packed = _rows(c.view(node.operands[0])), c.view(node.operands[1])
    outputs, columns = packed.shape[0], x.shape[1]
    name = form if str(x.dtype) == "f32" else f"{form}_{x.dtype}"
    y = c.make(TensorType(f32, (x.shape[0], outputs)))
    words = packed_words(packed, form)
    for row in range(x.shape[0]):
        of_x, of_y = x.part(row * columns, (columns,)), y.part(row * outputs, (outputs,))
        if not c.aligned(of_y):
            raise Missing(f"kernel quantized_gemv of {outputs} outputs and several rows")
        c.launch("quantized_gemv", name, words, aligned(c, of_x), of_y, columns)
    return (
        _biased(c, cast(c, y, x.dtype), node.operands[2:]).reshaped(*node.results[0].type.shape),
    )


RULES = {
    "matmul": (_matmul,),
    "linear": (_linear,),
    "quantized_linear": (_unpacked_linear, _quantized_linear),
}
