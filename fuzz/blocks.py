"""Random statements of kernel IR that any invocation may run alone: memory and control flow.

Every memory access is within bounds, every loop ends, no race occurs. Atomics on cells that all
reach are of one kind per buffer and their old values are dropped, those on an invocation's own
cells are of any kind: neither depends on any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir.core import Region, Value
from ..ir.dtypes import DType, Type, VectorType, bool_, element_of, i32, with_element
from .special import Special

ATOMIC_KINDS = ("add", "min", "max", "and", "or", "xor")
FLOAT_ATOMIC_KINDS = ("add", "min", "max")
FIXED_KINDS = ("exchange", "compare_exchange")  # with the same operands wherever they stand
FENCES = tuple((s, o) for s in ("workgroup", "device") for o in ("acquire", "release", "acq_rel"))


@dataclass
class Memory:
    """What a program may reach. Sizes are elements; `own` elements belong to each invocation."""

    inputs: list[tuple[Value, int]] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    own: int = 8
    sums: list[tuple[Value, int, str]] = field(default_factory=list)  # buffer, elements, kind
    privates: list[tuple[Value, int]] = field(default_factory=list)
    wild_inputs: list[tuple[Value, int]] = field(default_factory=list)
    wild_outputs: list[Value] = field(default_factory=list)
    near_outputs: list[Value] = field(default_factory=list)
    small: list[tuple[Value, int, Value]] = field(default_factory=list)  # 8-bit floats: in, out
    slots: list[Value] = field(default_factory=list)
    fixed: dict[int, tuple[int, int]] = field(default_factory=dict)  # operands of a FIXED_KINDS sum
    shared: list[Value] = field(default_factory=list)  # one vector of 4 per invocation
    shared_sums: list[tuple[Value, str]] = field(default_factory=list)


@dataclass
class Loop:
    """The innermost loop: types it carries after the counter of a while (None in a for)."""

    types: tuple[Type, ...]
    counter: Value | None = None  # as of this iteration
    next_counter: Value | None = None


@dataclass
class Place:
    """Where statements go: enclosing loop, nesting, whether a return may stand here.

    dead_ends: an if or switch may leave on every way, and is then followed by a dead `return`,
    which a uniformity analysis may take for a real one.
    """

    depth: int
    loop: Loop | None = None
    may_return: bool = False
    dead_ends: bool = False
    shared_sum: tuple[Value, str] | None = None

    def inside(self, loop: Loop | None = None) -> Place:
        return replace(self, depth=self.depth - 1, loop=loop or self.loop)


class Blocks(Special):
    """Builds statements. `linear` is the invocation's number within the launch, `local` within its
    workgroup of `workgroup` invocations, both of type `index`."""

    memory: Memory
    index: DType
    linear: Value
    local: Value
    group: Value  # the number of the workgroup
    workgroup: int
    sites: list[str]
    uniform_values: list[Value]
    subgroup: int | None
    faults: bool
    fences: tuple[str, ...] = ()  # their scopes
    diverging: bool = True  # fences may stand anywhere

    def carried_types(self) -> tuple[Type, ...]:
        return tuple(self.any_type() for _ in range(int(self.rng.integers(0, 4))))

    def results(self, types: tuple[Type, ...]) -> list[Value]:
        return [self.expression(t, 2) for t in types]

    # plain statements

    def plain(self, count: int, place: Place) -> bool:
        """Up to `count` statements; whether control falls through behind them."""
        return all(self.statement(place) for _ in range(count))

    def statement(self, place: Place) -> bool:
        ways: list[tuple[int, Callable[[Place], bool | None]]] = [
            (6, self.define), (3, self.store_own), (2, self.load_own), (2, self.load_input),
        ]  # fmt: skip
        memory = self.memory
        if memory.privates:
            ways.append((3, self.use_private))
        if memory.sums or place.shared_sum:
            ways.append((2, self.add_up))
        if any(t.is_int and t.bits >= 32 for t in map(_element, memory.outputs)):
            ways.append((1, self.own_atomic))
        if self.faults:
            ways.append((1, self.check))
        if self.special:
            ways.extend([(4, self.use_wild), (2, self.store_wild)])
        if memory.near_outputs:
            ways.append((3, self.store_near))
        if memory.small:
            ways.append((1, self.move_small))
        if memory.slots:
            ways.append((1, self.load_slot))
        if self.fences and self.diverging:
            ways.append((1, self.fence))
        if place.depth > 0:
            nested = ((4, self.branch), (1, self.switch), (2, self.count_up), (2, self.loop_while))
            ways.extend(nested)
        weights = [w for w, _ in ways]
        total = float(sum(weights))
        way = ways[int(self.rng.choice(len(ways), p=[w / total for w in weights]))][1]
        return way(place) is not False

    def define(self, place: Place) -> None:
        self.scope.append(self.expression(self.any_type()))

    def _own_place(self, lanes: int) -> Value:
        """A random place among the invocation's own elements, in units of `lanes`."""
        b, units = self.b, self.memory.own // lanes
        base = b.emit("mul", self.linear, b.const(units, self.index))
        return b.emit("add", base, self.bounded(self.index, units))

    def _width(self) -> int:
        fitting = [n for n in self.lanes if n <= self.memory.own]
        return self.choose(fitting) if fitting and self.chance(0.3) else 1

    def store_own(self, place: Place) -> None:
        buffer, lanes = self.choose(self.memory.outputs), self._width()
        element = element_of(buffer.type)
        value = self.expression(element if lanes == 1 else VectorType(element, lanes))
        self.b.do("store", buffer, self._own_place(lanes), value)

    def load_own(self, place: Place) -> None:
        buffer, lanes = self.choose(self.memory.outputs), self._width()
        self.scope.append(self._load(buffer, self._own_place(lanes), lanes))

    def _load(self, memory: Value, at: Value, lanes: int) -> Value:
        if lanes == 1:
            return self.b.emit("load", memory, at)
        return self.b.emit("load", memory, at, lanes=lanes)

    def load_input(self, place: Place) -> None:
        buffer, count = self.choose(self.memory.inputs)
        lanes = self._width()
        ints = [t for t in self.types if t.is_int]
        at = self.bounded(self.choose(ints), count // lanes)
        self.scope.append(self._load(buffer, at, lanes))

    def use_private(self, place: Place) -> None:
        array, count = self.choose(self.memory.privates)
        lanes, element = self._width(), element_of(array.type)
        at = self.bounded(i32, count // lanes)
        if self.chance(0.5):
            self.scope.append(self._load(array, at, lanes))
        else:
            value = self.expression(element if lanes == 1 else VectorType(element, lanes))
            self.b.do("store", array, at, value)

    def add_up(self, place: Place) -> None:
        if place.shared_sum and (not self.memory.sums or self.chance(0.7)):
            array, kind = place.shared_sum
            count = self.workgroup
        else:
            array, count, kind = self.choose(self.memory.sums)
        at, element = self.bounded(i32, count), element_of(array.type)
        if kind in FIXED_KINDS:
            wanted, value = (self.b.const(n, element) for n in self.memory.fixed[array.id])
            if kind == "compare_exchange":
                self.b.emit(kind, array, at, wanted, value)
                return
        else:
            value = self.expression(element, 2)
        if element.is_float and kind == "add":  # sums of few bits, exact in any order
            value = self.b.emit("max", value, self.b.const(-15, element))
            value = self.b.emit("min", value, self.b.const(15, element))
        self.b.emit("atomic", array, at, value, kind=kind)

    def own_atomic(self, place: Place) -> None:
        """An atomic on a cell that no other invocation reaches; its old value counts."""
        cells = [v for v in self.memory.outputs if _element(v).is_int and _element(v).bits >= 32]
        buffer = self.choose(cells)
        element, at = _element(buffer), self._own_place(1)
        value = self.expression(element, 2)
        kind = self.choose((*ATOMIC_KINDS, *FIXED_KINDS))
        if kind == "compare_exchange":
            old = self.b.emit(kind, buffer, at, self.expression(element, 1), value)
        else:
            old = self.b.emit("atomic", buffer, at, value, kind=kind)
        self.scope.append(old)

    def fence(self, place: Place | None = None) -> None:
        known = [f for f in FENCES if f[0] in self.fences]
        scope, order = self.choose(known)
        self.b.do("fence", scope=scope, order=order)

    # floats of any kind, ops with a bound, 8-bit floats, slots

    def use_wild(self, place: Place) -> None:
        """New wild values, or a tame one that wild ones decide."""
        kind = self.rng.random()
        if kind < 0.2 and self.memory.wild_inputs:
            buffer, count = self.choose(self.memory.wild_inputs)
            lanes = self._width()
            self.wild.append(self._load(buffer, self.bounded(i32, count // lanes), lanes))
        elif kind < 0.6:
            self.wild.append(self.wild_step())
        elif kind < 0.8:
            self.scope.append(self.observed())
        else:
            t = self.choose(self.floats())
            sized = [d for d in self.types if d.is_int and d.bits == t.bits]
            if not sized or not self.spend(t, 5):
                return
            if kind < 0.87:
                self.scope.append(self.bits_of(t))
            elif kind < 0.95:
                self.wild.append(self.float_of_bits(t))
            elif t.bits >= 32:
                self.scope.append(self.power_of_two(t))

    def store_wild(self, place: Place) -> None:
        buffer, lanes = self.choose(self.memory.wild_outputs), self._width()
        element = _element(buffer)
        value = self.wild_of(element if lanes == 1 else VectorType(element, lanes))
        self.b.do("store", buffer, self._own_place(lanes), value)

    def store_near(self, place: Place) -> None:
        buffer = self.choose(self.memory.near_outputs)
        element, lanes = _element(buffer), self._width()
        if element.name not in self.left:
            value = self.near(element if lanes == 1 else VectorType(element, lanes))
            self.b.do("store", buffer, self._own_place(lanes), value)

    def move_small(self, place: Place) -> None:
        """Load, choose, convert and store 8-bit floats, which no op computes with."""
        source, count, target = self.choose(self.memory.small)
        element, lanes = _element(source), self._width()
        t = element if lanes == 1 else VectorType(element, lanes)
        value = self._load(source, self.bounded(i32, count // lanes), lanes)
        floats = [f for f in self.floats() if f.name not in self.left]
        if floats and self.chance(0.4):
            wide = with_element(t, self.choose(floats))
            if self.special and not self.flush:  # its NaNs, infinities and small values
                self.wild.append(self.b.emit("convert", value, type=wide))
            value = self.b.emit("convert", self.expression(wide, 1), type=t)
        elif self.chance(0.5):
            other = self._load(target, self._own_place(lanes), lanes)
            value = self.b.emit("select", self.expression(bool_, 1), value, other)
        self.b.do("store", target, self._own_place(lanes), value)

    def load_slot(self, place: Place) -> None:
        slot = self.choose(self.memory.slots)
        self.scope.append(self.b.emit("load", slot, self.b.const(0, i32)))

    def check(self, place: Place) -> None:
        """An assert; its site's name tells them apart."""
        site = len(self.sites)
        self.sites.append(f"random assertion {site}")
        self.b.do("assert", self.expression(bool_), site=site)

    # structured control flow

    def block(self, types: tuple[Type, ...], place: Place, size: int, falls: bool) -> None:
        """Statements and a `yield` of these types or (not if `falls`) another way out."""
        mark = self.mark()
        through = self.plain(int(self.rng.integers(0, size + 1)), place)
        if through and (falls or not self.leave(place)):
            self.b.do("yield", *self.results(types))
        self.forget(mark)

    def leave(self, place: Place) -> bool:
        """Sometimes a break, continue or return."""
        if place.loop and self.chance(0.25):
            self.end_iteration(place.loop, "break" if self.chance(0.5) else "continue")
            return True
        if place.may_return and self.chance(0.08):
            self.b.do("return")
            return True
        return False

    def end_iteration(self, loop: Loop, way: str) -> None:
        counter = loop.counter if way == "break" else loop.next_counter
        first = [] if counter is None else [counter]
        self.b.do(way, *first, *self.results(loop.types))

    def joined(
        self,
        name: str,
        operand: Value,
        attrs: dict[str, Any],
        types: tuple[Type, ...],
        regions: list[Region],
    ) -> bool:
        """Append an if or switch; control falls through unless no region yields."""
        yields = any(r.ops[-1].name == "yield" for r in regions)
        op = self.b.op(name, (operand,), attrs, types if yields else (), tuple(regions))
        self.scope.extend(op.results)
        if not yields:
            self.b.do("return")  # dead: control never gets here
        return yields

    def branch(self, place: Place) -> bool:
        types = self.carried_types()
        condition = self.expression(bool_)
        regions = []
        for n in range(2):
            with self.b.region() as built:
                self.block(types, place.inside(), 3, n == 0 and not place.dead_ends)
            regions.append(built.region)
        return self.joined("if", condition, {}, types, regions)

    def switch(self, place: Place) -> bool:
        types = self.carried_types()
        t = self.choose([t for t in self.types if t.is_int])
        selector = self.bounded(t, 5) if self.chance(0.8) else self.expression(t)
        cases = tuple(sorted({int(n) for n in self.rng.integers(0, 6, 3)}))
        regions = []
        for n in range(len(cases) + 1):
            with self.b.region() as built:
                self.block(types, place.inside(), 2, n == 0 and not place.dead_ends)
            regions.append(built.region)
        return self.joined("switch", selector, {"cases": cases}, types, regions)

    def body(self, loop: Loop, place: Place) -> None:
        """The body of a loop, in the open region."""
        if self.plain(int(self.rng.integers(1, 4)), place.inside(loop=loop)):
            self.end_iteration(loop, "continue" if self.chance(0.95) else "break")

    def count_up(self, place: Place) -> None:
        b, types = self.b, self.carried_types()
        t = self.choose([t for t in self.types if t.is_int])
        low = self.expression(t, 2) if self.chance(0.3) else b.const(self.choose(EDGE_STARTS), t)
        high = b.emit("add", low, self.bounded(t, 6))
        start, mark = self.results(types), self.mark()
        with b.region(t, *types) as built:
            self.scope.extend(built.args)
            self.body(Loop(types), place)
        self.forget(mark)
        self.scope.extend(b.op("for", (low, high, *start), {}, types, (built.region,)).results)

    def loop_while(self, place: Place) -> None:
        b, types = self.b, self.carried_types()
        start, mark = [b.const(0, i32), *self.results(types)], self.mark()
        with b.region(i32, *types) as test:
            self.scope.extend(test.args)
            more = b.emit("lt", test.args[0], b.const(int(self.rng.integers(1, 7)), i32))
            b.do("condition", b.emit("and", more, self.expression(bool_)))
        self.forget(mark)
        with b.region(i32, *types) as built:
            self.scope.extend(built.args)
            counter = built.args[0]
            following = b.emit("add", counter, b.const(1, i32))
            self.body(Loop(types, counter, following), place)
        self.forget(mark)
        op = b.op("while", start, {}, (i32, *types), (test.region, built.region))
        self.scope.extend(op.results)


def _element(memory: Value) -> DType:
    return element_of(memory.type)


EDGE_STARTS = (0, 0, 0, 1, 3, 100)
