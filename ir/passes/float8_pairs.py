"""8-bit floats as f16, four at a time, by arithmetic on words and on pairs of f16."""

from __future__ import annotations

from ..builder import Builder
from ..core import Value
from ..dtypes import DType, VectorType, f16, lanes_of

# A size in the place of an f16's fields is 2**-8 of what it means. 448, the greatest, still is an
# f16 when multiplied by 146; 480, which a NaN seems to be, is not.
_SCALE, _BEYOND = 256.0, 256.0 * 146


def apart(b: Builder, words: Value, t: DType) -> list[Value]:
    """Words of four, or a vector of such words, as two of f16: the even bytes, the odd ones."""

    def k(bits: int) -> Value:
        return b.const(bits, words.type)

    even = b.emit("shl", words, k(8))
    if t.name == "f8e5m2":  # the upper half of an f16
        return [b.emit("and", w, k(0xFF00FF00)) for w in (even, words)]
    sizes = b.emit("shl", words, k(7)), b.emit("shr", words, k(1))
    return [_e4m3(b, size, w) for size, w in zip(sizes, (even, words), strict=True)]


def _e4m3(b: Builder, sizes: Value, signs: Value) -> Value:
    """From words that have the sizes in the places of an f16's fields, and those that have the
    signs, among other bits."""
    size = b.emit("and", sizes, b.const(0x3F803F80, sizes.type))
    sign = b.emit("and", signs, b.const(0x80008000, signs.type))
    pairs = VectorType(f16, 2 * lanes_of(signs.type))
    value = b.emit("bitcast", b.emit("or", size, sign), type=pairs)
    beyond = b.emit("mul", value, b.const(_BEYOND, pairs))  # infinite where it is a NaN
    scaled = b.emit("mul", value, b.const(_SCALE, pairs))
    return b.emit("bitcast", b.emit("fma", beyond, b.const(0.0, pairs), scaled), type=signs.type)
