"""Bounds checks (DESIGN: Faults): an access out of bounds sets a fault bit and has no effect.

    load     gives 0
    store    is dropped
    atomic   is dropped and gives 0

Each access that is not provably in bounds gets a fault site of its own, whose message is
`index out of bounds: NAME` and whose place is that of the access. The invocation goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..builder import Builder
from ..core import Kernel, Op, Region, Value, const_value
from ..dtypes import DTYPES, DType, MemType, Type, element_of, lanes_of
from .effects import free_number

_ACCESSES = frozenset({"load", "store", "atomic", "compare_exchange"})


@dataclass(frozen=True)
class Checks:
    """Check the bounds of every access to memory."""

    name: str = "checks"

    def __call__(self, kernel: Kernel) -> Kernel:
        walker = _Checker(kernel)
        body = walker.region(kernel.body)
        if body is kernel.body:
            return kernel
        return replace(kernel, body=body, sites=tuple(walker.sites))


class _Checker:
    def __init__(self, kernel: Kernel) -> None:
        self.index = kernel.index
        self.sites = list(kernel.sites)
        self.b = Builder(free_number(kernel))
        self.known: dict[int, int] = {}
        self.names = {v.id: p.name for p, v in zip(kernel.params, kernel.body.args, strict=True)}

    def region(self, region: Region) -> Region:
        with self.b.region() as built:
            changed = False
            for op in region.ops:
                self.b.loc = op.loc
                if op.regions:
                    regions = tuple([self.region(r) for r in op.regions])
                    if any(a is not b for a, b in zip(regions, op.regions, strict=True)):
                        op = Op(op.name, op.operands, op.results, op.attrs, regions, op.loc)
                        changed = True
                elif op.name in _ACCESSES and not self.inside(op):
                    self.guard(op)
                    changed = True
                    continue
                elif op.name == "const":
                    self.known[op.results[0].id] = int(const_value(op)) if _whole(op) else -1
                elif op.name == "alloc":
                    name = dict(op.attrs).get("name", "array")
                    self.names[op.results[0].id] = str(name)
                self.b.append(op)
        return Region(region.args, built.region.ops) if changed else region

    def inside(self, op: Op) -> bool:
        """Whether a constant index is within an array of constant size."""
        memory = op.operands[0].type
        index = self.known.get(op.operands[1].id)
        assert isinstance(memory, MemType)
        if index is None or memory.count is None:
            return False
        return 0 <= index < memory.count // _lanes(op)

    def guard(self, op: Op) -> None:
        condition = self.in_bounds(op)
        site = len(self.sites)
        self.sites.append(f"index out of bounds: {self.names[op.operands[0].id]}")
        self.b.do("assert", condition, site=site)
        with self.b.region() as then:
            inner = tuple([self.b.value(v.type) for v in op.results])
            self.b.append(Op(op.name, op.operands, inner, op.attrs, (), op.loc))
            self.b.do("yield", *inner)
        with self.b.region() as other:
            self.b.do("yield", *[self.b.const(0, v.type) for v in op.results])
        regions = (then.region, other.region)
        self.b.append(Op("if", (condition,), op.results, (), regions, op.loc))

    def in_bounds(self, op: Op) -> Value:
        """0 <= index < count, as one comparison of unsigned numbers wide enough for both."""
        memory, index = op.operands[:2]
        assert isinstance(memory.type, MemType)
        bits = max(element_of(index.type).bits, self.index.bits, 32)
        word = DTYPES[f"u{bits}"]
        lanes = _lanes(op)
        if memory.type.count is not None:
            limit = self.b.const(memory.type.count // lanes, word)
        else:
            limit = self.b.emit("count", memory, type=self.index)
            limit = self.cast(limit, word)
            if lanes > 1:
                limit = self.b.emit("shr", limit, self.b.const(lanes.bit_length() - 1, word))
        # Conversion wraps: a negative index becomes a number beyond every count.
        return self.b.emit("lt", self.cast(index, word), limit)

    def cast(self, v: Value, t: DType) -> Value:
        return v if v.type == t else self.b.emit("convert", v, type=t)


def _lanes(op: Op) -> int:
    value: Type = op.operands[2].type if op.name == "store" else op.results[0].type
    return lanes_of(value)


def _whole(op: Op) -> bool:
    t = op.results[0].type
    return isinstance(t, DType) and t.is_int
