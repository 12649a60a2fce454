"""The 8-bit floats of the OCP specification (OFP8): what each pattern means, and rounding to one.

    f8e4m3   4 bits of exponent (bias 7), 3 of fraction; no infinity, NaN is S.1111.111;
             greatest 448, least 2**-9
    f8e5m2   5 bits of exponent (bias 15), 2 of fraction; infinities and NaNs as IEEE has them;
             greatest 57344, least 2**-16

Rounding is to nearest, ties to the even pattern. What is beyond the greatest value and its half
step becomes infinite, or a NaN where there is no infinity.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Format(NamedTuple):
    """Fields of a pattern. overflow: the magnitude that too great a value gets. nan: the quiet one.
    greatest: the pattern of the greatest finite value."""

    name: str
    fraction: int  # bits
    bias: int
    greatest: int
    overflow: int
    nan: int

    @property
    def limit(self) -> float:
        """The greatest finite value."""
        return to_float(self.greatest, self.name)


FORMATS = {
    row.name: row
    for row in (
        Format("f8e4m3", 3, 7, 0x7E, 0x7F, 0x7F),
        Format("f8e5m2", 2, 15, 0x7B, 0x7C, 0x7E),
    )
}


def _ordinal(pattern: int, f: Format) -> float:
    """The value of a magnitude as if no pattern were special."""
    exponent, fraction = divmod(pattern, 1 << f.fraction)
    if exponent == 0:
        return math.ldexp(fraction, 1 - f.bias - f.fraction)
    return math.ldexp(fraction + (1 << f.fraction), exponent - f.bias - f.fraction)


def to_float(pattern: int, name: str) -> float:
    """The value of a bit pattern."""
    f = FORMATS[name]
    magnitude = pattern & 0x7F
    value = _ordinal(magnitude, f)
    if magnitude > f.greatest:
        value = math.inf if magnitude == f.overflow != f.nan else math.nan
    return math.copysign(value, -1.0 if pattern & 0x80 else 1.0)


@lru_cache
def _middles(name: str) -> tuple[float, ...]:
    """Middles between neighbouring magnitudes up to the step behind the greatest."""
    f = FORMATS[name]
    return tuple((_ordinal(n, f) + _ordinal(n + 1, f)) / 2 for n in range(f.greatest + 1))


def from_float(value: float, name: str) -> int:
    """The bit pattern of a value, rounded; every NaN is the quiet one."""
    if math.isnan(value):
        return FORMATS[name].nan
    middles, magnitude = _middles(name), abs(value)
    at = bisect_left(middles, magnitude)
    if at < len(middles) and middles[at] == magnitude:
        at += at & 1
    return at | (0x80 if math.copysign(1.0, value) < 0 else 0)


@lru_cache
def _values(name: str) -> np.ndarray:
    """float32[256]: the value of each pattern; a NaN keeps its sign and fraction."""
    f = FORMATS[name]
    patterns = np.arange(256, dtype=np.uint32)
    found = np.array([to_float(n, name) for n in range(256)], np.float32)
    sign, fraction = (patterns & 0x80) << np.uint32(24), patterns & (1 << f.fraction) - 1
    words = sign | np.uint32(0x7F800000) | fraction << np.uint32(23 - f.fraction)
    return np.where(np.isnan(found), words, found.view(np.uint32)).view(np.float32)


def decode(patterns: np.ndarray, name: str) -> np.ndarray:
    """uint8 patterns as float32, exactly."""
    return np.asarray(_values(name)[patterns])


def encode(values: np.ndarray, name: str) -> np.ndarray:
    """float32 values that the format has as their uint8 patterns; the inverse of `decode`."""
    f = FORMATS[name]
    words = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(np.shape(values))
    kept = (words >> np.uint32(23 - f.fraction)) & np.uint32((1 << f.fraction) - 1)
    nan = (words >> np.uint32(24)) & np.uint32(0x80) | np.uint32(f.overflow) | kept
    return np.where(np.isnan(values), nan, rounded(values, name)).astype(np.uint8)


def rounded(values: np.ndarray, name: str) -> np.ndarray:
    """Floats of any width as the uint8 patterns of the nearest values; NaNs are quiet ones."""
    with np.errstate(invalid="ignore"):  # signaling NaNs
        wide = np.asarray(values).astype(np.float64)
    middles = np.array(_middles(name))
    magnitude = np.abs(wide)
    at = np.searchsorted(middles, magnitude)
    tie = np.append(middles, np.nan)[at] == magnitude
    at = np.where(tie, at + (at & 1), at)
    at = np.where(np.isnan(wide), FORMATS[name].nan, at | np.where(np.signbit(wide), 0x80, 0))
    return np.asarray(at).astype(np.uint8)
