"""Asynchronous copies as plain ones, where a target has no others: done where they are issued."""

from __future__ import annotations

from dataclasses import dataclass

from ..builder import Builder
from ..core import Kernel, Op, Region, Value, with_body
from ..dtypes import DType, MemType
from .effects import free_number, op_names

COPIES = frozenset({"copy_async", "copy_commit", "copy_wait"})
_LONGEST = 8  # lanes of a vector


@dataclass(frozen=True)
class PlainCopies:
    """Copies become loads and stores; commits and waits go."""

    name: str = "plain_copies"

    def __call__(self, kernel: Kernel) -> Kernel:
        arrays = any(op.name == "alloc" for op in kernel.body.ops)
        if not arrays or COPIES.isdisjoint(op_names(kernel)):
            return kernel
        return with_body(kernel, _Copier(kernel).region(kernel.body))


class _Copier:
    def __init__(self, kernel: Kernel) -> None:
        self.b = Builder(free_number(kernel))
        self.index = kernel.index

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
            self.whole(target, to, source, start, count)
            return
        given = self.number(op.operands[4])
        with self.b.region() as full:
            self.whole(target, to, source, start, count)
            self.b.do("yield")
        with self.b.region() as part:
            for n in range(count):
                self.single(target, to, source, start, n, given)
            self.b.do("yield")
        condition = self.b.emit("ge", given, self.k(count))
        self.b.op("if", (condition,), {}, (), (full.region, part.region))

    def whole(self, target: Value, to: Value, source: Value, start: Value, count: int) -> None:
        """Vectors of up to 8; indexes are multiples of count."""
        lanes = min(count, _LONGEST)
        if lanes > 1:
            shift = self.k(lanes.bit_length() - 1)
            to, start = (self.b.emit("shr", v, shift) for v in (to, start))
        for n in range(count // lanes):
            at, there = (self.b.emit("add", v, self.k(n)) if n else v for v in (start, to))
            if lanes > 1:
                value = self.b.emit("load", source, at, lanes=lanes)
            else:
                value = self.b.emit("load", source, at)
            self.b.do("store", target, there, value)

    def single(
        self, target: Value, to: Value, source: Value, start: Value, n: int, given: Value
    ) -> None:
        """One element, or zero where it is not given."""
        assert isinstance(source.type, MemType)
        element: DType = source.type.element
        with self.b.region() as there:
            at = self.b.emit("add", start, self.k(n)) if n else start
            self.b.do("yield", self.b.emit("load", source, at))
        with self.b.region() as absent:
            self.b.do("yield", self.b.const(0, element))
        condition = self.b.emit("gt", given, self.k(n))
        regions = (there.region, absent.region)
        value = self.b.op("if", (condition,), {}, (element,), regions).result
        place = self.b.emit("add", to, self.k(n)) if n else to
        self.b.do("store", target, place, value)
