"""All that HSACO supplies to the shared emitter: `lowering`, and what has modules of its own."""

from __future__ import annotations

from ...ir.core import Kernel, Op, Value
from ..llvm.types import Ty
from ..ordering import ordering_barriers
from ..simt.grid import emit_grid_barrier
from . import addresses, fast, fragments, lanes, ones, packed, settle, sync, words
from .arch import Arch
from .joins import TracedFunction
from .lowering import Lowering, Memory

_OWN = frozenset(
    (*fast.FUNCTIONS, *packed.OPS, *words.OPS, *fragments.EMIT, "rsqrt", "grid_barrier", "dot4")
)


class HsacoLowering(Lowering):
    """The emitter of one kernel for HSACO."""

    own = _OWN

    def __init__(self, kernel: Kernel, arch: Arch, f: TracedFunction) -> None:
        super().__init__(kernel, arch, f)
        self.ordering = ordering_barriers(kernel)
        self.settled = settle.leaving(kernel) if arch.processor.unified else frozenset[int]()
        self.filled = ones.filled(kernel)
        if self.filled:
            self.own = _OWN | {"or", "add"}
        self.skipped = {} if self.optimised else addresses.sums(kernel)

    def barrier(self, op: Op | None = None) -> None:
        sync.emit_barrier(self, op is None or id(op) in self.ordering)

    def turn_ends(self, loop: Op) -> None:
        sync.emit_turn_end(self, loop, self.ordering)

    def vote(self, kind: str, condition: str) -> str:
        return lanes.vote(self, kind, condition)

    def move(self, mode: str, word: str, operand: str) -> str:
        return lanes.move(self, mode, word, operand)

    def reduce(self, op: Op, part: str, t: Ty) -> str | None:
        return lanes.reduce(self, str(op.attr("kind")), part, t)

    def scan(self, op: Op, part: str, t: Ty) -> str | None:
        return lanes.scan(self, str(op.attr("kind")), bool(op.attr("inclusive")), part, t)

    def address(self, memory: Memory, index: Value, count: int, certain: bool) -> str:
        """LLVM's passes find what accesses have in common; its code generator does not."""
        if self.optimised or not certain:
            return super().address(memory, index, count, certain)
        return addresses.address(self, self.skipped, memory, index, count)

    def special(self, op: Op) -> bool:
        if op.name == "add" and op.result.id in self.skipped:
            return True
        if op.name == "dot4" and op.result.id in self.settled:
            settle.emit_settled(self, op)
        elif op.name in ("or", "add") and op.result.id in self.filled:
            ones.emit_filled(self, op, self.filled[op.result.id])
        elif fast.takes(self, op):
            fast.emit(self, op)
        elif packed.takes(op):
            packed.emit(self, op)
        elif words.takes(self, op):
            words.emit(self, op)
        elif op.name in fragments.EMIT:
            fragments.EMIT[op.name](self, op)
        elif op.name == "grid_barrier":
            emit_grid_barrier(self, op)
        else:
            return False
        return True
