"""Values of a kernel as LLVM values: one scalar, a base plus the lane, or a vector of lanes.

A value of kernel IR has one component, or one per lane of its own vector type. Each component is
kept in the form that the analysis proved, and `Lanes` turns it into what an instruction needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.core import Value
from ...ir.dtypes import DType, element_of, lanes_of
from ..llvm.text import Function
from ..llvm.types import Ty
from .analysis import Analysis
from .shapes import Kind

SCALAR, BASE, VECTOR = "scalar", "base", "vector"


def form_of(kind: Kind) -> str:
    """How a value of this kind is kept."""
    return SCALAR if kind <= Kind.UNIFORM else BASE if kind is Kind.CONSECUTIVE else VECTOR


@dataclass(frozen=True, slots=True)
class Held:
    """A value in LLVM: its form and one name or literal per component."""

    form: str
    parts: tuple[str, ...]


class Lanes:
    """The values that exist at this point, and their conversion between forms."""

    def __init__(self, f: Function, analysis: Analysis) -> None:
        self.f, self.analysis, self.width = f, analysis, analysis.lanes
        self.held: dict[int, Held] = {}
        numbers = ", ".join("{t} " + str(n) for n in range(self.width))
        self._numbers = f"<{numbers}>"

    def form(self, value: Value) -> str:
        return form_of(self.analysis.kind(value))

    def set(self, value: Value, *parts: str) -> None:
        """Define a value in the form that the analysis gave it."""
        self.held[value.id] = Held(self.form(value), parts)

    def type_in(self, value: Value, form: str) -> Ty:
        """The type of one component in a form."""
        return Ty(element_of(value.type), self.width if form == VECTOR else 0)

    def numbers(self, dtype: DType) -> str:
        """The vector 0, 1, 2, ... of an integer type."""
        return self._numbers.replace("{t}", Ty(dtype).text)

    def scalar(self, value: Value, part: int = 0) -> str:
        """A uniform value, or the base of a consecutive one."""
        held = self.held[value.id]
        if held.form == VECTOR:
            raise AssertionError(
                f"value %{value.id} ({value.hint}) varies where a scalar is needed"
            )
        return held.parts[part]

    def vector(self, value: Value, part: int = 0) -> str:
        """One component as a vector with an element per lane."""
        held = self.held[value.id]
        if held.form == VECTOR:
            return held.parts[part]
        dtype = element_of(value.type)
        spread = self.splat(held.parts[part], dtype)
        if held.form == SCALAR:
            return spread
        t = Ty(dtype, self.width)
        return self.f.value(f"add {t.text} {spread}, {self.numbers(dtype)}")

    def splat(self, scalar: str, dtype: DType) -> str:
        """A scalar in every lane."""
        t = Ty(dtype, self.width)
        if not scalar.startswith("%"):
            return t.literal(scalar)
        return splat(self.f, scalar, Ty(dtype).text, self.width)

    def get(self, value: Value, form: str, part: int = 0) -> str:
        """One component in a form that is no narrower than its own."""
        return self.vector(value, part) if form == VECTOR else self.scalar(value, part)

    def parts(self, value: Value, form: str) -> list[str]:
        """All components in a form."""
        return [self.get(value, form, n) for n in range(lanes_of(value.type))]


def splat(f: Function, scalar: str, type_: str, width: int) -> str:
    """A scalar of an LLVM type in every element of a vector."""
    one = f.value(f"insertelement <{width} x {type_}> poison, {type_} {scalar}, i64 0")
    zeros = f"<{width} x i32> zeroinitializer"
    return f.value(f"shufflevector <{width} x {type_}> {one}, <{width} x {type_}> poison, {zeros}")


class Slot:
    """A variable of the function for one component, in a form; mem2reg turns it into SSA."""

    def __init__(self, f: Function, type_: str) -> None:
        self.f, self.type = f, type_
        self.pointer = f.alloca(type_)

    def load(self) -> str:
        return self.f.value(f"load {self.type}, ptr {self.pointer}")

    def store(self, value: str) -> None:
        self.f.do(f"store {self.type} {value}, ptr {self.pointer}")
