"""Normalization over rows, groups of channels, batches and neighbours."""

from __future__ import annotations

import math

from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ....ir.graph.composites.normalization import group_norm, layer_norm, rms_norm
from ...refusal import InvalidNode
from ..node import Node
from ..registry import op


def _rows(node: Node) -> tuple[Array, int, list[Array | None]]:
    """x as rows of all axes that are normalized, how many others there are, and weight and bias as
    long as a row."""
    x = node[0]
    axis = node.axis(x.rank, default=-1)
    inner = x.shape[axis:]
    columns = math.prod(inner)
    given = [node.get(1), node.get(2)]
    vectors = [None if t is None else t.broadcast_to(inner).reshape(columns) for t in given]
    return x.reshape(*x.shape[:axis], columns), axis, vectors


@op("LayerNormalization")
def layer(node: Node) -> tuple[Array, ...]:
    """Mean and 1 / deviation come in f32."""
    rows, axis, (weight, bias) = _rows(node)
    eps = float(node.attribute("epsilon"))
    if weight is None:
        raise InvalidNode("a LayerNormalization without weight", expected="input 1")
    if bias is None:
        bias = node.builder.literal(0, rows.dtype).broadcast_to(rows.shape[-1:])
    found = layer_norm(rows, weight, bias, eps=eps).reshape(node[0].shape)
    if not (node.wants(1) or node.wants(2)):
        return (found,)
    if node.attribute("stash_type", 1) != 1:
        raise node.lacks("statistics of LayerNormalization in another type than f32")
    wide = fn.widened(rows)
    mean = wide.mean(-1, keepdims=True)
    away = wide - mean
    scale = fn.rsqrt((away * away).mean(-1, keepdims=True) + eps)
    sizes = (*node[0].shape[:axis], *[1] * (node[0].rank - axis))
    return found, mean.reshape(sizes), scale.reshape(sizes)


@op("RMSNormalization")
def rms(node: Node) -> Array:
    """Without a mean."""
    rows, _, (weight, _) = _rows(node)
    if weight is None:
        raise InvalidNode("an RMSNormalization without weight", expected="input 1")
    found: Array = rms_norm(rows, weight, eps=float(node.attribute("epsilon")))
    return found.reshape(node[0].shape)


@op("GroupNormalization", "InstanceNormalization")
def group(node: Node) -> Array:
    """Over groups of channels; an instance is a group of one. Before opset 21 weight and bias are
    one for each group."""
    x, weight, bias = node[0], node[1], node[2]
    if x.rank < 2:
        raise InvalidNode(f"groups of {x.type}", expected="channels")
    channels = x.shape[1]
    groups = int(node.attribute("num_groups", channels))
    if groups < 1 or channels % groups:
        raise InvalidNode(f"{groups} groups of {channels} channels", expected="equal ones")
    if weight.size != channels:
        sizes = groups, channels // groups
        weight, bias = (
            t.reshape(groups, 1).broadcast_to(sizes).reshape(channels) for t in (weight, bias)
        )
    found: Array = group_norm(x, weight, bias, groups=groups, eps=float(node.attribute("epsilon")))
    return found


@op("BatchNormalization")
def batch(node: Node) -> Array:
    """By the statistics given, in f32 where the type is narrower."""
    old = node.version < 7 and not node.attribute("is_test", 0)
    if node.attribute("training_mode", 0) or old or any(map(node.wants, range(1, 5))):
        raise node.lacks("a BatchNormalization in training")
    if not node.attribute("spatial", 1):
        raise node.lacks("a BatchNormalization of each element")
    x = node[0]
    if x.rank < 2:
        raise InvalidNode(f"channels of {x.type}", expected="two axes at least")
    column = (x.shape[1], *[1] * (x.rank - 2))
    wide = fn.widened(x)
    weight, bias, mean, variance = (node[n].cast(wide.dtype).reshape(column) for n in range(1, 5))
    scale = fn.rsqrt(variance + float(node.attribute("epsilon"))) * weight
    return ((wide - mean) * scale + bias).cast(x.dtype)


@op("LpNormalization")
def lp(node: Node) -> Array:
    """x over its norm along an axis; zeros where that is 0."""
    x = node[0]
    axis = node.axis(x.rank, default=-1)
    wide = fn.widened(x)
    if node.attribute("p") == 1:
        norm = abs(wide).sum(axis, keepdims=True)
    else:
        norm = fn.sqrt((wide * wide).sum(axis, keepdims=True))
    return fn.where(norm == 0.0, 0.0, wide / norm).cast(x.dtype)


@op("LRN")
def local_response(node: Node) -> Array:
    """x / (bias + alpha / size * the sum of squares of the channels around) ** beta."""
    x, size = node[0], int(node.attribute("size"))
    if x.rank < 2 or not 0 < size <= 1 << 10:
        raise InvalidNode(f"{size} channels around of {x.type}", expected="1 to 1024 of them")
    before = (size - 1) // 2
    wide = fn.widened(x)
    widths = [(before, size - 1 - before) if n == 1 else (0, 0) for n in range(x.rank)]
    squares = fn.pad(wide * wide, widths)
    total = squares[:, : x.shape[1]]
    for shift in range(1, size):
        total = total + squares[:, shift : shift + x.shape[1]]
    inside = total * (node.attribute("alpha") / size) + float(node.attribute("bias"))
    power = node.builder.literal(float(node.attribute("beta")), wide.dtype)
    return (wide / fn.apply("pow", inside, power.broadcast_to(x.shape))).cast(x.dtype)
