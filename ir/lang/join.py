"""Branches: tracing the arms from one state, and joining the states that come out.

A slot whose arms differ becomes a result of the op. An arm that left (break, continue, return)
has no say. An arm that set an exit flag (`exits`) still reaches the join; variables that it never
defined get a dummy there, since nothing reads them before the flag is looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..core import Op, Region, Value
from ..dtypes import Type, bool_, f32
from ..ops import ROWS, Effect
from .diagnostics import Diagnostic
from .exits import RETURN, pending_static
from .literals import is_weak, typed, weak_is_float, widens
from .values import (
    MISSING,
    Column,
    Conflict,
    Entry,
    Registers,
    Slot,
    Undefined,
    WeakSelect,
    describe,
    is_number,
    leaves,
    rebuild,
    same,
)

if TYPE_CHECKING:
    from .tracer import Tracer

FLATTEN = 24  # pure ops that a conditional expression may run needlessly


@dataclass
class Arm:
    """One traced arm: its ops so far, its state, how it ended, and its name for messages."""

    label: str
    ops: list[Op]
    state: dict[Slot, Entry]
    dead: bool = False
    skip: bool = False
    operands: list[Value] = field(default_factory=list)


def trace_arm(t: Tracer, node: ast.AST, label: str, body: Callable[[], None]) -> Arm:
    """Trace `body` in a region of its own, from a copy of the present state."""
    before = t.state
    t.state = dict(before)
    with t.region(node) as ops:
        body()
        arm = Arm(label, ops, t.state, t.dead, pending_static(t))
    t.state = before
    return arm


def resume(t: Tracer, arm: Arm, body: Callable[[], None]) -> None:
    """Trace more into an arm."""
    before, dead = t.state, t.dead
    t.state, t.dead = arm.state, False
    with t.reopened(arm.ops):
        body()
        arm.state, arm.dead, arm.skip = t.state, t.dead, pending_static(t)
    t.state, t.dead = before, dead


@dataclass
class Join:
    """The columns (results) of a join and the state behind it, with `Column` for results.

    open: the slots whose entries may hold columns.
    """

    types: list[Type] = field(default_factory=list)
    state: dict[Slot, Entry] = field(default_factory=dict)
    weak: list[bool] = field(default_factory=list)
    open: set[Slot] = field(default_factory=set)


def branch(
    t: Tracer,
    node: ast.AST,
    cond: Value,
    then: Callable[[], None],
    other: Callable[[], None],
    live: frozenset[str] | None = None,
    rest: Callable[[], None] | None = None,
    flatten: bool = False,
) -> bool:
    """An `if` op. Returns whether `rest`, what follows the statement, was traced into an arm.

    `rest` moves into the one arm that falls through where the other arm sets an exit flag.
    """
    line = getattr(node, "lineno", 0)
    mark = t.builder.next_id
    first = trace_arm(t, node, f"the condition on line {line} holds", then)
    second = trace_arm(t, node, f"the condition on line {line} does not hold", other)
    moved = False
    if rest is not None and first.skip != second.skip:
        arm = second if first.skip else first
        if not arm.dead:
            resume(t, arm, rest)
            moved = True
    finish(t, node, "if", cond, [first, second], {}, mark, live, flatten)
    return moved or (rest is not None and first.skip and second.skip)


def finish(
    t: Tracer,
    node: ast.AST,
    name: str,
    cond: Value,
    arms: list[Arm],
    attrs: dict[str, Any],
    mark: int,
    live: frozenset[str] | None,
    flatten: bool = False,
) -> None:
    """Join the arms, close their regions and append the op."""
    alive = [arm for arm in arms if not arm.dead]
    if not alive:
        _append(t, node, name, cond, arms, attrs, ())
        t.op(node, "return")  # unreachable: an op list ends in a terminator
        t.dead = True
        return
    choose = cond if name == "if" and len(alive) == 2 else None
    joined = _join(t, node, alive, mark, live, choose)
    if flatten and len(alive) == 2 and _pure(alive):
        for arm in alive:
            t.builder.ops.extend(arm.ops)
        results: Sequence[Value] = [
            t.emit(node, "select", cond, a, b)
            for a, b in zip(*(a.operands for a in alive), strict=True)
        ]
    else:
        results = _append(t, node, name, cond, arms, attrs, tuple(joined.types)).results
    t.weak.update(v.id for v, weak in zip(results, joined.weak, strict=True) if weak)
    t.state = joined.state
    for slot in [slot for slot in t.state if slot in joined.open]:
        t.state[slot] = _named(t, slot, _fill(t.state[slot], results))


def _named(t: Tracer, slot: Slot, entry: Entry) -> Entry:
    """What goes to a variable bears its name."""
    name = slot[1]
    if type(entry) is Value and not entry.hint and isinstance(name, str) and name.isidentifier():
        return t.builder.name_last(entry, name)
    return entry


def _pure(arms: list[Arm]) -> bool:
    ops = [op for arm in arms for op in arm.ops]
    harmless = (Effect.PURE, Effect.ID)
    return len(ops) <= FLATTEN and all(ROWS[op.name].effect in harmless for op in ops)


def _append(
    t: Tracer,
    node: ast.AST,
    name: str,
    cond: Value,
    arms: list[Arm],
    attrs: dict[str, Any],
    types: tuple[Type, ...],
) -> Op:
    for arm in arms:
        if not arm.dead:
            with t.reopened(arm.ops):
                t.op(node, "yield", tuple(arm.operands))
    regions = tuple(Region((), tuple(arm.ops)) for arm in arms)
    return t.op(node, name, (cond,), attrs, types, regions=regions)


def _fill(entry: Entry, results: Sequence[Value]) -> Entry:
    def one(leaf: Entry) -> Entry:
        if isinstance(leaf, Column):
            return results[leaf.number]
        if isinstance(leaf, WeakSelect) and isinstance(leaf.condition, Column):
            return replace(leaf, condition=results[leaf.condition.number])
        return leaf

    return rebuild(entry, [one(leaf) for leaf in leaves(entry)])


def _join(
    t: Tracer,
    node: ast.AST,
    arms: list[Arm],
    mark: int,
    live: frozenset[str] | None,
    cond: Value | None,
) -> Join:
    joined = Join()
    frame = t.frame.number
    states = [arm.state for arm in arms]
    for slot in _differing(states, joined):
        entries = [state.get(slot, MISSING) for state in states]
        number, name = slot
        if isinstance(name, int) and any(e is MISSING for e in entries):
            del joined.state[slot]  # a register array made in one arm
            continue
        if len(arms) > 1 and all(same(entries[0], e) for e in entries[1:]):
            continue
        ours = number == frame and isinstance(name, str) and not name.startswith("<")
        dead_name = live is not None and ours and name not in live
        if dead_name:
            joined.state[slot] = Undefined("its value was dropped, as nothing read it", dead=True)
            continue
        if len(arms) == 2 and _plain(t, *entries):
            joined.state[slot] = _column(joined, arms, entries, entries[0].type)
        else:
            joined.state[slot] = _entry(t, node, joined, arms, slot, entries, mark, cond)
        joined.open.add(slot)
    return joined


def _plain(t: Tracer, a: Entry, b: Entry) -> bool:
    """Whether two entries are values of one type, as they mostly are."""
    if type(a) is not Value or type(b) is not Value or a.type is not b.type:
        return False
    return a.id not in t.weak and b.id not in t.weak


def _differing(states: list[dict[Slot, Entry]], joined: Join) -> list[Slot]:
    """The slots to join, in order; the state behind the join gets every slot of the states, with
    the entry that two states share: most are one object in both."""
    first = states[0]
    joined.state = dict(first)
    for state in states[1:]:
        if state.keys() != first.keys():
            joined.state = {**joined.state, **{s: state[s] for s in state if s not in joined.state}}
    if len(states) != 2:
        return list(joined.state)
    get = states[1].get
    differing = [slot for slot, entry in first.items() if get(slot, MISSING) is not entry]
    return [*differing, *list(joined.state)[len(first) :]]


def _entry(
    t: Tracer,
    node: ast.AST,
    joined: Join,
    arms: list[Arm],
    slot: Slot,
    entries: list[Entry],
    mark: int,
    cond: Value | None,
) -> Entry:
    """The entry behind the join of one slot whose arms differ."""
    if len(arms) == 1:
        return _from_one(t, node, joined, arms[0], entries[0], mark)
    lenient = slot[1] == RETURN
    holes = [isinstance(e, Undefined) for e in entries]
    for arm, entry, hole in zip(arms, entries, holes, strict=True):
        # Another arm may have left: what is dead here may be read there.
        if hole and not (lenient or arm.skip or entry.dead):
            return entry if entry.reason else Undefined(f"it has no value when {arm.label}")
    solid = [e for e, hole in zip(entries, holes, strict=True) if not hole]
    if not solid:
        return entries[0]
    if conflict := next((e for e in solid if isinstance(e, Conflict)), None):
        return conflict
    shape = solid[0]
    columns: list[list[Entry]] = []
    for entry, hole in zip(entries, holes, strict=True):
        parts = [MISSING] * len(list(leaves(shape))) if hole else list(leaves(entry))
        if not hole and not _same_shape(shape, entry):
            return Conflict(_differ(arms, entries))
        columns.append(parts)
    result = []
    for row in zip(*columns, strict=True):
        leaf = _leaf(t, node, joined, arms, list(row), mark, cond)
        if isinstance(leaf, Conflict):
            return leaf if leaf.reason else Conflict(_differ(arms, entries))
        result.append(leaf)
    return rebuild(shape, result)


def _same_shape(a: Entry, b: Entry) -> bool:
    if isinstance(a, tuple) or isinstance(b, tuple):
        both = isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b)
        return both and all(map(_same_shape, a, b))
    return True


def _differ(arms: list[Arm], entries: list[Entry]) -> str:
    return ", but ".join(
        f"{describe(e)} when {a.label}" for a, e in zip(arms, entries, strict=True)
    )


def _from_one(t: Tracer, node: ast.AST, joined: Join, arm: Arm, entry: Entry, mark: int) -> Entry:
    """The only arm that arrives: what it made inside comes out as a result."""

    def column(value: Value) -> Any:
        return _column(joined, [arm], [value], value.type, value.id in t.weak)

    def one(leaf: Entry) -> Entry:
        if isinstance(leaf, WeakSelect) and leaf.condition.id >= mark:
            return replace(leaf, condition=column(leaf.condition))
        return column(leaf) if isinstance(leaf, Value) and leaf.id >= mark else leaf

    return rebuild(entry, [one(leaf) for leaf in leaves(entry)])


def _column(
    joined: Join, arms: list[Arm], operands: list[Value], type_: Type, weak: bool = False
) -> Column:
    for arm, operand in zip(arms, operands, strict=True):
        arm.operands.append(operand)
    joined.types.append(type_)
    joined.weak.append(weak)
    return Column(len(joined.types) - 1)


def _leaf(
    t: Tracer,
    node: ast.AST,
    joined: Join,
    arms: list[Arm],
    row: list[Entry],
    mark: int,
    cond: Value | None,
) -> Entry:
    """One run-time part of a slot: kept, a choice of constants, or a result."""
    there = [e for e in row if e is not MISSING]
    inside = isinstance(there[0], WeakSelect) and there[0].condition.id >= mark
    if all(same(there[0], e) for e in there) and not (isinstance(there[0], Value) or inside):
        return there[0]
    if any(isinstance(e, Registers) or not _can_be_value(e) for e in there):
        return Conflict("")
    if cond is not None and all(map(is_number, row)):
        return WeakSelect(cond, *row)
    if cond is not None and row[0] is True and row[1] is False:
        return cond
    type_ = leaf_type(t, there)
    if type_ is None:
        return Conflict("")
    operands = []
    for arm, entry in zip(arms, row, strict=True):
        with t.reopened(arm.ops):
            try:
                operands.append(
                    dummy(t, node, type_) if entry is MISSING else typed(t, node, entry, type_)
                )
            except Diagnostic as error:
                return Conflict(error.message)
    weak = all(is_weak(t, e) and isinstance(e, Value) for e in there)
    return _column(joined, arms, operands, type_, weak)


def _can_be_value(entry: Entry) -> bool:
    return isinstance(entry, (Value, WeakSelect, bool, int, float))


def leaf_type(t: Tracer, entries: list[Entry]) -> Type | None:
    """The type in which entries can meet without an explicit conversion; None if there is none."""
    strong = {bool_ if isinstance(e, bool) else e.type for e in entries if not is_weak(t, e)}
    if not strong:
        vectors = {e.type for e in entries if isinstance(e, Value)} - {f32, t.index}
        if vectors:
            return vectors.pop()
        return f32 if any(map(weak_is_float, entries)) else t.index
    first = strong.pop()
    for other in strong:
        if widens(t, first, other):
            first = other
        elif not widens(t, other, first):
            return None
    return first


def dummy(t: Tracer, node: ast.AST, type_: Type) -> Value:
    """A value that nobody reads."""
    return t.const(node, 0, type_)
