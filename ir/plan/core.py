"""A plan: which kernels run on which memory, in what order, for each entry of a model.

Memory is a list of storages, of which a launch's arguments are spans. Weights, literals, what the
load makes of them, and states are shared by all entries; an entry's scratch is not read by another.
All sizes are known, so that running a plan allocates and decides nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from ..dtypes import DType

Scalar = int | float


class Role(enum.Enum):
    """What a storage is for."""

    INPUT = "input"  # written by the caller before a step
    OUTPUT = "output"  # read by the caller after a step
    WEIGHT = "weight"  # brought by a checkpoint, by its name
    LITERAL = "literal"  # bytes that the plan holds
    CONSTANT = "constant"  # made by the load
    STATE = "state"  # stays from step to step; zeros at first
    SCRATCH = "scratch"  # within a step


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory of `count` elements. name: of an input, a weight or a state, else empty. shape: of a
    weight, as its checkpoint has it. data: of a literal, little-endian."""

    role: Role
    dtype: DType
    count: int
    name: str = ""
    shape: tuple[int, ...] = ()
    data: bytes | None = None

    @property
    def bytes(self) -> int:
        return self.count * self.dtype.bytes


@dataclass(frozen=True, slots=True)
class Span:
    """`count` elements of `dtype` from element `start` on, within a storage by its number."""

    storage: int
    start: int
    count: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its arguments in their order. what: the node that it is for."""

    kernel: str
    specialization: str
    args: tuple[Span | Scalar, ...]
    what: str = ""

    def spans(self) -> Iterator[Span]:
        return (arg for arg in self.args if isinstance(arg, Span))


@dataclass(frozen=True, slots=True)
class Port:
    """A tensor that the caller writes before a step or reads after it."""

    name: str
    span: Span
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What one step does."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    launches: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A model for a device. device: the kind that it was planned for (`cpu`, `vulkan`, ...);
    targets: of the code, of which a device that runs it loads one. load: launches that run once,
    when the weights are there."""

    name: str
    device: str
    targets: tuple[str, ...]
    storages: tuple[Storage, ...]
    load: tuple[Launch, ...]
    entries: tuple[Entry, ...]

    def entry(self, name: str) -> Entry:
        """Raises KeyError, which names those that there are."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(f"no entry {name!r}: it has {', '.join(e.name for e in self.entries)}")

    def kernels(self) -> tuple[tuple[str, str], ...]:
        """Every kernel and specialization that it launches, sorted."""
        lists = (self.load, *(entry.launches for entry in self.entries))
        return tuple(sorted({(x.kernel, x.specialization) for some in lists for x in some}))

    def bytes(self, role: Role) -> int:
        """Of all storages of a role."""
        return sum(s.bytes for s in self.storages if s.role is role)
