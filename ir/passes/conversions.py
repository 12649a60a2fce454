"""Identities of `convert` and `bitcast`."""

from __future__ import annotations

from ..core import Op
from ..dtypes import DType, element_of
from .rewrite import Answer, Rewriter

_FLOATS = {
    **{"f8e4m3": (4, 4), "f8e5m2": (3, 5)},
    **{"f16": (11, 5), "bf16": (8, 8), "f32": (24, 8), "f64": (53, 11)},
}


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, both integers or both floats."""
    if wide.is_float and narrow.is_float:
        return all(w >= n for w, n in zip(_FLOATS[wide.name], _FLOATS[narrow.name], strict=True))
    if wide.is_int and narrow.is_int:
        return wide.min <= narrow.min and wide.max >= narrow.max
    return False


def convert(rw: Rewriter, op: Op) -> Answer:
    a = op.operands[0]
    target = element_of(op.results[0].type)
    source = element_of(a.type)
    if source == target:
        return a
    inner = rw.defs.get(a.id)
    if inner is None or inner.name != "convert":
        return None
    first = element_of(inner.operands[0].type)
    # The first step lost nothing, so the second sees the original value. A narrow type is not
    # taken from integer to float or back in one step: a target may only store it.
    direct = first.bits >= 32 or first.is_float == target.is_float
    if (holds(source, first) and direct) or (first.is_bool and not source.is_bool):
        return Op("convert", inner.operands, op.results, (), (), op.loc)
    # Integers wrap: a narrower target does not see what an intermediate one kept.
    if source.is_int and target.is_int and first.is_int and target.bits <= source.bits:
        return Op("convert", inner.operands, op.results, (), (), op.loc)
    return None


def bitcast(rw: Rewriter, op: Op) -> Answer:
    a = op.operands[0]
    if a.type == op.results[0].type:
        return a
    inner = rw.defs.get(a.id)
    if inner is None or inner.name != "bitcast":
        return None
    # A detour over floats may lose the bits of a NaN on some target; it stays as written.
    if element_of(a.type).is_float:
        return None
    return Op("bitcast", inner.operands, op.results, (), (), op.loc)
