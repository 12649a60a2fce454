"""Gather and scatter. A place outside is a fault."""

from __future__ import annotations

import numpy as np

from ..core import Node
from .precision import Array, Precision
from .rows import row


def _axis(node: Node) -> int:
    axis = node.attr("axis")
    assert isinstance(axis, int)
    return axis


def _inside(places: Array, size: int, least: int) -> None:
    bad = places[(places < least) | (places >= size)]
    if bad.size:
        raise IndexError(f"place {bad.flat[0]} of a dimension of {size} elements")


@row("gather")
def _gather(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    x, places = operands
    axis = _axis(node)
    _inside(places, x.shape[axis], 0)
    return [np.take(x, places, axis)]


@row("scatter")
def _scatter(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    x, places, updates = operands
    axis = _axis(node)
    _inside(places, x.shape[axis], -1)
    kept = places >= 0
    places, updates = places[kept], np.moveaxis(updates, axis, 0)[kept]
    if node.attr("kind") == "set":
        if len(np.unique(places)) != len(places):
            raise IndexError("two updates have one place")
        result = np.moveaxis(x, axis, 0).copy()
        result[places] = updates
        return [np.moveaxis(result, 0, axis)]
    dtype = node.results[0].type.dtype
    wide = np.moveaxis(x, axis, 0).astype(np.float64 if dtype.is_float else x.dtype)
    np.add.at(wide, places, updates.astype(wide.dtype))
    return [precision.rounded(np.moveaxis(wide, 0, axis), dtype)]
