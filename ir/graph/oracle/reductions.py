"""Along dimensions. Sums of floats are made in f64 and rounded to the type they are declared in:
what a plan's sums, in whatever order, are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import DType
from ..core import Node
from .precision import Array, Precision
from .rows import row


def _axis(node: Node) -> int:
    axis = node.attr("axis")
    assert isinstance(axis, int)
    return axis


def _least(dtype: DType) -> float | int:
    return -np.inf if dtype.is_float else dtype.min


def _greatest(dtype: DType) -> float | int:
    return np.inf if dtype.is_float else dtype.max


def _wide(x: Array) -> Array:
    """Floats as f64; sums of integers wrap in their own type."""
    return x.astype(np.float64) if x.dtype.kind == "f" else x


@row("reduce")
def _reduce(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    (x,), axes, kind = operands, node.attr("axes"), node.attr("kind")
    dtype = node.operands[0].type.dtype
    assert isinstance(axes, tuple)
    if kind in ("sum", "prod"):
        wide = _wide(x)
        function: Any = np.sum if kind == "sum" else np.prod
        return [precision.rounded(np.asarray(function(wide, axes, dtype=wide.dtype)), dtype)]
    least = kind == "max"
    neutral = np.asarray(_least(dtype) if least else _greatest(dtype), x.dtype)
    missing = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    fold: Any = np.maximum if least else np.minimum
    found = fold.reduce(np.where(missing, neutral, x), axes, initial=neutral)
    if x.size and missing.any():
        found = np.where(missing.all(axes), np.nan, found)
    return [np.asarray(found).astype(x.dtype)]


@row("arg_reduce")
def _arg_reduce(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    (x,), axis = operands, _axis(node)
    dtype = node.operands[0].type.dtype
    number = ~np.isnan(x) if x.dtype.kind == "f" else np.ones(x.shape, bool)
    if not x.shape[axis]:
        return [np.full(node.results[0].type.shape, -1, np.int32)]
    if node.attr("kind") == "max":
        best = np.where(number, x, np.asarray(_least(dtype), x.dtype)).max(axis, keepdims=True)
    else:
        best = np.where(number, x, np.asarray(_greatest(dtype), x.dtype)).min(axis, keepdims=True)
    hit = number & (x == best)
    return [np.where(hit.any(axis), hit.argmax(axis), -1).astype(np.int32)]


@row("cumulative")
def _cumulative(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    (x,), axis = operands, _axis(node)
    wide = np.moveaxis(_wide(x), axis, -1)
    if node.attr("reverse"):
        wide = wide[..., ::-1]
    adds = node.attr("kind") == "sum"
    if node.attr("exclusive"):
        first = np.full((*wide.shape[:-1], 1), 0 if adds else 1, wide.dtype)
        wide = np.concatenate([first, wide], -1)[..., : wide.shape[-1]]
    function: Any = np.cumsum if adds else np.cumprod
    found = function(wide, -1, dtype=wide.dtype)
    if node.attr("reverse"):
        found = found[..., ::-1]
    return [precision.rounded(np.moveaxis(found, -1, axis), node.results[0].type.dtype)]


@row("top_k")
def _top_k(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    (x,), k = operands, node.attr("k")
    assert isinstance(k, int)
    missing = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    # Falling, the first of equal ones first, NaNs last: a stable sort of the reversed order.
    least = np.asarray(_least(node.operands[0].type.dtype), x.dtype)
    flipped = np.where(missing, least, x)[..., ::-1]
    rising = np.argsort(flipped, axis=-1, kind="stable")[..., ::-1]
    places = x.shape[-1] - 1 - rising
    last = np.argsort(np.take_along_axis(missing, places, -1), axis=-1, kind="stable")
    places = np.take_along_axis(places, last, -1)[..., :k]
    return [np.take_along_axis(x, places, -1), places.astype(np.int32)]
