"""Gather, scatter and order by indexes that are data. An index outside of its axis is a fault of
the graph's op, also where it is joined with others."""

from __future__ import annotations

import math

import numpy as np

from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ....ir.graph.types import find_dtype
from ...refusal import InvalidNode
from ..node import Node
from ..registry import op
from .shapes import places


def _front(node: Node, position: int, size: int) -> Array:
    """Indexes counted from the front; those that are known become constants."""
    value = node.value(position)
    if value.known is not None and value.type.dtype.is_int:
        known = value.known
        return node.site.literal(np.where(known < 0, known + size, known), value.type)
    given = node[position]
    return fn.where(given < 0, given + size, given)


@op("Gather")
def gather(node: Node) -> Array:
    """Slices of an axis."""
    axis = node.axis(node[0].rank)
    return fn.take(node[0], _front(node, 1, node[0].shape[axis]), axis)


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def features(node: Node) -> Array:
    """Columns of the last axis."""
    x, at = node[0], node[1]
    return fn.take(x, at.reshape(at.size), x.rank - 1)


def joined(node: Node, indexes: list[Array], sizes: list[int], outside: int) -> Array:
    """i64: indexes into several axes, 0 up to each size, as one into all of them; `outside` where
    one of them lies outside."""
    total, inside = None, None
    for n, (index, size) in enumerate(zip(indexes, sizes, strict=True)):
        at = index.cast("i64")
        fits = (at >= 0) & (at < size)
        step = at * math.prod(sizes[n + 1 :])
        total = step if total is None else total + step
        inside = fits if inside is None else inside & fits
    if total is None or inside is None:
        raise InvalidNode(f"{node.op} without an index", expected="one at least")
    return fn.where(inside, total, outside)


def _lifted(node: Node, index: Array, size: int) -> Array:
    return fn.where(index < 0, index + size, index)


def _along(node: Node, shape: tuple[int, ...], at: Array, axis: int, outside: int) -> Array:
    """For each element of `at`, its place in a tensor of a shape: its own, but along the axis."""
    grid = [at if n == axis else places(node, at.shape, n) for n in range(at.rank)]
    return joined(node, grid, list(shape), outside)


def along(node: Node, x: Array, at: Array, axis: int) -> Array:
    """As numpy's take_along_axis."""
    flat = _along(node, x.shape, at, axis, -1)
    return fn.take(x.reshape(x.size), flat.reshape(flat.size)).reshape(at.shape)


@op("GatherElements")
def gather_elements(node: Node) -> Array:
    """Along an axis, one index for each element of the result."""
    x, at = node[0], node[1]
    axis = node.axis(x.rank)
    if at.rank != x.rank:
        raise InvalidNode(f"indexes {at.type} into {x.type}", expected="as many axes")
    return along(node, x, _lifted(node, at, x.shape[axis]), axis)


def _tuples(node: Node, at: Array, sizes: list[int], outside: int) -> Array:
    """Index tuples along the last axis as one index into all these axes."""
    parts = [_lifted(node, at[..., n], size) for n, size in enumerate(sizes)]
    return joined(node, parts, sizes, outside)


@op("GatherND")
def gather_nd(node: Node) -> Array:
    """Slices by tuples of indexes."""
    x, at = node[0], node[1]
    shared, depth = int(node.attribute("batch_dims", 0)), at.shape[-1]
    sizes = list(x.shape[shared : shared + depth])
    if len(sizes) != depth or not 0 <= shared < at.rank or x.shape[:shared] != at.shape[:shared]:
        raise InvalidNode(f"tuples {at.type} into {x.type}", expected="axes for each index")
    batch, span = math.prod(x.shape[:shared]), math.prod(sizes)
    rows = _tuples(node, at, sizes, -span * batch - 1)
    if shared:
        count = math.prod(rows.shape[shared:])
        first = places(node, (batch, count), 0) * span
        rows = rows.reshape(batch, count) + first
    inner = x.shape[shared + depth :]
    taken = fn.take(x.reshape(batch * span, *inner), rows.reshape(rows.size))
    return taken.reshape(*at.shape[:-1], *inner)


def _scattered(node: Node, x: Array, rows: Array, updates: Array) -> Array:
    """Updates of rows of x. With none, places differ, as ONNX says of them."""
    mode = node.attribute("reduction", "none")
    if mode not in ("none", "add"):
        raise node.lacks(f"scatter by {mode}")
    return fn.scatter(x, rows, updates, kind="add" if mode == "add" else "set")


@op("ScatterND")
def scatter_nd(node: Node) -> Array:
    """Slices by tuples of indexes."""
    x, at, updates = node[0], node[1], node[2]
    depth = at.shape[-1]
    if depth > x.rank:
        raise InvalidNode(f"tuples {at.type} into {x.type}", expected="axes for each index")
    count = math.prod(x.shape[:depth])
    rows = _tuples(node, at, list(x.shape[:depth]), count)
    inner = x.shape[depth:]
    flat = _scattered(
        node,
        x.reshape(count, *inner),
        rows.reshape(rows.size),
        updates.reshape(rows.size, *inner),
    )
    return flat.reshape(x.shape)


@op("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Array:
    """Along an axis, one index for each update."""
    x, at, updates = node[0], node[1], node[2]
    axis = node.axis(x.rank)
    if at.rank != x.rank:
        raise InvalidNode(f"indexes {at.type} into {x.type}", expected="as many axes")
    rows = _along(node, x.shape, _lifted(node, at, x.shape[axis]), axis, x.size)
    flat = _scattered(
        node, x.reshape(x.size), rows.reshape(rows.size), updates.reshape(updates.size)
    )
    return flat.reshape(x.shape)


@op("Compress")
def compress(node: Node) -> Array:
    """The slices where a condition holds, which is known: it decides the shape."""
    x = node[0]
    kept = np.flatnonzero(node.known(1, "the condition"))
    rows = node.builder.literal(kept, "i64")
    if node.attribute("axis") is None:
        return fn.take(x.reshape(x.size), rows)
    return fn.take(x, rows, node.axis(x.rank))


@op("OneHot")
def one_hot(node: Node) -> Array:
    """`values` are what stands elsewhere and at the index."""
    at, values = node[0].cast("i64"), node[2]
    depth = int(node.number(1, "the depth"))
    axis = node.axis(at.rank + 1)
    at = _lifted(node, at, depth).reshape(*at.shape[:axis], 1, *at.shape[axis:])
    shape = (*at.shape[:axis], depth, *at.shape[axis + 1 :])
    return fn.where(at.broadcast_to(shape) == places(node, shape, axis), values[1], values[0])


@op("TopK")
def top_k(node: Node) -> tuple[Array, Array]:
    """In order; the least are the greatest of the reversed order."""
    x = node[0]
    axis = node.axis(x.rank, default=-1)
    (count,) = node.integers("k", 1) or [0]
    order = [*(n for n in range(x.rank) if n != axis), axis]
    back = [order.index(n) for n in range(x.rank)]
    least = not node.attribute("largest", 1)
    turn = (lambda a: -a) if x.dtype.is_float else (lambda a: ~a)
    rows = x.transpose(tuple(order))
    values, at = fn.top_k(turn(rows) if least else rows, count)
    values = turn(values) if least else values
    return values.transpose(tuple(back)), at.cast(find_dtype("i64")).transpose(tuple(back))


@op("TensorScatter")
def tensor_scatter(node: Node) -> Array:
    """Rows of a cache written from a place on, for each of the batch."""
    cache, update = node[0], node[1]
    axis = node.axis(cache.rank)
    given = node.get(2)
    limit, batch = cache.shape[axis], cache.shape[0]
    shape = [1] * cache.rank
    shape[0] = batch
    at = places(node, update.shape, axis)
    if given is not None:
        at = at + given.cast("i64").reshape(tuple(shape))
    if node.attribute("mode") == "circular":
        at = at % limit
    rows = _along(node, cache.shape, at, axis, cache.size)
    flat = fn.scatter(
        cache.reshape(cache.size), rows.reshape(rows.size), update.reshape(update.size)
    )
    return flat.reshape(cache.shape)
