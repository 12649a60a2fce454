"""Reductions, and the places of the greatest."""

from __future__ import annotations

import numpy as np

from ...ir.dtypes import DTYPES
from ...ir.graph.core import Node
from ...ir.graph.types import TensorType
from ..lowering import Lowering
from ..refusal import Missing
from ..view import View
from .copies import full, taken
from .elementwise import WIDER, cast, unary


def _reduce(c: Lowering, node: Node) -> tuple[View, ...]:
    x, axes = c.view(node.operands[0]), node.attr("axes")
    assert isinstance(axes, tuple)
    kind = str(node.attr("kind"))
    order = [*(n for n in range(len(x.shape)) if n not in axes), *axes]
    rows = taken(c, x, lambda v: v.transpose(order))
    type_ = node.results[0].type
    cols = x.type.size // type_.size if type_.size else 0
    if cols == 0:
        if type_.size and kind in ("sum", "prod"):
            return (full(c, type_, 0 if kind == "sum" else 1),)
        raise Missing(f"a kernel for the {kind} of nothing") if type_.size else Missing("elements")
    return (_of_rows(c, kind, rows, cols).reshaped(*type_.shape),)


def _of_rows(c: Lowering, kind: str, rows: View, cols: int) -> View:
    name = f"{kind}_{rows.dtype}"
    if not c.has("reduce_rows", name):
        wider = WIDER.get(str(rows.dtype))
        if wider is None:
            raise Missing(f"kernel reduce_rows {name}")
        return cast(c, _of_rows(c, kind, cast(c, rows, DTYPES[wider]), cols), rows.dtype)
    sums = DTYPES["f32"] if rows.dtype.is_float else rows.dtype
    y = c.make(TensorType(sums, (rows.type.size // cols,)))
    c.launch("reduce_rows", name, rows, y, cols)
    return cast(c, y, rows.dtype)


def _arg_reduce(c: Lowering, node: Node) -> tuple[View, ...]:
    x, axis = c.view(node.operands[0]), node.attr("axis")
    assert isinstance(axis, int)
    if node.attr("kind") == "min":
        if not x.dtype.is_float:
            raise Missing("kernel argmin_rows")
        x = unary(c, "neg", x)
    order = [*(n for n in range(len(x.shape)) if n != axis), axis]
    rows = taken(c, x, lambda v: v.transpose(order))
    return (_places(c, rows, x.shape[axis]).reshaped(*node.results[0].type.shape),)


LEAST_RUN, MOST_RUNS = 1024, 256  # elements of a part of a row, and parts, each by a workgroup


def _places(c: Lowering, rows: View, cols: int) -> View:
    if str(rows.dtype) in WIDER:
        rows = cast(c, rows, DTYPES[WIDER[str(rows.dtype)]])
    count = rows.type.size // cols if cols else 0
    if not count:
        raise Missing("a kernel for the place in nothing")
    y = c.make(TensorType(DTYPES["i32"], (count,)))
    if count == 1 and cols >= 2 * LEAST_RUN and c.has("argmax_partials", str(rows.dtype)):
        runs = min(cols // LEAST_RUN, MOST_RUNS)
        values = c.make(TensorType(rows.dtype, (runs,)))
        places = c.make(TensorType(DTYPES["i32"], (runs,)))
        c.launch("argmax_partials", str(rows.dtype), rows, values, places)
        c.launch("argmax_merge", str(rows.dtype), values, places, y)
        return y
    c.launch("argmax_rows", str(rows.dtype), rows, y, cols)
    return y


def _greedy(c: Lowering, node: Node) -> tuple[View, ...]:
    logits = c.view(node.operands[0])
    return (_places(c, logits, logits.shape[1]),)


def _cumulative(c: Lowering, node: Node) -> tuple[View, ...]:
    x, axis = c.view(node.operands[0]), node.attr("axis")
    assert isinstance(axis, int)
    order = [*(n for n in range(len(x.shape)) if n != axis), axis]
    rows = taken(c, x, lambda v: v.transpose(order))
    if not rows.type.size:
        return (x,)
    sums = _running(c, str(node.attr("kind")), rows, [int(bool(node.attr(k))) for k in _ENDS])
    return (taken(c, sums, lambda v: v.transpose(np.argsort(order))),)


_ENDS = ("exclusive", "reverse")


def _running(c: Lowering, kind: str, rows: View, ends: list[int]) -> View:
    name = f"{kind}_{rows.dtype}"
    if not c.has("scan_rows", name):
        wider = WIDER.get(str(rows.dtype))
        if wider is None:
            raise Missing(f"kernel scan_rows {name}")
        return cast(c, _running(c, kind, cast(c, rows, DTYPES[wider]), ends), rows.dtype)
    y = c.make(rows.type)
    c.launch("scan_rows", name, rows, y, rows.shape[-1], *ends)
    return y


def _top_k(c: Lowering, node: Node) -> tuple[View, ...]:
    raise Missing("a kernel of the greatest elements that gives NaNs too")


RULES = {
    "reduce": (_reduce,),
    "arg_reduce": (_arg_reduce,),
    "greedy": (_greedy,),
    "cumulative": (_cumulative,),
    "top_k": (_top_k,),
}
