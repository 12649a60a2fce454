"""Reductions over any axes, arg-reductions and cumulative ops."""

from __future__ import annotations

import math

from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ....ir.graph.types import find_dtype
from ..node import Node
from ..registry import op
from .elementwise import quotient


def _axes(node: Node, x: Array) -> list[int]:
    """Which axes go: all where none is named, none where that is to be a no-op."""
    given = node.integers("axes", 1)
    if not given:
        return [] if node.attribute("noop_with_empty_axes", 0) else list(range(x.rank))
    return node.axes(given, x.rank)


def _keeps(node: Node) -> bool:
    return bool(node.attribute("keepdims", 1))


@op("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")
def plain(node: Node) -> Array:
    """One op for each; the greatest and least of bools as of bytes."""
    x = node[0]
    wide = x.cast("u8") if x.dtype.is_bool else x
    name = node.op.removeprefix("Reduce").lower()
    found: Array = getattr(wide, name)(_axes(node, x), keepdims=_keeps(node))
    return found.cast(x.dtype)


@op("ReduceMean")
def mean(node: Node) -> Array:
    """Of integers cut towards zero."""
    x, axes = node[0], _axes(node, node[0])
    if x.dtype.is_float:
        return x.mean(axes, keepdims=_keeps(node))
    count = math.prod(x.shape[n] for n in axes)
    total = x.sum(axes, keepdims=_keeps(node))
    return quotient(total, node.builder.literal(count, x.dtype).broadcast_to(total.shape))


@op("ReduceL1", "ReduceSumSquare", "ReduceL2", "ReduceLogSum")
def norms(node: Node) -> Array:
    """Sums of magnitudes or squares, in f32 where they are floats, and what is made of a sum."""
    x, axes = node[0], _axes(node, node[0])
    wide = fn.widened(x) if x.dtype.is_float else x
    if node.op == "ReduceL1":
        wide = abs(wide)
    elif node.op != "ReduceLogSum":
        wide = wide * wide
    total = wide.sum(axes, keepdims=_keeps(node))
    if node.op in ("ReduceL1", "ReduceSumSquare"):
        return total.cast(x.dtype)
    real = total if total.dtype.is_float else total.cast("f64")
    return (fn.sqrt(real) if node.op == "ReduceL2" else fn.log(real)).cast(x.dtype)


@op("ReduceLogSumExp")
def log_sum_exp(node: Node) -> Array:
    """Without overflow: the greatest element is taken out."""
    x, axes = node[0], _axes(node, node[0])
    wide = fn.widened(x) if x.dtype.is_float else x.cast("f64")
    most = wide.max(axes, keepdims=True)
    most = fn.where(fn.isinf(most), 0.0, most)
    total = fn.log(fn.exp(wide - most).sum(axes, keepdims=_keeps(node)))
    return (total + most.reshape(total.shape)).cast(x.dtype)


@op("ArgMax", "ArgMin")
def arg_reduction(node: Node) -> Array:
    """The last of equals is the first from behind."""
    x = node[0]
    axis, size = node.axis(x.rank), x.shape[node.axis(x.rank)]
    if node.attribute("select_last_index", 0):
        back = size - 1 - fn.arange(x, size, "i32")
        x = fn.take(x, back, axis)
    found = x.argmax(axis) if node.op == "ArgMax" else x.argmin(axis)
    if node.attribute("select_last_index", 0):
        found = size - 1 - found
    found = found.cast(find_dtype("i64"))
    if not _keeps(node):
        return found
    return found.reshape(tuple(1 if n == axis else s for n, s in enumerate(x.shape)))


@op("CumSum", "CumProd")
def cumulative(node: Node) -> Array:
    """Along one axis."""
    x = node[0]
    axis = node.checked(int(node.number(1, "the axis")), x.rank)
    return fn.apply(
        "cumulative",
        x,
        axis=axis,
        kind="sum" if node.op == "CumSum" else "prod",
        exclusive=bool(node.attribute("exclusive", 0)),
        reverse=bool(node.attribute("reverse", 0)),
    )
