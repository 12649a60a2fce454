"""Movement: elements change their places and nothing else."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..layout import expanded, full, joined, moved, permuted, place
from ..machine import Machine
from ..node import Node, checked_axis
from ..pieces import chosen
from ..refusal import InvalidNode, Missing
from ..registry import op
from ..tensor import Tensor


@op("Transpose")
def transpose(m: Machine, node: Node) -> Tensor:
    """Axes in another order, reversed without one."""
    order = node.attribute("perm")
    return permuted(m, node[0], range(node[0].rank)[::-1] if order is None else order)


@op("Expand")
def expand(m: Machine, node: Node) -> Tensor:
    """Broadcast with a shape, both ways."""
    x = node[0]
    try:
        sizes = np.broadcast_shapes(x.shape, tuple(m.host(node[1]).tolist()))
    except ValueError as error:
        raise InvalidNode(f"expansion of {x.shape}", expected=str(error)) from None
    return expanded(m, x, sizes)


@op("Concat")
def concat(m: Machine, node: Node) -> Tensor:
    """Along one axis."""
    parts = [node[n] for n in range(len(node.inputs))]
    return joined(m, parts, node.axis(parts[0].rank))


@op("Split")
def split(m: Machine, node: Node) -> tuple[Tensor, ...]:
    """Into given sizes, or into as many equal parts as there are outputs, the last one smaller."""
    x = node[0]
    axis = node.axis(x.rank)
    sizes = node.integers(m, "split", 1)
    if sizes is None:
        count = int(node.attribute("num_outputs", len(node.outputs)))
        step = -(-x.shape[axis] // count)
        sizes = [step] * (count - 1) + [x.shape[axis] - step * (count - 1)]
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise InvalidNode(f"split into {sizes}", expected=f"a sum of {x.shape[axis]}")
    ends = np.cumsum([0, *sizes]).tolist()
    lead = (slice(None),) * axis
    return tuple(
        moved(m, x, lambda v, a=a, b=b: v[(*lead, slice(a, b))])
        for a, b in itertools.pairwise(ends)
    )


@op("Slice")
def slices(m: Machine, node: Node) -> Tensor:
    """Python's slices, with ONNX's way of cutting off bounds that lie outside."""
    x = node[0]
    starts, ends = node.integers(m, "starts", 1) or [], node.integers(m, "ends", 2) or []
    axes = node.integers(m, "axes", 3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = node.integers(m, "steps", 4) or [1] * len(starts)
    index: list[Any] = [slice(None)] * x.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise InvalidNode("a slice with a step of 0", expected="another step")
        at = checked_axis(node, axis, x.rank)
        index[at] = _slice(start, end, step, x.shape[at])
    return moved(m, x, lambda v: v[tuple(index)])


def _slice(start: int, end: int, step: int, size: int) -> slice:
    """The slice of elements start, start + step, ... before end, of `size`."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start = min(max(start + size if start < 0 else start, max(low, 0)), high)
    end = min(max(end + size if end < 0 else end, low), high if step > 0 else size)
    return slice(start, None if end < 0 else end, step)


@op("Tile")
def tile(m: Machine, node: Node) -> Tensor:
    """Each axis repeated."""
    x = node[0]
    repeats = m.host(node[1]).tolist()
    wide = [n for pair in zip(repeats, x.shape, strict=True) for n in pair]
    sizes = [a * b for a, b in zip(repeats, x.shape, strict=True)]
    apart = x.reshaped(*(n for size in x.shape for n in (1, size)))
    return expanded(m, apart, wide).reshaped(*sizes)


@op("DepthToSpace")
def depth_to_space(m: Machine, node: Node) -> Tensor:
    """Channels become blocks of pixels."""
    n, c, h, w = node[0].shape
    b = node.attribute("blocksize")
    depth = c // (b * b)
    if node.attribute("mode") == "CRD":
        apart, order = (n, depth, b, b, h, w), (0, 1, 4, 2, 5, 3)
    else:
        apart, order = (n, b, b, depth, h, w), (0, 3, 4, 1, 5, 2)
    return permuted(m, node[0].reshaped(*apart), order).reshaped(n, depth, h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(m: Machine, node: Node) -> Tensor:
    """Blocks of pixels become channels."""
    n, c, h, w = node[0].shape
    b = node.attribute("blocksize")
    apart = node[0].reshaped(n, c, h // b, b, w // b, b)
    crd = node.attribute("mode", "DCR") == "CRD"
    found = permuted(m, apart, (0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4))
    return found.reshaped(n, c * b * b, h // b, w // b)


@op("Pad")
def pad(m: Machine, node: Node) -> Tensor:
    """A constant around, or the edge, the mirror image or the other end of the axis, by copies."""
    x = node[0]
    pads = node.integers(m, "pads", 1) or []
    axes = node.integers(m, "axes", 3)
    axes = list(range(x.rank)) if axes is None else [checked_axis(node, a, x.rank) for a in axes]
    low, high = [0] * x.rank, [0] * x.rank
    for n, axis in enumerate(axes):
        low[axis], high[axis] = pads[n], pads[n + len(axes)]
    mode = node.attribute("mode")
    if mode == "constant":
        given = node.get(2)
        value = m.host(given).reshape(-1)[0] if given is not None and given.size else 0
        return padded(m, x, low, high, value)
    for axis in range(x.rank):
        x = _continued(m, x, axis, low[axis], high[axis], mode)
    return x


def padded(m: Machine, x: Tensor, low: list[int], high: list[int], value: Any) -> Tensor:
    """x with so many elements of one value before and behind each axis; fewer than none cut."""
    sizes = [a + n + b for a, n, b in zip(low, x.shape, high, strict=True)]
    y = full(m, sizes, value, x.dtype)
    if y.size == 0:
        return y
    spans = zip(low, x.shape, high, strict=True)
    inner = tuple(slice(max(-a, 0), n - max(-b, 0)) for a, n, b in spans)
    kept = moved(m, x, lambda v: v[inner])
    outer = tuple(slice(max(a, 0), max(a, 0) + n) for a, n in zip(low, kept.shape, strict=True))
    place(m, kept, y, lambda v: v[outer])
    return y


def _continued(m: Machine, x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    """One axis longer (or shorter) on both sides, as `mode` says."""
    size = x.shape[axis]
    index = np.arange(-low, size + high)
    if mode == "edge":
        index = np.clip(index, 0, size - 1)
    elif mode == "wrap":
        index = index % size
    elif mode == "reflect":
        period = max(2 * (size - 1), 1)
        index = (size - 1) - np.abs(index % period - (size - 1))
    else:
        raise Missing(f"the mode {mode} of Pad")
    lead = (slice(None),) * axis
    parts = [moved(m, x, lambda v, r=run: v[(*lead, r)]) for run in _runs(index)]
    return joined(m, parts, axis)


def _runs(index: np.ndarray) -> list[slice]:
    """Slices that say the same as an index array, step by step: equal, forward, backward."""
    runs, start = [], 0
    while start < len(index):
        stop = start + 1
        step = int(index[stop] - index[start]) if stop < len(index) else 1
        if step in (1, -1):
            while stop < len(index) and index[stop] - index[stop - 1] == step:
                stop += 1
        first, last = int(index[start]), int(index[stop - 1])
        if stop - start == 1 or step not in (1, -1):
            stop, runs = start + 1, [*runs, slice(first, first + 1)]
        elif step == 1:
            runs.append(slice(first, last + 1))
        else:
            runs.append(slice(first, last - 1 if last else None, -1))
        start = stop
    return runs


@op("Trilu")
def triangle(m: Machine, node: Node) -> Tensor:
    """The upper or lower triangle of each matrix; zeros elsewhere."""
    x = node[0]
    given = node.get(1)
    k = 0 if given is None else int(m.host(given).item())
    mask = np.tri(x.shape[-2], x.shape[-1], k - 1 if node.attribute("upper") else k, dtype=bool)
    mask = ~mask if node.attribute("upper") else mask
    return chosen(m, m.upload(mask), x, m.constant(0, x.dtype))


@op("CenterCropPad")
def center(m: Machine, node: Node) -> Tensor:
    """Cut or padded with zeros on both sides, the end getting what is odd."""
    x = node[0]
    axes = node.attribute("axes")
    axes = range(x.rank) if axes is None else [checked_axis(node, a, x.rank) for a in axes]
    low, high = [0] * x.rank, [0] * x.rank
    for axis, size in zip(axes, m.host(node[1]).tolist(), strict=True):
        more = size - x.shape[axis]
        low[axis] = more // 2 if more >= 0 else -(-more // 2)
        high[axis] = more - low[axis]
    return padded(m, x, low, high, 0)


@op("ReverseSequence")
def reverse_sequence(m: Machine, node: Node) -> Tensor:
    """The first elements of each sequence, backwards: a copy of each."""
    x = node[0]
    batch, time = node.attribute("batch_axis"), node.attribute("time_axis")
    y = moved(m, x, lambda v: v[::-1][::-1])
    parts = []
    for row, length in enumerate(m.host(node[1]).tolist()):
        lead = [slice(None)] * x.rank
        lead[batch] = slice(row, row + 1)
        head, tail = list(lead), list(lead)
        head[time] = slice(length - 1, None, -1) if length else slice(0, 0)
        tail[time] = slice(length, None)
        halves = [moved(m, x, lambda v, i=tuple(i): v[i]) for i in (head, tail)]
        parts.append(joined(m, halves, time))
    return joined(m, parts, batch) if parts else y
