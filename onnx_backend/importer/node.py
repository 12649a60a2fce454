"""A node whose inputs are values of the import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from ...ir.dtypes import DType
from ...ir.graph import GraphBuilder
from ...ir.graph.array import Array
from ...ir.graph.types import find_dtype
from ..folding import LARGEST
from ..node import checked_axis
from ..refusal import InvalidNode
from ..tensor import name_of_type
from .refusal import Lacking, Reason
from .value import Site, Value


@dataclass(frozen=True, slots=True)
class Node:
    """One operator. version: the opset's that is in force. inputs: None where one is left out.
    wanted: whether each output is asked for. site: where its ops go."""

    name: str
    op: str
    version: int
    attributes: dict[str, Any]
    inputs: tuple[Value | None, ...]
    wanted: tuple[bool, ...]
    site: Site

    @property
    def builder(self) -> GraphBuilder:
        return self.site.builder

    def given(self, position: int) -> Value | None:
        """An input that may be left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def value(self, position: int) -> Value:
        """An input that must be there."""
        found = self.given(position)
        if found is None:
            raise InvalidNode(f"{self.op} without input {position}", expected=f"input {position}")
        return found

    def __getitem__(self, position: int) -> Array:
        """An input that must be there, in the graph."""
        return self.site.array(self.value(position))

    def get(self, position: int) -> Array | None:
        """An input that may be left out, in the graph."""
        found = self.given(position)
        return None if found is None else self.site.array(found)

    def all(self) -> list[Array]:
        """Every input."""
        return [self[n] for n in range(len(self.inputs))]

    def known(self, position: int, what: str) -> np.ndarray:
        """The elements of an input, which decide what the node becomes. Lacking: they are not
        known, or too many."""
        value = self.value(position)
        found = value.data if value.known is None else value.known
        if found is None:
            raise Lacking(Reason.DATA, f"{what} of {self.op} that follows from the model alone")
        if found.size > LARGEST:
            raise Lacking(Reason.DATA, f"{what} of {self.op} of at most {LARGEST} elements")
        return found

    def integers(self, name: str, position: int) -> list[int] | None:
        """What stands in an attribute in some opsets and in an input in others; None: nowhere."""
        given = self.attributes.get(name)
        if given is not None:
            return [int(n) for n in np.atleast_1d(given)]
        if self.given(position) is None:
            return None
        return [int(n) for n in self.known(position, name).reshape(-1)]

    def number(self, position: int, what: str) -> Any:
        """The one element of an input, as Python has it."""
        found = self.known(position, what)
        if found.size != 1:
            raise InvalidNode(f"{what} of {found.size} elements", expected="one")
        return found.reshape(()).item()

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute, else its default in the schema, else the one given here."""
        return self.attributes.get(name, default)

    def dtype(self, name: str) -> DType:
        """The element type that an attribute names. Missing: kernels have no such type."""
        given = self.attribute(name)
        if isinstance(given, str):  # before opset 6
            given = onnx.TensorProto.DataType.Value(given.upper())
        return find_dtype(name_of_type(int(given)))

    def wants(self, position: int) -> bool:
        """Whether the output is asked for."""
        return position < len(self.wanted) and self.wanted[position]

    def axis(self, rank: int, name: str = "axis", default: int = 0) -> int:
        """An axis, counted from the front."""
        return self.checked(int(self.attribute(name, default)), rank)

    def checked(self, axis: int, rank: int) -> int:
        """InvalidNode: there is no such axis."""
        return checked_axis(self, axis, rank)

    def axes(self, given: list[int], rank: int) -> list[int]:
        """Axes counted from the front, each named once."""
        found = [self.checked(axis, rank) for axis in given]
        if len(set(found)) < len(found):
            raise InvalidNode(f"{self.op} over axes {given}", expected="each of them once")
        return found

    def lacks(self, what: str) -> Lacking:
        """To be raised: the graph IR has nothing for it."""
        return Lacking(Reason.GRAPH, what)
