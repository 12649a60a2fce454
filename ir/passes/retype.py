"""The walk under passes that change the types of values: one old value, one or more new ones.

A subclass says what becomes of a type (`types`) and how an op on changed types is rebuilt
(`translate`). Regions, their arguments and their terminators are rebuilt here; an op that touches
no changed type stays the object that it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from ..builder import Builder
from ..core import Kernel, Op, Region, Value
from ..dtypes import Type
from .effects import free_number

_TERMINATORS = frozenset({"yield", "continue", "break", "condition", "return"})


class Retyper(ABC):
    """One walk over one kernel. `parts`: from an old value number to what stands for it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.parts: dict[int, tuple[Value, ...]] = {}
        self.b = Builder(free_number(kernel))

    @abstractmethod
    def types(self, t: Type) -> tuple[Type, ...] | None:
        """What stands for a value of type `t`; None where the type stays."""

    @abstractmethod
    def translate(self, op: Op) -> None:
        """Rebuild an op without regions of which an operand or result changes its type."""

    def arguments(self, args: tuple[Value, ...]) -> tuple[Value, ...]:
        """New values for the kernel's own arguments; may emit the first ops of the body."""
        return self.define(args)

    def run(self) -> Kernel:
        self.b.loc = self.kernel.body.ops[0].loc  # of what is made of arguments
        args = self.arguments(self.kernel.body.args)
        self.block(self.kernel.body)
        ops = self.b.ops
        # Arrays stay the first ops.
        head = [o for o in ops if o.name == "alloc"]
        if head:
            ops = head + [o for o in ops if o.name != "alloc"]
        return replace(self.kernel, body=Region(args, tuple(ops)))

    # for subclasses

    def value(self, old: Value) -> Value:
        """The one value that stands for `old`."""
        found = self.parts.get(old.id)
        return old if found is None else found[0]

    def all(self, old: Value) -> tuple[Value, ...]:
        """The values that stand for `old`."""
        return self.parts.get(old.id, (old,))

    def set(self, old: Value, *new: Value) -> None:
        self.parts[old.id] = new

    def keep(self, op: Op) -> None:
        """Append an op as it is, but for operands that have another name now."""
        operands = tuple([v for o in op.operands for v in self.all(o)])
        if operands != op.operands:
            op = Op(op.name, operands, op.results, op.attrs, op.regions, op.loc)
        self.b.append(op)

    def define(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Fresh values where types change; the flat list of what stands for `values`."""
        out: list[Value] = []
        for v in values:
            new = self.types(v.type)
            if new is None:
                out.append(v)
            else:
                self.parts[v.id] = tuple([self.b.value(t, v.hint) for t in new])
                out.extend(self.parts[v.id])
        return tuple(out)

    # the walk

    def block(self, region: Region) -> None:
        parts = self.parts
        for op in region.ops:
            if op.regions:
                self._regions(op)
                continue
            touched = any(v.id in parts for v in op.operands) if op.operands else False
            self.b.loc = op.loc
            if op.name not in _TERMINATORS and self._retyped(op, touched):
                self.translate(op)
            elif touched:
                self.keep(op)
            else:
                self.b.append(op)

    def _retyped(self, op: Op, touched: bool) -> bool:
        """Whether a type of an op changes: what stands for an operand may have its old type."""
        if op.results and self.types(op.results[0].type) is not None:
            return True
        return touched and any(
            len(new) != 1 or new[0].type != v.type
            for v in op.operands
            if (new := self.parts.get(v.id)) is not None
        )

    def _regions(self, op: Op) -> None:
        operands = tuple([v for o in op.operands for v in self.all(o)])
        regions = []
        for r in op.regions:
            args = self.define(r.args)
            with self.b.region() as built:
                self.block(r)
            regions.append(Region(args, built.region.ops))
        results = self.define(op.results)
        self.b.append(Op(op.name, operands, results, op.attrs, tuple(regions), op.loc))
