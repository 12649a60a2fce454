"""How much LLVM is asked to do for a kernel: to select instructions, or to optimise, too.

The kernel's own passes have been through the code and the assembler optimises it, so a kernel that
waits for memory is as fast without LLVM's optimisations, which take two thirds of its time
(measured: 0.98 to 1.02 of the speed with them). They pay

- where instructions bound a kernel: in loops without a buffer, and where data goes through
  workgroup memory (matrix products are 4 to 10 % slower without, transpositions 3 %);
- for divisions, whose expansions share what they compute;
- for private arrays, whose cells become registers by them alone.
"""

from __future__ import annotations

from ...ir.core import Kernel, Op, ops_named, walk
from ...ir.dtypes import MemType, Space
from ...ir.passes.effects import kept

_LOOPS = ("for", "while")
_RESULTS = 512  # bytes of workgroup memory with which subgroups bring their results together


@kept
def thorough(kernel: Kernel) -> bool:
    """Whether LLVM is to optimise."""
    body = kernel.body
    if ops_named(body, "floordiv", "mod") or not all(map(_waits, ops_named(body, *_LOOPS))):
        return True
    shared = 0
    for op in ops_named(body, "alloc"):
        memory = op.result.type
        assert isinstance(memory, MemType)
        if memory.space is Space.PRIVATE:
            return True
        shared += (memory.count or 0) * memory.element.bytes
    return shared > _RESULTS


def _waits(loop: Op) -> bool:
    """Whether a loop reads or writes buffers."""
    operands = (v for region in loop.regions for op in walk(region) for v in op.operands)
    return any(isinstance(v.type, MemType) and v.type.space is Space.BUFFER for v in operands)
