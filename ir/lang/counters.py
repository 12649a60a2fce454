"""The number of an iteration that stands for others (`unrolled`): what may be done with it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..core import Loc, Op, Value
from ..dtypes import DType, Type, VectorType, element_of
from . import literals
from .values import Counter, Entry, Registers, Slot, describe, leaves

if TYPE_CHECKING:
    from .tracer import Tracer

ANY = -1  # the cell of a register array that has the number of the iteration


@dataclass
class Iteration:
    """One iteration that stands for those with the numbers `items`.

    constants: the values that stand for scale * number + offset as a type, and where they are asked
    for. given: the values that stand for what slots hold when it begins. ops: what it does, count
    of them with those inside; steps: what tracing it took.
    """

    items: range
    constants: dict[tuple[int, int, Type], tuple[Value, Loc]] = field(default_factory=dict)
    given: dict[Slot, Value] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    count: int = 0
    steps: int = 0


def combine(t: Tracer, node: ast.AST, name: str, a: Entry, b: Entry) -> Entry:
    """`a op b` where one of them is a Counter and none a run-time value."""
    owner = (a if type(a) is Counter else b).owner
    left, right = _parts(a, owner), _parts(b, owner)
    if left is not None and right is not None:
        (s, m), (u, n) = left, right
        if name == "add":
            return _counter(owner, s + u, m + n)
        if name == "sub":
            return _counter(owner, s - u, m - n)
        if name == "mul" and not (s and u):
            return _counter(owner, s * n + u * m, m * n)
    t.fail(node, f"{name} of {describe(a)} and {describe(b)}")


def _parts(entry: Entry, owner: Iteration) -> tuple[int, int] | None:
    """Scale and offset of an int or of a number of this iteration."""
    if type(entry) is Counter and entry.owner is owner:
        return entry.scale, entry.offset
    return (0, entry) if type(entry) is int else None


def _counter(owner: Iteration, scale: int, offset: int) -> Entry:
    return Counter(owner, scale, offset) if scale else offset


def beside(t: Tracer, node: ast.AST, counter: Entry, value: Value) -> Value:
    """A value that stands for a number as the type of a run-time value that it meets, which it
    fits whatever the iteration."""
    type_ = value.type
    if not isinstance(type_, DType | VectorType) or value.id in t.weak:
        t.fail(node, f"expected {type_}, found {describe(counter)}")
    owner: Iteration = counter.owner
    key = counter.scale, counter.offset, type_
    if (known := owner.constants.get(key)) is None:
        for item in (owner.items[0], owner.items[-1]):
            number = counter.scale * item + counter.offset
            literals.check_literal(t, node, number, element_of(type_))
        known = owner.constants[key] = t.builder.value(type_), t.loc(node)
    return known[0]


def refuse(t: Tracer, node: ast.AST, *entries: Entry) -> None:
    """A Diagnostic where a part of an entry is a Counter: what comes of it is decided here."""
    for entry in entries:
        for leaf in leaves(entry):
            if type(leaf) is Counter:
                t.fail(node, f"a decision by {describe(leaf)}")


def cell(t: Tracer, node: ast.AST, array: Registers, counter: Counter) -> Slot:
    """The slot of the cell that has the number of the iteration."""
    slot = (array.number, ANY)
    if (counter.scale, counter.offset) != (1, 0) or slot not in counter.owner.given:
        t.fail(node, f"the index of a register array is {describe(counter)}")
    return slot
