"""Changes of the element type."""

from __future__ import annotations

from ..machine import Machine
from ..node import Node
from ..pieces import cast
from ..refusal import Missing
from ..registry import op
from ..tensor import ARRAYS, Tensor, name_of_type


@op("Cast")
def converted(m: Machine, node: Node) -> Tensor:
    """To the type that an attribute names."""
    return _cast(m, node, name_of_type(node.attribute("to")))


@op("CastLike")
def converted_like(m: Machine, node: Node) -> Tensor:
    """To the type of another tensor."""
    return _cast(m, node, node[1].dtype)


_GREATEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0}


def saturated(m: Machine, x: Tensor, to: str) -> Tensor:
    """x as 8-bit floats, of which the greatest stands for all that is greater. The kernels give NaN
    or infinity there, so that values are limited before."""
    x = x if x.dtype in ("f16", "f32") else cast(m, x, "f32")
    y = m.empty(x.shape, x.dtype)
    m.launch("limit", x.dtype, x, y, -_GREATEST[to], _GREATEST[to])
    return cast(m, y, to)


def _cast(m: Machine, node: Node, to: str) -> Tensor:
    x = node[0]
    if to in _GREATEST and x.dtype not in _GREATEST and node.attribute("saturate", 1):
        return saturated(m, x, to)
    return cast(m, x, to)


@op("BitCast")
def reinterpreted(m: Machine, node: Node) -> Tensor:
    """The same bits."""
    to = name_of_type(node.attribute("to"))
    if ARRAYS[to].itemsize != node[0].itemsize:
        raise Missing("a BitCast between types of different widths")
    return node[0].seen_as(to)
