"""Gather, scatter, selection and order by indexes that are data."""

from __future__ import annotations

import math

import numpy as np

from ..layout import duplicate, full, moved, place
from ..machine import Machine
from ..node import Node, checked_axis
from ..pieces import binary, cast, chosen, compared, unary, wide
from ..refusal import InvalidNode, Missing
from ..registry import op
from ..tensor import WORDS, Tensor
from .reductions import back, last


def _pieces(x: Tensor) -> tuple[Tensor, int]:
    """x as words of at most 32 bits, and how many are one element."""
    if x.itemsize == 8:
        return x.seen_as("u32"), 2
    return x.seen_as(WORDS[x.itemsize]), 1


def taken(m: Machine, x: Tensor, rows: Tensor, axis: int) -> Tensor:
    """x with the rows of one axis that i32 indexes name, in the place of that axis."""
    words, parts = _pieces(x)
    inner = math.prod(x.shape[axis + 1 :])
    y = m.empty((*x.shape[:axis], *rows.shape, *x.shape[axis + 1 :]), x.dtype)
    out, _ = _pieces(y)
    name = f"b{8 * words.itemsize}"
    m.launch("take", name, words, rows, out, x.shape[axis], inner * parts)
    return y


@op("Gather")
def gather(m: Machine, node: Node) -> Tensor:
    """Rows of an axis."""
    axis = node.axis(node[0].rank)
    return taken(m, node[0], cast(m, node[1], "i32"), axis)


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def features(m: Machine, node: Node) -> Tensor:
    """Columns of the last axis."""
    x, rows = node[0], cast(m, node[1], "i32")
    return taken(m, x, rows.reshaped(rows.size), x.rank - 1)


@op("GatherElements")
def gather_elements(m: Machine, node: Node) -> Tensor:
    """Along an axis, one index for each element of the result."""
    x, places = node[0], node[1]
    axis = node.axis(x.rank)
    if x.itemsize == 8:
        raise Missing(f"kernel take_along of {x.dtype}")
    spans = tuple(
        slice(None) if n == axis else slice(0, size) for n, size in enumerate(places.shape)
    )
    near = moved(m, x, lambda v: v[spans])
    return along(m, near, cast(m, places, "i32"), axis)


def along(m: Machine, x: Tensor, places: Tensor, axis: int) -> Tensor:
    """As numpy's take_along_axis: x and the i32 indexes are equal in shape but for the axis."""
    y = m.empty(places.shape, x.dtype)
    words = WORDS[x.itemsize]
    m.launch(
        "take_along",
        f"b{8 * x.itemsize}",
        x.seen_as(words),
        places,
        y.seen_as(words),
        x.shape[axis],
        places.shape[axis],
        math.prod(x.shape[axis + 1 :]),
    )
    return y


def _checked(m: Machine, node: Node, places: Tensor, sizes: list[int]) -> None:
    """InvalidNode for an index outside its axis: joined with others, it would be another row."""
    if places.size == 0:
        return
    host = m.host(places).reshape(-1, len(sizes))
    bound = np.array(sizes)
    if (host < -bound).any() or (host >= bound).any():
        raise InvalidNode(
            "an index outside its axis",
            where=f"node {node.name or '(unnamed)'} ({node.op})",
            expected=f"within sizes of {sizes}",
            got=f"{host.min(0).tolist()} to {host.max(0).tolist()}",
        )


def _joined(m: Machine, node: Node, places: Tensor, sizes: list[int]) -> Tensor:
    """Index tuples along the last axis as one index into all these axes, on the device."""
    _checked(m, node, places, sizes)
    indexes = cast(m, places, "i32")
    bounds = m.upload(np.array(sizes, np.int32))
    below = compared(m, "lt", indexes, m.constant(0, "i32"))
    indexes = chosen(m, below, binary(m, "add", indexes, bounds), indexes)
    strides = [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]
    steps = binary(m, "mul", indexes, m.upload(np.array(strides, np.int32)))
    total = moved(m, steps, lambda v: v[..., 0])
    for n in range(1, len(sizes)):
        total = binary(m, "add", total, moved(m, steps, lambda v, n=n: v[..., n]))
    return total


@op("GatherND")
def gather_nd(m: Machine, node: Node) -> Tensor:
    """Slices by tuples of indexes."""
    x, places = node[0], node[1]
    shared, depth = node.attribute("batch_dims", 0), places.shape[-1]
    sizes = list(x.shape[shared : shared + depth])
    rows = _joined(m, node, places, sizes)
    batch, span = math.prod(x.shape[:shared]), math.prod(sizes)
    if shared:
        offsets = np.arange(batch, dtype=np.int32) * span
        offsets = offsets.reshape(*x.shape[:shared], *[1] * (rows.rank - shared))
        rows = binary(m, "add", rows, m.upload(offsets))
    inner = x.shape[shared + depth :]
    return taken(m, x.reshaped(batch * span, *inner), rows, 0)


def _scattered(m: Machine, node: Node, x: Tensor, rows: Tensor, updates: Tensor) -> Tensor:
    """Updates of rows of x, whose axes are the rows and what is in one."""
    mode = node.attribute("reduction", "none")
    y = duplicate(m, x)
    inner = math.prod(x.shape[1:])
    if mode == "add":
        m.launch("index_add", x.dtype, updates, rows, y, x.shape[0], inner)
        return y
    if mode != "none":
        name = f"rows_{mode}_{x.dtype}"
        m.launch("scatter_reduce", name, updates, rows, y, x.shape[0], rows.size, inner)
        return y
    words, parts = _pieces(y)
    newest = full(m, (x.shape[0],), -1, "i32")
    m.launch("scatter_last", "i32", rows, newest)
    name = f"b{8 * words.itemsize}"
    m.launch("scatter_rows", name, _pieces(updates)[0], rows, newest, words, inner * parts)
    return y


@op("ScatterND")
def scatter_nd(m: Machine, node: Node) -> Tensor:
    """Slices by tuples of indexes; of equal ones the last wins."""
    x, places, updates = node[0], node[1], node[2]
    depth = places.shape[-1]
    rows = _joined(m, node, places, list(x.shape[:depth]))
    flat = x.reshaped(math.prod(x.shape[:depth]), *x.shape[depth:])
    return _scattered(m, node, flat, rows, updates).reshaped(*x.shape)


@op("ScatterElements", "Scatter")
def scatter_elements(m: Machine, node: Node) -> Tensor:
    """Along an axis, one index for each update; of equal ones the last wins."""
    x, places, updates = node[0], node[1], node[2]
    axis = node.axis(x.rank)
    _checked(m, node, places.reshaped(places.size, 1), [x.shape[axis]])
    strides = [math.prod(x.shape[n + 1 :]) for n in range(x.rank)]
    at = [np.arange(size) * step for size, step in zip(places.shape, strides, strict=True)]
    at[axis] = np.zeros(places.shape[axis], np.int64)
    fixed = sum(np.ix_(*at), np.zeros(places.shape, np.int64)).astype(np.int32)
    indexes = cast(m, places, "i32")
    below = compared(m, "lt", indexes, m.constant(0, "i32"))
    size = m.constant(x.shape[axis], "i32")
    indexes = chosen(m, below, binary(m, "add", indexes, size), indexes)
    rows = binary(m, "mul", indexes, m.constant(strides[axis], "i32"))
    rows = binary(m, "add", rows, m.upload(fixed))
    flat = _scattered(m, node, x.reshaped(x.size), rows, updates)
    return flat.reshaped(*x.shape)


@op("Compress")
def compress(m: Machine, node: Node) -> Tensor:
    """The rows where a condition holds, which is read on the host: it decides the shape."""
    rows = m.upload(np.flatnonzero(m.host(node[1])).astype(np.int32))
    if node.attribute("axis") is None:
        return taken(m, node[0].reshaped(node[0].size), rows, 0)
    return taken(m, node[0], rows, node.axis(node[0].rank))


@op("OneHot")
def one_hot(m: Machine, node: Node) -> Tensor:
    """`values` are what stands elsewhere and at the index."""
    places, values = cast(m, node[0], "i32"), node[2]
    depth = int(m.host(node[1]).reshape(-1)[0])
    axis = checked_axis(node, int(node.attribute("axis")), places.rank + 1)
    below = compared(m, "lt", places, m.constant(0, "i32"))
    places = chosen(m, below, binary(m, "add", places, m.constant(depth, "i32")), places)
    at = places.reshaped(*places.shape[:axis], 1, *places.shape[axis:])
    numbers = m.upload(np.arange(depth, dtype=np.int32).reshape(-1, *[1] * (places.rank - axis)))
    hot = compared(m, "eq", at, numbers)
    off, on = (moved(m, values, lambda v, n=n: v[n, ...]) for n in (0, 1))
    return chosen(m, hot, on, off)


@op("TopK")
def top_k(m: Machine, node: Node) -> tuple[Tensor, Tensor]:
    """In order; the least are the greatest of the negated."""
    x = node[0]
    axis = node.axis(x.rank, default=-1)
    given = node.integers(m, "k", 1)
    count = given[0] if given else 0
    least = not node.attribute("largest", 1)
    to = "f32" if x.dtype in ("f16", "bf16") else x.dtype
    rows = last(m, cast(m, x, to), axis)
    rows = unary(m, "neg", rows) if least else rows
    shape = (*rows.shape[:-1], count)
    values, places = m.empty(shape, to), m.empty(shape, "i32")
    m.launch("topk", to, rows, values, places, rows.shape[-1], count)
    values = cast(m, unary(m, "neg", values) if least else values, x.dtype)
    return back(m, values, axis), back(m, wide(m, places), axis)


@op("TensorScatter")
def tensor_scatter(m: Machine, node: Node) -> Tensor:
    """Rows of a cache written from a place on, which is read on the host: a copy for each."""
    cache, update = node[0], node[1]
    axis = checked_axis(node, int(node.attribute("axis")), cache.rank)
    starts = [0] * cache.shape[0] if node.get(2) is None else m.host(node[2]).tolist()
    y = duplicate(m, cache)
    limit, length = cache.shape[axis], update.shape[axis]
    for row, start in enumerate(starts):
        for n in range(length):
            at = start + n
            at = at % limit if node.attribute("mode") == "circular" else at
            if not 0 <= at < limit:
                raise InvalidNode(
                    "a write behind the cache", expected=f"below {limit}", got=str(at)
                )
            lead = (row, *[slice(None)] * (axis - 1))
            piece = moved(m, update, lambda v, i=(*lead, n): v[i])
            place(m, piece, y, lambda v, i=(*lead, at): v[i])
    return y
