"""Emitting regions: the dispatch from ops to their code."""

from __future__ import annotations

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
    elif name in ELEMENTWISE:
        emit_elementwise(x, op)
    elif name in REARRANGE:
        x.set(op.results[0], rearrange(op, [x.parts(v) for v in op.operands]))
    elif op.regions:
        control.emit_control(x, op)
    else:
        _other(x, op)


def _other(x: Lowering, op: Op) -> None:
    match ROWS[op.name].effect:
        case Effect.READ:
            memory.emit_load(x, op)
        case Effect.WRITE:
            memory.emit_store(x, op)
        case Effect.ALLOC:
            memory.emit_alloc(x, op)
        case Effect.ATOMIC:
            atomics.emit_atomic(x, op)
        case Effect.FAULT:
            atomics.emit_assert(x, op)
        case Effect.SYNC:
            atomics.emit_sync(x, op)
        case Effect.ID:
            emit_id(x, op)
        case Effect.CONVERGENT:
            subgroup.emit_subgroup(x, op)
        case Effect.DEBUG:
            pass
        case _:
            raise x.fail(op, f"op {op.name} has no code here: legalize should have expanded it")
