"""Loops: which slots they carry, with what types, and the ops that carry them.

What a loop assigns and somebody may read in a later iteration or behind the loop is carried. Its
type is that of the initial value. Where that is a literal (weak), the body is traced once before,
thrown away, and the types and changes are read off. So it is where a guess of the cells of register
arrays that change, all of an array that the loop's own text writes, turns out to be wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..core import Region, Value
from ..dtypes import Type, bool_
from .exits import DONE, RETURN, edge
from .frames import Edge, Exit
from .guess import Guess, guess
from .join import dummy, leaf_type
from .literals import is_weak, typed
from .values import Conflict, Entry, Slot, Undefined, WeakSelect, describe, leaves, rebuild, same

if TYPE_CHECKING:
    from .tracer import Tracer


@dataclass
class Carried:
    """A slot that a loop carries: the shape of its entry and the type of each run-time part.

    exit_only: without a value when the loop starts; set on the way out.
    """

    slot: Slot
    shape: Entry
    types: list[Type | None]  # None: a part that is not a run-time value
    exit_only: bool = False
    missing: bool = False  # a break leaves it without a value
    weak: list[bool] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.slot[1] if isinstance(self.slot[1], str) else "a register cell"

    @property
    def hint(self) -> str:
        name = self.slot[1]
        return name if isinstance(name, str) and name.isidentifier() else ""


@dataclass
class Plan:
    """One loop statement: its node, body, names, and whether only `break` leaves it."""

    node: ast.For | ast.While
    body: Callable[[], None]  # traces one iteration, loop variable included
    endless: bool = False
    test: Callable[[], Value] | None = None  # traces the condition of a while
    carried: list[Carried] = field(default_factory=list)
    guess: Guess | None = None


def loop(t: Tracer, plan: Plan, emit: Callable[[Plan], bool]) -> None:
    """Trace a loop. `emit(plan)` appends the ops; False where control never comes behind."""
    t.loop_depth += 1
    names, outs = _candidates(t, plan)
    cells = [s for s in t.state if isinstance(s[1], int)]
    weak = any(is_weak(t, leaf) for s in names for leaf in leaves(t.state[s]))
    certain = not (t.probing or weak or outs)
    if certain:
        plan.carried = [_from_entry(t, slot) for slot in names]
    after = None
    if certain and cells:
        after = guess(t, plan, names, cells, lambda slot: _from_entry(t, slot), emit)
    if after is None:
        if cells or not certain:
            plan.carried = _learn(t, plan, names, outs, cells)
        if t.probing:
            _pretend(t, plan)
            after = True
        else:
            after = emit(plan)
    t.loop_depth -= 1
    _forget(t, plan)
    if not after and not t.probing:
        t.op(plan.node, "return")
        t.dead = True


def _candidates(t: Tracer, plan: Plan) -> tuple[list[Slot], list[Slot]]:
    """Slots to carry because of their names, and slots that only get a value on the way out."""
    frame, node = t.frame, id(plan.node)
    live = frame.live.head[node]
    names: list[Slot] = []
    outs: list[Slot] = []
    wanted = [(frame.number, n) for n in sorted(frame.live.assigned[node] & live)]
    order = {slot: n for n, slot in enumerate(t.state)}
    for slot in sorted(wanted, key=lambda s: order.get(s, len(order))):
        if isinstance(t.state.get(slot, Undefined()), Undefined | Conflict):
            if plan.endless:
                outs.append(slot)
        else:
            names.append(slot)
    if frame.device and node in frame.live.returning:
        outs += [(frame.number, DONE), (frame.number, RETURN)]
    return names, outs


def _from_entry(t: Tracer, slot: Slot) -> Carried:
    entry = t.state[slot]
    types = [leaf_type(t, [e]) if _carries(e) else None for e in leaves(entry)]
    return Carried(slot, entry, types)


def _carries(entry: Entry) -> bool:
    return isinstance(entry, (Value, WeakSelect, bool, int, float))


def _learn(
    t: Tracer, plan: Plan, names: list[Slot], outs: list[Slot], cells: list[Slot]
) -> list[Carried]:
    """Trace the body once with stand-ins and see what changes, and into what types."""
    exit_ = Exit()
    original = t.state
    with t.probe():
        t.frame.exits.append(exit_)
        for slot in names:
            t.state[slot] = _stand_in(t, t.state[slot])
        for slot in outs:
            t.state[slot] = False if slot[1] == DONE else Undefined(_why(plan))
        header = dict(t.state)
        if plan.test is not None:
            plan.test()
        plan.body()
        if not t.dead:
            edge(t, plan.node, exit_, "continue")
        found = []
        for slot in [*names, *cells]:
            # Variables of a function that returns are of no interest; register cells outlive it.
            edges = exit_.edges
            if isinstance(slot[1], str):
                edges = [e for e in edges if e[2].get((t.frame.number, DONE)) is not True]
            edges = [e for e in edges if not _dropped(e[0], e[2][slot])]
            if all(same(header[slot], state[slot]) for _, _, state in edges):
                continue
            learned = _learned(t, plan, slot, header[slot], edges)
            found.append(replace(learned, shape=original[slot]))
        for slot in outs:
            ends = [s.get(slot, Undefined()) for kind, _, s in exit_.edges if kind == "break"]
            solid = [e for e in ends if not isinstance(e, Undefined | Conflict)]
            if solid and (len(solid) == len(ends) or slot[1] == RETURN) and slot[1] != DONE:
                types = _types(t, [list(leaves(e)) for e in solid])
                found.append(Carried(slot, solid[0], types, exit_only=True))
            elif slot[1] == DONE and any(e is not False for e in ends):
                found.append(Carried(slot, False, _types(t, [[False]]), exit_only=True))
    return found


def _dropped(kind: str, entry: Entry) -> bool:
    """Whether a variable left without a value: a join let it go, as nothing behind reads it."""
    return kind == "break" and isinstance(entry, Undefined)


def _stand_in(t: Tracer, entry: Entry) -> Entry:
    """An entry that is not known: every run-time part a fresh value, weak where it was weak."""
    parts = []
    for leaf in leaves(entry):
        if _carries(leaf):
            type_ = leaf_type(t, [leaf])
            assert type_ is not None
            made = t.builder.value(type_)
            if is_weak(t, leaf):
                t.weak.add(made.id)
            leaf = made
        parts.append(leaf)
    return rebuild(entry, parts)


def _learned(t: Tracer, plan: Plan, slot: Slot, header: Entry, edges: list[Edge]) -> Carried:
    rows = [list(leaves(header))]
    for _, node, state in edges:
        entry = state[slot]
        if isinstance(entry, Conflict):
            t.fail(node, f"{slot[1]!r} has no single type here: {entry.reason}")
        parts = list(leaves(entry))
        if len(parts) != len(rows[0]):
            t.fail(node, _changes(plan, slot, header, entry))
        rows.append(parts)
    for entry, (_, node, state) in zip(rows[1:], edges, strict=True):
        for old, new in zip(rows[0], entry, strict=True):
            if _carries(old) and leaf_type_or_none(t, [old, new]) is None:
                t.fail(node, _changes(plan, slot, header, state[slot]))
    types = _types(t, rows)
    weak = [
        all(is_weak(t, e) for e in column) if type_ is not None else False
        for type_, column in zip(types, zip(*rows, strict=True), strict=True)
    ]
    return Carried(slot, header, types, weak=weak)


def leaf_type_or_none(t: Tracer, entries: list[Entry]) -> Type | None:
    return leaf_type(t, entries) if all(map(_carries, entries)) else None


def _types(t: Tracer, rows: list[list[Entry]]) -> list[Type | None]:
    return [leaf_type_or_none(t, list(column)) for column in zip(*rows, strict=True)]


def _changes(plan: Plan, slot: Slot, old: Entry, new: Entry) -> str:
    return (
        f"{slot[1]!r} is {describe(old)} when the loop on line {plan.node.lineno} starts and "
        f"{describe(new)} when it goes round; expected one type"
    )


def _why(plan: Plan) -> str:
    return f"it has no value before the loop on line {plan.node.lineno}"


def _pretend(t: Tracer, plan: Plan) -> None:
    """While probing: the state behind the loop, without the loop."""
    for carried in plan.carried:
        parts = []
        weak = carried.weak or [False] * len(carried.types)
        for leaf, type_, w in zip(leaves(carried.shape), carried.types, weak, strict=True):
            if type_ is not None:
                leaf = t.builder.value(type_)
                if w:
                    t.weak.add(leaf.id)
            parts.append(leaf)
        t.state[carried.slot] = rebuild(carried.shape, parts)


def _forget(t: Tracer, plan: Plan) -> None:
    """Variables that were given a value only in the loop have none behind it."""
    done = {c.slot for c in plan.carried if not c.missing}
    frame, node = t.frame, id(plan.node)
    live = frame.live.head[node]
    for name in frame.live.assigned[node]:
        slot = (frame.number, name)
        entry = t.state.get(slot, Undefined())
        if slot not in done and (name not in live or isinstance(entry, Undefined)):
            line = plan.node.lineno
            reason = f"it is given a value only inside the loop on line {line}, which may not run"
            t.state[slot] = Undefined(reason, dead=name not in live)


# what the emitting functions share


def initial(t: Tracer, plan: Plan) -> list[Value]:
    """The values with which the loop starts."""
    values = []
    for c in plan.carried:
        for leaf, type_ in _parts(c):
            if c.exit_only:
                values.append(dummy(t, plan.node, type_))
            else:
                values.append(typed(t, plan.node, leaf, type_, repr(c.name)))
    return values


def _parts(c: Carried) -> list[tuple[Entry, Type]]:
    pairs = zip(leaves(c.shape), c.types, strict=True)
    return [(leaf, type_) for leaf, type_ in pairs if type_ is not None]


def types_of(plan: Plan) -> list[Type]:
    return [type_ for c in plan.carried for _, type_ in _parts(c)]


def hints_of(plan: Plan) -> list[str]:
    return [c.hint for c in plan.carried for _ in _parts(c)]


def bind(t: Tracer, plan: Plan, values: tuple[Value, ...], inside: bool) -> None:
    """Put the carried values into the state, within the loop or behind it."""
    if not inside:
        hints = hints_of(plan)
        values = tuple(t.builder.name_last(v, h) for v, h in zip(values, hints, strict=True))
    feed = iter(values)
    for c in plan.carried:
        parts = [
            leaf if type_ is None else next(feed)
            for leaf, type_ in zip(leaves(c.shape), c.types, strict=True)
        ]
        if inside and c.exit_only:
            t.state[c.slot] = False if c.slot[1] == DONE else Undefined(_why(plan))
        elif not inside and c.missing:
            t.state[c.slot] = Undefined(f"a break of the loop on line {plan.node.lineno} lacks it")
        else:
            t.state[c.slot] = rebuild(c.shape, parts)


def run_body(t: Tracer, plan: Plan, args: tuple[Value, ...]) -> bool:
    """Trace the body in the open region; whether a `break` was seen."""
    breaks = False

    def take(kind: str, node: ast.AST) -> None:
        nonlocal breaks
        breaks = breaks or kind == "break"
        if plan.guess is not None:
            plan.guess.look(t.state)
        operands = [v for c in plan.carried for v in _leaving(t, plan, c, node, kind)]
        t.op(node, kind, tuple(operands))

    exit_ = Exit(take=take)
    bind(t, plan, args, inside=True)
    if plan.guess is not None:
        plan.guess.head = dict(t.state)
    t.frame.exits.append(exit_)
    plan.body()
    if not t.dead:
        edge(t, plan.node, exit_, "continue")
    t.frame.exits.pop()
    return breaks


def _leaving(t: Tracer, plan: Plan, c: Carried, node: ast.AST, kind: str) -> list[Value]:
    """The values of a carried slot on an edge."""
    entry = t.state.get(c.slot, Undefined())
    gone = isinstance(c.slot[1], str) and t.state.get((t.frame.number, DONE)) is True
    if gone and c.slot[1] not in (DONE, RETURN):
        return [dummy(t, node, type_) for _, type_ in _parts(c)]
    if isinstance(entry, Conflict):
        t.fail(node, f"{c.name!r} has no single type here: {entry.reason}")
    if isinstance(entry, Undefined):
        if not (c.exit_only or _dropped(kind, entry)):
            t.fail(node, f"{c.name!r} has no value when the loop goes round: {entry.reason}")
        c.missing = c.missing or (kind == "break" and c.slot[1] != RETURN)
        return [dummy(t, node, type_) for _, type_ in _parts(c)]
    parts, shape = list(leaves(entry)), list(leaves(c.shape))
    if len(parts) != len(shape):
        t.fail(node, _changes(plan, c.slot, c.shape, entry))
    out = []
    for new, old, type_ in zip(parts, shape, c.types, strict=True):
        if type_ is None:
            if not same(new, old):
                t.fail(node, _changes(plan, c.slot, c.shape, entry))
        elif not _carries(new) or leaf_type(t, [new, t.builder.value(type_)]) != type_:
            t.fail(node, _changes(plan, c.slot, c.shape, entry))
        else:
            out.append(typed(t, node, new, type_, repr(c.name)))
    return out


def emit_for(t: Tracer, plan: Plan, low: Value, high: Value, body: Callable[[Value], None]) -> bool:
    """A `for` op over low..high; `body` gets the counter before each iteration."""
    start = initial(t, plan)
    before, result_types = t.state, tuple(types_of(plan))
    with t.region(plan.node) as ops:
        t.state = dict(before)
        counter = t.builder.value(low.type, _counter_hint(plan))
        args = tuple(map(t.builder.value, result_types, hints_of(plan)))
        inner = plan.body

        def counted() -> None:
            body(counter)
            inner()

        plan.body = counted
        run_body(t, plan, args)
        region = Region((counter, *args), tuple(ops))
    t.state = before
    op = t.op(plan.node, "for", (low, high, *start), {}, result_types, regions=(region,))
    bind(t, plan, op.results, inside=False)
    return True


def _counter_hint(plan: Plan) -> str:
    target = getattr(plan.node, "target", None)
    return target.id if isinstance(target, ast.Name) else ""


def emit_while(t: Tracer, plan: Plan) -> bool:
    """A `while` op; whether control may come behind it."""
    test = plan.test
    start = initial(t, plan)
    before, result_types = t.state, tuple(types_of(plan))
    with t.region(plan.node) as ops:
        t.state = dict(before)
        cond_args = tuple(map(t.builder.value, result_types, hints_of(plan)))
        bind(t, plan, cond_args, inside=True)
        condition = t.const(plan.node, True, bool_) if test is None else test()
        t.op(plan.node, "condition", (condition,))
        cond_region = Region(cond_args, tuple(ops))
    with t.region(plan.node) as ops:
        t.state = dict(before)
        args = tuple(map(t.builder.value, result_types, hints_of(plan)))
        breaks = run_body(t, plan, args)
        body_region = Region(args, tuple(ops))
    t.state = before
    op = t.op(
        plan.node, "while", tuple(start), {}, result_types, regions=(cond_region, body_region)
    )
    bind(t, plan, op.results, inside=False)
    return breaks or test is not None
