"""Random statements of kernel IR: control flow, memory, barriers.

Statements are `plain` (any invocation may run them alone) or `uniform` (whole workgroups run them
together: barriers, subgroup ops). Every memory access is within bounds, every loop ends, no race
occurs, and atomics are of one kind per cell and their old values are dropped, so that the result
does not depend on any order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.core import Value
from ..ir.dtypes import DType, Type, VectorType, bool_, element_of, i32, u32, u64
from .values import Values

ATOMIC_KINDS = ("add", "min", "max", "and", "or", "xor")


@dataclass
class Memory:
    """What a program may reach. Sizes are elements; `own` elements belong to each invocation."""

    inputs: list[tuple[Value, int]] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    own: int = 8
    sums: list[tuple[Value, int, str]] = field(default_factory=list)  # buffer, elements, kind
    privates: list[tuple[Value, int]] = field(default_factory=list)
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

    def inside(self, **changes) -> Place:
        values = {**self.__dict__, "depth": self.depth - 1, **changes}
        return Place(**values)


class Blocks(Values):
    """Builds statements. `linear` is the invocation's number within the launch, `local` within its
    workgroup of `workgroup` invocations, both of type `index`."""

    memory: Memory
    index: DType
    linear: Value
    local: Value
    workgroup: int
    sites: list[str]
    uniform_values: list[Value]
    subgroup: int | None
    faults: bool

    def carried_types(self) -> tuple[Type, ...]:
        return tuple(self.any_type() for _ in range(int(self.rng.integers(0, 4))))

    def results(self, types: tuple[Type, ...]) -> list[Value]:
        return [self.expression(t, 2) for t in types]

    # plain statements

    def plain(self, count: int, place: Place) -> bool:
        """Up to `count` statements; whether control falls through behind them."""
        return all(self.statement(place) for _ in range(count))

    def statement(self, place: Place) -> bool:
        ways = [(6, self.define), (3, self.store_own), (2, self.load_own), (2, self.load_input)]
        if self.memory.privates:
            ways.append((3, self.use_private))
        if self.memory.sums or place.shared_sum:
            ways.append((2, self.add_up))
        if self.faults:
            ways.append((1, self.check))
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
        attrs = {"lanes": lanes} if lanes > 1 else {}
        return self.b.emit("load", memory, at, **attrs)

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
        value = self.expression(element_of(array.type), 2)
        self.b.emit("atomic", array, self.bounded(i32, count), value, kind=kind)

    def check(self, place: Place) -> None:
        site = len(self.sites)
        self.sites.append(f"random assertion {site}")
        self.b.do("assert", self.expression(bool_), site=site)

    # structured control flow

    def block(self, types: tuple[Type, ...], place: Place, size: int, falls: bool) -> None:
        """Statements and a `yield` of these types or (not if `falls`) another way out."""
        mark = len(self.scope)
        through = self.plain(int(self.rng.integers(0, size + 1)), place)
        if through and (falls or not self.leave(place)):
            self.b.do("yield", *self.results(types))
        del self.scope[mark:]

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

    def joined(self, name: str, operand: Value, attrs: dict, types, regions: list) -> bool:
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
        start, mark = self.results(types), len(self.scope)
        with b.region(t, *types) as built:
            self.scope.extend(built.args)
            self.body(Loop(types), place)
        del self.scope[mark:]
        self.scope.extend(b.op("for", (low, high, *start), {}, types, (built.region,)).results)

    def loop_while(self, place: Place) -> None:
        b, types = self.b, self.carried_types()
        start, mark = [b.const(0, i32), *self.results(types)], len(self.scope)
        with b.region(i32, *types) as test:
            self.scope.extend(test.args)
            more = b.emit("lt", test.args[0], b.const(int(self.rng.integers(1, 7)), i32))
            b.do("condition", b.emit("and", more, self.expression(bool_)))
        del self.scope[mark:]
        with b.region(i32, *types) as built:
            self.scope.extend(built.args)
            counter = built.args[0]
            following = b.emit("add", counter, b.const(1, i32))
            self.body(Loop(types, counter, following), place)
        del self.scope[mark:]
        op = b.op("while", start, {}, (i32, *types), (test.region, built.region))
        self.scope.extend(op.results)

    # uniform statements

    def uniform(self, count: int, depth: int) -> None:
        """Statements that whole workgroups run together."""
        for _ in range(count):
            ways = [lambda: self.plain(2, Place(depth=2))]
            if self.memory.shared:
                ways.append(self.exchange)
            if self.memory.shared_sums:
                ways.append(self.shared_add_up)
            if self.subgroup:
                ways.extend([self.subgroup_ops] * 3)
            if depth > 0:
                ways.extend([lambda: self.uniform_loop(depth), lambda: self.uniform_if(depth)])
            self.choose(ways)()

    def exchange(self) -> None:
        """Each invocation writes its part of a workgroup array and reads anybody's."""
        b, array = self.b, self.choose(self.memory.shared)
        element = element_of(array.type)
        lanes = 4 if 4 in self.lanes else 1
        value = self.expression(VectorType(element, 4) if lanes == 4 else element)
        b.do("store", array, self.local, value)
        b.do("barrier")
        self.scope.append(self._load(array, self.bounded(i32, self.workgroup), lanes))
        if lanes == 4:
            self.scope.append(b.emit("load", array, self.bounded(i32, 4 * self.workgroup)))
        b.do("barrier")

    def shared_add_up(self) -> None:
        b, (array, kind) = self.b, self.choose(self.memory.shared_sums)
        b.do("store", array, self.local, self.constant(element_of(array.type)))
        b.do("barrier")
        mark = len(self.scope)
        self.plain(3, Place(depth=1, shared_sum=(array, kind)))
        del self.scope[mark:]
        b.do("barrier")
        self.scope.append(b.emit("load", array, self.bounded(i32, self.workgroup)))
        b.do("barrier")

    def uniform_loop(self, depth: int) -> None:
        b, types = self.b, self.carried_types()
        start, mark = self.results(types), len(self.scope)
        trips = b.const(int(self.rng.integers(0, 4)), i32)
        with b.region(i32, *types) as built:
            self.scope.extend(built.args)
            self.uniform(2, depth - 1)
            b.do("continue", *self.results(types))
        del self.scope[mark:]
        op = b.op("for", (b.const(0, i32), trips, *start), {}, types, (built.region,))
        self.scope.extend(op.results)

    def uniform_if(self, depth: int) -> None:
        b, types = self.b, self.carried_types()
        flag = self.choose(self.uniform_values)
        bit = b.emit("and", flag, b.const(1 << int(self.rng.integers(4)), flag.type))
        condition = b.emit("ne", bit, b.const(0, flag.type))
        regions = []
        for _ in range(2):
            mark = len(self.scope)
            with b.region() as built:
                self.uniform(int(self.rng.integers(0, 3)), depth - 1)
                b.do("yield", *self.results(types))
            del self.scope[mark:]
            regions.append(built.region)
        self.scope.extend(b.op("if", (condition,), {}, types, tuple(regions)).results)

    def subgroup_ops(self) -> None:
        for way in (self._vote, self._reduction, self._shuffle):
            if self.chance(0.7):
                self.scope.append(way())

    def _vote(self) -> Value:
        b, name = self.b, self.choose(("any", "all", "ballot", "elect"))
        if name == "elect":
            return b.emit("subgroup_elect")
        vote = self.expression(bool_)
        if name != "ballot":
            return b.emit(f"subgroup_{name}", vote)
        wide = self.subgroup == 64
        found = b.emit("subgroup_ballot", vote, type=u64 if wide else u32)
        return b.emit("convert", found, type=i32)

    def _reduction(self) -> Value:
        t = self.choose(self.types)
        kinds = ("min", "max") if t.is_float else ("add", "mul", "min", "max", "and", "or", "xor")
        kind, value = self.choose(kinds), self.expression(t)
        if self.chance(0.5):
            return self.b.emit("subgroup_reduce", value, kind=kind)
        inclusive = t.is_float or self.chance(0.5)  # an exclusive one starts at an infinity
        return self.b.emit("subgroup_scan", value, kind=kind, inclusive=bool(inclusive))

    def _shuffle(self) -> Value:
        b, value = self.b, self.expression(self.choose(self.types))
        name = self.choose(("", "_xor", "_up", "_down", "broadcast"))
        assert self.subgroup
        if name == "broadcast":
            lane = b.const(int(self.rng.integers(self.subgroup)), i32)
            return b.emit("subgroup_broadcast", value, lane)
        lane = self.bounded(i32, self.subgroup)
        if name == "_xor" or self.chance(0.5):
            lane = b.const(int(self.rng.integers(self.subgroup)), i32)
        return b.emit(f"subgroup_shuffle{name}", value, lane)


EDGE_STARTS = (0, 0, 0, 1, 3, 100)
