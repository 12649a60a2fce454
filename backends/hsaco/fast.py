"""The hardware's own functions of f32: powers of 2 and e and the binary logarithm for all kernels,
the others for kernels that declare `fast=("approximate", ...)`.

AMD's instruction set manuals give v_exp_f32 and v_log_f32 an error of 1 ulp, denormals aside. LLVM
scales operands and results so that denormals come out, which adds half an ulp of rounding: 1.5 ulp,
within the bounds of `exp2` and `log2` (`ir.ops`). Of e**x it makes 2**f, |f| <= 1/2, whose rounding
costs an eighth of an ulp, and an exact scaling: within the bound of `exp`. Under `approximate` f32
arithmetic takes denormals for zero and the instructions stand alone: v_rsq_f32 1 ulp; v_sin_f32 and
v_cos_f32 take turns, whose fraction is exact, and the product with 1/(2 pi) before costs |x| ulp
and more; what `exp`, `log` and `log10` are made of adds the rounding of one product.
"""

from __future__ import annotations

import math

from ...ir.core import Op
from ...ir.dtypes import f32
from ...ir.interface import float_bits
from ..llvm.types import Ty
from .lowering import Lowering

_SINGLE = Ty(f32)
_ALWAYS = {"exp": "llvm.exp.f32", "exp2": "llvm.exp2.f32", "log2": "llvm.log2.f32"}
_PLAIN = {
    "exp2": "llvm.amdgcn.exp2.f32",
    "log2": "llvm.amdgcn.log.f32",
    "sin": "llvm.amdgcn.sin.f32",
    "cos": "llvm.amdgcn.cos.f32",
    "rsqrt": "llvm.amdgcn.rsq.f32",
}
_TURN = 1 / (2 * math.pi)
NATIVE = frozenset(_ALWAYS)
FUNCTIONS = frozenset(("exp2", "log2", "sin", "cos", "exp", "log", "log10"))
OPS = FUNCTIONS | {"rsqrt"}


def takes(x: Lowering, op: Op) -> bool:
    """Whether an op is one of these functions here. Legalization leaves the others of `FUNCTIONS`
    to kernels that declare them; rsqrt is native for all, so it is told apart here."""
    if op.name == "rsqrt":
        return "approximate" in x.kernel.fast and x.type_of(op.result).dtype == f32
    return op.name in FUNCTIONS


def emit(x: Lowering, op: Op) -> None:
    """Define the result of one of these functions of f32."""
    one = _one if "approximate" in x.kernel.fast else _exact
    x.set(op.result, [one(x, op.name, part) for part in x.parts(op.operands[0])])


def _exact(x: Lowering, name: str, part: str) -> str:
    return _call(x, _ALWAYS[name], part)


def _one(x: Lowering, name: str, part: str) -> str:
    match name:
        case "exp":
            return _call(x, _PLAIN["exp2"], _scaled(x, part, math.log2(math.e)))
        case "log":
            return _scaled(x, _call(x, _PLAIN["log2"], part), math.log(2))
        case "log10":
            return _scaled(x, _call(x, _PLAIN["log2"], part), math.log10(2))
        case "sin" | "cos":  # the instruction takes up to 256 turns
            part = _call(x, "llvm.amdgcn.fract.f32", _scaled(x, part, _TURN))
    return _call(x, _PLAIN[name], part)


def _call(x: Lowering, name: str, part: str) -> str:
    # Of a constant, LLVM would compute it by the C library of the host, whose last bit differs from
    # one to the next, were it not for `strictfp`; of what is no constant, the code is the same.
    return x.f.call(name, "float", ("float", part), attributes=" strictfp")


def _scaled(x: Lowering, part: str, factor: float) -> str:
    return x.f.value(f"fmul float {part}, {_SINGLE.const(float_bits(factor, f32))}")
