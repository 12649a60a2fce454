"""Emitting the ids of invocations."""

from __future__ import annotations

from ...ir.core import Op
from ...ir.dtypes import i64
from ..llvm.types import Ty
from . import ids
from .lanes import VECTOR
from .lowering import Lowering
from .shapes import Kind


def emit_id(x: Lowering, op: Op) -> None:
    """Define the result of an id op or of `count`."""
    value = op.result
    shape = x.analysis.of(value)
    if shape.kind is Kind.GROUP and shape.range and shape.range[0] == shape.range[1]:
        x.lanes.set(value, str(shape.range[0]))
        return
    t = x.type_of(value)
    match op.name:
        case "count":
            text = x.counts[op.operands[0].id]
            if value.type != x.index:
                wide = value.type == i64
                text = x.f.value(f"zext i32 {text} to i64" if wide else f"trunc i64 {text} to i32")
        case "num_groups":
            text = x.grid[_dim(op)]
        case "group_id":
            text = x.groups[_dim(op)]
        case "subgroup_id":
            text = x.subgroup
        case "subgroup_lane":
            text = "0"
        case "local_linear_id":
            text = linear(x)
        case "local_id":
            text = local(x, _dim(op))
        case _:
            size, dim = x.kernel.workgroup[_dim(op)], _dim(op)
            i = Ty(x.index)
            first = x.f.value(f"mul {i.text} {x.groups[dim]}, {size}")
            if x.lanes.form(value) == VECTOR:
                first = x.lanes.splat(first, x.index)
            text = x.f.value(f"add {t.text} {first}, {local(x, dim)}")
    x.lanes.set(value, text)


def _dim(op: Op) -> int:
    dim = op.attr("dim")
    assert isinstance(dim, int)
    return dim


def linear(x: Lowering) -> str:
    """The linear id of lane 0."""
    if x.subgroup == "0":
        return "0"
    return x.f.value(f"mul nuw nsw {Ty(x.index).text} {x.subgroup}, {x.width}")


def local(x: Lowering, dim: int) -> str:
    """A local id: a constant, the scalar or base, or the vector, as its shape says."""
    shape = ids.local_shape(x.kernel, x.width, dim)
    if shape.range and shape.range[0] == shape.range[1]:
        form_is_vector = shape.kind is Kind.VARYING
        return Ty(x.index, x.width if form_is_vector else 0).const(shape.range[0])
    t, start = Ty(x.index), linear(x)
    if shape.kind is Kind.VARYING:
        t = Ty(x.index, x.width)
        numbers = x.lanes.numbers(x.index)
        start = x.f.value(f"add {t.text} {x.lanes.splat(start, x.index)}, {numbers}")
    wx, wy, wz = x.kernel.workgroup
    below, size = ((1, wx), (wx, wy), (wx * wy, wz))[dim]
    if below > 1:
        start = x.f.value(f"udiv {t.text} {start}, {t.const(below)}")
    if dim == 2 or (dim == 0 and (wy, wz) == (1, 1)):
        return start
    return x.f.value(f"urem {t.text} {start}, {t.const(size)}")
