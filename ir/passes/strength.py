"""Strength reduction: integer multiplication, division and remainder by powers of two.

Floor semantics make the arithmetic shift and the mask right for signed operands as well. Address
arithmetic of the form k * step is left alone: on every target here one multiply-add per use
costs less than another value carried around the loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, walk
from ..dtypes import element_of
from .effects import BLOCKS, op_names
from .rewrite import Answer, Rewriter, Rules, RuleSet


@dataclass(frozen=True)
class Strength:
    """Replace costly integer ops by shifts and masks."""

    name: str = "strength"

    def __call__(self, kernel: Kernel) -> Kernel:
        if RULES.keys().isdisjoint(op_names(kernel)):
            return kernel
        idle = {id(op) for op in walk(kernel.body) if op.name not in _BUSY}
        return Rewriter(kernel, _RULES, merge=True, idle=idle).run()


def _power(rw: Rewriter, op: Op) -> int | None:
    """k where the second operand is the constant 2**k, k > 0, positive in its type."""
    b = op.operands[1]
    t = element_of(b.type)
    bits = rw.bits.get(b.id)
    if bits is None or not t.is_int or bits > t.max or bits < 2 or bits & (bits - 1):
        return None
    return bits.bit_length() - 1


def mul(rw: Rewriter, op: Op) -> Answer:
    k = _power(rw, op)
    return None if k is None else _shift(rw, op, "shl", k)


def floordiv(rw: Rewriter, op: Op) -> Answer:
    k = _power(rw, op)
    return None if k is None else _shift(rw, op, "shr", k)


def mod(rw: Rewriter, op: Op) -> Answer:
    k = _power(rw, op)
    if k is None:
        return None
    a = op.operands[0]
    return Op("and", (a, rw.const((1 << k) - 1, a.type)), op.results, (), (), op.loc)


def _shift(rw: Rewriter, op: Op, name: str, k: int) -> Op:
    a = op.operands[0]
    return Op(name, (a, rw.const(k, a.type)), op.results, (), (), op.loc)


def joined(first: Rules, second: Rules) -> Rules:
    """Both rule sets; where an op is in both, the first one's rules are tried first."""
    names = [*first, *(n for n in second if n not in first)]
    return {n: (*first.get(n, ()), *second.get(n, ())) for n in names}


RULES: Rules = {"mul": (mul,), "floordiv": (floordiv,), "mod": (mod,)}
_RULES = RuleSet.of(RULES)
# What a walk looks at: these, what they become, and what stands around them.
_BUSY = RULES.keys() | BLOCKS | {"splat", "shl", "shr", "and"}
