"""Templates: the code of a lowering, made once and copied to every place of use.

A template is kept in the form that copying reads: steps over slots, which number the operands and
then the values defined, in program order. Constants that a place of use has already are not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from ..core import Attr, Loc, Op, Region, Value
from ..dtypes import Type, VectorType

CONSTANTS = frozenset({"const", "splat"})

Key = tuple[int, str, int]  # of a constant: bits, element type, lanes


class Step(NamedTuple):
    """An op over slots. pick: takes its operands out of the values of all slots so far. settled,
    apart: whether its copies belong in `Settled`. key: that of a constant or of a splat of one."""

    name: str
    pick: Callable[[list[Value]], tuple[Value, ...]]
    results: tuple[Type, ...]
    attrs: tuple[tuple[str, Attr], ...]
    regions: tuple[Inner, ...]
    settled: bool
    apart: bool
    key: Key | None


def picking(slots: Sequence[int]) -> Callable[[list[Value]], tuple[Value, ...]]:
    """A function that takes the values of these slots out of a list."""
    if len(slots) > 1:
        return itemgetter(*slots)
    part = slice(slots[0], slots[0] + 1) if slots else slice(0)
    return lambda values: tuple(values[part])


class Inner(NamedTuple):
    """A region over slots."""

    args: tuple[Type, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Template:
    """What computes the value in slot `result` from operands in the first slots."""

    steps: tuple[Step, ...]
    result: int


@dataclass(frozen=True)
class Settled:
    """Ops that need no simplification while their operands stay the same values.

    ops: they may still be equal to others. apart: nothing outside their copy of a template can
    equal them, since they compute with values of its own.
    """

    ops: list[Op] = field(default_factory=list)
    apart: list[Op] = field(default_factory=list)


def constant_key(op: Op, known: dict[int, int]) -> Key | None:
    """The key of a constant or of a splat of one; `known` are the bits of those seen so far."""
    if op.name not in CONSTANTS:
        return None
    bits = known.get(op.operands[0].id) if op.operands else op.attrs[0][1]
    if not isinstance(bits, int):
        return None
    value = op.results[0]
    known[value.id] = bits
    t = value.type
    if isinstance(t, VectorType):
        return bits, t.element.name, t.lanes
    return bits, str(t), 1


class Compiler:
    """Brings simplified ops into the form of a template."""

    def __init__(self, args: Sequence[Value]) -> None:
        self.args = {v.id for v in args}
        self.slots = {v.id: n for n, v in enumerate(args)}
        self.known: dict[int, int] = {}

    def template(self, ops: Sequence[Op], result: Value) -> Template:
        """The template of ops that compute `result`."""
        return Template(self.steps(ops), self.slots[result.id])

    def define(self, values: Sequence[Value]) -> None:
        for v in values:
            self.slots[v.id] = len(self.slots)

    def steps(self, ops: Sequence[Op]) -> tuple[Step, ...]:
        return tuple([self.step(op) for op in ops])

    def step(self, op: Op) -> Step:
        pick = picking([self.slots[v.id] for v in op.operands])
        regions = []
        for region in op.regions:
            self.define(region.args)
            regions.append(Inner(tuple([v.type for v in region.args]), self.steps(region.ops)))
        self.define(op.results)
        types = tuple([v.type for v in op.results])
        settled = all(v.id not in self.args for v in op.operands)
        own = any(v.id not in self.known for v in op.operands)
        apart = settled and own and len(types) == 1 and not regions
        key = constant_key(op, self.known)
        return Step(op.name, pick, types, op.attrs, tuple(regions), settled, apart, key)


class Copier:
    """Copies templates into one kernel. `first` is a value number from which on all are free."""

    def __init__(self, first: int) -> None:
        self.next = first
        self.settled = Settled()
        self.consts: dict[Key, Value] = {}  # that the place at hand can use
        self.added: list[Key] = []  # in the order of their adding
        self.known: dict[int, int] = {}

    def note(self, op: Op) -> None:
        """Let copies from here on use an op of the kernel, if it is a constant."""
        key = constant_key(op, self.known)
        if key is not None and key not in self.consts:
            self.add(key, op.results[0])

    def add(self, key: Key, value: Value) -> None:
        self.consts[key] = value
        self.added.append(key)

    def enter(self) -> int:
        """Open a region; the mark belongs to `leave`."""
        return len(self.added)

    def leave(self, mark: int) -> None:
        """Forget the constants that were added since `mark`."""
        for key in self.added[mark:]:
            del self.consts[key]
        del self.added[mark:]

    def copy(self, template: Template, op: Op, out: list[Op]) -> Value:
        """Append the code that stands for `op`; the value that stands for its result."""
        slots = list(op.operands)
        self.steps(template.steps, slots, op.loc, out)
        return slots[template.result]

    def fresh(self, types: tuple[Type, ...]) -> tuple[Value, ...]:
        first = self.next
        self.next += len(types)
        return tuple([Value(n, t) for n, t in enumerate(types, first)])

    def steps(
        self, steps: Sequence[Step], slots: list[Value], loc: Loc | None, out: list[Op]
    ) -> None:
        consts, settled_ops, apart_ops = self.consts, self.settled.ops, self.settled.apart
        for name, pick, types, attrs, inner, settled, apart, key in steps:
            if key is not None and (value := consts.get(key)) is not None:
                slots.append(value)
                continue
            operands = pick(slots)
            regions = tuple([self.region(r, slots, loc) for r in inner]) if inner else ()
            if len(types) == 1:  # the usual case, without a call
                results: tuple[Value, ...] = (Value(self.next, types[0]),)
                self.next += 1
            else:
                results = self.fresh(types)
            slots += results
            op = Op(name, operands, results, attrs, regions, loc)
            out.append(op)
            if apart:
                apart_ops.append(op)
            elif settled:
                settled_ops.append(op)
                if key is not None:
                    self.add(key, results[0])

    def region(self, inner: Inner, slots: list[Value], loc: Loc | None) -> Region:
        mark = self.enter()
        args = self.fresh(inner.args)
        slots += args
        ops: list[Op] = []
        self.steps(inner.steps, slots, loc, ops)
        self.leave(mark)
        return Region(args, tuple(ops))
