"""Products of fragments in registers alone, for targets that unroll no loops of long kernels.

As `fragments` has it, but b stays in values of the lane, which go around: a turn takes the first
few, and the next turn finds the next ones in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core import Kernel, Op, Value
from ..dtypes import FragmentType, f32, i32
from .fragments import PortableLowering, has_fragments

_AT_ONCE = 4  # columns of a that a turn multiplies


@dataclass(frozen=True)
class TurningFragments:
    """Lower fragments to plain ops, without private arrays."""

    name: str = "turning_fragments"

    def __call__(self, kernel: Kernel) -> Kernel:
        return _Turning(kernel).run() if has_fragments(kernel) else kernel


class _Turning(PortableLowering):
    def mma(self, op: Op) -> None:
        a, b, c = op.operands
        assert isinstance(a.type, FragmentType)
        assert isinstance(c.type, FragmentType)
        sum_type = f32 if c.type.element.is_float else i32
        width = min(self.size, a.type.columns, 16)  # lanes that hold different columns of a
        sets = a.type.columns // width
        rows, right, total = ([self.cast(v, sum_type) for v in self.elements(f)] for f in (a, b, c))
        each = len(right) // sets
        for n in range(sets):
            held = right[n * each : (n + 1) * each]
            total = self.turned(rows[n::sets], held, total, width)
        self.settle(op.result, [self.cast(v, c.type.element) for v in total])

    def turned(
        self, rows: Sequence[Value], right: Sequence[Value], total: list[Value], width: int
    ) -> list[Value]:
        """Add the products of `width` columns of a, one after the other."""
        per = len(right) // width  # columns of b and of the sum that a lane holds
        carried = [*total, *right]
        with self.b.region(self.index, *[v.type for v in carried]) as built:
            turn, *values = built.args
            sums, held = values[: len(total)], values[len(total) :]
            first = self.b.emit("mul", turn, self.k(_AT_ONCE))
            if self.size > 16:  # the lane of that column in the own group of rows
                first = self.b.emit("add", self.b.emit("and", self.lane, self.k(-16)), first)
            name = "subgroup_broadcast" if self.size <= 16 else "subgroup_shuffle"
            for k in range(_AT_ONCE):
                source = self.b.emit("add", first, self.k(k)) if k else first
                for i, row in enumerate(rows):
                    left = self.b.emit(name, row, source)
                    for n in range(per):
                        at = i * per + n
                        sums[at] = self.fused(left, held[k * per + n], sums[at])
            taken = _AT_ONCE * per
            self.b.do("continue", *sums, *held[taken:], *held[:taken])
        types = tuple([v.type for v in carried])
        operands = (self.k(0), self.k(width // _AT_ONCE), *carried)
        results = self.b.op("for", operands, {}, types, (built.region,)).results
        return list(results[: len(total)])
