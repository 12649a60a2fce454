"""Bringing entries to types: weak constants, the implicit widenings, and their refusals.

What is implicit: a literal takes the other operand's type; a scalar meets a vector as its splat;
i32 meets an i64 index. Everything else is written out by the author.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NoReturn

from ..core import Value
from ..dtypes import (
    DType,
    FragmentType,
    MemType,
    Type,
    VectorType,
    bool_,
    element_of,
    f32,
    i32,
    with_element,
)
from . import fragments
from .values import Entry, SlotRef, WeakSelect, describe, is_number

if TYPE_CHECKING:
    from .tracer import Tracer


_VALUES = (Value, WeakSelect, bool, int, float)
_CONSTANTS = (bool, int, float, str, tuple)


def is_weak(t: Tracer, entry: Entry) -> bool:
    """Whether an entry takes the type of what it meets."""
    if isinstance(entry, Value):
        return entry.id in t.weak
    return is_number(entry) or isinstance(entry, WeakSelect)


def weak_is_float(entry: Entry) -> bool:
    if isinstance(entry, Value):
        return element_of(entry.type).is_float
    return entry.is_float if isinstance(entry, WeakSelect) else isinstance(entry, float)


def default_type(t: Tracer, node: ast.AST, entry: Entry) -> Type:
    """The type of an entry that meets nothing: index for an int, f32 for a float."""
    if isinstance(entry, Value):
        return entry.type
    if isinstance(entry, bool):
        return bool_
    if isinstance(entry, int | float | WeakSelect):
        return f32 if weak_is_float(entry) else t.index
    fail_value(t, node, entry)


def fail_value(t: Tracer, node: ast.AST, entry: Entry) -> NoReturn:
    t.fail(node, f"expected a run-time value, found {describe(entry)}")


def value(t: Tracer, node: ast.AST, entry: Entry) -> Value:
    """An entry as an SSA value of its own or its default type."""
    return typed(t, node, entry, default_type(t, node, entry))


def typed(t: Tracer, node: ast.AST, entry: Entry, type_: Type, what: str = "") -> Value:
    """An entry as a value of `type_`; a Diagnostic where that needs a conversion written out."""
    if type(entry) is int and type_ is i32 and -(1 << 31) <= entry < 1 << 31:  # most of them
        return t.const(node, entry, type_)
    if isinstance(entry, Value) and entry.type is type_:
        return entry
    where = f" for {what}" if what else ""
    if isinstance(entry, Value):
        if isinstance(entry.type, MemType):
            t.fail(node, f"expected {type_}{where}, found memory {entry.type}")
        if is_weak(t, entry) and not element_of(type_).is_bool:
            if weak_is_float(entry) and element_of(type_).is_int:
                t.fail(node, f"expected {type_}{where}, found a float; convert it by {type_}(...)")
            if isinstance(type_, (VectorType, FragmentType)) and isinstance(entry.type, DType):
                return splat(t, node, typed(t, node, entry, type_.element), type_)
            return t.emit(node, "convert", entry, type=type_)
        if widens(t, entry.type, type_):
            return t.emit(node, "convert", entry, type=type_)
        if isinstance(type_, VectorType) and _splats(t, entry.type, type_):
            return splat(t, node, typed(t, node, entry, type_.element), type_)
        if isinstance(type_, FragmentType) and fragments.absorbs(type_, entry.type):
            if isinstance(entry.type, FragmentType):
                return fragments.broadcast(t, node, entry)
            return splat(t, node, entry, type_)
        t.fail(node, f"expected {type_}{where}, found {entry.type}{_hint(entry.type, type_)}")
    if isinstance(entry, WeakSelect):
        a, b = (typed(t, node, e, type_, what) for e in (entry.a, entry.b))
        return t.emit(node, "select", entry.condition, a, b)
    if not isinstance(entry, (bool, int, float)) or isinstance(type_, MemType):
        t.fail(node, f"expected {type_}{where}, found {describe(entry)}")
    check_literal(t, node, entry, element_of(type_), where)
    return t.const(node, entry, type_)


def check_literal(t: Tracer, node: ast.AST, entry: float, dtype: DType, where: str = "") -> None:
    """Refuse a literal that is not of the kind or in the range of `dtype`."""
    if isinstance(entry, bool) != dtype.is_bool:
        t.fail(node, f"expected {dtype}{where}, found {describe(entry)}")
    if dtype.is_int and isinstance(entry, float):
        t.fail(
            node,
            f"expected {dtype}{where}, found the float {entry!r}; a float becomes an integer only "
            f"where {dtype}(...) or convert(...) asks for it",
        )
    if dtype.is_int and not dtype.min <= entry <= dtype.max:
        t.fail(node, f"{entry} does not fit {dtype}{where} ({dtype.min} to {dtype.max})")
    if dtype.is_float and isinstance(entry, int):
        try:
            float(entry)
        except OverflowError:
            t.fail(node, f"the int literal is too great for {dtype}{where}")


def widens(t: Tracer, source: Type, target: Type) -> bool:
    """Whether `source` becomes `target` without being asked: i32 to an i64 index."""
    return source == i32 and target == t.index and t.index.bits == 64


def _splats(t: Tracer, source: Type, target: VectorType) -> bool:
    return source == target.element or widens(t, source, target.element)


def splat(t: Tracer, node: ast.AST, scalar: Value, type_: VectorType | FragmentType) -> Value:
    return t.emit(node, "splat", scalar, type=type_)


def _hint(found: Type, expected: Type) -> str:
    same_shape = with_element(found, element_of(expected)) == expected
    if found == bool_:
        return f"; write select(condition, {expected}(1), {expected}(0))"
    if expected == bool_:
        return "; compare it, as in x != 0"
    return f"; convert it by {expected}(...)" if same_shape else ""


def common(t: Tracer, node: ast.AST, entries: list[Entry], what: str) -> tuple[list[Value], bool]:
    """The entries as values of one type, and whether that type is still weak."""
    first = entries[0]
    if type(first) is Value and first.id not in t.weak:
        for entry in entries[1:]:
            kind = type(entry)
            if kind is not Value or entry.type is not first.type or entry.id in t.weak:
                # A number beside a scalar, the commonest of what follows, takes its type.
                if kind is int and len(entries) == 2 and type(first.type) is DType:
                    return [first, typed(t, node, entry, first.type, what)], False
                break
        else:
            return list(entries), False
    for entry in entries:
        if not isinstance(entry, _VALUES):
            t.fail(node, f"{what} takes values, found {describe(entry)}")
    strong = [default_type(t, node, e) for e in entries if not is_weak(t, e)]
    if not strong:
        weak = f32 if any(map(weak_is_float, entries)) else t.index
        return [typed(t, node, e, weak) for e in entries], True
    target = strong[0]
    for other in strong[1:]:
        target = _wider(t, node, target, other, what)
    return [typed(t, node, e, target, what) for e in entries], False


def _wider(t: Tracer, node: ast.AST, a: Type, b: Type, what: str) -> Type:
    if a == b or widens(t, b, a):
        return a
    if widens(t, a, b):
        return b
    if isinstance(a, VectorType) and not isinstance(b, VectorType) and a.element == b:
        return a
    if isinstance(b, VectorType) and not isinstance(a, VectorType) and b.element == a:
        return b
    if fragments.absorbs(a, b):
        return a
    if fragments.absorbs(b, a):
        return b
    t.fail(
        node,
        f"operands of {what} have types {a} and {b}; expected one type, "
        f"so convert one of them, as in {a}(...)",
    )


def condition(t: Tracer, node: ast.AST, entry: Entry) -> Value | bool:
    """An entry as a condition: a bool scalar, or a constant by Python's truth."""
    if type(entry) is bool:
        return entry
    if isinstance(entry, Value):
        if entry.type != bool_:
            hint = "" if not isinstance(entry.type, DType) else "; compare it, as in x != 0"
            t.fail(node, f"expected a bool as condition, found {entry.type}{hint}")
        return entry
    if isinstance(entry, WeakSelect | SlotRef):
        t.fail(
            node, f"expected a bool as condition, found {describe(entry)}; compare it, as in x != 0"
        )
    if isinstance(entry, _CONSTANTS) or entry is None:
        return bool(entry)
    t.fail(node, f"expected a bool as condition, found {describe(entry)}")
