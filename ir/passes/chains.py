"""Chains of values that parameters alone decide, cut where there are too many ways through them.

Mesa's llvmpipe asks of the condition of every branch whether parameters alone decide it, and visits
an operand as often as ways lead to it: some twenty sums of twice the value before keep its compiler
busy for minutes. What lies at the end of very many ways is chosen here by the place of the
invocation, with a condition that never holds, so that parameters alone do not decide it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..core import Attr, Kernel, Op, Region, Value, is_memory, replaced, with_body
from ..dtypes import (
    DTYPES,
    DType,
    FragmentType,
    MemType,
    Space,
    Type,
    VectorType,
    element_of,
    i32,
)
from .effects import LOOPS, PURE, free_number

_LANES = frozenset({"vector", "splat", "insert", "extract", "shuffle"})
_MANY = 1 << 13  # ways; a compiler follows a million in a second
# Ways through one op from one of its operands, where they are several: what emitters make of it.
_INSIDE = {
    **{"floordiv": 18, "mod": 24, "mul_high": 8, "dot4": 4, "abs": 3, "sign": 4, "div": 3},
    **{"clz": 3, "ctz": 5, "popcount": 2, "reverse_bits": 2, "copysign": 2},
    **dict.fromkeys(("isnan", "isinf", "isfinite"), 2),
    **dict.fromkeys(("tan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 8),
    **dict.fromkeys(("asin", "acos", "atan", "atan2"), 32),
}
_BY_HAND = 3  # through the rounding of a bf16
_UNROUNDED = frozenset({"neg", "abs", "min", "max", "copysign", "sign", "select"}) | _LANES
_LEAVES = frozenset({"const", "count", "num_groups"})
_CARRIED = 16  # ways to what a loop carries, which drivers may unroll
_MORE = _MANY >> 5  # ways that a turn may add, as drivers unroll 32 turns
_ODD = 0x5555555555555555
_FAR = 1 << 20  # ways from the end of an op that has many inside it


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
    count = _Count(kernel)
    count.ways.update((v.id, 1) for v in kernel.body.args if not is_memory(v))
    count.region(kernel.body)
    return frozenset(count.ends)


@dataclass
class _Loop:
    """A loop that is being counted. slopes: how much longer the ways to a value are for one more to
    each of what a turn starts with. nexts, outs: what `continue` and `break` bring. loads: what is
    loaded from each private array."""

    slopes: dict[int, int]
    nexts: list[tuple[Value, ...]] = field(default_factory=list)
    outs: list[tuple[Value, ...]] = field(default_factory=list)
    loads: dict[int, list[int]] = field(default_factory=dict)


class _Count:
    """Ways to values that parameters alone decide, and to what private arrays hold of them."""

    def __init__(self, kernel: Kernel) -> None:
        self.flat = [size == 1 for size in kernel.workgroup]
        self.ways: dict[int, int] = {}  # by the number of a value or of a private array
        self.ends: set[int] = set()
        self.loops: list[_Loop] = []
        self.arrays: set[int] = set()

    def led(self, value: Value, sources: Sequence[Value], times: int = 1, more: int = 1) -> None:
        """Note the ways through all `sources` to a value, if parameters decide them all."""
        total = 0
        for v in sources:
            if v.id not in self.ways:
                return
            total += self.ways[v.id]
        self.note(value, total * times + more)
        for loop in self.loops:
            slope = 0
            for v in sources:
                slope += loop.slopes.get(v.id, 0)
            if slope:
                loop.slopes[value.id] = slope * times

    def one_of(self, value: Value, sources: Sequence[Value], more: int = 1) -> None:
        """Note the ways to a value that is one of `sources`: the most that there are."""
        most = 0
        for v in sources:
            most = max(most, self.ways.get(v.id, 0))
        if not most:
            return
        self.note(value, most + more)
        for loop in self.loops:
            for v in sources:
                slope = loop.slopes.get(v.id, 0)
                if slope > loop.slopes.get(value.id, 0):
                    loop.slopes[value.id] = slope

    def note(self, value: Value, ways: int) -> None:
        """Of an array, what is loaded is cut; a fragment is nothing that drivers follow."""
        if isinstance(value.type, FragmentType):
            return
        if isinstance(value.type, MemType):
            self.ways[value.id] = min(ways, _MANY)
        elif ways > _MANY:
            self.ends.add(value.id)
        else:
            self.ways[value.id] = ways

    def region(self, region: Region) -> None:
        ways = self.ways
        for op in region.ops:
            if op.name in _LEAVES or (op.name == "local_id" and self.flat[_dimension(op)]):
                self.ways[op.results[0].id] = 1
            elif op.name in _LANES:
                self.one_of(op.results[0], op.operands)
            elif op.name in PURE:
                for v in op.operands:
                    if v.id not in ways:
                        break
                else:
                    self.pure(op)
            elif op.name in ("load", "store"):
                if op.operands[0].id in self.arrays:
                    self.access(op)
            elif op.name == "alloc":
                self.allocate(op.results[0])
            elif op.name == "continue":
                self.loops[-1].nexts.append(op.operands)
            elif op.name == "break":
                self.loops[-1].outs.append(op.operands)
            elif op.name in LOOPS:
                self.loop(op)
            elif op.regions:
                self.selection(op)

    def pure(self, op: Op) -> None:
        """An op whose every way goes through its operands, which parameters decide."""
        times, total = ways_inside(op), 1
        for v in op.operands:
            total += self.ways[v.id] * times
        if total > _FAR:
            self.ends.update([v.id for v in op.operands])
        else:
            self.led(op.results[0], op.operands, times)

    def allocate(self, array: Value) -> None:
        """Drivers make values of private arrays."""
        if isinstance(array.type, MemType) and array.type.space is Space.PRIVATE:
            self.arrays.add(array.id)
            self.ways[array.id] = 1

    def access(self, op: Op) -> None:
        array = op.operands[0]
        if op.name == "store":
            if op.operands[2].id in self.ways:
                self.one_of(array, (array, op.operands[2]))
            return
        self.led(op.results[0], (array,))
        for loop in self.loops:
            loop.loads.setdefault(array.id, []).append(op.results[0].id)

    def selection(self, op: Op) -> None:
        """Drivers make selections of branches."""
        for r in op.regions:
            self.region(r)
        ends = [r.terminator.operands for r in op.regions if r.terminator.name == "yield"]
        for n, result in enumerate(op.results):
            self.led(result, (*op.operands, *(values[n] for values in ends)))

    def loop(self, op: Op) -> None:
        """Drivers unroll loops: what a turn makes more ways to is cut in each."""
        counted = int(op.name == "for")
        carried = op.operands[2:] if counted else op.operands
        args = [r.args[counted:] for r in op.regions]
        for group in args:
            for arg, source in zip(group, carried, strict=True):
                self.led(arg, (source,), more=_CARRIED)
        if counted:
            self.ways[op.regions[0].args[0].id] = 1
        arrays = {number: self.ways[number] for number in self.arrays}
        loop = _Loop(dict.fromkeys([*arrays, *(v.id for group in args for v in group)], 1))
        self.loops.append(loop)
        for r in op.regions:
            self.region(r)
        self.loops.pop()
        for n, arg in enumerate(args[0]):
            if self.grows(loop, arg.id, [values[n] for values in loop.nexts]):
                self.ends.update(group[n].id for group in args)
        for array, held in arrays.items():
            if loop.slopes[array] > 1 or self.ways[array] - held > _MORE:
                self.ends.update(loop.loads.get(array, ()))
        for n, result in enumerate(op.results):
            edges = [values[n] for values in (*loop.nexts, *loop.outs)]
            self.one_of(result, (carried[n], *edges), _CARRIED)

    def grows(self, loop: _Loop, start: int, nexts: list[Value]) -> bool:
        """Whether a turn makes many more ways to what it carries than there were before it."""
        if start not in self.ways:
            return False
        ways = sum(self.ways.get(v.id, 0) for v in nexts)
        slope = sum(loop.slopes.get(v.id, 0) for v in nexts if v.id in self.ways)
        return slope > 1 or ways - self.ways[start] > _MORE


def _dimension(op: Op) -> int:
    dimension = op.attr("dim")
    assert isinstance(dimension, int)
    return dimension


def ways_inside(op: Op) -> int:
    target = element_of(op.results[0].type)
    ways = _INSIDE.get(op.name, 1)
    if op.name in ("min", "max") and target.is_float:
        ways = 3  # WGSL promises nothing of NaNs
    if op.name == "convert":
        ways = _convert(element_of(op.operands[0].type), target)
    return ways * _BY_HAND if target.name == "bf16" and op.name not in _UNROUNDED else ways


def _convert(source: DType, target: DType) -> int:
    if target.is_int:
        return 5 if source.is_float else 1
    if not target.is_float or source.is_bool:
        return 1
    if source.is_float:
        return 7 if source.bits == 64 and target.bits < 32 else 1
    if target.bits >= 32 or source.bits < 32:
        return 2  # a u32 by its halves
    return 6145 if source.bits == 64 else 25  # rounded to odd first


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
        for value in region.args:
            if value.id in self.ends:
                self.subst[value.id] = self.cut(ops, value)
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
        assert isinstance(t, DType | VectorType)
        # Nothing that the value may be known to be: a selection between equals is none.
        bits = 1 if element_of(t).is_bool else _ODD & ((1 << element_of(t).bits) - 1)
        other = self.const(ops, element_of(t), bits)
        if isinstance(t, VectorType):
            other = self.op(ops, "splat", (other,), t)
        return self.op(ops, "select", (self.never, other, value), t)
