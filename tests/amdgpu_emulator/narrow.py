"""Floating-point formats of eight and sixteen bits, as bits in numpy arrays.

OCP: E4M3FN and E5M2 of the "OCP 8-bit Floating Point Specification" (gfx950, gfx12); FNUZ: the
finite forms with one NaN and no negative zero (gfx942). AMD calls four bits of exponent fp8, five
bf8.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Float8:
    """Layout of eight bits: sign, `exponent` bits, `mantissa` bits, with a bias of the exponent.

    `style`: "ieee" has infinities and NaNs in the highest exponent; "fn" has one NaN per sign, all
    bits set; "fnuz" has one NaN where negative zero would be.
    """

    name: str
    exponent: int
    mantissa: int
    bias: int
    style: str


E4M3 = Float8("e4m3", 4, 3, 7, "fn")
E5M2 = Float8("e5m2", 5, 2, 15, "ieee")
E4M3_FNUZ = Float8("e4m3fnuz", 4, 3, 8, "fnuz")
E5M2_FNUZ = Float8("e5m2fnuz", 5, 2, 16, "fnuz")


def float8(kind: str, fnuz: bool) -> Float8:
    """The format behind AMD's `fp8` or `bf8`."""
    table = {"fp8": (E4M3, E4M3_FNUZ), "bf8": (E5M2, E5M2_FNUZ)}
    return table[kind][fnuz]


@functools.cache
def values(layout: Float8) -> np.ndarray:
    """f32[256]: the value of each byte."""
    code = np.arange(256)
    exponent = (code >> layout.mantissa) & ((1 << layout.exponent) - 1)
    fraction = code & ((1 << layout.mantissa) - 1)
    implied = np.where(exponent > 0, 1 << layout.mantissa, 0)
    scale = np.maximum(exponent, 1) - layout.bias - layout.mantissa
    value = np.ldexp((implied + fraction).astype(np.float64), scale)
    value = np.where(code & 0x80, -value, value)
    if layout.style == "fnuz":
        value[0x80] = np.nan
    elif layout.style == "fn":
        value[(code & 0x7F) == 0x7F] = np.nan
    else:
        top = exponent == (1 << layout.exponent) - 1
        value[top] = np.where(fraction[top] > 0, np.nan, np.copysign(np.inf, value[top]))
    return value.astype(np.float32)


def decode8(bits: np.ndarray, layout: Float8) -> np.ndarray:
    """f32 of the low eight bits of each element."""
    return values(layout)[np.asarray(bits).astype(np.int64) & 0xFF]


@functools.cache
def _ladder(layout: Float8) -> tuple[np.ndarray, np.ndarray]:
    """(magnitudes f64 ascending, their codes) of the finite values without a sign."""
    low = values(layout)[:128].astype(np.float64)
    codes = np.nonzero(np.isfinite(low))[0]
    return low[codes], codes


def encode8(value: np.ndarray, layout: Float8, saturate: bool) -> np.ndarray:
    """u32 codes of f32 values, to nearest, ties to even.

    A value that rounds beyond the largest finite one becomes that with `saturate` (the mode
    FP16_OVFL), else infinity, or NaN where the format has none. Infinities stay what they are
    without it.
    """
    value = np.asarray(value, np.float32).astype(np.float64)
    steps, codes = _ladder(layout)
    size = np.where(np.isnan(value), 0, np.abs(value))
    above = np.clip(np.searchsorted(steps, size), 1, len(steps) - 1)
    low, high = steps[above - 1], steps[above]
    tie = codes[above - 1] & 1
    up = (size - low > high - size) | ((size - low == high - size) & (tie == 1))
    code = np.where(up, codes[above], codes[above - 1]).astype(np.uint32)
    # Halfway to the step that would come next; a tie there goes to what is even, the next one.
    half = (steps[-1] - steps[-2]) / 2
    last_is_odd = codes[-1] & 1
    beyond = size - steps[-1] >= half if last_is_odd else size - steps[-1] > half
    return _special(value, code, beyond, layout, saturate)


def _special(
    value: np.ndarray, code: np.ndarray, beyond: np.ndarray, layout: Float8, saturate: bool
) -> np.ndarray:
    """Signs, overflow and NaN put over rounded magnitudes."""
    if layout.style == "ieee":
        overflow, nan = 0x7C, 0x7F
    else:
        overflow = nan = 0x80 if layout.style == "fnuz" else 0x7F
    if saturate:
        overflow = int(_ladder(layout)[1][-1])
    code = np.where(beyond, np.uint32(overflow), code)
    signed = code | np.where(np.signbit(value), np.uint32(0x80), np.uint32(0))
    if layout.style == "fnuz":  # there is no negative zero
        signed = np.where(code == 0, np.uint32(0), signed)
    if layout.style == "ieee" and saturate:  # FP16_OVFL keeps what was infinite
        infinite = np.where(np.signbit(value), np.uint32(0xFC), np.uint32(0x7C))
        signed = np.where(np.isinf(value), infinite, signed)
    return np.where(np.isnan(value), np.uint32(nan), signed).astype(np.uint32)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """f32 of the low sixteen bits of each element."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bf16(value: np.ndarray) -> np.ndarray:
    """u32 codes of bf16, to nearest, ties to even; NaNs stay NaNs (quiet)."""
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(bits.view(np.float32)), quiet, rounded)


def from_f16(bits: np.ndarray) -> np.ndarray:
    """f32 of the low sixteen bits of each element."""
    return np.asarray(bits).astype(np.uint16).view(np.float16).astype(np.float32)


def to_f16(value: np.ndarray) -> np.ndarray:
    """u32 codes of f16, to nearest, ties to even."""
    return np.asarray(value).astype(np.float16).view(np.uint16).astype(np.uint32)
