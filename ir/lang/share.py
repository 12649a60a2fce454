"""Constants and ids of a trace, once per scope.

The tracer writes a constant wherever the source needs one. Every later step would look at each of
them again, so a place uses what the places before it, in its region or around it, have made.
"""

from __future__ import annotations

from ..core import Attr, Kernel, Op, Region, Value, with_body
from ..dtypes import Type
from ..ops import ROWS, Effect

_SHARED = frozenset({"const", *(name for name, row in ROWS.items() if row.effect is Effect.ID)})

Key = tuple[str, tuple[tuple[str, Attr], ...], tuple[int, ...], Type]


def share(kernel: Kernel) -> Kernel:
    """The kernel without constants and ids that are at hand already."""
    return with_body(kernel, _Sharing().region(kernel.body))


class _Sharing:
    def __init__(self) -> None:
        self.made: dict[Key, Value] = {}
        self.subst: dict[int, Value] = {}

    def region(self, region: Region) -> Region:
        outside, self.made = self.made, dict(self.made)
        out: list[Op] = []
        for op in region.ops:
            if op.name in _SHARED:
                memory = tuple([v.id for v in op.operands])  # of `count`
                key = op.name, op.attrs, memory, op.result.type
                value = self.made.setdefault(key, op.result)
                if value is not op.result:
                    self.subst[op.result.id] = value
                    continue
            operands = tuple([self.subst.get(v.id, v) for v in op.operands])
            regions = tuple([self.region(r) for r in op.regions])
            out.append(Op(op.name, operands, op.results, op.attrs, regions, op.loc))
        self.made = outside
        return Region(region.args, tuple(out))
