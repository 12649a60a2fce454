"""Asynchronous copies as plain ones, where a target has no others: done where they are issued."""

from __future__ import annotations

from dataclasses import dataclass

from ..builder import Builder
from ..core import Kernel, Op, Region, Value, walk, with_body
from ..dtypes import VectorType, element_of, lanes_of
from .effects import free_number, op_names

COPIES = frozenset({"copy_async", "copy_commit", "copy_wait"})
_LONGEST = 8  # lanes of a vector


@dataclass(frozen=True)
class PlainCopies:
    """Copies become loads and stores; commits and waits go. joined: what is copied all or not at
    all meets the zeros instead before one store, where vectors stay whole."""

    joined: bool = False
    name: str = "plain_copies"

    def __call__(self, kernel: Kernel) -> Kernel:
        arrays = any(op.name == "alloc" for op in kernel.body.ops)
        if not arrays or COPIES.isdisjoint(op_names(kernel)):
            return kernel
        return with_body(kernel, _Copier(kernel, self.joined).region(kernel.body))


class _Copier:
    def __init__(self, kernel: Kernel, joined: bool) -> None:
        self.joined = joined
        self.b = Builder(free_number(kernel))
        self.index = kernel.index
        self.made = {v: op for op in walk(kernel.body) for v in op.results}

    def region(self, region: Region) -> Region:
        with self.b.region() as built:
            for op in region.ops:
                self.b.loc = op.loc
                if op.name == "copy_async":
                    self.copy(op)
                elif op.name not in COPIES:
                    if op.regions:
                        inner = tuple([self.region(r) for r in op.regions])
                        op = Op(op.name, op.operands, op.results, op.attrs, inner, op.loc)
                    self.b.append(op)
        return Region(region.args, built.region.ops)

    def k(self, n: int) -> Value:
        return self.b.const(n, self.index)

    def number(self, v: Value) -> Value:
        return v if v.type == self.index else self.b.emit("convert", v, type=self.index)

    def copy(self, op: Op) -> None:
        target, source = op.operands[0], op.operands[2]
        to, start = (self.number(op.operands[n]) for n in (1, 3))
        count = op.attr("count")
        assert isinstance(count, int)
        if len(op.operands) == 4:
            self.store(target, to, self.load(source, start, count))
            return
        condition = self.all_or_none(op.operands[4], count)
        if self.joined and condition is not None:
            self.store(target, to, self.load_if(condition, source, start, count))
            return
        with self.b.region() as full:
            self.store(target, to, self.load(source, start, count))
            self.b.do("yield")
        with self.b.region() as part:
            self.store(target, to, self.zeros(source, count))
            if condition is None:
                self.partly(target, to, source, start, self.number(op.operands[4]))
            self.b.do("yield")
        if condition is None:
            condition = self.b.emit("ge", self.number(op.operands[4]), self.k(count))
        self.b.op("if", (condition,), {}, (), (full.region, part.region))

    def all_or_none(self, given: Value, count: int) -> Value | None:
        """What a copy depends on that is given all elements or none; None for any other."""
        op = self.made.get(given)
        if op is None or op.name != "select":
            return None
        numbers = [self.made.get(v) for v in op.operands[1:]]
        known = [n.attr("bits") if n is not None and n.name == "const" else None for n in numbers]
        return op.operands[0] if known == [count, 0] else None

    def partly(self, target: Value, to: Value, source: Value, start: Value, given: Value) -> None:
        """The elements that are given, in a loop: rare, and unrolled it was most of the code."""
        with self.b.region(self.index) as built:
            (n,) = built.args
            value = self.b.emit("load", source, self.b.emit("add", start, n))
            self.b.do("store", target, self.b.emit("add", to, n), value)
            self.b.do("continue")
        self.b.op("for", (self.k(0), given), {}, (), (built.region,))

    def load_if(
        self, condition: Value, source: Value, start: Value, count: int
    ) -> tuple[Value, ...]:
        """What is there, or zeros."""
        with self.b.region() as full:
            found = self.load(source, start, count)
            self.b.do("yield", *found)
        with self.b.region() as none:
            self.b.do("yield", *self.zeros(source, count))
        types = tuple([v.type for v in found])
        return self.b.op("if", (condition,), {}, types, (full.region, none.region)).results

    # Vectors of up to 8 elements; indexes are multiples of count.

    def load(self, source: Value, start: Value, count: int) -> tuple[Value, ...]:
        lanes = min(count, _LONGEST)
        if lanes == 1:
            return (self.b.emit("load", source, start),)
        places = self.places(start, count // lanes, lanes)
        return tuple([self.b.emit("load", source, at, lanes=lanes) for at in places])

    def zeros(self, source: Value, count: int) -> tuple[Value, ...]:
        element, lanes = element_of(source.type), min(count, _LONGEST)
        zero = self.b.const(0, VectorType(element, lanes) if lanes > 1 else element)
        return (zero,) * (count // lanes)

    def store(self, target: Value, to: Value, values: tuple[Value, ...]) -> None:
        for at, value in zip(
            self.places(to, len(values), lanes_of(values[0].type)), values, strict=True
        ):
            self.b.do("store", target, at, value)

    def places(self, first: Value, count: int, lanes: int) -> list[Value]:
        """Indexes of vectors in a row."""
        if lanes > 1:
            first = self.b.emit("shr", first, self.k(lanes.bit_length() - 1))
        return [self.b.emit("add", first, self.k(n)) if n else first for n in range(count)]
