"""Emitting regions: the dispatch from ops to their code."""

from __future__ import annotations

from ...ir.core import Op, Region
from ...ir.dtypes import DType, element_of, lanes_of
from ...ir.ops import ROWS, Effect
from ..llvm.arithmetic import ELEMENTWISE, UnsupportedOpError
from ..llvm.parts import REARRANGE, bitcast_parts, rearrange
from ..llvm.types import Ty, constant
from . import atomics, control, memory, subgroup
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
        dtype, bits = op.result.type, op.attr("bits")
        assert isinstance(dtype, DType)
        assert isinstance(bits, int)
        x.set(op.result, [constant(bits, dtype)])
    elif x.special(op):
        pass
    elif name in ELEMENTWISE:
        _elementwise(x, op)
    elif name in REARRANGE:
        x.set(op.result, rearrange(op, [x.parts(v) for v in op.operands]))
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


def _elementwise(x: Lowering, op: Op) -> None:
    value = op.result
    count = lanes_of(value.type)
    dtype = element_of(value.type)
    if op.name == "bitcast" and count != lanes_of(op.operands[0].type):
        a, b = x.type_of(op.operands[0]), Ty(dtype)
        x.set(value, bitcast_parts(x.f, a, b, x.parts(op.operands[0]), count))
        return
    # What a select chooses has the type of the result; every other op that of its first operand.
    t = x.type_of(op.operands[1 if op.name == "select" else 0])
    divisor = x.constant(op.operands[1]) if op.name in ("floordiv", "mod") else None
    types = [element_of(v.type) for v in op.operands]
    operands = [x.parts(v) for v in op.operands]
    found = []
    for n in range(count):
        args = [parts[n if len(parts) > 1 else 0] for parts in operands]
        if op.name == "select":
            choice = f"select i1 {args[0]}, {t.text} {args[1]}, {t.text} {args[2]}"
            found.append(x.f.value(choice))
            continue
        try:
            found.append(x.arith.op(op.name, t, args, dtype, types, divisor))
        except UnsupportedOpError as error:
            raise x.fail(op, str(error)) from error
    x.set(value, found)
