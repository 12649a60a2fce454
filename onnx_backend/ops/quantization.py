"""Linear quantization: integers or 8-bit floats with a scale and a zero point."""

from __future__ import annotations

from ..layout import expanded, moved
from ..machine import Machine
from ..node import Node, checked_axis
from ..pieces import RANGES, binary, cast, chosen, compared, limited, reduced, unary
from ..refusal import Missing
from ..registry import op
from ..tensor import Tensor, name_of_type
from .casts import saturated
from .matmul import exact_product


def _spread(m: Machine, node: Node, x: Tensor, scale: Tensor) -> Tensor:
    """A scale or zero point for every element: of all, of a row along `axis`, or of its blocks."""
    if scale.size == 1:
        return scale.reshaped()
    axis = checked_axis(node, int(node.attribute("axis", 1)), x.rank)
    block = node.attribute("block_size", 0)
    if not block:
        return scale.reshaped(*(size if n == axis else 1 for n, size in enumerate(x.shape)))
    sizes = (*scale.shape[: axis + 1], block, *scale.shape[axis + 1 :])
    apart = scale.reshaped(*scale.shape[: axis + 1], 1, *scale.shape[axis + 1 :])
    whole = list(scale.shape)
    whole[axis] *= block
    wide = expanded(m, apart, sizes).reshaped(*whole)
    return moved(m, wide, lambda v: v[tuple(slice(0, size) for size in x.shape)])


def rounded(m: Machine, quotient: Tensor, zero: Tensor | None, to: str) -> Tensor:
    """f32 to the nearest integers, the zero point added, within the range of the type."""
    whole = cast(m, unary(m, "rint", quotient), "i32")
    if zero is not None:
        whole = binary(m, "add", whole, cast(m, zero, "i32"))
    return cast(m, limited(m, whole, *RANGES[to]), to)


@op("QuantizeLinear")
def quantize(m: Machine, node: Node) -> Tensor:
    """The quotient is computed in f32."""
    x, zero = node[0], node.get(2)
    number = node.attribute("output_dtype", 0)
    to = zero.dtype if zero is not None else name_of_type(number) if number else "u8"
    precision = node.attribute("precision", 0)
    if precision and name_of_type(precision) != "f32" and x.dtype != name_of_type(precision):
        raise Missing(f"QuantizeLinear in {name_of_type(precision)}")
    scale = _spread(m, node, x, cast(m, node[1], "f32"))
    quotient = binary(m, "div", cast(m, x, "f32"), scale)
    if to.startswith("f8"):
        return (
            saturated(m, quotient, to) if node.attribute("saturate", 1) else cast(m, quotient, to)
        )
    if to not in RANGES:
        raise Missing(f"QuantizeLinear to {to}")
    return rounded(m, quotient, None if zero is None else _spread(m, node, x, zero), to)


@op("DequantizeLinear")
def dequantize(m: Machine, node: Node) -> Tensor:
    """(x - zero) * scale in f32, rounded once to the type of the scale."""
    x, scale, zero = node[0], node[1], node.get(2)
    if x.dtype.startswith("f8"):
        values = cast(m, x, "f32")
    else:
        whole = cast(m, x, "i32")
        if zero is not None:
            whole = binary(m, "sub", whole, cast(m, _spread(m, node, x, zero), "i32"))
        values = cast(m, whole, "f32")
    factors = _spread(m, node, x, cast(m, scale, "f32"))
    number = node.attribute("output_dtype", 0)
    to = name_of_type(number) if number else scale.dtype
    return cast(m, binary(m, "mul", values, factors), to)


@op("DynamicQuantizeLinear")
def dynamic(m: Machine, node: Node) -> tuple[Tensor, Tensor, Tensor]:
    """Scale and zero point follow from the least and greatest element, on the device."""
    x, zero = node[0], m.constant(0, "f32")
    axes = list(range(x.rank))
    low = binary(m, "min", reduced(m, "min", x, axes, False), zero)
    high = binary(m, "max", reduced(m, "max", x, axes, False), zero)
    span = binary(m, "sub", high, low)
    span = chosen(m, compared(m, "eq", span, zero), m.constant(1, "f32"), span)
    scale = binary(m, "div", span, m.constant(255, "f32"))
    start = binary(m, "sub", zero, binary(m, "div", low, scale))
    point = rounded(m, start, None, "u8")
    return rounded(m, binary(m, "div", x, scale), point, "u8"), scale, point


@op("QLinearMatMul")
def quantized_product(m: Machine, node: Node) -> Tensor:
    """Exact integer sums in f32, scaled, rounded and limited."""
    a, b = node[0], node[3]
    total = exact_product(m, a, b, (node.get(2), node.get(5)))
    scales = [cast(m, node[n], "f32") for n in (1, 4, 6)]
    if scales[0].rank == 1 and scales[0].size > 1:  # one for each row
        scales[0] = scales[0].reshaped(scales[0].size, 1)
    factor = binary(m, "div", binary(m, "mul", scales[0], scales[1]), scales[2])
    zero = node.get(7)
    return rounded(
        m, binary(m, "mul", total, factor), zero, a.dtype if zero is None else zero.dtype
    )
