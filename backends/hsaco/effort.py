"""How much LLVM is asked to do for a kernel.

The kernel's own passes have been through the code. Of LLVM's general passes three make nearly all
of the difference that its whole pipeline makes (instructions that kernels execute: 0.98 to 1.17
times as many, with the pipeline's own unrolling behind the largest; without any pass up to 1.45
times), in a third of the time: unrolling loops, combining instructions, and straightening branches.
A code generator that optimises less takes a seventh less time and executes a few percent more.
What is long has been unrolled and has few loops left: there the passes change little (0.97 to
1.03) and cost most. Of matrix products they would unroll the loops that few tiles come to; those
of all tiles, the kernel unrolls for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.core import Kernel, walk
from ...ir.dtypes import MemType, Space
from ...ir.runs import longest_run

_MANY = 350  # ops of a kernel
_LONG = 3000  # ops without a branch; the scheduler takes a time that grows with the cube of them
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
    count, private = 0, False
    for op in walk(kernel.body):
        count += 1
        if op.name == "alloc":
            memory = op.result.type
            private = private or (isinstance(memory, MemType) and memory.space is Space.PRIVATE)
    if private:  # their cells become registers by a pass of their own, where indexes are known
        return Effort(("sroa", *_PASSES), 2)
    return Effort((), 1) if count > _MANY else Effort(_PASSES, 2)
