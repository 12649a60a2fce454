"""Element types, vector types and memory types of kernel IR.

A value of kernel IR is a scalar (`DType`), a vector of 2, 4 or 8 scalars (`VectorType`), a matrix
fragment that a subgroup holds together (`FragmentType`) or a reference to memory (`MemType`: a
buffer, a workgroup array or a private array). Types are frozen, and equal ones are one object.
Their text form (`str`) is the one used by the IR text format and `parse_type` reads it back.

`bfloat16` has no numpy type: its storage type is `uint16` and its arithmetic is done in `float32`
and rounded to nearest, ties to even. The 8-bit floats (`f8e4m3` is OCP's E4M3, `f8e5m2` its E5M2)
are stored as `uint8`, moved and converted, and never computed with (`DType.computes`).
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np


class _Interned(type):
    """A class whose equal objects are one object, so that comparing two or looking one up costs
    next to nothing: compilers do little else with types."""

    _known: ClassVar[dict[tuple[Any, ...], Any]] = {}

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        return _Interned._known.setdefault((cls, *_parts(made)), made)


def _parts(t: Any) -> tuple[Any, ...]:
    """What a type is made from."""
    return tuple([getattr(t, name) for name in t.__match_args__])


class _Shared(metaclass=_Interned):
    """Base of the types: one object each, also where they are copied or come from a pickle."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), _parts(self)


class Kind(enum.Enum):
    BOOL = "bool"
    SINT = "sint"
    UINT = "uint"
    FLOAT = "float"


@dataclass(frozen=True, slots=True, eq=False)
class DType(_Shared):
    """A scalar type: its name, kind and width in bits (a bool is 8 bits wide in memory)."""

    name: str
    kind: Kind
    bits: int
    # What follows from the kind; kept, as compilers ask all the time.
    is_float: bool = field(init=False, repr=False)
    is_int: bool = field(init=False, repr=False)
    is_signed: bool = field(init=False, repr=False)
    is_bool: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "is_float", self.kind is Kind.FLOAT)
        keep(self, "is_int", self.kind in (Kind.SINT, Kind.UINT))
        keep(self, "is_signed", self.kind is Kind.SINT)
        keep(self, "is_bool", self.kind is Kind.BOOL)

    def __str__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def storage(self) -> np.dtype:
        """The numpy type with this type's bits in memory (`uint16` for bf16, `uint8` for f8)."""
        return np.dtype(_NUMPY[self.name])

    @property
    def computes(self) -> bool:
        """Whether ops compute with it; else its values are only moved and converted."""
        return not (self.is_float and self.bits == 8)

    @property
    def has_numpy(self) -> bool:
        """Whether its numpy type has its meaning and not just its bits."""
        return self.computes and self.name != "bf16"

    @property
    def min(self) -> int:
        """The least value of an integer type."""
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def max(self) -> int:
        """The greatest value of an integer type."""
        return (1 << (self.bits - int(self.is_signed))) - 1


_NUMPY = {
    "bool": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f8e4m3": "uint8",
    "f8e5m2": "uint8",
    "f16": "float16",
    "bf16": "uint16",
    "f32": "float32",
    "f64": "float64",
}

bool_ = DType("bool", Kind.BOOL, 8)
i8 = DType("i8", Kind.SINT, 8)
i16 = DType("i16", Kind.SINT, 16)
i32 = DType("i32", Kind.SINT, 32)
i64 = DType("i64", Kind.SINT, 64)
u8 = DType("u8", Kind.UINT, 8)
u16 = DType("u16", Kind.UINT, 16)
u32 = DType("u32", Kind.UINT, 32)
u64 = DType("u64", Kind.UINT, 64)
f8e4m3 = DType("f8e4m3", Kind.FLOAT, 8)
f8e5m2 = DType("f8e5m2", Kind.FLOAT, 8)
f16 = DType("f16", Kind.FLOAT, 16)
bf16 = DType("bf16", Kind.FLOAT, 16)
f32 = DType("f32", Kind.FLOAT, 32)
f64 = DType("f64", Kind.FLOAT, 64)

_INTEGERS = (bool_, i8, i16, i32, i64, u8, u16, u32, u64)
_FLOATS = (f8e4m3, f8e5m2, f16, bf16, f32, f64)
DTYPES: dict[str, DType] = {t.name: t for t in (*_INTEGERS, *_FLOATS)}
COMPUTED: dict[str, DType] = {name: t for name, t in DTYPES.items() if t.computes}


def unsigned(dtype: DType) -> DType:
    """The unsigned integer type of the same width as `dtype`."""
    return DTYPES[f"u{dtype.bits}"]


def signed(dtype: DType) -> DType:
    """The signed integer type of the same width as `dtype`."""
    return DTYPES[f"i{dtype.bits}"]


LANES = (2, 4, 8)


@dataclass(frozen=True, slots=True, eq=False)
class VectorType(_Shared):
    """A vector of 2, 4 or 8 scalars; lane 0 lies at the lowest address."""

    element: DType
    lanes: int

    def __post_init__(self) -> None:
        if self.lanes not in LANES:
            raise ValueError(f"a vector has 2, 4 or 8 lanes, not {self.lanes}")

    def __str__(self) -> str:
        return f"{self.element}x{self.lanes}"


# The shapes (rows, columns) that a fragment may have, by role.
DEPTHS = (8, 16, 32)  # of a product of fragments: columns of a, rows of b
FRAGMENTS: dict[str, tuple[tuple[int, int], ...]] = {
    "a": tuple((16, k) for k in DEPTHS),
    "b": tuple((k, 16) for k in DEPTHS),
    "acc": ((16, 16),),
    "row": ((16, 1),),
}


@dataclass(frozen=True, slots=True, eq=False)
class FragmentType(_Shared):
    """A matrix whose elements are spread over a subgroup, in an order that each target chooses.

    role: "a" and "b" are the operands of a product, "acc" is its sum, and "row" holds one value
    for each row of an "acc".
    """

    element: DType
    role: str
    rows: int
    columns: int

    def __post_init__(self) -> None:
        if self.role not in FRAGMENTS:
            known = ", ".join(FRAGMENTS)
            raise ValueError(f"the role of a fragment is one of {known}, not {self.role!r}")
        if (self.rows, self.columns) not in FRAGMENTS[self.role]:
            known = ", ".join(f"{r}x{c}" for r, c in FRAGMENTS[self.role])
            got = f"{self.rows}x{self.columns}"
            raise ValueError(f"a fragment of role {self.role} is {known}, not {got}")

    def __str__(self) -> str:
        return f"fragment<{self.element},{self.role},{self.rows}x{self.columns}>"


class Space(enum.Enum):
    BUFFER = "buffer"
    WORKGROUP = "workgroup"
    PRIVATE = "private"


class Access(enum.Enum):
    READ = "read"
    WRITE = "write"
    READWRITE = "readwrite"

    @property
    def reads(self) -> bool:
        return self is not Access.WRITE

    @property
    def writes(self) -> bool:
        return self is not Access.READ


@dataclass(frozen=True, slots=True, eq=False)
class MemType(_Shared):
    """A reference to memory. A buffer has no static count; an array has no access."""

    space: Space
    element: DType
    count: int | None = None
    access: Access = Access.READWRITE

    def __str__(self) -> str:
        tail = self.access.value if self.space is Space.BUFFER else str(self.count)
        return f"{self.space.value}<{self.element},{tail}>"


Type = DType | VectorType | FragmentType | MemType

# Compiled at first use: a runtime imports this module and reads no types.
_VECTOR = r"([a-z][a-z0-9]*)x([248])"
_FRAGMENT = r"fragment<(\w+),(\w+),(\d+)x(\d+)>"
_MEMORY = r"(buffer|workgroup|private)<(\w+),(\w+)>"


@lru_cache(1024)
def vector_of(element: DType, lanes: int) -> VectorType:
    """A vector type, without the cost of making one."""
    return VectorType(element, lanes)


@lru_cache(1024)
@lru_cache(1 << 10)
def parse_type(text: str) -> Type:
    """Read the text form of a type. Raises ValueError on anything else."""
    if text in DTYPES:
        return DTYPES[text]
    if (m := re.fullmatch(_VECTOR, text)) and m[1] in DTYPES:
        return vector_of(DTYPES[m[1]], int(m[2]))
    if (m := re.fullmatch(_FRAGMENT, text)) and m[1] in DTYPES:
        return FragmentType(DTYPES[m[1]], m[2], int(m[3]), int(m[4]))
    if (m := re.fullmatch(_MEMORY, text)) and m[2] in DTYPES:
        space, element = Space(m[1]), DTYPES[m[2]]
        if space is Space.BUFFER:
            return MemType(space, element, None, Access(m[3]))
        return MemType(space, element, int(m[3]))
    raise ValueError(f"not a type: {text!r} (expected e.g. f32, f32x4, buffer<f32,read>)")


def element_of(t: Type) -> DType:
    """The scalar type of a scalar, vector, fragment or memory type."""
    return t if isinstance(t, DType) else t.element


def lanes_of(t: Type) -> int:
    """The number of lanes of a value type: 1 for a scalar or fragment."""
    return t.lanes if isinstance(t, VectorType) else 1


def with_element(t: Type, element: DType) -> Type:
    """The value type with the shape of `t` and another scalar type."""
    if isinstance(t, VectorType):
        return vector_of(element, t.lanes)
    return replace(t, element=element) if isinstance(t, FragmentType) else element
