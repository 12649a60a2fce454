"""Transcendental functions, written once in kernel IR from ops that every target has.

`expand(builder, op, operands)` appends the expansion of one op of the table's maths rows for f32 or
f64, scalar or vector. Selects stand for branches, except around the reduction of large angles and
the loop of fmod. The f32 versions use 32-bit types only.

The bounds in ulp of the op table hold whether `fma` rounds once or twice, and whether or not
products are contracted into sums, but not under reassociation. They suppose correctly rounded div
and sqrt. With Vulkan's division (2.5 ulp) and square root (3 ulp) the following may lose more: tan,
asin, tanh 2 ulp; acos, atan, atan2, acosh, atanh, erfc, hypot 3 ulp; gamma 6 ulp; rsqrt 9 ulp, so
that such a target should use its own. A target that flushes denormals gives 0 for denormal results
and takes denormal arguments for 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ..builder import Builder
from ..core import Value
from ..dtypes import element_of
from . import (
    error_function,
    exact,
    exponential,
    gamma,
    hyperbolic,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from .term import Term

EXPANSIONS: dict[str, Callable[..., Term]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
    "atan2": inverse.atan2,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "tanh": hyperbolic.tanh,
    "asinh": hyperbolic.asinh,
    "acosh": hyperbolic.acosh,
    "atanh": hyperbolic.atanh,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "gamma": gamma.gamma,
    "lgamma": gamma.lgamma,
    "pow": power.pow,
    "cbrt": power.cbrt,
    "hypot": power.hypot,
    "rsqrt": power.rsqrt,
    "fmod": exact.fmod,
    "ldexp": exact.ldexp,
}


def expand(builder: Builder, op: str, operands: tuple[Value, ...], *, fused: bool = True) -> Value:
    """Append what computes `op` of the operands; f32 and f64, scalars and vectors.

    fused: whether to emit `fma` ops; without them only mul and add are used. KeyError where there
    is no expansion of `op`, TypeError for another element type (widen f16 and bf16 first).
    """
    expansion = EXPANSIONS[op]
    name = element_of(operands[0].type).name
    if name not in ("f32", "f64"):
        raise TypeError(f"{op}: expansions exist for f32 and f64, not {name}; convert it first")
    return expansion(*(Term(builder, value, fused) for value in operands)).value
