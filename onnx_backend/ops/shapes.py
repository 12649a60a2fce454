"""What changes the shape alone, or tells it: no kernel runs but for constants."""

from __future__ import annotations

import math

import numpy as np
import onnx

from ..layout import expanded
from ..machine import Machine
from ..node import Node, checked_axis
from ..refusal import InvalidNode, Missing
from ..registry import op
from ..tensor import ARRAYS, Tensor, name_of_type


@op("Identity")
def identity(m: Machine, node: Node) -> Tensor:
    """The same memory."""
    return node[0]


@op("Reshape")
def reshape(m: Machine, node: Node) -> Tensor:
    """0 stands for the size there was, -1 for what is left."""
    x = node[0]
    sizes = node.integers(m, "shape", 1) or []
    if not node.attribute("allowzero", 0):
        sizes = [x.shape[n] if size == 0 else size for n, size in enumerate(sizes)]
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        sizes = [x.size // known if size == -1 and known else size for size in sizes]
    if math.prod(sizes) != x.size or min(sizes, default=0) < 0:
        raise InvalidNode(f"reshape of {x.shape} to {sizes}", expected=f"{x.size} elements")
    return x.reshaped(*sizes)


@op("Flatten")
def flatten(m: Machine, node: Node) -> Tensor:
    """Two axes: those before `axis`, and the others."""
    x = node[0]
    axis = int(node.attribute("axis"))
    axis = axis + x.rank if axis < 0 else axis
    return x.reshaped(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@op("Squeeze")
def squeeze(m: Machine, node: Node) -> Tensor:
    """Without axes of one element."""
    x = node[0]
    axes = node.integers(m, "axes", 1)
    if axes is None:
        axes = [n for n, size in enumerate(x.shape) if size == 1]
    axes = [checked_axis(node, axis, x.rank) for axis in axes]
    return x.reshaped(*(size for n, size in enumerate(x.shape) if n not in axes))


@op("Unsqueeze")
def unsqueeze(m: Machine, node: Node) -> Tensor:
    """With axes of one element at these places of the result."""
    x = node[0]
    given = node.integers(m, "axes", 1) or []
    rank = x.rank + len(given)
    axes = {checked_axis(node, axis, rank) for axis in given}
    if len(axes) < len(given):
        raise ValueError(f"an axis twice in {given}")
    sizes = iter(x.shape)
    return x.reshaped(*(1 if n in axes else next(sizes) for n in range(rank)))


@op("Shape")
def shape(m: Machine, node: Node) -> Tensor:
    """The sizes from `start` to `end`."""
    sizes = node[0].shape[slice(node.attribute("start", 0), node.attribute("end"))]
    return m.fixed(np.array(sizes, np.int64))


@op("Size")
def size(m: Machine, node: Node) -> Tensor:
    """The number of elements."""
    return m.fixed(np.array(node[0].size, np.int64))


@op("Constant")
def constant(m: Machine, node: Node) -> Tensor:
    """What stands in the model."""
    for name, value in node.attributes.items():
        if name == "value":
            return m.fixed(onnx.numpy_helper.to_array(value))
        if name in ("value_float", "value_floats"):
            return m.fixed(np.array(value, np.float32))
        if name in ("value_int", "value_ints"):
            return m.fixed(np.array(value, np.int64))
    raise Missing("a Constant of strings, or a sparse one")


@op("ConstantOfShape")
def constant_of_shape(m: Machine, node: Node) -> Tensor:
    """One value everywhere."""
    given = node.attribute("value")
    value = np.zeros(1, np.float32) if given is None else onnx.numpy_helper.to_array(given)
    one = m.upload(value.reshape(()))
    return expanded(m, one, m.host(node[0]).tolist())


@op("EyeLike")
def eye_like(m: Machine, node: Node) -> Tensor:
    """Ones on a diagonal: a constant of the shape."""
    x = node[0]
    to = node.attribute("dtype")
    dtype = x.dtype if to is None else name_of_type(to)
    return m.upload(np.eye(*x.shape, k=node.attribute("k")).astype(ARRAYS[dtype]))


@op("Range")
def numbers(m: Machine, node: Node) -> Tensor:
    """From bounds and a step that are known: index arithmetic."""
    start, limit, delta = (m.host(node[n]).item() for n in range(3))
    if node[0].dtype not in ("i16", "i32", "i64"):
        raise Missing(f"kernel for a Range of {node[0].dtype}")
    return m.upload(np.arange(start, limit, delta).astype(ARRAYS[node[0].dtype]))
