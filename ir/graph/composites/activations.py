"""Activations. Those of f16 and bf16 are computed in f32 and rounded once."""

from __future__ import annotations

import math

from ..array import Array
from ..composite import composite
from ..functions import erf, exp, tanh, widened
from ..table import AttrRow, require_float


@composite("sigmoid", 1)
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    require_float(x.type)
    return (1.0 / (1.0 + exp(-widened(x)))).cast(x.dtype)


@composite("silu", 1)
def silu(x: Array) -> Array:
    """x / (1 + exp(-x)) (Elfwing et al., arXiv:1702.03118)."""
    require_float(x.type)
    wide = widened(x)
    return (wide / (1.0 + exp(-wide))).cast(x.dtype)


@composite("gelu", 1, approximate=AttrRow(str, "none", ("none", "tanh")))
def gelu(x: Array, *, approximate: str) -> Array:
    """x times the normal distribution function of x, exact or by tanh (Hendrycks and Gimpel,
    arXiv:1606.08415)."""
    require_float(x.type)
    wide = widened(x)
    if approximate == "none":
        inner = erf(wide * math.sqrt(0.5))
    else:
        inner = tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * (wide * wide * wide)))
    return (0.5 * wide * (1.0 + inner)).cast(x.dtype)
