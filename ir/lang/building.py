"""Ops as a trace makes them, in lists that can be left and entered again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..builder import Builder
from ..core import Attr, Loc, Op, Value, types_of
from ..dtypes import Type
from ..ops import infer_op

if TYPE_CHECKING:
    from .tracer import Tracer

_RECENT = 8  # the last ops, whose results may still be named


class TraceBuilder(Builder):
    """A builder whose op lists can be left and entered again."""

    def open(self, ops: list[Op]) -> None:
        self._stack.append(ops)

    def close(self) -> list[Op]:
        return self._stack.pop()

    @property
    def next_id(self) -> int:
        return self._next

    def one(
        self,
        name: str,
        operands: tuple[Value, ...],
        attrs: dict[str, Attr],
        type_: Type | None,
        loc: Loc,
    ) -> Value:
        """`emit`, as nearly every op of a kernel is made, without a call more."""
        known = tuple(sorted(attrs.items())) if attrs else ()
        wanted = None if type_ is None else (type_,)
        (result,) = infer_op(name, types_of(operands), known, wanted)
        made = Value(self._next, result)
        self._next += 1
        self._stack[-1].append(Op(name, operands, (made,), known, (), loc))
        return made

    def definition(self, value: Value) -> Op | None:
        """The op of the open regions that gives a value."""
        for ops in reversed(self._stack):
            for op in reversed(ops):
                if value in op.results:
                    return op
        return None

    def name_last(self, value: Value, hint: str) -> Value:
        """Give `value` a hint if the op that made it is among the last ones."""
        ops, number = self._stack[-1], value.id
        for n in range(len(ops) - 1, max(-1, len(ops) - 1 - _RECENT), -1):
            op = ops[n]
            for m, result in enumerate(op.results):
                if result.id == number:
                    named = Value(number, value.type, hint)
                    results = (*op.results[:m], named, *op.results[m + 1 :])
                    ops[n] = Op(op.name, op.operands, results, op.attrs, op.regions, op.loc)
                    return named
        return value


class Opened:
    """A list of ops while it is open. depth: 1 for a new region, within which control is alive."""

    __slots__ = ("dead", "depth", "ops", "tracer")

    def __init__(self, tracer: Tracer, ops: list[Op], depth: int) -> None:
        self.tracer, self.ops, self.depth, self.dead = tracer, ops, depth, tracer.dead

    def __enter__(self) -> list[Op]:
        self.tracer.builder.open(self.ops)
        if self.depth:
            self.tracer.region_depth += 1
            self.tracer.dead = False
        return self.ops

    def __exit__(self, *exception: object) -> None:
        self.tracer.builder.close()
        if self.depth:
            self.tracer.region_depth -= 1
            self.tracer.dead = self.dead
