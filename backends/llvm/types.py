"""LLVM's names for kernel IR types and constants.

A bool is an `i1` as a value and an `i8` in memory. f16 and bf16 values are their bit patterns in
an `i16`: no target then needs a library call to move, compare or convert them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache

from ...ir.dtypes import DType


def scalar_type(dtype: DType) -> str:
    """The type of a value of `dtype`."""
    if dtype.is_bool:
        return "i1"
    if dtype.is_float and dtype.bits > 16:
        return "float" if dtype.bits == 32 else "double"
    return f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """The type of an element of `dtype` in memory."""
    return "i8" if dtype.is_bool else scalar_type(dtype)


def constant(bits: int, dtype: DType) -> str:
    """The literal of a bit pattern."""
    if dtype.is_bool:
        return "true" if bits else "false"
    if dtype.is_float and dtype.bits == 32:
        return f"0x{_widened(bits):016X}"
    if dtype.is_float and dtype.bits == 64:
        return f"0x{bits:016X}"
    return str(bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits)


def _widened(bits: int) -> int:
    """The bits of the double with the value of an f32: LLVM writes f32 literals so."""
    if bits & 0x7F800000 == 0x7F800000:
        return (bits & 0x80000000) << 32 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


@dataclass(frozen=True, slots=True)
class Ty:
    """A scalar (`lanes` 0) or a vector of `lanes` scalars of one dtype."""

    dtype: DType
    lanes: int = 0

    @property
    def text(self) -> str:
        return _text(self.dtype, self.lanes)

    def wrap(self, scalar: str) -> str:
        """The type with this shape and the LLVM scalar type `scalar`."""
        return f"<{self.lanes} x {scalar}>" if self.lanes else scalar

    @staticmethod
    @lru_cache(64)
    def scalar(dtype: DType) -> Ty:
        """`Ty(dtype)`, without the cost of making one."""
        return Ty(dtype)

    def of(self, dtype: DType) -> Ty:
        """The type of this shape with another dtype."""
        return replace(self, dtype=dtype)

    def literal(self, text: str, scalar: str | None = None) -> str:
        """A scalar literal in every lane."""
        return f"splat ({scalar or scalar_type(self.dtype)} {text})" if self.lanes else text

    def const(self, bits: int) -> str:
        """A bit pattern in every lane."""
        return self.literal(constant(bits & ((1 << self.dtype.bits) - 1), self.dtype))

    @property
    def suffix(self) -> str:
        """The suffix of an overloaded intrinsic: `v8f32`, `i16`."""
        return self.mangle(scalar_type(self.dtype))

    def mangle(self, scalar: str) -> str:
        name = {"float": "f32", "double": "f64"}.get(scalar, scalar)
        return f"v{self.lanes}{name}" if self.lanes else name


@lru_cache(1024)
def _text(dtype: DType, lanes: int) -> str:
    return Ty(dtype, lanes).wrap(scalar_type(dtype))
