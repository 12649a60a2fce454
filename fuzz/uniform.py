"""Random statements that whole workgroups run together: barriers, subgroups, copies."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.core import Value
from ..ir.dtypes import (
    FragmentType,
    Type,
    VectorType,
    bool_,
    element_of,
    i32,
    u32,
    u64,
)
from .blocks import Blocks, Place

_INT_KINDS = ("add", "mul", "min", "max", "and", "or", "xor")


class Uniform(Blocks):
    """Builds them. copies: workgroup arrays for asynchronous copies, with the buffer that fills
    them. products: element types of matrix products, with the buffers of a, b and the sums."""

    copies: list[tuple[Value, Value, int]]
    products: list[tuple[Value, Value, Value]]

    # uniform statements

    def uniform(self, count: int, depth: int) -> None:
        """Statements that whole workgroups run together."""
        for _ in range(count):
            ways: list[Callable[[], object]] = [lambda: self.plain(2, Place(depth=2))]
            if self.memory.shared:
                ways.append(self.exchange)
            if self.memory.shared_sums:
                ways.append(self.shared_add_up)
            if self.subgroup:
                ways.extend([self.subgroup_ops] * 3)
            if self.fences:
                ways.append(self.fence)
            if self.copies:
                ways.append(self.copy)
            if self.products:
                ways.append(self.product)
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

    def copy(self) -> None:
        """Each invocation lets some of a buffer be copied, and reads what any of them got."""
        b = self.b
        array, source, count = self.choose(self.copies)
        elements = count * self.workgroup
        own = b.emit("mul", self.local, b.const(count, self.index))
        start = b.const(count * int(self.rng.integers(0, 3)), self.index)
        there = b.emit("add", own, start)
        operands = [array, own, source, there]
        if self.chance(0.5):
            operands.append(self.bounded(i32, count + 1))
        b.do("copy_async", *operands, count=count)
        if self.chance(0.5):
            b.do("copy_commit")
            b.do("copy_wait", pending=0)
        else:
            b.do("copy_commit")
            self.scope.append(self.expression(i32))
            b.do("copy_wait", pending=0)
        b.do("barrier")
        self.scope.append(b.emit("load", array, self.bounded(i32, elements)))
        b.do("barrier")

    def product(self) -> None:
        """A product of matrix fragments whose sums are exact in any order, and its row sums."""
        b = self.b
        left, right, sums = self.choose(self.products)
        depth = 32 if element_of(left.type).is_int else 16
        a = FragmentType(element_of(left.type), "a", 16, depth)
        c = FragmentType(element_of(right.type), "b", depth, 16)
        acc = FragmentType(element_of(sums.type), "acc", 16, 16)
        subgroups = b.const(self.workgroup // (self.subgroup or 1), self.index)
        own = b.emit("mul", self.group, subgroups)
        own = b.emit("add", own, b.emit("subgroup_id", type=self.index))
        own = b.emit("mul", own, b.const(256, self.index))
        layouts = [self.choose(("row", "column")) for _ in range(2)]
        strides = [depth if layouts[0] == "row" else 16, 16 if layouts[1] == "row" else depth]
        zero = b.const(0, self.index)
        one, two = (
            b.emit("fragment_load", m, zero, b.const(n, self.index), type=t, layout=layout)
            for m, n, t, layout in zip((left, right), strides, (a, c), layouts, strict=True)
        )
        stride = b.const(16, self.index)
        total = b.const(0, acc)
        for _ in range(int(self.rng.integers(1, 3))):
            total = b.emit("fragment_mma", one, two, total)
        b.do("fragment_store", sums, own, stride, total, layout="row")

    def shared_add_up(self) -> None:
        b, (array, kind) = self.b, self.choose(self.memory.shared_sums)
        b.do("store", array, self.local, self.constant(element_of(array.type)))
        b.do("barrier")
        mark = self.mark()
        self.plain(3, Place(depth=1, shared_sum=(array, kind)))
        self.forget(mark)
        b.do("barrier")
        self.scope.append(b.emit("load", array, self.bounded(i32, self.workgroup)))
        b.do("barrier")

    def uniform_loop(self, depth: int) -> None:
        b, types = self.b, self.carried_types()
        start, mark = self.results(types), self.mark()
        trips = b.const(int(self.rng.integers(0, 4)), i32)
        with b.region(i32, *types) as built:
            self.scope.extend(built.args)
            self.uniform(2, depth - 1)
            b.do("continue", *self.results(types))
        self.forget(mark)
        op = b.op("for", (b.const(0, i32), trips, *start), {}, types, (built.region,))
        self.scope.extend(op.results)

    def uniform_if(self, depth: int) -> None:
        b, types = self.b, self.carried_types()
        flag = self.choose(self.uniform_values)
        bit = b.emit("and", flag, b.const(1 << int(self.rng.integers(4)), flag.type))
        condition = b.emit("ne", bit, b.const(0, flag.type))
        regions = []
        for _ in range(2):
            mark = self.mark()
            with b.region() as built:
                self.uniform(int(self.rng.integers(0, 3)), depth - 1)
                b.do("yield", *self.results(types))
            self.forget(mark)
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

    def _lanes_of(self, t: Type) -> Type:
        if isinstance(t, VectorType) or not self.lanes or self.chance(0.8):
            return t
        return VectorType(element_of(t), self.choose(self.lanes))

    def _reduction(self) -> Value:
        t = self._lanes_of(self.choose(self.types))
        element = element_of(t)
        exact = element.is_float and element.bits >= 32  # sums of few bits, exact in any order
        kinds = ("min", "max", *(("add",) if exact else ())) if element.is_float else _INT_KINDS
        kind, value = self.choose(kinds), self.expression(t)
        if self.chance(0.5):
            result = self.b.emit("subgroup_reduce", value, kind=kind)
        else:
            inclusive = element.is_float or self.chance(0.5)  # else it may start at an infinity
            result = self.b.emit("subgroup_scan", value, kind=kind, inclusive=bool(inclusive))
        return self.tame(result) if kind == "add" and element.is_float else result

    def _shuffle(self) -> Value:
        b, t = self.b, self._lanes_of(self.choose((*self.types, bool_)))
        value = self.expression(t)
        name = self.choose(("", "_xor", "_up", "_down", "broadcast"))
        assert self.subgroup
        if name == "broadcast":
            lane = b.const(int(self.rng.integers(self.subgroup)), i32)
            return b.emit("subgroup_broadcast", value, lane)
        lane = self.bounded(i32, self.subgroup)
        if name == "_xor" or self.chance(0.5):
            lane = b.const(int(self.rng.integers(self.subgroup)), i32)
        return b.emit(f"subgroup_shuffle{name}", value, lane)
