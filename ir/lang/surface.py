"""The names that a kernel is written with.

Each is a Python object with a docstring, so that editors and linters know it; what it does is
decided by the tracer. Called outside a kernel it raises `OutsideKernelError`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dtypes import DTYPES, LANES, Access, DType, FragmentType, VectorType
from .parameters import Parameters


class OutsideKernelError(TypeError):
    """A kernel-language function called by Python itself."""


class Intrinsic:
    """A function of the kernel language, known by name; `signature` binds its arguments."""

    def __init__(self, name: str, signature: inspect.Signature, doc: str) -> None:
        self.name, self.signature, self.__doc__ = name, signature, doc
        self.parameters = Parameters(signature)
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OutsideKernelError(
            f"{self.name}() has a meaning only inside a function decorated with @kernel or "
            "@device; use numpy outside"
        )

    def __repr__(self) -> str:
        return f"<kernel function {self.name}{self.signature}>"


TABLE: dict[str, Intrinsic] = {}


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make a stub into the intrinsic of its name."""
    made = Intrinsic(function.__name__, inspect.signature(function), inspect.getdoc(function) or "")
    TABLE[made.name] = made
    return made


@dataclass(frozen=True)
class BufferType:
    """A buffer parameter: element type, access, and whether other buffers may overlap it."""

    access: Access
    element: Any
    may_alias: bool = False


@dataclass(frozen=True)
class SlotType:
    """A `slot[T]` parameter: one value in device memory that may change between replays."""

    element: Any


@dataclass(frozen=True)
class BuffersType:
    """A `Buffers[Read[T], N]` parameter: N buffers under one name."""

    item: BufferType
    count: int


class BufferMarker:
    """`Read[T]`, `Write[T]` or `ReadWrite[T]`: a buffer parameter of elements T."""

    def __init__(self, access: Access, doc: str) -> None:
        self.access, self.__doc__ = access, doc

    def __getitem__(self, item: Any) -> Any:
        element, *options = item if isinstance(item, tuple) else (item,)
        if any(o is not may_alias for o in options):
            raise TypeError(f"a buffer takes the option may_alias, not {options!r}")
        return BufferType(self.access, element, bool(options))


class SlotMarker:
    """`slot[T]`: a value read from device memory, which may change between replays."""

    def __getitem__(self, element: Any) -> Any:
        return SlotType(element)


class BuffersMarker:
    """`Buffers[Read[T], N]`: a tuple of N buffers as one parameter, indexed statically."""

    def __getitem__(self, item: Any) -> Any:
        kind, count = item
        return BuffersType(kind, count)


class _Option:
    """Option of a buffer parameter: its memory may overlap other buffers of the launch."""

    def __repr__(self) -> str:
        return "may_alias"


class Function:
    """Kind of a constexpr that is a device function."""


may_alias = _Option()
Read: Any = BufferMarker(Access.READ, "`Read[T]`: a buffer of elements T that is only read.")
Write: Any = BufferMarker(Access.WRITE, "`Write[T]`: a buffer of elements T that is only written.")
ReadWrite: Any = BufferMarker(
    Access.READWRITE, "`ReadWrite[T]`: a buffer that is read and written."
)
slot: Any = SlotMarker()
Buffers: Any = BuffersMarker()

VECTORS: dict[str, VectorType] = {
    f"{name}x{n}": VectorType(dtype, n) for name, dtype in DTYPES.items() for n in LANES
}


def vec(element: DType, lanes: int) -> VectorType:
    """The vector type of `lanes` (2, 4 or 8) elements; `vec(f32, 4)` is `f32x4`."""
    return VectorType(element, lanes)


def fragment(element: DType, role: str, shape: tuple[int, int] | None = None) -> FragmentType:
    """The type of a matrix that a subgroup holds: role "a" (16 x K), "b" (K x 16), "acc" (16 x 16,
    the sum of products) or "row" (one value for each row of an "acc").

    Without a shape, K is what the hardware multiplies at once: 16 for 16-bit elements, 8 for f32
    and 32 for 8-bit integers.
    """
    depth = {8: 32, 16: 16, 32: 8}.get(element.bits, 16)
    shapes = {"a": (16, depth), "b": (depth, 16), "row": (16, 1)}
    return FragmentType(element, role, *(shape or shapes.get(role, (16, 16))))
