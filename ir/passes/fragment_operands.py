"""What lowerings to matrix instructions share: kinds of operands, and operands as words."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder import Builder
from ..core import Kernel, Value, ops_named
from ..dtypes import DType, FragmentType, VectorType, f16, u32


def product_kind(t: DType) -> str:
    """The kind of operands that an element type is for matrix instructions."""
    if t.bits == 8:
        return "f8" if t.is_float else "i8"
    return t.name


def product_kinds(kernel: Kernel) -> set[str]:
    """The kinds of all products of a kernel."""
    types = (op.operands[0].type for op in ops_named(kernel.body, "fragment_mma"))
    return {product_kind(t.element) for t in types if isinstance(t, FragmentType)}


def as_words(b: Builder, parts: Sequence[Value]) -> list[Value]:
    """What a lane holds of an operand, words of several elements or elements of 32 bits."""
    return [p if p.type == u32 else b.emit("bitcast", p, type=u32) for p in parts]


def joined(b: Builder, words: Sequence[Value]) -> Value:
    """Words as a vector; one as it is."""
    return words[0] if len(words) == 1 else b.emit("vector", *words)


def halves(b: Builder, pair: Value, t: DType) -> Value:
    """The 8-bit floats in the low bytes of two half words, as f16 in those. An f8e5m2 is the upper
    half of an f16, and the other bytes must be zero. An f8e4m3 moved to the place of an f16's
    fields is 2**-8 of its value, but for a NaN."""
    if t.name == "f8e5m2":
        return b.emit("shl", pair, b.const(8, u32))
    size = b.emit("and", pair, b.const(0x7F007F, u32))
    sign = b.emit("shl", b.emit("and", pair, b.const(0x800080, u32)), b.const(8, u32))
    bits = b.emit("or", b.emit("shl", size, b.const(7, u32)), sign)
    value = b.emit("bitcast", bits, type=VectorType(f16, 2))
    scaled = b.emit("mul", value, b.const(256.0, VectorType(f16, 2)))
    nan = b.emit("and", b.emit("add", size, b.const(0x10001, u32)), b.const(0x800080, u32))
    nan = b.emit("mul", nan, b.const(0xFC, u32))
    return b.emit("or", b.emit("bitcast", scaled, type=u32), nan)
