"""Indexing of an array, as numpy has it: integers, slices with positive steps, `...`, None."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .array import Array, mistake
from .types import shown


def take_slice(x: Array, key: Any) -> Array:
    """`x[key]`. Raises GraphTypeError for places outside, too many of them, and other keys."""
    keys = _spread(x, key if isinstance(key, tuple) else (key,))
    start, stop, step, shape = [], [], [], []
    axis = 0
    for part in keys:
        if part is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        axis += 1
        if isinstance(part, slice):
            first, last, stride = _bounds(part, size)
            shape.append(-(-(last - first) // stride))
        else:
            first = _place(part, size, axis - 1)
            last, stride = first + 1, 1
        start.append(first)
        stop.append(last)
        step.append(stride)
    whole = not any(start) and tuple(stop) == x.shape and set(step) <= {1}
    bounds = {"start": tuple(start), "stop": tuple(stop), "step": tuple(step)}
    taken: Array = x if whole else x.builder.op("slice", x, **bounds)
    return taken if taken.shape == tuple(shape) else taken.reshape(*shape)


def _spread(x: Array, keys: tuple[Any, ...]) -> list[Any]:
    """The keys, one for each dimension, and the Nones among them."""
    named = sum(key is not None and key is not Ellipsis for key in keys)
    if named > x.rank:
        raise mistake(f"{named} indices for {x.type}, which has {x.rank} dimensions")
    if sum(key is Ellipsis for key in keys) > 1:
        raise mistake("an index has one ... at most")
    rest = [slice(None)] * (x.rank - named)
    if not any(key is Ellipsis for key in keys):
        return [*keys, *rest]
    at = next(n for n, key in enumerate(keys) if key is Ellipsis)
    return [*keys[:at], *rest, *keys[at + 1 :]]


def _bounds(part: slice, size: int) -> tuple[int, int, int]:
    """Start, end and step of a slice, within the size."""
    try:
        first, last, stride = part.indices(size)
    except (TypeError, ValueError) as error:
        raise mistake(f"a slice has integers and no step of 0: {error}") from error
    if stride < 1:
        raise mistake(f"a slice has a step of 1 or more, not {stride}")
    last = max(first, last)
    return first, last, min(stride, max(last - first, 1))


def _place(part: Any, size: int, axis: int) -> int:
    if isinstance(part, (bool, np.ndarray)) or not hasattr(part, "__index__"):
        raise mistake(
            f"an index is an integer, a slice, ... or None, not {shown(part)}: use take(...) for"
            " places that are data"
        )
    place = operator.index(part)
    if not -size <= place < size:
        raise mistake(f"index {place} of dimension {axis}, which has {size} elements")
    return place % size
