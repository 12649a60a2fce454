"""The hardware's approximate functions, for kernels that declare `fast=("approximate", ...)`.

Errors as NVIDIA states them for PTX: ex2 2 ulp; lg2 1 ulp, and 2**-22 absolute between 1/2 and 2;
rsqrt 2**-22.9 relative; sin and cos 2**-20.5 absolute within [-pi, pi], and more without bound
beyond. What is made of them adds the rounding of one product, which costs exp(x) up to 1.2 |x| ulp
more. A division becomes div.approx, 2 ulp for divisors up to 2**126, by LLVM's flag. `tanh.approx`
is left alone: it is off by 2**-11. All f32 arithmetic of such a kernel takes denormals for zero.
On an H200: exp2 2.1 ulp, exp 60 ulp up to |x| = 80, rsqrt 1.5 ulp, log2 2**-17 absolute for results
up to 115, sin and cos 2**-21.3 absolute.
"""

from __future__ import annotations

import math

from ...ir.core import Op
from ...ir.dtypes import f32
from ...ir.interface import float_bits
from ..llvm.types import Ty
from .lowering import Lowering

_SINGLE = Ty(f32)
_PLAIN = {"exp2": "ex2", "log2": "lg2", "sin": "sin", "cos": "cos", "rsqrt": "rsqrt"}
# exp(x) = 2**(x * log2(e)), log(x) = log2(x) * ln(2)
_BEFORE = {"exp": math.log2(math.e)}
_AFTER = {"log": math.log(2), "log10": math.log10(2)}
FUNCTIONS = frozenset(("exp2", "log2", "sin", "cos", "exp", "log", "log10"))


def takes(x: Lowering, op: Op) -> bool:
    """Whether an op is one of these functions here. Legalization leaves the others of `FUNCTIONS`
    to kernels that declare them; rsqrt is native for all, so it is told apart here."""
    if op.name == "rsqrt":
        return "approximate" in x.kernel.fast and x.type_of(op.result).dtype == f32
    return op.name in FUNCTIONS


def emit(x: Lowering, op: Op) -> None:
    """Define the result of an approximate function of f32."""
    x.set(op.result, [_one(x, op, part) for part in x.parts(op.operands[0])])


def _one(x: Lowering, op: Op, part: str) -> str:
    name = op.name
    if name in _BEFORE:
        return _call(x, "exp2", _scaled(x, part, _BEFORE[name]))
    if name in _AFTER:
        return _scaled(x, _call(x, "log2", part), _AFTER[name])
    return _call(x, name, part)


def _call(x: Lowering, name: str, part: str) -> str:
    return x.f.call(f"llvm.nvvm.{_PLAIN[name]}.approx.ftz.f", "float", ("float", part))


def _scaled(x: Lowering, part: str, factor: float) -> str:
    return x.f.value(f"fmul float {part}, {_SINGLE.const(float_bits(factor, f32))}")
