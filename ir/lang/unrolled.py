"""Unrolled loops: one iteration that stands for others.

The iterations of a `static_range` mostly differ in a number. One is traced with a `Counter` in its
place, which may become a constant of run-time arithmetic or the index of a register cell, and
nothing that decides what is traced; the others are copies of it. An iteration that does more with
the number meets a Diagnostic, which undoes it, and the loop is traced as it stands.

What an iteration may find changed by those before it, the variables that the loop assigns and the
cell of a register array that has its number, stands as a value of no op while it is traced. The
other cells of such an array are out of its reach.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..core import Value
from ..dtypes import DType, FragmentType, VectorType
from .again import copies
from .budget import spend
from .counters import ANY, Iteration
from .liveness import Repetition
from .surface import Intrinsic
from .values import MISSING, Counter, Entry, Memory, Registers, Slot, Undefined, leaves, rebuild

if TYPE_CHECKING:
    from .tracer import Tracer

_FEWEST = 3  # iterations for which one that is thrown away pays
_CONSTANT = frozenset(
    {bool, int, float, str, type(None), DType, VectorType, FragmentType, Intrinsic}
    | {Memory, Registers, Counter}
)
State = dict[Slot, Entry]


def repeated(t: Tracer, node: ast.For, items: range) -> bool:
    """Trace the iterations of these numbers as copies of one; False, and nothing done, where that
    does not go."""
    if len(items) < _FEWEST or t.probing or id(node) in t.varying:
        return False
    loop, before = t.frame.source.repetition(node), t.state
    iteration = Iteration(items)
    begin = _begin(t, loop, iteration) if loop.plain else None
    changed = None if begin is None else _changes(t, node, loop, iteration, begin)
    if changed is None:
        t.varying.add(id(node))
        return False
    t.state = before
    for number in items:
        _copy(t, node, iteration, changed, number)
    t.state[_variable(t, node)] = items[-1]
    return True


def _variable(t: Tracer, node: ast.For) -> Slot:
    assert isinstance(node.target, ast.Name)
    return (t.frame.number, node.target.id)


def _begin(t: Tracer, loop: Repetition, iteration: Iteration) -> State | None:
    """The state that the iteration is traced in; None where it takes cells other than its own."""
    frame, items = t.frame.number, iteration.items
    if any(type(t.state.get((frame, name))) is Registers for name in loop.computed):
        return None
    arrays: set[int] = set()
    for variable in loop.numbered:
        array = t.state.get((frame, variable))
        if type(array) is not Registers or (array.number, ANY) in t.state:
            continue
        held = [t.state.get((array.number, n)) for n in items]
        if len(array.shape) != 1 or any(type(cell) is not Value for cell in held):
            return None
        arrays.add(array.number)
    state: State = {}
    for slot, entry in t.state.items():  # in their order, in which branches and loops give them
        number, name = slot
        if number in arrays:
            if name != 0:
                continue
            slot = (number, ANY)
        elif number != frame or name not in loop.assigned:
            state[slot] = entry
            continue
        if type(entry) is Value:
            state[slot] = iteration.given[slot] = t.builder.value(entry.type, entry.hint)
        else:
            state[slot] = Undefined()  # without a reason, a join with it gives another
    return state


def _changes(
    t: Tracer, node: ast.For, loop: Repetition, iteration: Iteration, begin: State
) -> State | None:
    """Trace the iteration: what it leaves changed, but for its number. None, and nothing done,
    where it cannot be copied."""
    frame, exits, kept, steps = t.frame, len(t.frame.exits), t.kept, t.steps
    counts = len(t.asked), len(t.sites), len(t.allocs)
    variable = _variable(t, node)
    changed: State = {}
    with t.attempt() as attempt:
        t.state = {**begin, variable: Counter(iteration, 1, 0)}
        t.builder.open(iteration.ops)
        try:
            t.block(node.body)
        finally:
            t.builder.close()
        end = t.state
        changed = {s: e for s, e in end.items() if s != variable and e is not begin.get(s, MISSING)}
        own = {(frame.number, name) for name in loop.assigned}.union(iteration.given)
        attempt.done = (
            counts == (len(t.asked), len(t.sites), len(t.allocs))
            and not t.dead
            and changed.keys() <= own
            and all(_lasts(iteration, begin, s, e) for s, e in changed.items())
        )
    if not attempt.done:
        del frame.exits[exits:]
        return None
    iteration.count, t.kept = t.kept - kept, kept
    iteration.steps = t.steps - steps
    return changed


def _lasts(iteration: Iteration, begin: State, slot: Slot, entry: Entry) -> bool:
    """Whether what an iteration leaves in a slot says what each of its copies leaves, and is of the
    type that the next one begins with."""
    if (given := iteration.given.get(slot)) is not None:
        return type(entry) is Value and entry.type == given.type
    for leaf in leaves(entry):
        kind = type(leaf)
        if kind is Undefined:
            known = leaf.dead or slot not in begin
        else:
            known = kind is Value or kind in _CONSTANT
        if not known:
            return False
    return True


def _copy(t: Tracer, node: ast.For, iteration: Iteration, changed: State, number: int) -> None:
    """Append the iteration of a number."""
    t.count(node, iteration.count + len(iteration.constants))
    spend(t, node, iteration.steps)  # so that what is refused does not depend on copies
    state, builder = t.state, t.builder
    new: dict[int, Value] = {}
    for (scale, offset, type_), (value, builder.loc) in iteration.constants.items():
        new[value.id] = builder.const(scale * number + offset, type_)
    for slot, value in iteration.given.items():
        new[value.id] = state[_place(slot, number)]
    builder.ops.extend(copies(t, iteration.ops, new))
    for slot, entry in changed.items():
        made = [_given(iteration, leaf, new, number) for leaf in leaves(entry)]
        state[_place(slot, number)] = rebuild(entry, made)


def _place(slot: Slot, number: int) -> Slot:
    return (slot[0], number) if slot[1] == ANY else slot


def _given(iteration: Iteration, leaf: Entry, new: dict[int, Value], number: int) -> Entry:
    """What a part of an entry is in the copy of this number."""
    if type(leaf) is Value:
        return new.get(leaf.id, leaf)
    if type(leaf) is Counter and leaf.owner is iteration:
        return leaf.scale * number + leaf.offset
    return leaf
