"""What is known of a value across the lanes of a subgroup.

    GROUP        one value for the whole workgroup
    UNIFORM      one value for the subgroup
    CONSECUTIVE  an integer: one base plus the lane number
    VARYING      anything

Uniform values stay scalars, and a consecutive index makes an access one vector load. Beside the
kind an integer's shape holds the power of two that divides it (its base, if consecutive) and its
range over all lanes, so that additions and multiplications which cannot wrap are known.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ...ir.dtypes import DType

MAX_ALIGN = 1 << 31


class Kind(enum.IntEnum):
    GROUP = 0
    UNIFORM = 1
    CONSECUTIVE = 2
    VARYING = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """Kind, alignment and inclusive range (None: not an integer, or unknown)."""

    kind: Kind
    align: int = 1
    range: tuple[int, int] | None = None

    @property
    def uniform(self) -> bool:
        return self.kind <= Kind.UNIFORM


GROUP, UNIFORM, VARYING = Shape(Kind.GROUP), Shape(Kind.UNIFORM), Shape(Kind.VARYING)


def join_kind(a: Kind, b: Kind) -> Kind:
    """The kind of a value that is one or the other, by a choice that is the same for all."""
    if a == b or max(a, b) <= Kind.UNIFORM:
        return max(a, b)
    return Kind.VARYING


def join(a: Shape, b: Shape) -> Shape:
    """The shape of a value that is one or the other."""
    span = None
    if a.range and b.range:
        span = min(a.range[0], b.range[0]), max(a.range[1], b.range[1])
    return Shape(join_kind(a.kind, b.kind), min(a.align, b.align), span)


def under(shape: Shape, control: Kind) -> Shape:
    """The shape of a value chosen by control flow of kind `control`."""
    if control is Kind.GROUP:
        return shape
    if control is Kind.UNIFORM:
        return Shape(max(shape.kind, Kind.UNIFORM), shape.align, shape.range)
    return Shape(Kind.VARYING, 1, shape.range)


def align_of(value: int) -> int:
    """The greatest power of two that divides `value`."""
    return MAX_ALIGN if value == 0 else min(value & -value, MAX_ALIGN)


def constant(value: int) -> Shape:
    return Shape(Kind.GROUP, align_of(value), (value, value))


def within(span: tuple[int, int], dtype: DType) -> bool:
    """Whether every value of a range fits the type."""
    return dtype.min <= span[0] and span[1] <= dtype.max


def full(dtype: DType) -> tuple[int, int]:
    return dtype.min, dtype.max
