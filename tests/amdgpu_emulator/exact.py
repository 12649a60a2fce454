"""Correctly rounded float functions that numpy lacks: fused multiply-add.

f32: the product of two f32 is exact in f64, so x*y + z has one rounding to f64 and one to f32. The
second goes wrong only where the f64 sum lies exactly between two f32 numbers, or where the f32
result is denormal; those few elements, and most of f64, go through the C library's fma, which is
correctly rounded.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_LIBM = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_LIBM.fma.restype = ctypes.c_double
_LIBM.fma.argtypes = [ctypes.c_double] * 3
_LIBM.fmaf.restype = ctypes.c_float
_LIBM.fmaf.argtypes = [ctypes.c_float] * 3

_NORMAL_32 = np.float64(2.0**-126)
_LOW_29, _MIDDLE = np.uint64((1 << 29) - 1), np.uint64(1 << 28)


def fma(x: Array, y: Array, z: Array) -> Array:
    """x*y + z of f16, f32 or f64 arrays (one dtype), rounded once to nearest even."""
    if x.dtype == np.float32:
        return _fma_32(x, y, z)
    return _fma_16(x, y, z) if x.dtype == np.float16 else _fma_64(x, y, z)


def _fma_32(x: Array, y: Array, z: Array) -> Array:
    total = x.astype(np.float64) * y + z
    out = total.astype(np.float32)
    doubtful = (total.view(np.uint64) & _LOW_29) == _MIDDLE
    size = np.abs(total)
    doubtful |= (size < _NORMAL_32) & (size > 0)
    if doubtful.any():
        _by_library(out, doubtful, x, y, z, _LIBM.fmaf)
    return out


def _by_library(out: Array, where: Array, x: Array, y: Array, z: Array, function: Any) -> None:
    """Elements `where` of `out`, one by one."""
    chosen = [np.broadcast_to(v, out.shape)[where].tolist() for v in (x, y, z)]
    out[where] = [function(a, b, c) for a, b, c in zip(*chosen, strict=True)]


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """(rounded sum, its error), exactly."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def to_odd(s: Array, error: Array) -> Array:
    """s + error rounded to odd: a later rounding to fewer bits is then the only one."""
    bits = s.view(np.int64)
    even = (bits & 1) == 0
    up = (error > 0) == (s > 0)
    change = even & ((error > 0) | (error < 0))
    return np.where(change, bits + np.where(up, 1, -1), bits).view(np.float64)


def _fma_16(x: Array, y: Array, z: Array) -> Array:
    s, error = two_sum(x.astype(np.float64) * y, z.astype(np.float64))
    return to_odd(np.ascontiguousarray(s), error).astype(np.float16)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """(rounded product, its error), exactly while nothing over- or underflows (Dekker)."""
    p = x * y
    xh, xl = _halves(x)
    yh, yl = _halves(y)
    return p, ((xh * yh - p) + xh * yl + xl * yh) + xl * yl


def _halves(x: Array) -> tuple[Array, Array]:
    c = x * np.float64((1 << 27) + 1)
    high = c - (c - x)
    return high, x - high


def _fma_64(x: Array, y: Array, z: Array) -> Array:
    """Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd" (2008); where exponents leave its range, the C library."""
    p, error = _two_product(x, y)
    uh, ul = two_sum(z, error)
    th, tl = two_sum(p, uh)
    v, e = two_sum(tl, ul)
    out = np.ascontiguousarray(th + to_odd(np.ascontiguousarray(v), e))
    big, small = np.float64(2.0**900), np.float64(2.0**-900)
    doubtful = ~((np.abs(p) < big) & (np.abs(z) < big) & (np.abs(x) < big) & (np.abs(y) < big))
    doubtful |= (np.abs(p) < small) | (np.abs(out) < small)
    doubtful |= (np.abs(x) < small) | (np.abs(y) < small)
    if doubtful.any():
        _by_library(out, doubtful, x, y, z, _LIBM.fma)
    return out
