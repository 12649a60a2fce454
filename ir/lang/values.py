"""What a name of a kernel may stand for while the kernel is traced.

An entry is an SSA `Value`, a Python constant (int, float, bool, str, None, a type, a function, a
tuple of entries), or one of the classes here. Int and float constants are weakly typed: they take
the type of what they meet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import Value
from ..dtypes import DType, FragmentType, MemType, Type, VectorType

Entry = Any
Slot = tuple[int, str | int]  # (frame or register array, name or cell)


@dataclass(frozen=True)
class Memory:
    """A buffer (shape None) or an array in workgroup or private memory.

    swizzled: the chunks of 16 bytes of row r lie in the order of their number xor r % 8.
    """

    value: Value
    shape: tuple[int, ...] | None
    name: str
    swizzled: bool = False

    @property
    def type(self) -> MemType:
        assert isinstance(self.value.type, MemType)
        return self.value.type


@dataclass(frozen=True)
class SlotRef:
    """A slot parameter: reading the name loads its one element."""

    value: Value
    name: str


@dataclass(frozen=True)
class Registers:
    """An array of SSA values; cell n lives in the state under (number, n)."""

    number: int
    shape: tuple[int, ...]
    type: DType | VectorType | FragmentType

    @property
    def count(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class WeakSelect:
    """One of two constants, chosen at run time, whose type is not yet known."""

    condition: Value
    a: int | float
    b: int | float

    @property
    def is_float(self) -> bool:
        return isinstance(self.a, float) or isinstance(self.b, float)


@dataclass(frozen=True)
class Undefined:
    """A variable without a value here, and why. dead: nothing reads it on the way from here."""

    reason: str = ""
    dead: bool = False


@dataclass(frozen=True)
class Conflict:
    """A variable whose paths do not fit together, and how."""

    reason: str


@dataclass(frozen=True)
class Column:
    """Stands for result n of an op that is not emitted yet."""

    number: int


@dataclass(frozen=True, eq=False)
class Counter:
    """scale * n + offset, where n is the number of the iteration that stands for others
    (`unrolled`): known to be one, and not which."""

    owner: Any
    scale: int
    offset: int


_SHOWN = 100  # characters of a constant, in a message
_FEW = 12  # items of a tuple, in a message
_COMPARED = (
    *(int, float, str, Value, DType, FragmentType, VectorType, MemType),
    *(Memory, SlotRef, Registers, WeakSelect, Undefined, Conflict, Column),
)
MISSING: Any = Undefined()  # what a state without a slot holds there


def same(a: Entry, b: Entry) -> bool:
    """Whether two entries are interchangeable."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return math.copysign(1, a) == math.copysign(1, b) and (a == b or (a != a and b != b))
    if isinstance(a, WeakSelect):
        return same(a.condition, b.condition) and same(a.a, b.a) and same(a.b, b.b)
    return equal(a, b)


def equal(a: Entry, b: Entry) -> bool:
    """`a == b` of what kernels compare; what else a module holds is equal to itself alone, as its
    own comparison may do and raise anything."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a is b or (isinstance(a, _COMPARED) and isinstance(b, _COMPARED) and bool(a == b))


def leaves(entry: Entry) -> Sequence[Entry]:
    """The parts of an entry that may be run-time values; a tuple has those of its items."""
    if not isinstance(entry, tuple):
        return (entry,)
    return [leaf for item in entry for leaf in leaves(item)]


def rebuild(entry: Entry, parts: Iterable[Entry]) -> Entry:
    """`entry` with its leaves replaced, in order."""
    return _rebuilt(entry, iter(parts))


def _rebuilt(entry: Entry, feed: Iterator[Entry]) -> Entry:
    if isinstance(entry, tuple):
        return tuple([_rebuilt(item, feed) for item in entry])
    return next(feed)


def is_number(entry: Entry) -> bool:
    """Whether an entry is a weakly typed constant."""
    return isinstance(entry, (int, float)) and not isinstance(entry, bool)


def describe(entry: Entry) -> str:
    """An entry for a message: its type, or what it is."""
    if isinstance(entry, Value):
        return str(entry.type)
    if isinstance(entry, WeakSelect):
        return "a float constant" if entry.is_float else "an int constant"
    if isinstance(entry, bool):
        return f"the bool {entry}"
    if isinstance(entry, int | float | str):
        text = repr(entry)
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        return f"the {type(entry).__name__} {text}"
    if isinstance(entry, tuple):
        return _describe_tuple(entry)
    if isinstance(entry, Memory):
        kind = "buffer" if entry.shape is None else f"{entry.type.space.value} array"
        return f"the {kind} {entry.name!r} of {entry.type.element}"
    if isinstance(entry, Registers):
        return f"a register array of {entry.type}"
    if isinstance(entry, DType | VectorType | FragmentType):
        return f"the type {entry}"
    if entry is None:
        return "None"
    return f"{getattr(entry, '__name__', None) or type(entry).__name__}"


def _describe_tuple(entry: tuple[Entry, ...]) -> str:
    if sum(isinstance(item, tuple) for item in entry) > 1 or len(entry) > _FEW:
        return f"a tuple of {len(entry)} items"
    return "a tuple of " + (", ".join(map(describe, entry)) or "nothing")


def type_of(entry: Entry) -> Type | None:
    """The strong type of an entry; None for weak and static ones."""
    if isinstance(entry, Value):
        return entry.type
    return None
