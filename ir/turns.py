"""How many turns the loops of one invocation can take, as an expression of a launch.

Some drivers end an invocation's loops silently after a number of turns in all (Mesa's llvmpipe:
65,535). `loop_turns(kernel)` gives an upper bound in the form of `ir.abi.evaluate`, so that a
runtime refuses a launch which would go wrong. A turn is one pass through a loop's head: a loop
that runs n times takes n + 1, because the pass that leaves it counts as well. Invocations run side
by side, so the arms of a condition that can differ between them are added, not compared.

Integers are sums: products of atoms, each with a coefficient. What the launch knows (counts,
scalars, the grid) stays as it is and cancels; ids reach from 0 to their last; of `min`, `max`,
`select` and the results of an `if` every alternative is looked at. Wrap-around is left out: values
are taken as the numbers that the source means. A loop whose turns depend on data counts as one
turn and is listed as open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .core import Kernel, Op, Region, Value, const_value
from .dtypes import DType, MemType
from .interface import Attr
from .sums import Bounds, Expr, add, ceil_div, constant, greatest, minus, mul, plus

_ARMS = ("if", "switch")
_SAME = ("const", "count", "group_id", "num_groups", "num_subgroups", "alloc")
_UP = {"lt": 0, "le": 1}
_DOWN = {"gt": 0, "ge": 1, "ne": 0}
_LENGTH = 400  # atoms and operations of an expression beyond which it is left out


@dataclass(frozen=True, slots=True)
class Turns:
    """An upper bound of the loops that the launch determines, and how many loops it does not."""

    bound: Attr
    open: int


NO_TURNS = Turns(0, 0)


def loop_turns(kernel: Kernel) -> Turns:
    """The turns that the loops of one invocation can take; see the module."""
    counting = _Counting(kernel)
    bound = counting.region(kernel.body)
    if bound != 0:  # nothing comes behind the pass that leaves the last loop
        bound = add(bound, -1)
    if _length(bound) > _LENGTH:
        return Turns(0, counting.open + 1)
    return Turns(bound, counting.open)


def _length(expression: Attr) -> int:
    return sum(map(_length, expression)) if isinstance(expression, tuple) else 1


class _Counting:
    def __init__(self, kernel: Kernel) -> None:
        self.bounds = Bounds(kernel)
        self.open = 0
        # Whether values are the same for all invocations of a workgroup, as far as asked for.
        self.known_same = {
            v.id: p.kind == "scalar" for p, v in zip(kernel.params, kernel.body.args, strict=True)
        }
        self.counters: dict[int, tuple[Value, Value]] = {}  # low and high, by loop variable

    def same(self, value: Value) -> bool:
        """Whether a value is the same for all invocations of a workgroup."""
        known, pending = self.known_same, [value]
        while pending:  # not by recursion: chains of ops can be long
            v = pending[-1]
            if v.id in known:
                pending.pop()
                continue
            op = self.bounds.defs.get(v.id)
            operands: tuple[Value, ...] = self.counters.get(v.id, ())
            if op is not None and _follows(op):
                operands = op.operands
            if not operands:
                known[v.id] = op is not None and op.name in _SAME
                continue
            asked = [o for o in operands if o.id not in known]
            if asked:
                pending += asked
            else:
                known[v.id] = all(known[o.id] for o in operands)
        return known[value.id]

    def region(self, region: Region) -> Expr:
        total: Expr = 0
        for op in region.ops:
            if not op.regions:
                continue
            if op.name in _ARMS:
                arms = [self.region(r) for r in op.regions]
                if not any(arms):
                    continue
                if self.same(op.operands[0]):
                    total = add(total, greatest(*arms))
                else:
                    for arm in arms:
                        total = add(total, arm)
            else:
                total = add(total, self.for_(op) if op.name == "for" else self.while_(op))
        return total

    def for_(self, op: Op) -> Expr:
        low, high = op.operands[:2]
        variable = op.regions[0].args[0]
        self.bounds.count_up(variable, low, high)
        self.counters[variable.id] = low, high
        span = plus(self.bounds.of(high), minus(self.bounds.of(low)))
        return self.loop(self.bounds.upper(span), op.regions[0])

    def while_(self, op: Op) -> Expr:
        condition, body = op.regions
        outer = self.region(condition)
        inner = add(outer, self.region(body))
        trips = self.trips(op)
        if trips is None:
            self.open += 1
            return 1
        return add(mul(greatest(trips, 0), add(1, inner)), add(1, outer))

    def loop(self, trips: Expr | None, body: Region) -> Expr:
        inner = self.region(body)
        if trips is None:
            self.open += 1
            return 1
        return add(mul(greatest(trips, 0), add(1, inner)), 1)

    def trips(self, op: Op) -> Expr | None:
        """How often a `while` runs whose condition needs a variable on one side of a bound that
        stays, where every turn moves the variable towards it."""
        condition, body = op.regions
        known = {v.id: n for n, v in enumerate(condition.args)}
        last = condition.terminator
        if last.name != "condition":
            return None
        made = {v.id: o for o in condition.ops for v in o.results}
        for test in _conjuncts(last.operands[0], made, self.bounds.defs):
            if test.name not in _UP and test.name not in _DOWN:
                continue
            variable, limit = test.operands
            at = known.get(variable.id)
            fixed = limit.id not in known and (
                limit.id not in made or made[limit.id].name == "const"
            )
            if at is None or not fixed or not isinstance(variable.type, DType):
                continue
            if not variable.type.is_int:
                continue
            steps = [o.operands[at] for o in _continues(body)]
            found = self.moves(test.name, op.operands[at], body.args[at], limit, steps)
            if found is not None:
                return found
        return None

    def moves(
        self, test: str, start: Value, variable: Value, limit: Value, steps: list[Value]
    ) -> Expr | None:
        bounds, atom = self.bounds, (("value", variable.id),)
        first, end = bounds.of(start), bounds.of(limit)
        sums = [bounds.of(v) for v in steps]
        deltas = [plus(s, {atom: -1}) for s in sums]
        known = [k for k in map(constant, deltas) if k is not None]
        if known and len(known) == len(deltas):
            if test in _UP and min(known) > 0:
                span = plus(plus(end, minus(first)), {(): _UP[test]})
                return _whole(bounds.upper(span), min(known))
            if test in ("gt", "ge") and max(known) < 0:
                span = plus(plus(first, minus(end)), {(): _DOWN[test]})
                return _whole(bounds.upper(span), -max(known))
            return None
        assert isinstance(variable.type, DType)
        if test in _UP and all(s.keys() == {atom} and s[atom] >= 2 for s in sums):
            return _bits(bounds.upper(plus(end, {(): _UP[test] - 1})), variable.type)
        if test in _DOWN and all(bounds.halves(v, variable) for v in steps):
            lowest = constant(end)  # halving ends at 0
            if lowest == 0 if test == "ne" else lowest is not None and lowest >= _DOWN[test]:
                return _bits(bounds.upper(first), variable.type)
        return None


def _follows(op: Op) -> bool:
    """Whether the result is the same for all invocations where the operands are."""
    if op.regions or not op.operands or op.name in _SAME or op.name.startswith("subgroup_"):
        return False
    return not isinstance(op.operands[0].type, MemType)


def _whole(span: Expr | None, step: int) -> Expr | None:
    return None if span is None else ceil_div(span, step)


def _bits(most: Expr | None, dtype: DType) -> int:
    """Turns of a loop that doubles up to `most`, or halves from there."""
    return most.bit_length() + 1 if isinstance(most, int) else dtype.bits


def _conjuncts(condition: Value, made: dict[int, Op], defs: dict[int, Op]) -> Iterator[Op]:
    op = made.get(condition.id)
    if op is not None and op.name == "and":
        for operand in op.operands:
            yield from _conjuncts(operand, made, defs)
    elif op is not None and op.name == "if" and _is_false(op.regions[-1], defs):
        yield from _conjuncts(op.operands[0], made, defs)  # a and b: b only where a holds
    elif op is not None:
        yield op


def _is_false(region: Region, defs: dict[int, Op]) -> bool:
    """Whether a region does nothing but yield the constant False."""
    *rest, end = region.ops
    if end.name != "yield" or len(end.operands) != 1 or any(op.name != "const" for op in rest):
        return False
    value = defs.get(end.operands[0].id)
    return value is not None and value.name == "const" and not const_value(value)


def _continues(region: Region) -> Iterator[Op]:
    """The `continue`s of the loop whose body this is."""
    for op in region.ops:
        if op.name == "continue":
            yield op
        if op.name in _ARMS:
            for inner in op.regions:
                yield from _continues(inner)
