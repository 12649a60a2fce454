"""What a kernel shows to those who launch it: parameters, source places, bit patterns of numbers.

Apart from the rest of kernel IR, so that a runtime which only launches does not pay for it.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

from .dtypes import Access, DType, Kind

Attr = int | str | bool | tuple["Attr", ...]

_Class = TypeVar("_Class")
_FREEZE = os.environ.get("GRISTMILL_VERIFY") == "1"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(cls: type[_Class]) -> type[_Class]:
    """A frozen dataclass. Type checkers see to it that no field is set again, and so does Python
    under GRISTMILL_VERIFY=1; else that would cost more than half of the time to make one, and a
    compile makes thousands."""
    return dataclass(frozen=_FREEZE, slots=True, unsafe_hash=True)(cls)


@node
class Loc:
    """A place in kernel source: file as given to the tracer, 1-based line and column."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel parameter.

    kind: `buffer`, `slot` (a one-element read-only buffer whose value changes between replays) or
    `scalar`. access and may_alias concern buffers.
    """

    name: str
    kind: str
    dtype: DType
    access: Access = Access.READ
    may_alias: bool = False

    @property
    def is_memory(self) -> bool:
        return self.kind != "scalar"


_PACK = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}


def float_bits(value: float, dtype: DType) -> int:
    """The bit pattern of `value` rounded to nearest even in `dtype`; every NaN is the quiet one."""
    if dtype.name == "bf16":
        return _bf16_bits(value)
    if dtype.bits == 8:
        from . import float8  # a launch needs it where it has a scalar of such a type

        return float8.from_float(value, dtype.name)
    if math.isnan(value):
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}[dtype.bits]
    real, integer = _PACK[dtype.bits]
    try:
        packed = struct.pack(real, value)
    except OverflowError:  # struct refuses what rounds to infinity
        packed = struct.pack(real, math.copysign(math.inf, value))
    return int(struct.unpack(integer, packed)[0])


def _bf16_bits(value: float) -> int:
    if math.isnan(value):
        return 0x7FC0
    word = float_bits(value, _F32)
    # Rounding twice goes wrong only where the f32 is a tie that `value` itself is not: make the
    # f32 odd there, towards the side on which `value` lies (round to odd).
    rounded = bits_float(word, _F32)
    if word & 0xFFFF == 0x8000 and rounded != value and math.isfinite(rounded):
        word += 1 if abs(value) > abs(rounded) else -1
    return (word + 0x7FFF + ((word >> 16) & 1)) >> 16


def const_bits(value: float, dtype: DType) -> int:
    """The bit pattern of a Python number as a constant of `dtype`, rounded once."""
    if dtype.is_float:
        narrow = isinstance(value, int) and dtype.bits < 64
        return float_bits(_odd_float(int(value)) if narrow else float(value), dtype)
    if dtype.is_bool:
        return int(bool(value))
    return int(value) & ((1 << dtype.bits) - 1)


def _odd_float(value: int) -> float:
    """A float with the integer's value, its last bit sticky where it does not fit: what rounds it
    again to a narrower type then rounds once. OverflowError beyond every float."""
    shift = abs(value).bit_length() - 53
    if shift <= 0:
        return float(value)
    kept = abs(value) >> shift
    odd = float((kept | (kept << shift != abs(value))) << shift)
    return odd if value > 0 else -odd


def bits_float(bits: int, dtype: DType) -> float:
    """The value of a bit pattern of a float type."""
    if dtype.name == "bf16":
        return bits_float(bits << 16, _F32)
    if dtype.bits == 8:
        from . import float8

        return float8.to_float(bits, dtype.name)
    real, integer = _PACK[dtype.bits]
    return float(struct.unpack(real, struct.pack(integer, bits))[0])


_F32 = DType("f32", Kind.FLOAT, 32)
