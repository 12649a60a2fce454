"""Divisors of integer divisions that a driver may know where they make a division unsafe.

A divisor of 0 or -1 is replaced by 1 in the selection that a division by it asks for. Where a
compiler knows what is selected from, it draws the division into the sides: NVIDIA's (580.159) was
seen to take the quotient of the wrong one. So emitters hide such divisors behind what is data.
"""

from __future__ import annotations

from ..ir.core import Kernel, Op, Region, walk
from ..ir.dtypes import MemType, Space, element_of
from ..ir.passes.effects import LOOPS, PURE

_DIVISIONS = frozenset({"floordiv", "mod"})
_MADE = frozenset({"vector", "splat"})


def divisors(kernel: Kernel) -> frozenset[int]:
    """The divisors of a kernel that are made of constants and of what nothing wrote, whichever way
    control goes, but for constants that are safe in every lane. Of what a loop carries and brings,
    only what it starts with is asked, not what its turns make of it."""
    found = _Knowable()
    if any(op.name in _DIVISIONS for op in walk(kernel.body)):
        found.region(kernel.body)
    return frozenset(found.divisors)


class _Knowable:
    def __init__(self) -> None:
        self.known: set[int] = set()
        self.safe: set[int] = set()  # constants, neither 0 nor -1 in any lane
        self.divisors: set[int] = set()

    def region(self, region: Region) -> None:
        known = self.known
        for op in region.ops:
            if op.regions:
                self.nested(op)
                continue
            if op.name in _DIVISIONS and op.operands[1].id in known - self.safe:
                self.divisors.add(op.operands[1].id)
            if op.name in PURE:
                for v in op.operands:
                    if v.id not in known:
                        break
                else:
                    self.pure(op)
            elif op.name == "load":
                memory = op.operands[0].type
                if isinstance(memory, MemType) and memory.space is Space.PRIVATE:
                    known.add(op.results[0].id)

    def pure(self, op: Op) -> None:
        result = op.results[0]
        self.known.add(result.id)
        if op.name == "const":
            if op.attr("bits") not in (0, (1 << element_of(result.type).bits) - 1):
                self.safe.add(result.id)
        elif op.name in _MADE and self.safe.issuperset([v.id for v in op.operands]):
            self.safe.add(result.id)

    def nested(self, op: Op) -> None:
        """Results of a branch are known where each way brings what is; what a loop carries, and its
        results, where it starts with what is: what `continue` and `break` bring is not asked."""
        if op.name in LOOPS:
            counted = int(op.name == "for")
            carried = op.operands[2:] if counted else op.operands
            for region in op.regions:
                for arg, first in zip(region.args[counted:], carried, strict=True):
                    if first.id in self.known:
                        self.known.add(arg.id)
                self.region(region)
            for result, first in zip(op.results, carried, strict=True):
                if first.id in self.known:
                    self.known.add(result.id)
            return
        for region in op.regions:
            self.region(region)
        ends = [r.terminator.operands for r in op.regions if r.terminator.name == "yield"]
        for n, result in enumerate(op.results):
            if self.known.issuperset([values[n].id for values in ends]):
                self.known.add(result.id)
