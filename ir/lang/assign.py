"""Assignment: to names, tuples, buffer elements, register cells and vector lanes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..core import Value
from ..dtypes import VectorType
from . import literals
from .memory import cell, element, lane, store
from .operators import BINARY, binary
from .values import Entry, Memory, Registers, describe

if TYPE_CHECKING:
    from .tracer import Tracer


def assign_to(t: Tracer, target: ast.expr, entry: Entry) -> None:
    """Give `target` the value `entry`."""
    if isinstance(target, ast.Name):
        t.assign(target.id, entry)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(t, target, entry)
    elif isinstance(target, ast.Subscript):
        base = t.expression(target.value)
        _put(t, target, base, t.expression(target.slice), entry)
    elif isinstance(target, ast.Attribute):
        t.fail(target, "an attribute cannot be assigned in a kernel")
    else:
        t.fail(target, "a starred target is not supported in a kernel")


def _unpack(t: Tracer, target: ast.Tuple | ast.List, entry: Entry) -> None:
    if isinstance(entry, Value) and isinstance(entry.type, VectorType):
        entry = tuple(t.emit(target, "extract", entry, lane=n) for n in range(entry.type.lanes))
    if not isinstance(entry, tuple):
        t.fail(target, f"expected a tuple of {len(target.elts)}, found {describe(entry)}")
    if len(entry) != len(target.elts):
        t.fail(target, f"expected {len(target.elts)} values, found {len(entry)}")
    for part, value in zip(target.elts, entry, strict=True):
        assign_to(t, part, value)


def _put(t: Tracer, node: ast.Subscript, base: Entry, index: Entry, entry: Entry) -> None:
    if isinstance(base, Memory):
        store(t, node, base, index, entry)
    elif isinstance(base, Registers):
        slot = cell(t, node, base, index)
        t.state[slot] = literals.typed(t, node, entry, base.type, "a register cell")
    elif isinstance(base, Value) and isinstance(base.type, VectorType):
        number = lane(t, node, base.type, index)
        value = literals.typed(t, node, entry, base.type.element, "a vector lane")
        made = t.emit(node, "insert", base, value, lane=number)
        if not isinstance(node.value, ast.Name | ast.Subscript):
            t.fail(node, "only a lane of a variable or register cell can be assigned")
        assign_to(t, node.value, made)
    else:
        t.fail(node, f"expected a buffer, array or vector to index, found {describe(base)}")


def augmented(t: Tracer, node: ast.AugAssign) -> None:
    """`target op= value`; an indexed target is evaluated once."""
    name = BINARY[type(node.op)]
    target = node.target
    if isinstance(target, ast.Name):
        old = t.expression(target)
        assign_to(t, target, _combine(t, node, name, old, t.expression(node.value)))
    elif isinstance(target, ast.Subscript):
        base = t.expression(target.value)
        index = t.expression(target.slice)
        old = element(t, target, base, index)
        _put(t, target, base, index, _combine(t, node, name, old, t.expression(node.value)))
    else:
        t.fail(target, "an attribute cannot be assigned in a kernel")


def _combine(t: Tracer, node: ast.AugAssign, name: str, old: Entry, new: Entry) -> Entry:
    return binary(t, node, name, old, new)
