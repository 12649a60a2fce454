"""Changes of the element type."""

from __future__ import annotations

from ....ir.dtypes import DType
from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ..node import Node
from ..registry import op

GREATEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0}


def saturated(x: Array, to: DType) -> Array:
    """As 8-bit floats, of which the greatest stands for all that is greater; a NaN stays one."""
    x = x if x.dtype.computes and x.dtype.is_float else fn.widened(x)
    most = GREATEST[to.name]
    x = x if x.dtype.bits > 16 else fn.widened(x)
    return fn.where(x > most, most, fn.where(x < -most, -most, x)).cast(to)


def _cast(node: Node, to: DType) -> Array:
    x = node[0]
    if to.name in GREATEST and to != x.dtype and node.attribute("saturate", 1):
        return saturated(x, to)
    return x.cast(to)


@op("Cast")
def converted(node: Node) -> Array:
    """To the type that an attribute names."""
    return _cast(node, node.dtype("to"))


@op("CastLike")
def converted_like(node: Node) -> Array:
    """To the type of another tensor."""
    return _cast(node, node.value(1).type.dtype)


@op("BitCast")
def reinterpreted(node: Node) -> Array:
    """The same bits."""
    x, to = node[0], node.dtype("to")
    x = x.cast("u8") if x.dtype.is_bool and x.dtype != to else x
    return x if to == x.dtype else fn.apply("bitcast", x, dtype=to)
