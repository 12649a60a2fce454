"""Emitting regions: the dispatch from ops to their code."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op, Region
from ...ir.dtypes import DType
from ...ir.ops import ROWS, Effect
from ..llvm.arithmetic import ELEMENTWISE
from ..llvm.parts import REARRANGE, rearrange
from ..llvm.types import constant
from . import atomics, control, memory, subgroup
from .elementwise import emit_elementwise
from .ids import emit_id
from .lowering import Lowering


def emit_region(x: Lowering, region: Region) -> None:
    """Emit the ops of a region; its terminator leaves the current block."""
    with x.scope():
        for op in region.ops[:-1]:
            if not x.f.open:
                break  # control has left: what follows is dead
            emit_op(x, op)
        if x.f.open:
            control.emit_terminator(x, region.terminator)


def emit_op(x: Lowering, op: Op) -> None:
    """Emit one op that is no terminator."""
    name = op.name
    if name == "const":
        (value,) = op.results
        (_, bits), *_ = op.attrs
        assert isinstance(value.type, DType)
        assert isinstance(bits, int)
        x.values[value.id] = [constant(bits, value.type)]
    elif name in x.own and x.special(op):
        pass
    elif (emit := _EMIT.get(name)) is not None:
        emit(x, op)
    else:
        raise x.fail(op, f"op {name} has no code here: legalize should have expanded it")


def _rearrange(x: Lowering, op: Op) -> None:
    x.set(op.results[0], rearrange(op, [x.parts(v) for v in op.operands]))


def _nothing(x: Lowering, op: Op) -> None:
    """Debug ops do nothing on a device."""


_BY_EFFECT: dict[Effect, Callable[[Lowering, Op], None]] = {
    Effect.READ: memory.emit_load,
    Effect.WRITE: memory.emit_store,
    Effect.ALLOC: memory.emit_alloc,
    Effect.ATOMIC: atomics.emit_atomic,
    Effect.FAULT: atomics.emit_assert,
    Effect.SYNC: atomics.emit_sync,
    Effect.ID: emit_id,
    Effect.CONVERGENT: subgroup.emit_subgroup,
    Effect.DEBUG: _nothing,
}
_EMIT: dict[str, Callable[[Lowering, Op], None]] = {
    **{name: _BY_EFFECT[row.effect] for name, row in ROWS.items() if row.effect in _BY_EFFECT},
    **dict.fromkeys(control.OWNERS, control.emit_control),
    **dict.fromkeys(REARRANGE, _rearrange),
    **dict.fromkeys(ELEMENTWISE, emit_elementwise),
}
