"""A node with its operator's schema: attributes with their defaults, inputs by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx

from .machine import Machine
from .refusal import InvalidNode
from .tensor import Tensor


class Named(Protocol):
    """A node, for what is said of it."""

    @property
    def name(self) -> str: ...

    @property
    def op(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a graph. domain: "" for ai.onnx. version: the opset's that is in force.
    inputs: None where one is left out. outputs: their names, "" where one is not wanted."""

    name: str
    op: str
    domain: str
    version: int
    attributes: dict[str, Any]
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[str, ...]

    def __getitem__(self, position: int) -> Tensor:
        """An input that must be there."""
        found = self.get(position)
        if found is None:
            raise InvalidNode(
                f"{self.op} without input {position}",
                where=f"node {self.name or '(unnamed)'}",
                expected=f"input {position}",
                got=f"{len(self.inputs)} inputs",
            )
        return found

    def get(self, position: int) -> Tensor | None:
        """An input that may be left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute, else its default in the schema, else the one given here."""
        return self.attributes.get(name, default)

    def wants(self, position: int) -> bool:
        """Whether the output is asked for."""
        return position < len(self.outputs) and bool(self.outputs[position])

    def integers(self, m: Machine, name: str, position: int) -> list[int] | None:
        """What stands in an attribute in some opsets and in an input in others; None: nowhere."""
        given = self.attributes.get(name)
        if given is not None:
            return [int(n) for n in np.atleast_1d(given)]
        tensor = self.get(position)
        return None if tensor is None else [int(n) for n in m.host(tensor).reshape(-1)]

    def axis(self, rank: int, name: str = "axis", default: int = 0) -> int:
        """An axis, counted from the front."""
        return checked_axis(self, int(self.attribute(name, default)), rank)


def checked_axis(node: Named, axis: int, rank: int) -> int:
    """`axis` of `rank` axes, counted from the front. InvalidNode: there is no such axis."""
    if not -rank <= axis < max(rank, 1):
        raise InvalidNode(
            f"axis {axis} of a tensor of {rank} axes",
            where=f"node {node.name or '(unnamed)'} ({node.op})",
            expected=f"one of {-rank} to {rank - 1}",
            got=str(axis),
        )
    return axis % max(rank, 1)


def attributes_of(proto: onnx.NodeProto, version: int) -> dict[str, Any]:
    """The attributes of a node, with those defaults of its schema that it does not set."""
    schema = onnx.defs.get_schema(proto.op_type, version, proto.domain)
    found = {
        name: onnx.helper.get_attribute_value(row.default_value)
        for name, row in schema.attributes.items()
        if row.default_value.name
    }
    found |= {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
    return {
        name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()
    }
