"""Emitting regions: the dispatch from ops to their code."""

from __future__ import annotations

from ...ir.core import Op, Region, const_value
from ...ir.dtypes import DType, element_of, lanes_of
from ...ir.ops import ROWS, Effect
from ..llvm.arithmetic import ELEMENTWISE, UnsupportedOpError
from ..llvm.fences import emit_fence
from ..llvm.parts import REARRANGE, bitcast_parts, rearrange
from ..llvm.types import constant
from . import atomics, control, memory, subgroup
from .identity import emit_id
from .lanes import BASE, SCALAR, VECTOR
from .lowering import Lowering


def emit_region(x: Lowering, region: Region) -> Op:
    """Emit all ops but the terminator, which is returned."""
    for op in region.ops[:-1]:
        if not x.f.open:
            break  # control has left: what follows is dead
        emit_op(x, op)
    return region.terminator


def emit_op(x: Lowering, op: Op) -> None:
    """Emit one op that is no terminator."""
    match op.name:
        case "const":
            dtype = op.result.type
            bits = op.attr("bits")
            assert isinstance(dtype, DType)
            assert isinstance(bits, int)
            x.lanes.set(op.result, constant(bits, dtype))
        case "load":
            memory.emit_load(x, op)
        case "store":
            memory.emit_store(x, op)
        case "alloc":
            memory.emit_alloc(x, op)
        case "atomic" | "compare_exchange":
            atomics.emit_atomic(x, op)
        case "assert":
            atomics.emit_assert(x, op)
        case "if" | "switch" | "for" | "while":
            control.emit_control(x, op)
        case "barrier":
            pass  # the invocations between two barriers run in one piece
        case "fence":
            _fence(x, op)
        case _ if op.name in REARRANGE:
            _rearrange(x, op)
        case _ if op.name in ELEMENTWISE:
            _elementwise(x, op)
        case _:
            _other(x, op)


def _other(x: Lowering, op: Op) -> None:
    effect = ROWS[op.name].effect
    if effect is Effect.ID:
        emit_id(x, op)
    elif effect is Effect.CONVERGENT:
        subgroup.emit_subgroup(x, op)
    elif effect is not Effect.DEBUG:
        raise x.fail(op, f"op {op.name} has no code here: legalize should have expanded it")


def _fence(x: Lowering, op: Op) -> None:
    scope = 'syncscope("singlethread")' if op.attr("scope") == "workgroup" else ""
    emit_fence(x.f, scope, str(op.attr("order")))


def _elementwise(x: Lowering, op: Op) -> None:
    value = op.result
    # A consecutive result is computed on bases; so is a comparison that all lanes answer alike.
    form = SCALAR if x.lanes.form(value) != VECTOR else VECTOR
    if op.name == "bitcast" and lanes_of(value.type) != lanes_of(op.operands[0].type):
        _bitcast_lanes(x, op, form)
        return
    divisor = _divisor(x, op)
    # What a select chooses has the type of the result; every other op that of its first operand.
    t = x.lanes.type_in(op.operands[1 if op.name == "select" else 0], form)
    dtype = element_of(value.type)
    wraps = ""
    # Ranges are those of active lanes: in a vector, what wraps in another lane would be poison, and
    # so would every mask that is made from it.
    if form == SCALAR and value.id in x.analysis.no_wrap and dtype.is_int:
        wraps = "nsw" if dtype.is_signed else "nuw"
    types = [element_of(v.type) for v in op.operands]
    parts = []
    for n in range(lanes_of(value.type)):
        args = [x.lanes.get(v, form, n if lanes_of(v.type) > 1 else 0) for v in op.operands]
        if op.name == "select":
            parts.append(_select(x, op, form, args))
            continue
        try:
            parts.append(x.arith.op(op.name, t, args, dtype, types, divisor, wraps))
        except UnsupportedOpError as error:
            raise x.fail(op, str(error)) from error
    x.lanes.set(value, *parts)


def _select(x: Lowering, op: Op, form: str, args: list[str]) -> str:
    t, condition = x.lanes.type_in(op.operands[1], form), op.operands[0]
    if lanes_of(condition.type) == 1 and x.lanes.form(condition) == SCALAR:
        return x.f.value(
            f"select i1 {x.lanes.scalar(condition)}, {t.text} {args[1]}, {t.text} {args[2]}"
        )
    return x.f.value(f"select {t.wrap('i1')} {args[0]}, {t.text} {args[1]}, {t.text} {args[2]}")


def _divisor(x: Lowering, op: Op) -> int | None:
    if op.name not in ("floordiv", "mod"):
        return None
    source = x.defs.get(op.operands[1].id)
    if source is not None and source.name == "splat":
        source = x.defs.get(source.operands[0].id)
    return int(const_value(source)) if source is not None and source.name == "const" else None


def _bitcast_lanes(x: Lowering, op: Op, form: str) -> None:
    source, target = op.operands[0], op.result
    a, b = (x.lanes.type_in(v, form) for v in (source, target))
    parts = x.lanes.parts(source, form)
    x.lanes.set(target, *bitcast_parts(x.f, a, b, parts, lanes_of(target.type)))


def _rearrange(x: Lowering, op: Op) -> None:
    form = VECTOR if x.lanes.form(op.result) == VECTOR else SCALAR
    assert x.lanes.form(op.result) != BASE
    x.lanes.set(op.result, *rearrange(op, [x.lanes.parts(v, form) for v in op.operands]))
