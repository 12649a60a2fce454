"""How far functions of one and two elements may be from the exact result."""

from __future__ import annotations

import numpy as np

from ..ir.dtypes import DTYPES
from ..ir.ops import ROWS
from .family import Constexprs, bound, dtype


def tolerance(
    value: np.ndarray, ops: tuple[str, ...], roundings: int, constexprs: Constexprs
) -> np.ndarray | float:
    """How far OP(...) of this value may be from it: `ops` and so many roundings, then one to T."""
    t = dtype(constexprs)
    if not t.is_float:
        return 0.0
    inner = DTYPES["f64"] if t.name == "f64" else DTYPES["f32"]
    rows = [ROWS[op] for op in ops]
    bounds = [(row.ulp64 if t.name == "f64" else None) or row.ulp for row in rows]
    ulps = sum(b for b in bounds if b is not None) + 0.5 * roundings
    small = 2.0**-126 * (inner.name == "f32" and ulps > 0)
    return OP_BOUND(value=value, ulps=ulps, inner=inner, small=small, T=t)


OP_BOUND = bound(
    "abs(value) * (2 * ulps * u(inner) + u(T) * (1 + 1e-6)) + least(T) + small",
    ulps="of the functions that OP calls (LANGUAGE.md), and 1/2 for each rounding between them",
    inner="what OP is computed in: f64 of f64, else f32",
    small="2**-126 where ulps and inner is f32, else 0",
)
# 1 + erf cancels for negative x.
GELU_MORE = bound("8 * abs(x) * u(f32)", x="the argument")
# exp through exp2 of a rounded product; an approximate division
FAST_MORE = bound("abs(value) * (4 * abs(x) + 16) * u(f32)", x="the argument")
BOUNDS = {"floats": OP_BOUND, "GELU: beyond that": GELU_MORE, "FAST: beyond that": FAST_MORE}


def extra(op: str, x: np.ndarray, value: np.ndarray, fast: bool) -> np.ndarray:
    """What an op errs by beyond `tolerance`: where it cancels, and by approximate functions."""
    found = np.zeros_like(value)
    if op in ("op_gelu", "op_gelu_fast"):
        found = found + GELU_MORE(x=x)
    if fast:
        found = found + FAST_MORE(value=value, x=x)
    return np.nan_to_num(found)
