"""What changes the shape alone, tells it, or is made of it."""

from __future__ import annotations

import math

import numpy as np
import onnx

from ....ir.graph import functions as fn
from ....ir.graph.array import Array
from ....ir.graph.types import find_dtype
from ...refusal import InvalidNode
from ...tensor import name_of, name_of_type
from ..data import elements
from ..node import Node
from ..refusal import Lacking, Reason
from ..registry import Made, op
from ..value import type_of


@op("Identity")
def identity(node: Node) -> Array:
    """The same tensor."""
    return node[0]


@op("Reshape")
def reshape(node: Node) -> Array:
    """0 stands for the size there was, -1 for what is left."""
    x = node[0]
    sizes = node.integers("shape", 1) or []
    if not node.attribute("allowzero", 0):
        if any(size == 0 and n >= x.rank for n, size in enumerate(sizes)):
            raise InvalidNode(f"shape {sizes} of {x.type}", expected="a size for each 0")
        sizes = [x.shape[n] if size == 0 else size for n, size in enumerate(sizes)]
    if sizes.count(-1) == 1 and (known := math.prod(n for n in sizes if n != -1)) > 0:
        sizes = [x.size // known if size == -1 else size for size in sizes]
    return x.reshape(tuple(sizes)) if sizes else x.reshape(())


@op("Flatten")
def flatten(node: Node) -> Array:
    """Two axes: those before `axis`, and the others."""
    x = node[0]
    axis = int(node.attribute("axis"))
    if not -x.rank <= axis <= x.rank:
        raise InvalidNode(f"axis {axis} of {x.type}", expected=f"{-x.rank} to {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@op("Squeeze")
def squeeze(node: Node) -> Array:
    """Without axes of one element."""
    x = node[0]
    axes = node.integers("axes", 1)
    if axes is None:
        axes = [n for n, size in enumerate(x.shape) if size == 1]
    axes = node.axes(axes, x.rank)
    return x.reshape(tuple(size for n, size in enumerate(x.shape) if n not in axes))


@op("Unsqueeze")
def unsqueeze(node: Node) -> Array:
    """With axes of one element at these places of the result."""
    x = node[0]
    given = node.integers("axes", 1) or []
    rank = x.rank + len(given)
    axes = node.axes(given, rank)
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if n in axes else next(sizes) for n in range(rank)))


@op("Shape")
def shape(node: Node) -> np.ndarray:
    """The sizes from `start` to `end`."""
    sizes = node.value(0).shape[slice(node.attribute("start", 0), node.attribute("end"))]
    return np.array(sizes, np.int64)


@op("Size")
def size(node: Node) -> np.ndarray:
    """The number of elements."""
    return np.array(node.value(0).type.size, np.int64)


@op("Constant")
def constant(node: Node) -> np.ndarray:
    """What stands in the model."""
    for name, value in node.attributes.items():
        if name == "value":
            return elements(value, None)
        if name in ("value_float", "value_floats"):
            return np.array(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.array(value, np.int64)
    raise Lacking(Reason.TYPE, "a Constant of strings, or a sparse one")


@op("ConstantOfShape")
def constant_of_shape(node: Node) -> Array:
    """One value everywhere."""
    sizes = node.integers("shape", 0) or []
    given: onnx.TensorProto | None = node.attribute("value")
    value = np.zeros((), np.float32) if given is None else elements(given, None)
    return node.site.literal(value.reshape(()), type_of(value.reshape(()))).broadcast_to(
        tuple(sizes)
    )


@op("EyeLike")
def eye_like(node: Node) -> Array:
    """Ones on a diagonal."""
    rows, columns = node.value(0).shape
    given = node.attribute("dtype")
    to = node.value(0).type.dtype if given is None else find_dtype(name_of_type(given))
    row, column = places(node, (rows, columns), 0), places(node, (rows, columns), 1)
    return (row + int(node.attribute("k")) == column).cast(to)


def places(node: Node, shape: tuple[int, ...], axis: int) -> Array:
    """i64: each element is its place along an axis."""
    return node.builder.op("iota", shape=shape, axis=axis, dtype=find_dtype("i64"))


@op("Range")
def numbers(node: Node) -> Made:
    """start + n * delta, from bounds and a step that are known."""
    start, limit, delta = (node.number(n, "a bound or the step") for n in range(3))
    if delta == 0 or not all(map(math.isfinite, (start, limit, delta))):
        raise InvalidNode("a Range", expected="finite bounds and a step that is not 0")
    dtype = find_dtype(name_of(node.known(0, "start").dtype))
    if dtype.is_int:
        count = max(-((start - limit) // delta), 0)
        if not count:
            return np.zeros((0,), node.known(0, "start").dtype)
        at = node.builder.op("iota", shape=(count,), axis=0, dtype=find_dtype("i64"))
        return (at * delta + start).cast(dtype)
    count = max(math.ceil((limit - start) / delta), 0)
    wide = find_dtype("f64" if dtype.name == "f64" else "f32")
    at = node.builder.op("iota", shape=(count,), axis=0, dtype=find_dtype("i32")).cast(wide)
    return (at * delta + start).cast(dtype)


@op("Trilu")
def triangle(node: Node) -> Array:
    """The upper or lower triangle of each matrix; zeros elsewhere."""
    x = node[0]
    k = 0 if node.given(1) is None else int(node.number(1, "the diagonal"))
    shape = x.shape[-2:]
    if len(shape) < 2:
        raise InvalidNode(f"a triangle of {x.type}", expected="two axes at least")
    k = max(min(k, 1 << 62), -(1 << 62))
    row, column = places(node, shape, 0) + k, places(node, shape, 1)
    kept = column >= row if node.attribute("upper") else column <= row
    return fn.where(kept, x, node.builder.literal(0, x.dtype))
