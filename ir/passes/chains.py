"""Chains of values that parameters alone decide, cut where there are too many ways through them.

Mesa's llvmpipe asks of the condition of every branch whether parameters alone decide it, and visits
an operand as often as ways lead to it: some twenty sums of twice the value before keep its compiler
busy for minutes. What lies at the end of very many ways is chosen here by the place of the
invocation, with a condition that never holds, so that parameters alone do not decide it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..core import Attr, Kernel, Op, Region, Value, is_memory, replaced, with_body
from ..dtypes import DTYPES, Type, VectorType, element_of, i32
from .effects import LOOPS, PURE, free_number

_MANY = 1 << 13  # ways; a compiler follows a million in a second
# Ways through one op, as far as they are more than those to its operands: what emitters make of it.
_INSIDE = {"floordiv": 16, "mod": 16, "div": 8, "abs": 4, "sign": 4}
_ROUNDED = 256  # through a conversion to floats, which is rounded by hand
_LEAVES = frozenset({"const", "count", "num_groups"})
_CARRIED = 16  # ways to what a loop carries, which drivers may unroll


@dataclass(frozen=True)
class CutChains:
    """Cut chains of very many ways."""

    name: str = "cut_chains"

    def __call__(self, kernel: Kernel) -> Kernel:
        ends = _ends(kernel)
        if not ends:
            return kernel
        cutter = _Cutter(kernel, ends)
        body = cutter.region(kernel.body)
        return with_body(kernel, Region(body.args, (*cutter.head, *body.ops)))


def _ends(kernel: Kernel) -> frozenset[int]:
    """The values to be cut: the first ones on their chains to which very many ways lead."""
    count = _Count()
    count.ways.update((v.id, 1) for v in kernel.body.args if not is_memory(v))
    count.region(kernel.body)
    return frozenset(count.ends)


class _Count:
    def __init__(self) -> None:
        self.ways: dict[int, int] = {}  # to values that parameters alone decide
        self.ends: set[int] = set()

    def led(self, value: Value, sources: Iterable[Value], times: int = 1, more: int = 1) -> None:
        """Note the ways through `sources` to a value."""
        found = [self.ways.get(v.id) for v in sources]
        known = [n for n in found if n is not None]
        if len(known) < len(found):
            return
        ways = sum(known) * times + more
        if ways > _MANY:
            self.ends.add(value.id)
        else:
            self.ways[value.id] = ways

    def region(self, region: Region) -> None:
        for op in region.ops:
            if op.name in _LEAVES:
                self.ways[op.results[0].id] = 1
            elif op.name in PURE:
                self.led(op.results[0], op.operands, _inside(op))
            elif op.regions:
                self.nested(op)

    def nested(self, op: Op) -> None:
        """Drivers make selections of branches, and unroll loops."""
        if op.name in LOOPS:
            counted = op.name == "for"
            carried = op.operands[2:] if counted else op.operands
            first = (op.operands[0], *carried) if counted else carried
            for r in op.regions:
                for arg, source in zip(r.args, first, strict=True):
                    self.led(arg, (source,), more=_CARRIED)
                self.region(r)
            for result, source in zip(op.results, carried, strict=True):
                self.led(result, (source,), more=_CARRIED)
            return
        for r in op.regions:
            self.region(r)
        ends = [r.terminator.operands for r in op.regions if r.terminator.name == "yield"]
        for n, result in enumerate(op.results):
            self.led(result, (*op.operands, *(values[n] for values in ends)))


def _inside(op: Op) -> int:
    if op.name == "convert":
        source, target = (element_of(v.type) for v in (*op.operands, *op.results))
        return _ROUNDED if target.is_float and not source.is_float else 4
    return _INSIDE.get(op.name, 1)


class _Cutter:
    def __init__(self, kernel: Kernel, ends: frozenset[int]) -> None:
        self.ends = ends
        self.next = free_number(kernel)
        self.subst: dict[int, Value] = {}
        self.head: list[Op] = []
        place = self.op(self.head, "local_linear_id", (), kernel.index)
        if kernel.index != i32:
            place = self.op(self.head, "convert", (place,), i32)
        none = self.const(self.head, i32, (1 << 32) - 1)
        self.never = self.op(self.head, "eq", (place, none), DTYPES["bool"])

    def op(
        self,
        ops: list[Op],
        name: str,
        operands: tuple[Value, ...],
        t: Type,
        attrs: tuple[tuple[str, Attr], ...] = (),
    ) -> Value:
        result = Value(self.next, t)
        self.next += 1
        ops.append(Op(name, operands, (result,), attrs, ()))
        return result

    def const(self, ops: list[Op], t: Type, bits: int) -> Value:
        return self.op(ops, "const", (), t, (("bits", bits),))

    def region(self, region: Region) -> Region:
        ops: list[Op] = []
        for op in region.ops:
            operands = replaced(op.operands, self.subst)
            regions = tuple([self.region(r) for r in op.regions])
            ops.append(Op(op.name, operands, op.results, op.attrs, regions, op.loc))
            for value in op.results:
                if value.id in self.ends:
                    self.subst[value.id] = self.cut(ops, value)
        return Region(region.args, tuple(ops))

    def cut(self, ops: list[Op], value: Value) -> Value:
        t = value.type
        if isinstance(t, VectorType):
            other = self.op(ops, "splat", (self.const(ops, t.element, 0),), t)
        else:
            other = self.const(ops, t, 0)
        return self.op(ops, "select", (self.never, other, value), t)
