"""All that PTX supplies to the shared emitter: `lowering`, and the ops that are NVIDIA's own."""

from __future__ import annotations

from ...ir.core import Op
from . import copies, fast, float8, fragments, nv, pairs, words
from .lowering import Lowering

_EMIT = {**fragments.EMIT, **float8.EMIT, **copies.EMIT, **nv.EMIT}


class PtxLowering(Lowering):
    """The emitter of one kernel for PTX."""

    own = fast.FUNCTIONS | {"rsqrt", "bitcast"} | _EMIT.keys()

    def special(self, op: Op) -> bool:
        if fast.takes(self, op):
            fast.emit(self, op)
        elif pairs.takes(self, op):
            pairs.emit(self, op)
        elif words.takes(self, op):
            words.emit(self, op)
        elif op.name in _EMIT:
            _EMIT[op.name](self, op)
        else:
            return False
        return True
