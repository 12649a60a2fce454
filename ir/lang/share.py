"""Constants and ids of a trace, once per scope, and the numbers of its values.

The tracer writes a constant wherever the source needs one. Every later step would look at each of
them again, so a place uses what the places before it, in its region or around it, have made.
"""

from __future__ import annotations

from ..core import Attr, Kernel, Op, Region, Value, with_body
from ..dtypes import Type
from ..ops import ROWS, Effect

_SHARED = frozenset({"const", *(name for name, row in ROWS.items() if row.effect is Effect.ID)})

Key = tuple[str, tuple[tuple[str, Attr], ...], tuple[int, ...], Type]


def share(kernel: Kernel) -> tuple[Kernel, int]:
    """The kernel without constants and ids that are at hand already, numbered as
    `ir.core.renumber` numbers; and how many ops it has."""
    sharing = _Sharing()
    return with_body(kernel, sharing.region(kernel.body)), sharing.ops


class _Sharing:
    def __init__(self) -> None:
        self.made: dict[Key, Value] = {}
        self.new: dict[int, Value] = {}  # by the number that a value had
        self.values = 0
        self.ops = 0

    def define(self, value: Value) -> Value:
        made = self.new[value.id] = Value(self.values, value.type, value.hint)
        self.values += 1
        return made

    def region(self, region: Region) -> Region:
        outside, self.made = self.made, dict(self.made)
        args = tuple([self.define(v) for v in region.args])
        new, made = self.new, self.made
        out: list[Op] = []
        for op in region.ops:
            name, results = op.name, op.results
            operands = op.operands
            if len(operands) == 2:  # as most have, without a call
                a, b = operands
                operands = new[a.id], new[b.id]
            elif operands:
                operands = tuple([new[v.id] for v in operands])
            if name in _SHARED:
                (result,) = results
                numbers = tuple([v.id for v in operands]) if operands else ()
                key = name, op.attrs, numbers, result.type
                if (known := made.get(key)) is not None:
                    new[result.id] = known
                    continue
                made[key] = value = self.define(result)
                out.append(Op(name, operands, (value,), op.attrs, (), op.loc))
                continue
            regions = tuple([self.region(r) for r in op.regions]) if op.regions else ()
            if len(results) == 1:  # the usual case, without a call
                (old,) = results
                value = new[old.id] = Value(self.values, old.type, old.hint)
                self.values += 1
                results = (value,)
            elif results:
                results = tuple([self.define(v) for v in results])
            out.append(Op(name, operands, results, op.attrs, regions, op.loc))
        self.made = outside
        self.ops += len(out)
        return Region(args, tuple(out))
