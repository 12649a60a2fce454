"""Graphs of tensor ops: flat SSA, in the order of evaluation, with static shapes.

A graph takes inputs, which its caller gives at each step; slots, small integers or floats that a
replay finds in the same place each time; constants, which are weights by their name or a few bytes
written here; and states, tensors that stay from step to step, such as a KV cache. It gives outputs
and commits new values to its states. A commit that donates lets the new value take the old one's
memory; the verifier sees to it that nothing reads the old one any more by then.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..dtypes import DType
from .places import Loc
from .types import TensorType

Attr = bool | int | float | str | DType | tuple[int, ...]


class Origin(enum.Enum):
    """Where a tensor comes from that no node makes."""

    INPUT = "input"
    SLOT = "slot"
    CONSTANT = "constant"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value: its number within the graph and its type."""

    id: int
    type: TensorType

    def __str__(self) -> str:
        return f"%{self.id}"


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that no node makes. data: the bytes of a constant that is written here, the last
    dimension's elements side by side, little-endian; None for one that a checkpoint brings."""

    origin: Origin
    name: str
    tensor: Tensor
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """An op on tensors. Attributes are in the order of their names."""

    op: str
    operands: tuple[Tensor, ...]
    attrs: tuple[tuple[str, Attr], ...]
    results: tuple[Tensor, ...]
    loc: Loc | None = field(default=None, compare=False)

    def attr(self, name: str) -> Attr:
        """Raises KeyError."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Output:
    """What a step gives, by name."""

    name: str
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Commit:
    """What a state is after a step. donates: the value may take the memory of the old one."""

    state: Tensor
    value: Tensor
    donates: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole graph. The lines that nodes come from do not count where graphs are compared."""

    name: str
    sources: tuple[Source, ...] = ()
    nodes: tuple[Node, ...] = ()
    outputs: tuple[Output, ...] = ()
    commits: tuple[Commit, ...] = ()

    def of(self, origin: Origin) -> Iterator[Source]:
        """The sources of one kind, in their order."""
        return (source for source in self.sources if source.origin is origin)

    def tensors(self) -> Iterator[Tensor]:
        """All values, sources first."""
        for source in self.sources:
            yield source.tensor
        for node in self.nodes:
            yield from node.results
