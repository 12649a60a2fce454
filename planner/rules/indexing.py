"""Gather, scatter, and rows of packed matrices."""

from __future__ import annotations

import math

import numpy as np

from ...ir.dtypes import DTYPES
from ...ir.graph.core import Node
from ...ir.graph.types import TensorType
from ...ir.quantized import BLOCKS
from ..lowering import Lowering
from ..refusal import Missing
from ..view import View
from .copies import copied, expanded, full
from .elementwise import cast, choose, compare


def _gather(c: Lowering, node: Node) -> tuple[View, ...]:
    x, places = map(c.view, node.operands)
    axis = node.attr("axis")
    assert isinstance(axis, int)
    type_ = node.results[0].type
    y = c.make(type_)
    if not type_.size:
        return (y,)
    inner, count = math.prod(x.shape[axis + 1 :]), x.shape[axis]
    rows = cast(c, places, DTYPES["i32"])
    if math.prod(x.shape[:axis]) == 1 and c.has("gather", str(x.dtype)):
        c.launch("gather", str(x.dtype), x, rows, y, inner)
        return (y,)
    rows = _without_negative(c, rows, count)
    moved, to = x, y
    if (x.dtype.bytes == 1 and inner % 4 == 0) or x.dtype.bytes == 8:
        inner = inner * x.dtype.bytes // 4
        moved, to = _words(x), _words(y)
    elif x.dtype.bytes == 1:
        raise Missing("kernel take b8")
    c.launch("take", f"b{8 * moved.dtype.bytes}", moved.words, rows, to.words, count, inner)
    return (y,)


def _without_negative(c: Lowering, rows: View, count: int) -> View:
    """Rows below 0 as row `count`, which is none: some kernels count them from the end."""
    known = c.pool.storages[rows.storage].data
    if known is not None and (np.frombuffer(known, "<i4") >= 0).all():
        return rows
    return choose(c, compare(c, "lt", rows, _like(c, rows, 0)), _like(c, rows, count), rows)


def _like(c: Lowering, rows: View, value: int) -> View:
    return full(c, rows.type, value)


def _words(x: View) -> View:
    """All bytes as u32."""
    return x.reshaped(x.type.size).seen_as("u32")


def _scatter(c: Lowering, node: Node) -> tuple[View, ...]:
    x, places, updates = map(c.view, node.operands)
    axis = node.attr("axis")
    assert isinstance(axis, int)
    own = c.owned(x) and updates.storage != x.storage
    y = x if own else copied(c, x, c.make(x.type))
    if not updates.type.size:
        return (y,)
    inner = math.prod(x.shape[axis + 1 :])
    rows = cast(c, places, DTYPES["i32"])
    if node.attr("kind") == "add":
        _add(c, updates, rows, y, axis)
        return (y,)
    if x.dtype.bytes not in (2, 4):
        raise Missing(f"kernel scatter_rows b{8 * x.dtype.bytes}")
    # The place -1 is an entry of its own behind those of the rows: the kernel that finds the last
    # update of each has it, and the one that writes rows passes over it. A fault lies behind it.
    count = x.shape[axis]
    rows = _scattered(c, rows, count)
    none = c.pool.array(np.full(count + 1, -1, np.int32), "i32")
    last = copied(c, none, c.make(none.type))
    c.launch("scatter_last", "i32", rows, last)
    bits, of_rows = f"b{8 * x.dtype.bytes}", last.part(0, (count,))
    c.launch("scatter_rows", bits, updates.words, rows, of_rows, y.words, inner)
    return (y,)


def _scattered(c: Lowering, rows: View, count: int) -> View:
    """-1 as `count`, and all other rows that are none as one behind it."""
    outside = _like(c, rows, count + 1)
    below = compare(c, "lt", rows, _like(c, rows, 0))
    beyond = compare(c, "le", _like(c, rows, count), rows)
    dropped = compare(c, "eq", rows, _like(c, rows, -1))
    inside = choose(c, beyond, outside, choose(c, below, outside, rows))
    return choose(c, dropped, _like(c, rows, count), inside)


def _add(c: Lowering, updates: View, rows: View, y: View, axis: int) -> None:
    """What has no place is 0 in the first row."""
    dropped = compare(c, "eq", rows, _like(c, rows, -1))
    at = choose(c, dropped, _like(c, rows, 0), _without_negative(c, rows, y.shape[axis]))
    shape = [1] * len(updates.shape)
    shape[axis] = rows.shape[0]
    where = expanded(c, dropped.reshaped(*shape), updates.shape)
    added = choose(c, where, full(c, updates.type, 0), updates)
    inner = math.prod(y.shape[axis + 1 :])
    c.launch("index_add", str(y.dtype), added, at, y, y.shape[axis], inner)


def _dequantize(c: Lowering, node: Node) -> tuple[View, ...]:
    """Rows of a packed matrix; those that a gather would take, without taking them first."""
    gather = c.deferred(node.operands[0], "gather")
    if gather is not None and gather.attr("axis") == 0 and gather.operands[0].type.rank == 2:
        c.claim(gather)
        packed, places = c.view(gather.operands[0]), c.view(gather.operands[1])
        rows = cast(c, places, DTYPES["i32"])
    else:
        packed = c.view(node.operands[0])
        rows = c.pool.array(np.arange(packed.shape[0]), "i32")
    return (decoded(c, packed, rows, str(node.attr("format")), node.results[0].type),)


def decoded(c: Lowering, packed: View, rows: View, form: str, type_: TensorType) -> View:
    """The numbers of some rows of a packed matrix."""
    y = c.make(type_)
    name = form if str(type_.dtype) == "f32" else f"{form}_{type_.dtype}"
    count, cols = packed.shape[0], type_.shape[1]
    c.launch("dequantize", name, packed_words(packed, form), rows, y, count, cols)
    return y


def packed_words(packed: View, form: str) -> View:
    """A packed matrix in the words that kernels read it by."""
    return packed.reshaped(packed.type.size).seen_as(str(BLOCKS[form].word))


RULES = {"gather": (_gather,), "scatter": (_scatter,), "dequantize": (_dequantize,)}
