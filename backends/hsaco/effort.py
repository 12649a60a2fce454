"""How much LLVM is asked to do for a kernel.

The kernel's own passes have been through the code. Of LLVM's general passes three make nearly all
of the difference that its whole pipeline makes (instructions that kernels execute: 0.98 to 1.17
times as many, with the pipeline's own unrolling behind the largest; without any pass up to 1.45
times), in a third of the time: unrolling loops, combining instructions, and straightening branches.
A code generator that optimises less takes a seventh less time and executes a few percent more.
Loops of loops that would become thousands of ops stay as they are. What is long has been unrolled
and has few loops left: there the passes change little (0.97 to 1.03) and cost most. So it is where
vectors are computed with at length, as 8-bit floats are decoded (0.96). Of matrix products they
would unroll the loops that few tiles come to; those of all tiles, the kernel unrolls for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.core import Kernel, Op, Region, const_value, ops_named, walk
from ...ir.dtypes import MemType, Space, VectorType
from ...ir.runs import longest_run

_MANY = 350  # ops of a kernel
_WIDE = 550  # the same, arithmetic of vectors counted by lanes
_TURNS = 4000  # ops that a kernel is when loops of a known number of turns are unrolled
_LONG = 3000  # ops without a branch; the scheduler takes a time that grows with the cube of them
_MOVES = frozenset({"const", "splat", "load", "extract", "insert", "vector", "shuffle"})
_PASSES = ("loop-unroll", "instcombine<no-verify-fixpoint>", "simplifycfg")


@dataclass(frozen=True, slots=True)
class Effort:
    """Passes, by the names that `opt` gives them, and the level of the code generator."""

    passes: tuple[str, ...]
    opt: int


def effort(kernel: Kernel) -> Effort:
    """For a kernel after its passes."""
    if longest_run(kernel) > _LONG:
        return Effort((), 0)
    count, wide, private = 0, 0, False
    for op in walk(kernel.body):
        count += 1
        wide += _lanes(op)
        if op.name == "alloc":
            memory = op.result.type
            private = private or (isinstance(memory, MemType) and memory.space is Space.PRIVATE)
    if private:  # their cells become registers by a pass of their own, where indexes are known
        return Effort(("sroa", *_PASSES), 2)
    if count > _MANY or wide > _WIDE:
        return Effort((), 1)
    return Effort(_PASSES if _unrolled(kernel) <= _TURNS else _PASSES[1:], 2)


def _lanes(op: Op) -> int:
    """How many instructions an op is, of which each concerns one lane."""
    if op.name in _MOVES or not op.results or not isinstance(op.results[0].type, VectorType):
        return 1
    return op.results[0].type.lanes


def _unrolled(kernel: Kernel) -> int:
    """How many ops a kernel has, those of a loop as often as it turns, where that is known."""
    known = {op.result.id: op for op in ops_named(kernel.body, "const")}

    def count(region: Region) -> int:
        total = 0
        for op in region.ops:
            inner = sum(map(count, op.regions))
            if op.name == "for" and op.operands[0].id in known and op.operands[1].id in known:
                low, high = (int(const_value(known[v.id])) for v in op.operands[:2])
                inner *= max(high - low, 1)
            total += 1 + inner
        return total

    return count(kernel.body)
