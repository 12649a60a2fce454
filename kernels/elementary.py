"""Functions for the elementwise families: rounding, trigonometry, arithmetic, integers.

The tables hold what the references of `elementwise` need: the function in float64 or in integers,
the ops that are not exact, and how many roundings lie between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.lang import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    device,
    exp,
    expm1,
    floor,
    fmod,
    log1p,
    rint,
    select,
    sign,
    sinh,
    tan,
)


@device
def op_floor(x):
    """The greatest whole number that is not above x."""
    return floor(x)


@device
def op_ceil(x):
    """The least whole number that is not below x."""
    return ceil(x)


@device
def op_rint(x):
    """The nearest whole number, of two the even one."""
    return rint(x)


@device
def op_sign(x):
    """-1, 0 or 1; a NaN as it is."""
    return sign(x)


@device
def op_cos(x):
    """The cosine of x radians."""
    return cos(x)


@device
def op_tan(x):
    """The tangent of x radians."""
    return tan(x)


@device
def op_asin(x):
    """The angle of a sine, in radians."""
    return asin(x)


@device
def op_acos(x):
    """The angle of a cosine, in radians."""
    return acos(x)


@device
def op_atan(x):
    """The angle of a tangent, in radians."""
    return atan(x)


@device
def op_sinh(x):
    """The hyperbolic sine."""
    return sinh(x)


@device
def op_cosh(x):
    """The hyperbolic cosine."""
    return cosh(x)


@device
def op_asinh(x):
    """The inverse of sinh."""
    return asinh(x)


@device
def op_acosh(x):
    """The inverse of cosh, from 1 on."""
    return acosh(x)


@device
def op_atanh(x):
    """The inverse of tanh."""
    return atanh(x)


@device
def op_expm1(x):
    """exp(x) - 1, right also for small x."""
    return expm1(x)


@device
def op_softplus(x):
    """log(1 + exp(x)), which never overflows and keeps its tail."""
    return max(x, 0) + log1p(exp(-abs(x)))


@device
def op_add(a, b):
    """a + b."""
    return a + b


@device
def op_sub(a, b):
    """a - b."""
    return a - b


@device
def op_mul(a, b):
    """a * b."""
    return a * b


@device
def op_div(a, b):
    """a / b."""
    return a / b


@device
def op_max(a, b):
    """The greater; a NaN loses."""
    return max(a, b)


@device
def op_min(a, b):
    """The lesser; a NaN loses."""
    return min(a, b)


@device
def op_pow(a, b):
    """a to the power b."""
    return a**b


@device
def op_fmod(a, b):
    """The remainder with the dividend's sign."""
    return fmod(a, b)


@device
def op_mod(a, b):
    """The remainder with the divisor's sign, of floats."""
    r = fmod(a, b)
    return select((r != 0) & ((r < 0) ^ (b < 0)), r + b, r)


@device
def op_floor_mod(a, b):
    """The remainder with the divisor's sign, of integers; x mod 0 = 0."""
    return a % b


@device
def op_quotient(a, b):
    """a / b of integers, cut towards zero; x / 0 = x."""
    q = a // b
    return select((a % b != 0) & ((a < 0) ^ (b < 0)), q + 1, q)


@device
def op_and(a, b):
    """Bitwise."""
    return a & b


@device
def op_or(a, b):
    """Bitwise."""
    return a | b


@device
def op_xor(a, b):
    """Bitwise."""
    return a ^ b


@device
def op_shl(a, b):
    """a * 2**b of 32-bit integers; a count outside 0..31 leaves nothing."""
    return select((b >= 0) & (b < 32), a << b, a - a)


@device
def op_shr(a, b):
    """a // 2**b of 32-bit integers; a count outside 0..31 leaves the sign."""
    return select((b >= 0) & (b < 32), a >> b, a >> (b - b + 31))


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide, divisor = a.astype(np.int64), b.astype(np.int64)
    found = np.sign(wide) * np.sign(divisor) * (np.abs(wide) // np.maximum(np.abs(divisor), 1))
    return np.where(b == 0, wide, found).astype(a.dtype)  # the least over -1 wraps to itself


def _shl(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    fits = (b >= 0) & (b < 32)
    return np.where(fits, (a.astype(np.int64) << np.where(fits, b, 0)).astype(a.dtype), 0)


def _shr(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a >> np.where((b >= 0) & (b < 32), b, 31)


def _floor_mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, np.mod(a.astype(np.int64), np.where(b == 0, 1, b))).astype(a.dtype)


__all__ = [
    "op_acos",
    "op_acosh",
    "op_add",
    "op_and",
    "op_asin",
    "op_asinh",
    "op_atan",
    "op_atanh",
    "op_ceil",
    "op_cos",
    "op_cosh",
    "op_div",
    "op_expm1",
    "op_floor",
    "op_floor_mod",
    "op_fmod",
    "op_max",
    "op_min",
    "op_mod",
    "op_mul",
    "op_or",
    "op_pow",
    "op_quotient",
    "op_rint",
    "op_shl",
    "op_shr",
    "op_sign",
    "op_sinh",
    "op_softplus",
    "op_sub",
    "op_tan",
    "op_xor",
]

Row = tuple[Callable[..., Any], tuple[str, ...], int]

UNARY: dict[str, Row] = {
    "op_floor": (np.floor, (), 0),
    "op_ceil": (np.ceil, (), 0),
    "op_rint": (np.rint, (), 0),
    "op_sign": (np.sign, (), 0),
    "op_cos": (np.cos, ("cos",), 0),
    "op_tan": (np.tan, ("tan",), 0),
    "op_asin": (np.arcsin, ("asin",), 0),
    "op_acos": (np.arccos, ("acos",), 0),
    "op_atan": (np.arctan, ("atan",), 0),
    "op_sinh": (np.sinh, ("sinh",), 0),
    "op_cosh": (np.cosh, ("cosh",), 0),
    "op_asinh": (np.arcsinh, ("asinh",), 0),
    "op_acosh": (np.arccosh, ("acosh",), 0),
    "op_atanh": (np.arctanh, ("atanh",), 0),
    "op_expm1": (np.expm1, ("expm1",), 0),
    # No term is negative: an error of one is at most as large in the sum.
    "op_softplus": (lambda x: np.logaddexp(x, 0), ("exp", "log1p"), 1),
}
BINARY: dict[str, Row] = {
    "op_add": (np.add, (), 0),
    "op_sub": (np.subtract, (), 0),
    "op_mul": (np.multiply, (), 0),
    "op_div": (np.divide, ("div",), 0),
    "op_max": (np.fmax, (), 0),
    "op_min": (np.fmin, (), 0),
    "op_pow": (np.power, ("pow",), 0),
    "op_fmod": (np.fmod, (), 0),
    "op_mod": (np.mod, (), 0),
    "op_floor_mod": (_floor_mod, (), 0),
    "op_quotient": (_quotient, (), 0),
    "op_and": (np.bitwise_and, (), 0),
    "op_or": (np.bitwise_or, (), 0),
    "op_xor": (np.bitwise_xor, (), 0),
    "op_shl": (_shl, (), 0),
    "op_shr": (_shr, (), 0),
}
