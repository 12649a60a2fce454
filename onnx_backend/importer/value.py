"""Tensors of a model while it is imported: in the graph, on the host, or among the weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...ir.graph import GraphBuilder, TensorType
from ...ir.graph.array import Array
from ...ir.graph.types import find_dtype
from ..folding import LARGEST
from ..tensor import ARRAYS, name_of


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor. array: in the graph. known: its elements, of what follows from the model and from
    shapes alone and is small. weight: its name, and `data` its elements as ONNX has them."""

    type: TensorType
    array: Array | None = None
    known: np.ndarray | None = field(default=None, compare=False)
    weight: str = ""
    data: np.ndarray | None = field(default=None, compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype.name


def of_known(array: np.ndarray) -> Value:
    """Elements that are known. Missing: of a type that kernels have not."""
    return Value(type_of(array), known=array)


def of_array(array: Array) -> Value:
    """What is in the graph."""
    return Value(array.type, array=array)


def of_weight(name: str, array: np.ndarray) -> Value:
    """A constant by its name; indexes, flags and single numbers count as known."""
    t = type_of(array)
    index = t.dtype.is_bool or (t.dtype.is_int and t.dtype.bits >= 32)
    small = array.size <= (LARGEST if index else 1)
    return Value(t, known=array if small else None, weight=name, data=array)


def type_of(array: np.ndarray) -> TensorType:
    """Missing: an element type that kernels have not."""
    return TensorType(find_dtype(name_of(array.dtype)), array.shape)


def stored(array: np.ndarray, t: TensorType) -> np.ndarray:
    """The same elements in the type that memory has."""
    return array.view(t.dtype.storage) if array.size else np.zeros(t.shape, t.dtype.storage)


def restored(array: np.ndarray, t: TensorType) -> np.ndarray:
    """The counterpart of `stored`."""
    return np.ascontiguousarray(array).view(ARRAYS[t.dtype.name]).reshape(t.shape)


class Site:
    """A graph under construction, and the weights that it has taken so far."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.weights: dict[str, np.ndarray] = {}
        self.names: set[str] = set()  # that weights and inputs have, or will have
        self._arrays: dict[str, Array] = {}

    def array(self, value: Value) -> Array:
        """A value in the graph: a source of its own where it is not there yet."""
        if value.array is not None:
            return value.array
        if value.known is not None:
            return self.literal(value.known, value.type)
        if value.weight not in self._arrays:
            assert value.data is not None
            made = self.builder.constant(value.weight, value.type.dtype, value.shape)
            self._arrays[value.weight] = made
            self.weights[value.weight] = stored(value.data, value.type)
        return self._arrays[value.weight]

    def literal(self, array: np.ndarray, t: TensorType) -> Array:
        """Elements that are written into the graph."""
        wide = array if t.dtype.has_numpy or not t.dtype.is_float else array.astype(np.float32)
        return self.builder.literal(wide, t.dtype)
