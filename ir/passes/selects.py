"""Identities of comparisons, `not` and `select`."""

from __future__ import annotations

from ..core import Op
from ..dtypes import element_of, i32, u32, with_element
from .rewrite import Answer, Rewriter

_MIRROR = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def _op(op: Op, name: str, *operands: object) -> Op:
    return Op(name, operands, op.results, (), (), op.loc)  # type: ignore[arg-type]


def compare(rw: Rewriter, op: Op) -> Answer:
    """eq, ne: of equal integers, and of a bool with a constant."""
    a, b = op.operands
    t = element_of(a.type)
    equal = op.name == "eq"
    if a.id == b.id and not t.is_float:
        return rw.const(int(equal), op.results[0].type)
    if t.is_bool and (c := rw.bits.get(b.id)) is not None:
        return a if bool(c) == equal else _op(op, "not", a)
    return of_widened(rw, op)


def of_widened(rw: Rewriter, op: Op) -> Answer:
    """A comparison of a 32-bit integer (or less) as a 64-bit one with a constant, in 32 bits.

    Cheaper everywhere, and Mesa's compiler (22.3) takes each such comparison of an i32 for
    constant.
    """
    a, b = op.operands
    wide, bits, inner = element_of(a.type), rw.bits.get(b.id), rw.defs.get(a.id)
    if bits is None or inner is None or inner.name != "convert" or wide.bits != 64 or inner.attrs:
        return None
    source = element_of(inner.operands[0].type)
    if not (source.is_int and source.bits <= 32 and (wide.is_signed or not source.is_signed)):
        return None
    c = bits - (1 << 64) if wide.is_signed and bits >> 63 else bits
    if not source.min <= c <= source.max:
        above = c > source.max
        holds = {"eq": False, "ne": True, "lt": above, "le": above}.get(op.name, not above)
        return rw.const(int(holds), op.results[0].type)
    x = inner.operands[0]
    if source.bits < 32:
        x = rw.emit("convert", (x,), with_element(x.type, i32 if source.is_signed else u32))
    return _op(op, op.name, x, rw.const(c, x.type))


def order(rw: Rewriter, op: Op) -> Answer:
    """lt, le, gt, ge: a constant stands right; what cannot (or must) hold for integers."""
    a, b = op.operands
    t = element_of(a.type)
    if rw.bits.get(a.id) is not None and rw.bits.get(b.id) is None:
        return _op(op, _MIRROR[op.name], b, a)
    if t.is_float:
        return None
    if a.id == b.id:
        return rw.const(int(op.name in ("le", "ge")), op.results[0].type)
    c = rw.bits.get(b.id)
    if c is None:
        return None
    if c == t.min & ((1 << t.bits) - 1) and op.name in ("lt", "ge"):
        return rw.const(int(op.name == "ge"), op.results[0].type)
    if c == t.max and op.name in ("gt", "le"):
        return rw.const(int(op.name == "le"), op.results[0].type)
    return of_widened(rw, op)


def logic_not(rw: Rewriter, op: Op) -> Answer:
    """Double complement; the complement of a comparison (an ordering only for integers)."""
    inner = rw.defs.get(op.operands[0].id)
    if inner is None:
        return None
    if inner.name == "not":
        return inner.operands[0]
    if inner.name in ("eq", "ne"):
        return _op(op, "ne" if inner.name == "eq" else "eq", *inner.operands)
    if inner.name in _OPPOSITE and not element_of(inner.operands[0].type).is_float:
        return _op(op, _OPPOSITE[inner.name], *inner.operands)
    return None


def select(rw: Rewriter, op: Op) -> Answer:
    c, a, b = op.operands
    if a.id == b.id:
        return a
    bits = rw.bits.get(c.id)
    if bits is not None:
        return a if bits else b
    inner = rw.defs.get(c.id)
    if inner is not None and inner.name == "not":
        return _op(op, "select", inner.operands[0], b, a)
    if element_of(a.type).is_bool and c.type == a.type:
        truths = rw.bits.get(a.id), rw.bits.get(b.id)
        if truths == (1, 0):
            return c
        if truths == (0, 1):
            return _op(op, "not", c)
        if truths[1] == 0:
            return _op(op, "and", c, a)
        if truths[0] == 1:
            return _op(op, "or", c, b)
    return None
