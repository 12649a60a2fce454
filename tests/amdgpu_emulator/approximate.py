"""Instructions whose result hardware only bounds: 1 ulp for f32, 0.51 ulp for f16, and 2^-24
relative for f64.

The result is one of the two neighbours that enclose the true value: an error below one ulp (of f16:
the farther one only where the bound admits it). Which one, the value and the dispatch's `salt`
decide: like hardware, an instruction gives equal results for equal inputs in every lane, and LLVM
relies on it. A true value that is a float itself stays as it is. Bounds: instruction descriptions
of AMD's RDNA3 ISA document, and what LLVM's AMDGPU backend takes them to be where it expands
division and roots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))


def scrambled(true: Array, salt: np.uint64 | int) -> Array:
    """uint64: as good as random, the same for equal values (float64) and an equal salt."""
    bits = (np.ascontiguousarray(true).view(np.uint64) ^ salt) * _MIX[0]
    return (bits ^ bits >> np.uint64(32)) * _MIX[1]


def enclosing(true: Array, dtype: type[Any], salt: np.uint64 | int, bound: float = 1.0) -> Array:
    """A neighbour of `true` (float64) in `dtype`, above or below, within `bound` ulp."""
    nearest = true.astype(dtype)
    back = nearest.astype(np.float64)
    inexact = np.isfinite(back) & (back != true) & (true == true)
    toward = np.where(back < true, np.inf, -np.inf).astype(dtype)
    other = np.nextafter(nearest, toward)
    other = np.where(np.isfinite(other), other, nearest)
    if bound < 1.0:
        gap = np.abs(other.astype(np.float64) - back)
        inexact &= np.abs(other.astype(np.float64) - true) < bound * gap
    swap = inexact & (scrambled(true, salt) >> np.uint64(63) != 0)
    return np.where(swap, other, nearest)


def loose(true: Array, salt: np.uint64 | int) -> Array:
    """float64 results of relative error below 2^-24."""
    error = (scrambled(true, salt).astype(np.float64) * 2.0**-63 - 1.0) * 2.0**-24
    return np.where(np.isfinite(true), true * (1.0 + error), true)


def all_ones(x: Array) -> Array:
    """Where the mantissa is all ones. There refinement of a reciprocal that is one ulp low does not
    end at the right one (Markstein's exception), so that division on hardware, which is exact,
    shows that hardware's reciprocal is right there."""
    raw = x.view(f"u{x.dtype.itemsize}")
    field = raw.dtype.type((1 << np.finfo(x.dtype).nmant) - 1)
    return (raw & field) == field


def sine(x: Array) -> Array:
    """sin(2 pi x), float64; x float64 in revolutions."""
    return np.sin(2.0 * np.pi * (x - np.floor(x)))


def cosine(x: Array) -> Array:
    return np.cos(2.0 * np.pi * (x - np.floor(x)))


def reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


FUNCTIONS: dict[str, Any] = {
    "exp": np.exp2,
    "log": np.log2,
    "rcp": np.reciprocal,
    "rcp_iflag": np.reciprocal,
    "rsq": reciprocal_root,
    "sqrt": np.sqrt,
    "sin": sine,
    "cos": cosine,
}
