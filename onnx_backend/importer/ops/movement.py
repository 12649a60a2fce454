"""Movement: elements change their places and nothing else."""

from __future__ import annotations

import itertools

import numpy as np

from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ...refusal import InvalidNode
from ..node import Node
from ..refusal import Lacking, Reason
from ..registry import op
from .indexing import along
from .shapes import places


@op("Transpose")
def transpose(node: Node) -> Array:
    """Axes in another order, reversed without one."""
    x, order = node[0], node.attribute("perm")
    return x.transpose() if order is None else x.transpose(tuple(order))


@op("Expand")
def expand(node: Node) -> Array:
    """Broadcast with a shape, both ways."""
    x, sizes = node[0], tuple(node.integers("shape", 1) or [])
    rank = max(x.rank, len(sizes))
    have, want = ((1,) * (rank - len(s)) + s for s in (x.shape, sizes))
    return x.broadcast_to(tuple(a if b == 1 else b for a, b in zip(have, want, strict=True)))


@op("Concat")
def concat(node: Node) -> Array:
    """Along one axis."""
    parts = node.all()
    return fn.concat(parts, node.axis(parts[0].rank, default=1))


@op("Split")
def split(node: Node) -> tuple[Array, ...]:
    """Into given sizes, or into as many equal parts as there are outputs, the last one smaller."""
    x = node[0]
    axis = node.axis(x.rank)
    sizes = node.integers("split", 1)
    if sizes is None:
        count = int(node.attribute("num_outputs", len(node.wanted)))
        if count != len(node.wanted):
            raise InvalidNode(f"{count} parts", expected=f"{len(node.wanted)}, one an output")
        step = -(-x.shape[axis] // count)
        sizes = [step] * (count - 1) + [x.shape[axis] - step * (count - 1)]
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise InvalidNode(f"split into {sizes}", expected=f"a sum of {x.shape[axis]}")
    ends = np.cumsum([0, *sizes]).tolist()
    lead = (slice(None),) * axis
    return tuple(x[(*lead, slice(a, b))] for a, b in itertools.pairwise(ends))


@op("Slice")
def slices(node: Node) -> Array:
    """Python's slices, with ONNX's way of cutting off bounds that lie outside."""
    x = node[0]
    starts, ends = node.integers("starts", 1) or [], node.integers("ends", 2) or []
    axes = node.integers("axes", 3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = node.integers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise InvalidNode("a slice", expected="as many starts, ends, axes and steps")
    bounds = zip(node.axes(axes, x.rank), starts, ends, steps, strict=True)
    for axis, start, end, step in bounds:
        x = _sliced(node, x, axis, start, end, step)
    return x


def _sliced(node: Node, x: Array, axis: int, start: int, end: int, step: int) -> Array:
    """The elements start, start + step, ... before end; backwards by places."""
    size, lead = x.shape[axis], (slice(None),) * axis
    if step == 0:
        raise InvalidNode("a slice with a step of 0", expected="another step")
    if step > 0:
        return x[(*lead, slice(start, end, step))]
    first, last, stride = slice(start, end, step).indices(size)
    count = len(range(first, last, stride))
    return fn.take(x, first + places(node, (count,), 0) * max(stride, -size - 1), axis)


@op("Tile", since=6)
def tile(node: Node) -> Array:
    """Each axis repeated."""
    x = node[0]
    repeats = node.integers("repeats", 1) or []
    if len(repeats) != x.rank or min(repeats, default=0) < 0:
        raise InvalidNode(f"repeats {repeats}", expected=f"{x.rank} numbers from 0 on")
    apart = tuple(n for size in x.shape for n in (1, size))
    shape = tuple(n for pair in zip(repeats, x.shape, strict=True) for n in pair)
    sizes = tuple(a * b for a, b in zip(repeats, x.shape, strict=True))
    if not any(n != 1 for n in repeats):
        return x
    return x.reshape(apart).broadcast_to(shape).reshape(sizes)


@op("DepthToSpace")
def depth_to_space(node: Node) -> Array:
    """Channels become blocks of pixels."""
    n, c, h, w = node[0].shape
    b = node.attribute("blocksize")
    depth = c // (b * b)
    if node.attribute("mode", "DCR") == "CRD":
        apart, order = (n, depth, b, b, h, w), (0, 1, 4, 2, 5, 3)
    else:
        apart, order = (n, b, b, depth, h, w), (0, 3, 4, 1, 5, 2)
    return node[0].reshape(apart).transpose(order).reshape(n, depth, h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(node: Node) -> Array:
    """Blocks of pixels become channels."""
    n, c, h, w = node[0].shape
    b = node.attribute("blocksize")
    order = (0, 1, 3, 5, 2, 4) if node.attribute("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    apart = node[0].reshape(n, c, h // b, b, w // b, b).transpose(order)
    return apart.reshape(n, c * b * b, h // b, w // b)


@op("Pad")
def pad(node: Node) -> Array:
    """A constant around, or the edge, the mirror image or the other end of the axis, by places.
    Widths below 0 cut off."""
    x = node[0]
    given = node.attributes.get("paddings") if node.version < 2 else node.integers("pads", 1)
    pads = [int(n) for n in given or []]
    axes = node.integers("axes", 3)
    axes = list(range(x.rank)) if axes is None else node.axes(axes, x.rank)
    if len(pads) != 2 * len(axes):
        raise InvalidNode(f"pads {pads}", expected=f"two for each of {len(axes)} axes")
    low, high = [0] * x.rank, [0] * x.rank
    for n, axis in enumerate(axes):
        low[axis], high[axis] = pads[n], pads[n + len(axes)]
    mode = node.attribute("mode")
    if mode != "constant":
        for axis in axes:
            x = _extended(node, x, axis, low[axis], high[axis], mode)
        return x
    fill = node.get(2)
    if fill is None:
        fill = node.builder.literal(node.attribute("value", 0) or 0, x.dtype)
    return _padded(x, low, high, fill.reshape(()))


def _padded(x: Array, low: list[int], high: list[int], fill: Array) -> Array:
    """Wider, or narrower where a width is below 0."""
    for a, size, b in zip(low, x.shape, high, strict=True):
        if a + size + b < 0:
            raise InvalidNode(f"widths {a} and {b} of {size}", expected="a size of 0 or more")
    wide = [[max(n, 0) for n in widths] for widths in (low, high)]
    if any(map(any, wide)):
        x = fn.apply("pad", x, fill, low=tuple(wide[0]), high=tuple(wide[1]))
    cut = zip(low, x.shape, high, strict=True)
    return x[tuple(slice(max(-a, 0), size + min(b, 0)) for a, size, b in cut)]


def _extended(node: Node, x: Array, axis: int, low: int, high: int, mode: str) -> Array:
    """One axis longer (or shorter) on both sides, as `mode` says."""
    size = x.shape[axis]
    if not (low or high):
        return x
    if size == 0 or low + size + high < 0:
        raise InvalidNode(f"widths {low} and {high} of {size}", expected="elements to repeat")
    at = places(node, (low + size + high,), 0) - low
    if mode == "edge":
        at = fn.minimum(fn.maximum(at, 0), size - 1)
    elif mode == "wrap":
        at = at % size
    elif mode == "reflect":
        at = (size - 1) - abs(at % max(2 * (size - 1), 1) - (size - 1))
    else:
        raise Lacking(Reason.OPERATOR, f"the mode {mode} of Pad")
    return fn.take(x, at, axis)


@op("CenterCropPad")
def center(node: Node) -> Array:
    """Cut or padded with zeros on both sides, the end getting what is odd."""
    x, given = node[0], node.attribute("axes")
    axes = list(range(x.rank)) if given is None else node.axes(list(given), x.rank)
    low, high = [0] * x.rank, [0] * x.rank
    for axis, size in zip(axes, node.integers("shape", 1) or [], strict=True):
        more = size - x.shape[axis]
        low[axis] = more // 2 if more >= 0 else -(-more // 2)
        high[axis] = more - low[axis]
    return _padded(x, low, high, node.builder.literal(0, x.dtype))


@op("ReverseSequence")
def reverse_sequence(node: Node) -> Array:
    """The first elements of each sequence, backwards."""
    x = node[0]
    batch, time = (node.axis(x.rank, name) for name in ("batch_axis", "time_axis"))
    shape = [1] * x.rank
    shape[batch] = x.shape[batch]
    lengths = node[1].reshape(tuple(shape))
    at = places(node, x.shape, time)
    return along(node, x, fn.where(at < lengths, lengths - 1 - at, at), time)
