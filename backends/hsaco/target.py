"""All that HSACO supplies to the shared emitter: `lowering`, and what has modules of its own."""

from __future__ import annotations

from ...ir.core import Kernel, Op
from ..llvm.types import Ty
from ..ordering import ordering_barriers
from ..simt.grid import emit_grid_barrier
from . import fast, fragments, lanes, sync, words
from .arch import Arch
from .joins import TracedFunction
from .lowering import Lowering


class HsacoLowering(Lowering):
    """The emitter of one kernel for HSACO."""

    def __init__(self, kernel: Kernel, arch: Arch, f: TracedFunction) -> None:
        super().__init__(kernel, arch, f)
        self.ordering = ordering_barriers(kernel)

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

    def special(self, op: Op) -> bool:
        if fast.takes(self, op):
            fast.emit(self, op)
        elif words.reshapes(op):
            words.emit(self, op)
        elif op.name in fragments.EMIT:
            fragments.EMIT[op.name](self, op)
        elif op.name == "grid_barrier":
            emit_grid_barrier(self, op)
        else:
            return False
        return True
