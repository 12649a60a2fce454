"""Linear quantization: integers or 8-bit floats with a scale and a zero point."""

from __future__ import annotations

from ....ir.dtypes import DType
from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ....ir.graph.types import find_dtype
from ...refusal import InvalidNode
from ..node import Node
from ..registry import op
from .casts import saturated
from .matmul import whole_product


def _spread(node: Node, x: Array, scale: Array) -> Array:
    """A scale or zero point for every element: of all, of a row along `axis`, or of its blocks."""
    if scale.size == 1:
        return scale.reshape(())
    axis = node.axis(x.rank, default=1)
    block = int(node.attribute("block_size", 0))
    if not block:
        return scale.reshape(tuple(size if n == axis else 1 for n, size in enumerate(x.shape)))
    if scale.rank != x.rank:
        raise InvalidNode(f"scales {scale.type} of {x.type}", expected="as many axes")
    sizes = (*scale.shape[: axis + 1], block, *scale.shape[axis + 1 :])
    apart = scale.reshape(*scale.shape[: axis + 1], 1, *scale.shape[axis + 1 :])
    whole = tuple(size * block if n == axis else size for n, size in enumerate(scale.shape))
    wide = apart.broadcast_to(sizes).reshape(whole)
    return wide[tuple(slice(0, size) for size in x.shape)]


def rounded(values: Array, zero: Array | None, to: DType) -> Array:
    """To the nearest integers, the zero point added, within the range of the type."""
    whole = fn.rint(values)
    if zero is not None:
        whole = whole + zero.cast(whole.dtype)
    return fn.minimum(fn.maximum(whole, float(to.min)), float(to.max)).cast(to)


@op("QuantizeLinear")
def quantize(node: Node) -> Array:
    """The quotient is computed in f32."""
    x, zero = node[0], node.get(2)
    to = zero.dtype if zero is not None else find_dtype("u8")
    if zero is None and node.attribute("output_dtype", 0):
        to = node.dtype("output_dtype")
    wide = find_dtype("f32")
    if node.attribute("precision", 0):
        wide = node.dtype("precision")
    quotient = x.cast(wide) / _spread(node, x, node[1].cast(wide))
    if not to.is_int:
        return saturated(quotient, to) if node.attribute("saturate", 1) else quotient.cast(to)
    return rounded(quotient, None if zero is None else _spread(node, x, zero), to)


@op("DequantizeLinear")
def dequantize(node: Node) -> Array:
    """(x - zero) * scale in f32, rounded once to the type of the scale."""
    x, scale, zero = node[0], node[1], node.get(2)
    if x.dtype.is_float:
        values = x.cast("f32")
    else:
        whole = x.cast("i32")
        if zero is not None:
            whole = whole - _spread(node, x, zero).cast("i32")
        values = whole.cast("f32")
    to = node.dtype("output_dtype") if node.attribute("output_dtype", 0) else scale.dtype
    return (values * _spread(node, x, scale.cast("f32"))).cast(to)


@op("DynamicQuantizeLinear")
def dynamic(node: Node) -> tuple[Array, Array, Array]:
    """Scale and zero point follow from the least and greatest element."""
    x = node[0]
    low, high = fn.minimum(x.min(), 0.0), fn.maximum(x.max(), 0.0)
    span = high - low
    scale = fn.where(span == 0.0, 1.0, span) / 255.0
    point = rounded(-low / scale, None, find_dtype("u8"))
    return rounded(x / scale, point, find_dtype("u8")), scale, point


@op("QLinearMatMul")
def quantized_product(node: Node) -> Array:
    """Exact sums in i32, scaled, rounded and limited."""
    a, b, zero = node[0], node[3], node[7]
    total = whole_product(a, b, node.get(2), node.get(5))
    left, right, out = (node[n].cast("f32") for n in (1, 4, 6))
    left = left.reshape(left.size, 1) if left.rank == 1 and left.size > 1 else left
    return rounded(total.cast("f32") * (left * right / out), zero, zero.dtype)
