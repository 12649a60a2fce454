"""Conversions: constructors such as `f32(x)`, `convert` with rounding and saturation, `bitcast`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..core import Value, bits_float
from ..dtypes import (
    DType,
    FragmentType,
    Type,
    VectorType,
    element_of,
    f32,
    lanes_of,
    unsigned,
    with_element,
)
from ..float8 import FORMATS
from . import fragments, literals
from .values import Entry, WeakSelect, describe

if TYPE_CHECKING:
    from .tracer import Tracer

ROUNDINGS = ("nearest", "zero", "floor", "ceil")


def construct(
    t: Tracer, node: ast.AST, type_: DType | VectorType | FragmentType, args: list[Entry]
) -> Entry:
    """`f32(x)`, `f32x4(x)`, `f32x4(a, b, c, d)` or a fragment full of x."""
    if isinstance(type_, VectorType):
        parts: list[Entry] = []
        for arg in args:
            parts += _lanes(t, node, arg)
        if len(args) > 1 or len(parts) == type_.lanes:
            if len(parts) != type_.lanes:
                t.fail(node, f"{type_} takes 1 or {type_.lanes} values, found {len(parts)}")
            if len(args) == 1 and isinstance(args[0], Value):
                return convert(t, node, args[0], type_, None, False)
            values = [_scalar(t, node, p, type_.element) for p in parts]
            return t.emit(node, "vector", *values)
    if len(args) != 1:
        t.fail(node, f"{type_}(...) takes one value, found {len(args)}")
    (entry,) = args
    if isinstance(type_, FragmentType) and isinstance(getattr(entry, "type", None), FragmentType):
        return fragments.convert(t, node, entry, type_)
    if isinstance(type_, VectorType | FragmentType):
        return literals.splat(t, node, _scalar(t, node, entry, type_.element), type_)
    return _scalar(t, node, entry, type_)


def _lanes(t: Tracer, node: ast.AST, entry: Entry) -> list[Entry]:
    if isinstance(entry, tuple):
        return list(entry)
    if isinstance(entry, Value) and isinstance(entry.type, VectorType):
        return [t.emit(node, "extract", entry, lane=n) for n in range(entry.type.lanes)]
    return [entry]


def _scalar(t: Tracer, node: ast.AST, entry: Entry, dtype: DType) -> Value:
    """An entry converted to a scalar type; a literal must fit it."""
    if isinstance(entry, WeakSelect):
        a, b = (_scalar(t, node, e, dtype) for e in (entry.a, entry.b))
        return t.emit(node, "select", entry.condition, a, b)
    if isinstance(entry, Value):
        if not isinstance(entry.type, DType):
            t.fail(node, f"{dtype}(...) converts a scalar, found {entry.type}")
        return _convert(t, node, entry, dtype)
    if isinstance(entry, float) and dtype.is_int:
        if entry != entry or abs(entry) == float("inf"):
            entry = 0 if entry != entry else (dtype.max if entry > 0 else dtype.min)
        entry = max(dtype.min, min(dtype.max, int(entry)))  # as the convert op does
    if isinstance(entry, int | float) and dtype.is_bool:
        entry = entry != 0
    elif isinstance(entry, bool):
        entry = int(entry)
    return literals.typed(t, node, entry, dtype)


def _convert(t: Tracer, node: ast.AST, value: Value, type_: Type) -> Value:
    made = value if value.type == type_ else t.emit(node, "convert", value, type=type_)
    if t.probing and value.id in t.weak:  # asked for by name: no longer weak
        made = t.emit(node, "convert", value, type=type_)
    t.weak.discard(made.id)
    return made


def convert(
    t: Tracer, node: ast.AST, entry: Entry, wanted: Entry, rounding: Entry, saturate: Entry
) -> Entry:
    """`convert(value, type, rounding, saturate)`.

    Float to integer truncates unless a rounding is stated, and always saturates (NaN gives 0).
    Integer to integer wraps unless `saturate`. Float to float rounds to nearest even unless
    stated otherwise; `saturate` turns an overflow into the greatest finite value. An 8-bit float is
    always rounded to nearest.
    """
    if not isinstance(wanted, DType | VectorType | FragmentType):
        t.fail(node, f"expected a type to convert to, found {describe(wanted)}")
    if rounding is not None and rounding not in ROUNDINGS:
        t.fail(node, f"rounding is one of {', '.join(ROUNDINGS)}, found {describe(rounding)}")
    if not isinstance(saturate, bool):
        t.fail(node, f"saturate is True or False, found {describe(saturate)}")
    if not isinstance(entry, Value):
        if rounding is None and not saturate:
            return construct(t, node, wanted, [entry])
        entry = literals.value(t, node, entry)
    if isinstance(wanted, FragmentType):
        if rounding is not None or saturate:
            t.fail(
                node, "the conversion of a fragment rounds to nearest; convert its elements first"
            )
        return fragments.convert(t, node, entry, wanted)
    type_ = with_element(entry.type, element_of(wanted))
    if isinstance(wanted, VectorType) and lanes_of(entry.type) != wanted.lanes:
        t.fail(node, f"cannot convert {entry.type} to {wanted}: lanes differ")
    source, target = element_of(entry.type), element_of(wanted)
    if source.is_float and target.is_int:
        round_op = {"nearest": "rint", "floor": "floor", "ceil": "ceil"}.get(rounding or "zero")
        rounded = t.emit(node, round_op, entry) if round_op else entry
        return _convert(t, node, rounded, type_)
    if source.is_int and target.is_int and saturate:
        return _convert(t, node, _clamp_int(t, node, entry, source, target), type_)
    if not target.computes and rounding not in (None, "nearest"):
        t.fail(node, f"{target} is rounded to nearest, not {rounding!r}")
    if not target.computes and saturate and source != target:
        return _saturated8(t, node, entry, type_)
    if source.is_float and target.is_float and target != source:
        return _float_to_float(t, node, entry, type_, rounding or "nearest", saturate)
    if source.is_int and target.is_float and rounding not in (None, "nearest"):
        t.fail(node, f"an integer becomes a float by rounding to nearest, not {rounding!r}")
    return _convert(t, node, entry, type_)


def _clamp_int(t: Tracer, node: ast.AST, x: Value, source: DType, target: DType) -> Value:
    if source.min < target.min:
        x = t.emit(node, "max", x, t.const(node, target.min, x.type))
    if source.max > target.max:
        x = t.emit(node, "min", x, t.const(node, target.max, x.type))
    return x


def _saturated8(t: Tracer, node: ast.AST, x: Value, type_: Type) -> Value:
    """Clamped before it is rounded, in a type that computes: every one holds the limits."""
    source, target = element_of(x.type), element_of(type_)
    if not (source.computes and source.is_float):
        x = _convert(t, node, x, with_element(x.type, f32))
    limit = t.const(node, FORMATS[target.name].limit, x.type)
    clamped = t.emit(node, "max", t.emit(node, "min", x, limit), t.emit(node, "neg", limit))
    x = t.emit(node, "select", t.emit(node, "isnan", x), x, clamped)
    return _convert(t, node, x, type_)


_GREATEST = {"f16": 0x7BFF, "bf16": 0x7F7F, "f32": 0x7F7FFFFF, "f64": 0x7FEFFFFFFFFFFFFF}


def _float_to_float(
    t: Tracer, node: ast.AST, x: Value, type_: Type, rounding: str, saturate: bool
) -> Value:
    target = element_of(type_)
    made = _convert(t, node, x, type_)
    if rounding != "nearest":
        made = _directed(t, node, x, made, rounding)
    if saturate:
        most = t.const(node, bits_float(_GREATEST[target.name], target), type_)
        clamped = t.emit(node, "max", t.emit(node, "min", made, most), t.emit(node, "neg", most))
        made = t.emit(node, "select", t.emit(node, "isnan", made), made, clamped)
    return made


def _directed(t: Tracer, node: ast.AST, x: Value, near: Value, rounding: str) -> Value:
    """Step back from the nearest value where it lies on the wrong side of x."""
    source, target = element_of(x.type), element_of(near.type)
    if target.bits >= source.bits and source.name != "bf16" and target.name != "bf16":
        return near  # widening is exact
    wide_type = x.type
    back = t.emit(node, "convert", near, type=wide_type)
    word = with_element(near.type, unsigned(target))
    bits = t.emit(node, "bitcast", near, type=word)
    one, sign = t.const(node, 1, word), t.const(node, 1 << (target.bits - 1), word)
    magnitude = t.emit(node, "and", bits, t.emit(node, "sub", sign, one))
    zero = t.const(node, 0, x.type)
    shrink = t.emit(node, "sub", bits, one)
    if rounding == "zero":
        ax, ab = t.emit(node, "abs", x), t.emit(node, "abs", back)
        return _choose(t, node, t.emit(node, "gt", ab, ax), shrink, near)
    grow = t.emit(node, "add", bits, one)
    down = rounding == "floor"
    wrong = t.emit(node, "gt" if down else "lt", back, x)
    # Towards the wanted side: away from zero on that side of zero, towards it on the other.
    outward = t.emit(node, "lt" if down else "gt", back, zero)
    step = t.emit(node, "select", outward, grow, shrink)
    least = t.emit(node, "or", one, sign) if down else one
    at_zero = t.emit(node, "eq", magnitude, t.const(node, 0, word))
    step = t.emit(node, "select", at_zero, least, step)
    return _choose(t, node, wrong, step, near)


def _choose(t: Tracer, node: ast.AST, wrong: Value, bits: Value, near: Value) -> Value:
    stepped = t.emit(node, "bitcast", bits, type=near.type)
    return t.emit(node, "select", wrong, stepped, near)


def bitcast(t: Tracer, node: ast.AST, entry: Entry, wanted: Entry) -> Entry:
    """The same bits as another type."""
    if not isinstance(wanted, DType | VectorType):
        t.fail(node, f"expected a type to cast to, found {describe(wanted)}")
    if not isinstance(entry, Value):
        t.fail(
            node,
            f"bitcast takes a value of a known type, found {describe(entry)}; "
            "give it one, as in f32(...)",
        )
    lanewise = (
        isinstance(entry.type, VectorType | FragmentType)
        and element_of(entry.type).bits == element_of(wanted).bits
    )
    if isinstance(wanted, DType) and lanewise:
        wanted = with_element(entry.type, wanted)
    return entry if entry.type == wanted else t.emit(node, "bitcast", entry, type=wanted)
