"""Softmax and its relatives. Before opset 13 all axes from one on are one row."""

from __future__ import annotations

import math
from collections.abc import Callable

from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ....ir.graph.composites.normalization import log_softmax
from ....ir.graph.composites.normalization import softmax as softmax_of
from ..node import Node
from ..registry import op


def _hardmax(x: Array, *, axis: int) -> Array:
    """1 at the first greatest, 0 elsewhere."""
    at = x.argmax(axis)
    at = at.reshape(tuple(1 if n == axis else size for n, size in enumerate(x.shape)))
    return (at == fn.iota(x, x.shape, axis)).cast(x.dtype)


_OF: dict[str, Callable[..., Array]] = {
    "Softmax": softmax_of,
    "LogSoftmax": log_softmax,
    "Hardmax": _hardmax,
}


@op(*_OF)
def of_rows(node: Node) -> Array:
    """Of all axes from one on together."""
    x = node[0]
    axis = node.axis(x.rank, default=1)
    rows = x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return _OF[node.op](rows, axis=1).reshape(x.shape)


@op(*_OF, since=13)
def of_axis(node: Node) -> Array:
    """Along one axis."""
    return _OF[node.op](node[0], axis=node.axis(node[0].rank, default=-1))
