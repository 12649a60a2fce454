"""Shape rules of integer ops: how kind, alignment and range carry over."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import DType
from .shapes import MAX_ALIGN, Kind, Shape, full, within

Range = tuple[int, int]


def integer_op(name: str, dtype: DType, args: Sequence[Shape], lanes: int) -> tuple[Shape, bool]:
    """The shape of an integer op's result, and whether an add, sub or mul cannot wrap."""
    kind = _kind(name, dtype, args, lanes)
    exact = _range(name, args, dtype)
    fits = exact is not None and within(exact, dtype)
    align = _align(name, args) if kind is not Kind.VARYING else 1
    if kind is Kind.CONSECUTIVE and name == "mod":
        align = min(args[0].align, args[1].align)
    span = exact if fits else full(dtype)
    return Shape(kind, align, span), fits and name in ("add", "sub", "mul")


def _value(shape: Shape) -> int | None:
    """The value of a constant."""
    return shape.range[0] if shape.range and shape.range[0] == shape.range[1] else None


def aligned(a: Shape, lanes: int) -> bool:
    """Whether the lanes of a consecutive value lie in one aligned block, so that none wraps."""
    return a.kind is Kind.CONSECUTIVE and a.align >= lanes


def _kind(name: str, dtype: DType, args: Sequence[Shape], lanes: int) -> Kind:
    top = max(a.kind for a in args)
    if top <= Kind.UNIFORM:
        return top
    if top is Kind.VARYING or dtype.bits < 32 or len(args) != 2:
        return Kind.VARYING
    a, b = args
    if name == "add" and min(a.kind, b.kind) <= Kind.UNIFORM:
        return Kind.CONSECUTIVE
    if a.kind != Kind.CONSECUTIVE or not b.uniform:
        return Kind.VARYING
    by = _value(b)
    if name == "sub":
        return Kind.CONSECUTIVE
    if by is None or not aligned(a, lanes):
        return Kind.VARYING
    # The lanes of an aligned block agree in all bits but the lowest.
    if name == "shr" and lanes <= 1 << (by & (dtype.bits - 1)):
        return Kind.UNIFORM
    if name == "floordiv" and by > 0 and by % lanes == 0:
        return Kind.UNIFORM
    if name == "mod" and by > 0 and by % lanes == 0:
        return Kind.CONSECUTIVE
    if name == "and" and by > 0 and by & (by + 1) == 0 and by >= lanes - 1:
        return Kind.CONSECUTIVE
    return Kind.VARYING


def _align(name: str, args: Sequence[Shape]) -> int:
    if len(args) != 2:
        return 1
    a, b = args
    match name:
        case "add" | "sub" | "or" | "xor" | "min" | "max":
            return min(a.align, b.align)
        case "mul":
            return min(a.align * b.align, MAX_ALIGN)
        case "and":
            # Of a consecutive value only the base counts, whose low bits the mask keeps zero.
            return a.align if a.kind is Kind.CONSECUTIVE else max(a.align, b.align)
        case "shl":
            by = _value(b)
            return min(a.align << by, MAX_ALIGN) if by is not None and 0 <= by < 32 else a.align
        case "mod":
            return min(a.align, b.align) if a.uniform else 1
    return 1


def _range(name: str, args: Sequence[Shape], dtype: DType) -> Range | None:
    spans = [a.range for a in args if a.range is not None]
    if len(spans) < len(args) or not spans:
        return None
    (al, ah), (bl, bh) = (*spans, (0, 0))[:2]
    match name:
        case "add":
            return al + bl, ah + bh
        case "sub":
            return al - bh, ah - bl
        case "mul":
            corners = [x * y for x in (al, ah) for y in (bl, bh)]
            return min(corners), max(corners)
        case "min":
            return min(al, bl), min(ah, bh)
        case "max":
            return max(al, bl), max(ah, bh)
        case "and" if bl >= 0 or al >= 0:
            return 0, min(h for low, h in ((al, ah), (bl, bh)) if low >= 0)
        case "mod" if bl > 0:
            return 0, min(bh - 1, ah) if al >= 0 else bh - 1
        case "floordiv" if bl > 0:
            return min(al // bl, al // bh), max(ah // bl, ah // bh)
        case "shr" if bl == bh and 0 <= bl < dtype.bits:
            return al >> bl, ah >> bl
        case "shl" if bl == bh and 0 <= bl < dtype.bits:
            return al << bl, ah << bl
        case "neg":
            return -ah, -al
        case "abs" if al >= 0:
            return al, ah
    return None


def convert_op(source: DType, target: DType, a: Shape, lanes: int) -> Shape:
    """The shape of an integer converted to another integer type."""
    fits = a.range is not None and within(a.range, target)
    kind = a.kind
    if kind is Kind.CONSECUTIVE:
        widens = target.bits > source.bits
        known = a.align >= lanes or (a.range is not None and a.range != full(source))
        if min(source.bits, target.bits) < 32 or (widens and not known):
            kind = Kind.VARYING
    return Shape(kind, a.align, a.range if fits else full(target))


def compare_op(name: str, a: Shape, b: Shape, lanes: int) -> Kind:
    """The kind of a comparison: one answer for all lanes where a block lies on one side."""
    top = max(a.kind, b.kind)
    if top <= Kind.UNIFORM:
        return top
    block, bound, right = (a, b, ("lt", "ge")) if b.uniform else (b, a, ("gt", "le"))
    if bound.uniform and name in right and aligned(block, lanes) and bound.align >= lanes:
        return Kind.UNIFORM
    return Kind.VARYING
