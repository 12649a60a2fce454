"""Movement: what numpy says by two views of one shape, as launches of `copy_strided`.

The views are of arrays that are never read or written: they stand for tensors of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..kernels.movement import halves, strided
from .machine import Machine
from .refusal import Missing
from .tensor import WORDS, Tensor

View = Callable[[np.ndarray], np.ndarray]


def frame(tensor: Tensor) -> np.ndarray:
    """An array of the tensor's shape and width, whose views say where elements lie."""
    return np.empty(tensor.shape, f"V{tensor.itemsize}")


def copy(
    m: Machine,
    x: Tensor,
    source: np.ndarray,
    x_frame: np.ndarray,
    y: Tensor,
    target: np.ndarray,
    y_frame: np.ndarray,
) -> None:
    """target[...] = source, of which one is a view of x's frame and the other of y's."""
    if source.size == 0:
        return
    width = x.itemsize
    if width == 8:
        source, x_frame = halves(source, x_frame)
        target, y_frame = halves(target, y_frame)
        width = 4
    try:
        places = strided(source, target, x_frame, y_frame)
    except ValueError as error:
        raise Missing(f"kernel copy_strided of more axes ({error})") from None
    words = WORDS[width]
    m.launch("copy_strided", f"b{8 * width}", x=x.seen_as(words), y=y.seen_as(words), **places)


def moved(m: Machine, x: Tensor, view: View) -> Tensor:
    """The elements of a view of x, contiguous; x itself where they lie as they are."""
    base = frame(x)
    shown = view(base)
    there = base.__array_interface__["data"][0] == shown.__array_interface__["data"][0]
    if shown.size == x.size and (x.size == 0 or (there and shown.flags.c_contiguous)):
        return x.reshaped(*shown.shape)
    y = m.empty(shown.shape, x.dtype)
    target = frame(y)
    copy(m, x, shown, base, y, target, target)
    return y


def place(m: Machine, x: Tensor, y: Tensor, view: View) -> None:
    """x goes to a view of y, of x's shape."""
    base, target = frame(x), frame(y)
    copy(m, x, base, base, y, view(target), target)


def expanded(m: Machine, x: Tensor, shape: Sequence[int]) -> Tensor:
    """x broadcast to a shape, by numpy's rule."""
    if tuple(shape) == x.shape:
        return x
    return moved(m, x, lambda v: np.broadcast_to(v, shape))


def permuted(m: Machine, x: Tensor, axes: Sequence[int]) -> Tensor:
    """x with its axes in another order."""
    return moved(m, x, lambda v: v.transpose(axes))


def joined(m: Machine, parts: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one type, one behind the other along an axis. ValueError: of several types."""
    if len(types := {part.dtype for part in parts}) > 1:
        raise ValueError(f"elements of {' and '.join(sorted(types))} side by side")
    sizes = list(parts[0].shape)
    sizes[axis] = sum(part.shape[axis] for part in parts)
    y = m.empty(sizes, parts[0].dtype)
    start = 0
    for part in parts:
        span = slice(start, start + part.shape[axis])
        place(m, part, y, lambda v, span=span: v[(slice(None),) * axis + (span,)])
        start = span.stop
    return y


def duplicate(m: Machine, x: Tensor) -> Tensor:
    """The same elements in memory of their own, which may be written."""
    y = m.empty(x.shape, x.dtype)
    place(m, x, y, lambda v: v)
    return y


def full(m: Machine, shape: Sequence[int], value: float, dtype: str) -> Tensor:
    """One value everywhere, in memory of its own."""
    return expanded(m, m.constant(value, dtype), shape)
