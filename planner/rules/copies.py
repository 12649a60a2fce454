"""Elements that move: parts, other orders, repetitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.graph.core import Node
from ...ir.graph.types import TensorType
from ...ir.interp.values import encode
from ...ir.ops.meaning import convert
from ...kernels.movement import halves, strided
from ..lowering import Lowering
from ..refusal import Missing
from ..view import WORDS, View

Array = np.ndarray
Shown = Callable[[np.ndarray], np.ndarray]


def frame(view: View) -> np.ndarray:
    """An array of a view's shape and width, whose views say where elements lie. Nothing is ever
    read from it or written to it, so that it takes no memory of its size."""
    return np.empty(view.shape, f"V{view.dtype.bytes}")


def move(
    c: Lowering,
    x: View,
    source: np.ndarray,
    x_frame: np.ndarray,
    y: View,
    target: np.ndarray,
    y_frame: np.ndarray,
) -> None:
    """target[...] = source, of which one is a view of x's frame, the other of y's."""
    if source.size == 0:
        return
    width = x.dtype.bytes
    if width < 4 and source.flags.c_contiguous and target.flags.c_contiguous:
        of_x, of_y = _words(x, source, x_frame), _words(y, target, y_frame)
        if of_x is not None and of_y is not None:
            (x, source, x_frame), (y, target, y_frame), width = of_x, of_y, 4
    if width == 8:
        source, x_frame = halves(source, x_frame)
        target, y_frame = halves(target, y_frame)
        x, y = (v.reshaped(v.type.size).seen_as("u32") for v in (x, y))
        width = 4
    try:
        places = strided(source, target, x_frame, y_frame)
    except ValueError as error:
        raise Missing(f"kernel copy_strided of more axes ({error})") from None
    names = [f"{kind}{axis}" for kind in "nxy" for axis in range(6)]
    words = WORDS[width]
    scalars = [places[name] for name in (*names, "x_start", "y_start")]
    c.launch("copy_strided", f"b{8 * width}", x.seen_as(words), y.seen_as(words), *scalars)


def _words(x: View, shown: np.ndarray, base: np.ndarray) -> tuple[View, Array, Array] | None:
    """A view whose elements lie side by side as one of 32-bit words, if it is such a one."""
    size, all_ = shown.size * shown.itemsize, base.size * base.itemsize
    start = shown.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    if start % 4 or size % 4 or all_ % 4 or x.start * x.dtype.bytes % 4:
        return None
    words = base.reshape(-1).view(np.uint32)
    return x.reshaped(x.type.size).seen_as("u32"), words[start // 4 : (start + size) // 4], words


def copied(c: Lowering, x: View, y: View) -> View:
    """All elements of x in y, of the same type."""
    base, target = frame(x), frame(y)
    move(c, x, base, base, y, target, target)
    return y


def taken(c: Lowering, x: View, shown: Shown) -> View:
    """The elements of a numpy view of x, side by side; x's own memory where they lie so and where
    kernels may begin there."""
    base = frame(x)
    wanted = shown(base)
    if wanted.size == 0:
        return c.make(x.type.with_shape(wanted.shape))
    first = wanted.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    if wanted.flags.c_contiguous:
        part = x.part(first // x.dtype.bytes, wanted.shape)
        if c.aligned(part):
            return part

    def copy() -> tuple[View, ...]:
        y = c.make(x.type.with_shape(wanted.shape))
        target = frame(y)
        move(c, x, wanted, base, y, target, target)
        return (y,)

    layout = first, wanted.shape, wanted.strides
    return c.once(("copy", layout), (x,), copy)[0]


def placed(c: Lowering, x: View, y: View, shown: Shown) -> None:
    """x goes to a numpy view of y, of x's shape."""
    base, target = frame(x), frame(y)
    move(c, x, base, base, y, shown(target), target)


def expanded(c: Lowering, x: View, shape: tuple[int, ...]) -> View:
    """x repeated to a shape, by numpy's rule."""
    return x if shape == x.shape else taken(c, x, lambda v: np.broadcast_to(v, shape))


def transposed(c: Lowering, x: View) -> View:
    """Rows as columns, of a matrix."""
    name = f"{'i' if x.dtype.is_int else 'f'}{8 * x.dtype.bytes}"
    if x.type.size == 0 or not c.has("transpose", name):
        return taken(c, x, lambda v: v.T)

    def turn() -> tuple[View, ...]:
        rows, columns = x.shape
        y = c.make(x.type.with_shape((columns, rows)))
        c.launch("transpose", name, x.seen_as(name), y.seen_as(name), rows, columns)
        return (y,)

    return c.once("transpose", (x,), turn)[0]


def aligned(c: Lowering, x: View) -> View:
    """x itself, or a copy where kernels cannot begin at it."""
    return x if c.aligned(x) else copied(c, x, c.make(x.type))


def full(c: Lowering, type_: TensorType, value: float) -> View:
    """One value everywhere."""
    held = convert(np.array([value], np.float64), out=type_.dtype)
    one = c.pool.array(np.asarray(encode(held, type_.dtype)), str(type_.dtype))
    return expanded(c, one.reshaped(*(1,) * type_.rank), type_.shape)


def broadcast(c: Lowering, node: Node) -> tuple[View, ...]:
    return (expanded(c, c.view(node.operands[0]), node.results[0].type.shape),)


def reshape(c: Lowering, node: Node) -> tuple[View, ...]:
    return (c.view(node.operands[0]).reshaped(*node.results[0].type.shape),)


def transpose(c: Lowering, node: Node) -> tuple[View, ...]:
    axes = node.attr("axes")
    assert isinstance(axes, tuple)
    return (taken(c, c.view(node.operands[0]), lambda v: v.transpose(axes)),)


def slice_(c: Lowering, node: Node) -> tuple[View, ...]:
    bounds = [node.attr(key) for key in ("start", "stop", "step")]
    index = tuple(slice(*b) for b in zip(*bounds, strict=True))
    return (taken(c, c.view(node.operands[0]), lambda v: v[index]),)


def concat(c: Lowering, node: Node) -> tuple[View, ...]:
    axis = node.attr("axis")
    assert isinstance(axis, int)
    y = c.make(node.results[0].type)
    start = 0
    for operand in node.operands:
        x = c.view(operand)
        span = slice(start, start + x.shape[axis])
        index = (*(slice(None),) * axis, span)
        placed(c, x, y, lambda v, index=index: v[index])
        start = span.stop
    return (y,)


def pad(c: Lowering, node: Node) -> tuple[View, ...]:
    x, fill = map(c.view, node.operands)
    low = node.attr("low")
    assert isinstance(low, tuple)
    type_ = node.results[0].type
    filled = expanded(c, fill.reshaped(*(1,) * type_.rank), type_.shape)
    y = copied(c, filled, c.make(type_)) if not c.owned(filled) else filled
    index = tuple(slice(a, a + n) for a, n in zip(low, x.shape, strict=True))
    placed(c, x, y, lambda v: v[index])
    return (y,)


MOST_IOTA_BYTES = 1 << 22  # written into the plan


def iota(c: Lowering, node: Node) -> tuple[View, ...]:
    type_ = node.results[0].type
    axis = node.attr("axis")
    assert isinstance(axis, int)
    line = np.arange(type_.shape[axis])
    if line.nbytes > MOST_IOTA_BYTES:
        raise Missing(f"a kernel that counts to {line.size}")
    shape = [1] * type_.rank
    shape[axis] = line.size
    counted = c.pool.array(line.reshape(shape), str(type_.dtype))
    return (expanded(c, counted, type_.shape),)


RULES = {
    "broadcast": (broadcast,),
    "reshape": (reshape,),
    "transpose": (transpose,),
    "slice": (slice_,),
    "concat": (concat,),
    "pad": (pad,),
    "iota": (iota,),
}
