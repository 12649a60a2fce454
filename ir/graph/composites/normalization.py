"""Softmax and norms, along the last dimension unless said. f16 and bf16 are computed in f32 and
rounded once."""

from __future__ import annotations

import math

from ..array import Array
from ..composite import composite
from ..functions import exp, log, rsqrt, widened
from ..table import AttrRow, require, require_axis, require_float

EPS = AttrRow(float)


@composite("softmax", 1, axis=AttrRow(int))
def softmax(x: Array, *, axis: int) -> Array:
    """exp(x - max) over its sum along a dimension."""
    raised, total = _exponentials(x, axis)
    return (exp(raised) / total).cast(x.dtype)


@composite("log_softmax", 1, axis=AttrRow(int))
def log_softmax(x: Array, *, axis: int) -> Array:
    """x - max less the logarithm of the sum of exponentials along a dimension."""
    raised, total = _exponentials(x, axis)
    return (raised - log(total)).cast(x.dtype)


def _exponentials(x: Array, axis: int) -> tuple[Array, Array]:
    """x - max, and the sum of its exponentials."""
    require_float(x.type)
    require_axis(axis, x.rank)
    wide = widened(x)
    raised = wide - wide.max(axis, keepdims=True)
    return raised, exp(raised).sum(axis, keepdims=True)


@composite("rms_norm", 2, eps=EPS)
def rms_norm(x: Array, weight: Array, *, eps: float) -> Array:
    """x over the root of the mean of its squares, times a weight for each column (Zhang and
    Sennrich, arXiv:1910.07467)."""
    _columns(x, weight)
    wide = widened(x)
    scale = rsqrt((wide * wide).mean(-1, keepdims=True) + eps)
    return (wide * scale * weight.cast(wide.dtype)).cast(x.dtype)


@composite("add_rms_norm", 3, eps=EPS)
def add_rms_norm(x: Array, residual: Array, weight: Array, *, eps: float) -> tuple[Array, Array]:
    """The sum of two tensors, normed and as it is."""
    total = x + residual
    return rms_norm(total, weight, eps=eps), total


@composite("layer_norm", 3, eps=EPS)
def layer_norm(x: Array, weight: Array, bias: Array, *, eps: float) -> Array:
    """x less its mean, over the root of its variance, times a weight plus a bias for each column
    (Ba et al., arXiv:1607.06450)."""
    _columns(x, weight)
    _columns(x, bias)
    wide = widened(x)
    scaled = _standard(wide, eps)
    return (scaled * weight.cast(wide.dtype) + bias.cast(wide.dtype)).cast(x.dtype)


@composite("group_norm", 3, groups=AttrRow(int), eps=EPS)
def group_norm(x: Array, weight: Array, bias: Array, *, groups: int, eps: float) -> Array:
    """Of x[batch, channels, ...], the channels of each group and all behind them normed as one,
    times a weight plus a bias for each channel (Wu and He, arXiv:1803.08494)."""
    require(x.rank >= 2, f"{x.type} has no channels")
    require_float(x.type)
    channels = x.shape[1]
    require(
        groups > 0 and channels % groups == 0, f"{channels} channels are not {groups} equal groups"
    )
    for t in (weight, bias):
        require(t.shape == (channels,), f"there is one number a channel, not {t.type}")
    wide = widened(x)
    scaled = _standard(
        wide.reshape(x.shape[0], groups, channels // groups * math.prod(x.shape[2:])), eps
    ).reshape(*x.shape)
    column = (channels, *([1] * (x.rank - 2)))
    scale, shift = (t.cast(wide.dtype).reshape(*column) for t in (weight, bias))
    return (scaled * scale + shift).cast(x.dtype)


def _standard(x: Array, eps: float) -> Array:
    """Mean 0 and variance 1 along the last dimension."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * rsqrt((centred * centred).mean(-1, keepdims=True) + eps)


def _columns(x: Array, weight: Array) -> None:
    require_float(x.type)
    require(x.rank >= 1, "a scalar has no columns")
    fits = weight.shape == x.shape[-1:]
    require(fits, f"there is one number for each of the {x.shape[-1]} columns, not {weight.type}")
