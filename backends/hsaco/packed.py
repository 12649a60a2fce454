"""Arithmetic on vectors of f16, of which the hardware computes two at a time."""

from __future__ import annotations

from ...ir.core import Op
from ...ir.dtypes import element_of, f16, lanes_of
from .lowering import Lowering

_WORDS = {"add": "fadd", "sub": "fsub", "mul": "fmul"}
OPS = frozenset((*_WORDS, "fma"))


def takes(op: Op) -> bool:
    """Whether an op is such arithmetic."""
    return op.name in OPS and element_of(op.result.type) == f16 and lanes_of(op.result.type) > 1


def emit(x: Lowering, op: Op) -> None:
    """Define the result of such an op."""
    f, bits, count = x.f, x.group_of(op.result), lanes_of(op.result.type)
    group = f"<{count} x half>"
    args = [x.vectors.cast(v, bits, group) for v in op.operands]
    if op.name == "fma":
        done = f.call(f"llvm.fma.v{count}f16", group, *((group, a) for a in args))
    else:
        done = f.value(f"{_WORDS[op.name]} {x.arith.flags}{group} {args[0]}, {args[1]}")
    x.set_vector(op.result, bits, f.value(f"bitcast {group} {done} to {bits}"))
