"""What lowerings to matrix instructions share: kinds of operands, and operands as words."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder
from ..core import Kernel, Value, walk
from ..dtypes import DType, FragmentType, u32


def product_kind(t: DType) -> str:
    """The kind of operands that an element type is for matrix instructions."""
    if t.bits == 8:
        return "f8" if t.is_float else "i8"
    return t.name


def product_kinds(kernel: Kernel) -> set[str]:
    """The kinds of all products of a kernel."""
    types = (op.operands[0].type for op in walk(kernel.body) if op.name == "fragment_mma")
    return {product_kind(t.element) for t in types if isinstance(t, FragmentType)}


def as_words(b: Builder, parts: Sequence[Value]) -> list[Value]:
    """What a lane holds of an operand, words of several elements or elements of 32 bits."""
    return [p if p.type == u32 else b.emit("bitcast", p, type=u32) for p in parts]


def joined(b: Builder, words: Sequence[Value]) -> Value:
    """Words as a vector; one as it is."""
    return words[0] if len(words) == 1 else b.emit("vector", *words)
