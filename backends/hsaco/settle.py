"""Dot products that another basic block reads, kept from a fault of LLVM.

From gfx90a on the hardware does not wait for the sum of a dot product that is read soon behind it.
LLVM 22 lets wait states pass instead, but counts them along one path alone where several come from
one block: a shorter one gets too few. A sum that leaves its block is waited for where it is made;
so is one whose reader LLVM may move to where that one's own result is read.
"""

from __future__ import annotations

from ...ir.core import Kernel, Op, Region
from ...ir.ops import ROWS
from ...ir.ops.table import Effect
from ..llvm.arithmetic import ELEMENTWISE
from ..simt.elementwise import emit_elementwise
from ..simt.lowering import Lowering

_STATES = 3  # from a dot product to whatever reads or writes its sum ("CDNA3 ISA", 4.5)
_Placed = list[tuple[Op, int]]  # ops in the order of the text, with the numbers of their blocks


def leaving(kernel: Kernel) -> frozenset[int]:
    """Values of dot products that a basic block may read which does not make them."""
    placed: _Placed = []
    _place(kernel.body, placed, [0])
    made = {v.id: block for op, block in placed for v in op.results}
    away: set[int] = set()  # values that may be read elsewhere than where they are made
    found: set[int] = set()
    for op, block in reversed(placed):
        moves = _moves(op) and any(v.id in away for v in op.results)
        if op.name == "dot4" and moves:  # what waits for it holds it where it is
            found.add(op.result.id)
            moves = False
        here = block if _stays(op) else None
        away.update(v.id for v in op.operands if moves or made.get(v.id) != here)
    return frozenset(found)


def _place(region: Region, placed: _Placed, block: list[int]) -> None:
    for op in region.ops:
        placed.append((op, block[0]))
        for inner in op.regions:
            block[0] += 1
            _place(inner, placed, block)
        # Code of other ops may branch as well: faults, atomics by compare-exchange, shuffles.
        block[0] += bool(op.regions) or op.name not in ELEMENTWISE


def _moves(op: Op) -> bool:
    """LLVM may compute it later, where its result is read."""
    return ROWS[op.name].effect in (Effect.PURE, Effect.ID, Effect.READ)


def _stays(op: Op) -> bool:
    """Its own code reads all operands in the block where it stands; what ends a block hands values
    to the next one."""
    return not op.regions and (op.name == "store" or _moves(op))


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
