"""Dot products that another basic block reads, kept from a fault of LLVM.

From gfx90a on the hardware does not wait for the sum of a dot product that is read soon behind it.
LLVM 22 lets wait states pass instead, but may put them on one side of a branch alone. A sum that
leaves its block is waited for where it is made.
"""

from __future__ import annotations

from ...ir.core import Kernel, Op, Region
from ..llvm.arithmetic import ELEMENTWISE
from ..simt.elementwise import emit_elementwise
from ..simt.lowering import Lowering

_STATES = 3  # from a dot product to whatever reads or writes its sum ("CDNA3 ISA", 4.5)


def leaving(kernel: Kernel) -> frozenset[int]:
    """Values of dot products that a basic block reads which does not make them."""
    made: dict[int, int] = {}  # value -> number of its block
    found: set[int] = set()
    _scan(kernel.body, made, found, [0])
    return frozenset(found)


def _scan(region: Region, made: dict[int, int], found: set[int], block: list[int]) -> None:
    for op in region.ops:
        # What ends a block hands values to the next one.
        here = block[0] if not (op.regions or op is region.terminator) else None
        found.update(v.id for v in op.operands if made.get(v.id, here) != here)
        if op.name == "dot4":
            made[op.result.id] = block[0]
        for inner in op.regions:
            block[0] += 1
            _scan(inner, made, found, block)
        # Code of other ops may branch as well: faults, atomics by compare-exchange, shuffles.
        block[0] += bool(op.regions) or op.name not in ELEMENTWISE


def emit_settled(x: Lowering, op: Op) -> None:
    """A dot product with the wait states that it takes behind it."""
    emit_elementwise(x, op)
    (part,) = x.parts(op.result)
    # Of two empty pieces of assembly, the first keeps the product before the wait, the second
    # whatever reads it behind: what has side effects stays in order.
    keep = 'call i32 asm sideeffect "", "=v,0"(i32 {})'
    made = x.f.value(keep.format(part))
    x.f.call("llvm.amdgcn.s.nop", "void", ("i16", str(_STATES - 1)))
    x.set(op.result, [x.f.value(keep.format(made))])
