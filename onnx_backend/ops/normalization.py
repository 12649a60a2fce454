"""Normalisation over rows, groups of channels, batches and neighbours."""

from __future__ import annotations

import math

from ..layout import expanded, full
from ..machine import Machine
from ..node import Node, checked_axis
from ..pieces import binary, cast, chosen, compared, reduced, scaled, unary
from ..refusal import Missing
from ..registry import op
from ..tensor import Tensor
from .movement import padded


def _rows(m: Machine, node: Node) -> tuple[Tensor, int, list[Tensor | None]]:
    """x, its first axis that is normalized, and weight and bias as long as a row; all in a type
    that the kernels come in."""
    x = node[0]
    axis = checked_axis(node, int(node.attribute("axis")), x.rank)
    inner = x.shape[axis:]
    to = x.dtype if x.dtype in ("f32", "f16") else "f32"
    vectors = [
        None if t is None else cast(m, expanded(m, t, inner), to)
        for t in (node.get(1), node.get(2))
    ]
    return cast(m, x, to), axis, vectors


@op("LayerNormalization")
def layer(m: Machine, node: Node) -> tuple[Tensor, ...]:
    """Mean and 1 / deviation come in f32, by kernels of their own."""
    x, axis, (weight, bias) = _rows(m, node)
    cols = math.prod(x.shape[axis:])
    if weight is None:
        raise Missing("a LayerNormalization without weight")
    y = m.empty(x.shape, x.dtype)
    shift = bias or full(m, (cols,), 0, x.dtype)
    m.launch("layernorm", x.dtype, x, weight, shift, y, cols, node.attribute("epsilon"))
    found = cast(m, y, node[0].dtype)
    if not (node.wants(1) or node.wants(2)):
        return (found,)
    axes = list(range(axis, x.rank))
    wide = cast(m, x, "f32")
    mean = reduced(m, "mean", wide, axes, True)
    away = binary(m, "sub", wide, mean)
    variance = reduced(m, "mean", binary(m, "mul", away, away), axes, True)
    return found, mean, _inverse_root(m, variance, node.attribute("epsilon"))


def _inverse_root(m: Machine, variance: Tensor, epsilon: float) -> Tensor:
    return unary(m, "rsqrt", binary(m, "add", variance, m.constant(epsilon, variance.dtype)))


@op("RMSNormalization")
def rms(m: Machine, node: Node) -> Tensor:
    """Without a mean."""
    x, axis, (weight, _) = _rows(m, node)
    if weight is None:
        raise Missing("an RMSNormalization without weight")
    cols = math.prod(x.shape[axis:])
    y = m.empty(x.shape, x.dtype)
    m.launch("rmsnorm", x.dtype, x, weight, y, cols, node.attribute("epsilon"))
    return cast(m, y, node[0].dtype)


@op("GroupNormalization", "InstanceNormalization")
def group(m: Machine, node: Node) -> Tensor:
    """Over groups of channels; an instance is a group of one."""
    x, weight, bias = node[0], node[1], node[2]
    channels = x.shape[1]
    groups = node.attribute("num_groups", channels)
    if weight.size != channels:  # one for each group, before opset 21
        weight, bias = (
            expanded(m, t.reshaped(groups, 1), (groups, channels // groups)).reshaped(channels)
            for t in (weight, bias)
        )
    if x.dtype not in ("f32", "f16"):
        raise Missing(f"kernel groupnorm {x.dtype}")
    y = m.empty(x.shape, x.dtype)
    sizes = (channels // groups, math.prod(x.shape[2:]))
    m.launch("groupnorm", x.dtype, x, weight, bias, y, *sizes, node.attribute("epsilon"))
    return y


@op("BatchNormalization")
def batch(m: Machine, node: Node) -> tuple[Tensor, ...]:
    """By the statistics given; in training by those of the batch, which also move the given."""
    x, weight, bias, mean, variance = (node[n] for n in range(5))
    column = (1, x.shape[1], *[1] * (x.rank - 2))
    others = [n for n in range(x.rank) if n != 1]
    running: tuple[Tensor, ...] = ()
    if node.attribute("training_mode", 0):
        old, momentum = (mean, variance), node.attribute("momentum")
        mean = reduced(m, "mean", x, others, False)
        away = binary(m, "sub", x, mean.reshaped(*column))
        variance = reduced(m, "mean", binary(m, "mul", away, away), others, False)
        running = tuple(
            binary(m, "add", scaled(m, a, momentum), scaled(m, b, 1 - momentum))
            for a, b in zip(old, (mean, variance), strict=True)
        )
    scale = binary(m, "mul", _inverse_root(m, variance, node.attribute("epsilon")), weight)
    away = binary(m, "sub", x, mean.reshaped(*column))
    y = binary(m, "add", binary(m, "mul", away, scale.reshaped(*column)), bias.reshaped(*column))
    return (y, *running)


@op("LpNormalization")
def lp(m: Machine, node: Node) -> Tensor:
    """x over its norm along an axis; zeros where that is 0."""
    x, axis = node[0], node.axis(node[0].rank, default=-1)
    ones = unary(m, "abs", x) if node.attribute("p") == 1 else x
    norm = reduced(m, "sum" if node.attribute("p") == 1 else "l2", ones, [axis], True)
    zero = m.constant(0, x.dtype)
    nothing = compared(m, "eq", norm, zero)
    return chosen(m, nothing, zero, binary(m, "div", x, norm))


@op("MeanVarianceNormalization")
def mean_variance(m: Machine, node: Node) -> Tensor:
    """(x - mean) / (deviation + 1e-9) over some axes."""
    x, axes = node[0], list(node.attribute("axes", [0, 2, 3]))
    away = binary(m, "sub", x, reduced(m, "mean", x, axes, True))
    spread = unary(m, "sqrt", reduced(m, "mean", binary(m, "mul", away, away), axes, True))
    return binary(m, "div", away, binary(m, "add", spread, m.constant(1e-9, x.dtype)))


@op("LRN")
def local_response(m: Machine, node: Node) -> Tensor:
    """x / (bias + alpha / size * the sum of squares of the channels around) ** beta."""
    x, size = node[0], node.attribute("size")
    before, channels = (size - 1) // 2, x.shape[1]
    squares = binary(m, "mul", x, x)
    total = full(m, x.shape, 0, x.dtype)
    for shift in range(-before, size - before):
        low, high = max(-shift, 0), channels - max(shift, 0)
        if low < high:
            near = _shifted(m, squares, shift)
            total = binary(m, "add", total, near)
    inside = binary(
        m,
        "add",
        scaled(m, total, node.attribute("alpha") / size),
        m.constant(node.attribute("bias"), x.dtype),
    )
    beta = m.constant(node.attribute("beta"), x.dtype)
    return binary(m, "div", x, binary(m, "pow", inside, beta))


def _shifted(m: Machine, x: Tensor, shift: int) -> Tensor:
    """Channel c + shift in the place of channel c, zeros where there is none."""
    low, high = [0] * x.rank, [0] * x.rank
    low[1], high[1] = -shift, shift
    return padded(m, x, low, high, 0)
