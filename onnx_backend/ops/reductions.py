"""Reductions over any axes, arg-reductions and cumulative ops."""

from __future__ import annotations

import math

import numpy as np

from ..layout import full, moved, permuted
from ..machine import Machine
from ..node import Node, checked_axis
from ..pieces import binary, cast, reduced, unary, wide
from ..refusal import Missing
from ..registry import op
from ..tensor import Tensor

_PLAIN = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceProd": "prod",
    "ReduceL2": "l2",
    "ReduceMax": "max",
    "ReduceMin": "min",
}


def _axes(m: Machine, node: Node, x: Tensor) -> list[int]:
    """Which axes go: all where none is named, none where that is to be a no-op."""
    given = node.integers(m, "axes", 1)
    if not given:
        return [] if node.attribute("noop_with_empty_axes", 0) else list(range(x.rank))
    return [checked_axis(node, axis, x.rank) for axis in given]


@op(*_PLAIN, "ReduceL1", "ReduceSumSquare", "ReduceLogSum")
def reduction(m: Machine, node: Node) -> Tensor:
    """One kernel, with what is done to every element before and to the result after it."""
    x, axes, keep = node[0], _axes(m, node, node[0]), bool(node.attribute("keepdims"))
    if not axes and node.attribute("noop_with_empty_axes", 0) and node.op in _PLAIN:
        return x if node.op != "ReduceL2" else unary(m, "abs", x)
    if node.op == "ReduceL1":
        x = unary(m, "abs", x)
    elif node.op == "ReduceSumSquare":
        x = binary(m, "mul", x, x)
    bools = x.dtype == "bool"
    found = reduced(m, _PLAIN.get(node.op, "sum"), x.seen_as("u8") if bools else x, axes, keep)
    if node.op == "ReduceLogSum":
        return unary(m, "log", found)
    if bools and x.size == 0:  # the least of no bytes is 255, which is no bool
        return cast(m, found, "bool")
    return found.seen_as("bool") if bools else found


@op("ReduceLogSumExp")
def log_sum_exp(m: Machine, node: Node) -> Tensor:
    """In f32, without overflow."""
    x, axes = node[0], _axes(m, node, node[0])
    kept = [n for n in range(x.rank) if n not in axes]
    rows = permuted(m, cast(m, x, "f32") if x.dtype in ("f16", "bf16") else x, [*kept, *axes])
    cols = math.prod(x.shape[n] for n in axes)
    count = math.prod(x.shape[n] for n in kept)
    if cols == 0:
        y = full(m, (count,), -np.inf, x.dtype)
    else:
        y = m.empty((count,), "f32")
        m.launch("logsumexp_rows", rows.dtype, rows, y, cols)
        y = cast(m, y, x.dtype)
    sizes = [1 if n in axes else x.shape[n] for n in range(x.rank)]
    return y.reshaped(*(sizes if node.attribute("keepdims") else [x.shape[n] for n in kept]))


def last(m: Machine, x: Tensor, axis: int) -> Tensor:
    """x with this axis behind the others."""
    return permuted(m, x, [*(n for n in range(x.rank) if n != axis), axis])


def back(m: Machine, x: Tensor, axis: int) -> Tensor:
    """The counterpart of `last`."""
    order = list(range(x.rank - 1))
    order.insert(axis, x.rank - 1)
    return permuted(m, x, order)


def arg_greatest(m: Machine, x: Tensor) -> Tensor:
    """Of each row along the last axis, the column of the greatest, as i32; the first of equals."""
    if x.dtype in ("f16", "bf16"):
        x = cast(m, x, "f32")
    elif x.dtype in ("i8", "u8", "i16", "u16"):
        x = cast(m, x, "i32")
    y = m.empty(x.shape[:-1], "i32")
    m.launch("argmax_rows", x.dtype, x, y, x.shape[-1])
    return y


@op("ArgMax", "ArgMin")
def arg_reduction(m: Machine, node: Node) -> Tensor:
    """The least is the greatest of the negated; the last of equals is the first from behind."""
    x = node[0]
    axis = node.axis(x.rank)
    if x.dtype not in ("f32", "f16", "bf16") and node.op == "ArgMin":
        raise Missing(f"kernel unary neg_{x.dtype}")
    rows = last(m, unary(m, "neg", x) if node.op == "ArgMin" else x, axis)
    if node.attribute("select_last_index", 0):
        found = arg_greatest(m, moved(m, rows, lambda v: v[..., ::-1]))
        found = binary(m, "sub", m.constant(x.shape[axis] - 1, "i32"), found)
    else:
        found = arg_greatest(m, rows)
    sizes = list(found.shape)
    if node.attribute("keepdims"):
        sizes.insert(axis, 1)
    return wide(m, found).reshaped(*sizes)


@op("CumSum", "CumProd")
def cumulative(m: Machine, node: Node) -> Tensor:
    """Along one axis."""
    x = node[0]
    axis = checked_axis(node, int(m.host(node[1]).item()), x.rank)
    rows = last(m, x, axis)
    y = m.empty(rows.shape, x.dtype)
    name = f"{'sum' if node.op == 'CumSum' else 'prod'}_{x.dtype}"
    modes = (int(node.attribute("exclusive", 0)), int(node.attribute("reverse", 0)))
    m.launch("scan_rows", name, rows, y, rows.shape[-1], *modes)
    return back(m, y, axis)
