"""Structured control flow: if, switch, for, while and their terminators.

Loop state and results travel in OpPhi. A join is a block that several edges reach: each edge
brings the values of the join's results, and an OpPhi is made only where they differ. A block that
nothing reaches is ended at once, so that no dead code is emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...ir.core import Op, Region, Value
from ...ir.dtypes import DType
from .emitter import Emitter
from .opcodes import Op as S

Edges = list[tuple[int, list[int]]]


@dataclass(slots=True)
class Join:
    """A block under construction and the edges into it: (from block, values brought)."""

    label: int
    edges: Edges = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """The two blocks that a loop body can leave for."""

    out: Join
    next: Join


class Flow:
    """The constructs that are open at one point of an emission."""

    def __init__(self, emitter: Emitter, lower: Callable[[Emitter, Op], None]) -> None:
        self.e = emitter
        self.lower = lower
        self.selections: list[Join] = []
        self.loops: list[Loop] = []
        self.whiles: list[tuple[int, list[int]]] = []  # body label, carried values
        self.dead = False

    def region(self, region: Region) -> None:
        """Emit the ops of a region; its terminator leaves the current block."""
        for op in region.ops:
            handler = _CONTROL.get(op.name)
            if handler is None:
                self.lower(self.e, op)
                continue
            self.e.loc = op.loc or self.e.loc
            if op.loc is not None:
                self.e.marks.append((len(self.e.code), op.loc))
            handler(self, op)
            if self.dead:
                self.e.raw(S.UNREACHABLE)
                self.dead = False
                return

    # joins

    def leave(self, join: Join, values: list[int]) -> None:
        """End the current block with an edge to a join."""
        join.edges.append((self.e.block, values))
        self.e.branch(join.label)

    def enter(self, join: Join, results: tuple[Value, ...]) -> None:
        """Start the block of a join and bind its results."""
        e = self.e
        e.label(join.label)
        if not join.edges:
            self.dead = True
            return
        for value, result in zip(results, self.merge(join, [v.type for v in results]), strict=True):
            e.define(value, result)

    def merge(self, join: Join, types: list[object]) -> list[int]:
        """The values that reach the block just started, one for each type."""
        e = self.e
        merged = []
        for n, t in enumerate(types):
            brought = [values[n] for _, values in join.edges]
            if all(b == brought[0] for b in brought):
                merged.append(brought[0])
                continue
            pairs = [word for block, values in join.edges for word in (values[n], block)]
            merged.append(e.ins(S.PHI, e.type(t), *pairs))  # type: ignore[arg-type]
        return merged

    # selections

    def if_(self, op: Op) -> None:
        e = self.e
        then, otherwise = op.regions
        join = Join(e.module.id())
        self.selections.append(join)
        yes = e.module.id()
        e.raw(S.SELECTION_MERGE, join.label, 0)
        condition = e.use(op.operands[0])
        if len(otherwise.ops) == 1 and otherwise.ops[0].name == "yield":
            join.edges.append((e.block, e.operands(otherwise.ops[0])))
            e.raw(S.BRANCH_CONDITIONAL, condition, yes, join.label)
            e.label(yes)
            self.region(then)
        else:
            no = e.module.id()
            e.raw(S.BRANCH_CONDITIONAL, condition, yes, no)
            e.label(yes)
            self.region(then)
            e.label(no)
            self.region(otherwise)
        self.selections.pop()
        self.enter(join, op.results)

    def switch(self, op: Op) -> None:
        e = self.e
        selector, dtype = e.use(op.operands[0]), op.operands[0].type
        assert isinstance(dtype, DType)
        if dtype.bits < 32:
            selector = e.widen(selector, dtype)
        join = Join(e.module.id())
        self.selections.append(join)
        labels = [e.module.id() for _ in op.regions]
        words: list[int] = []
        cases = op.attr("cases")
        assert isinstance(cases, tuple)
        for case, label in zip(cases, labels[:-1], strict=True):
            for value in case if isinstance(case, tuple) else (case,):
                assert isinstance(value, int)
                words.append(value & 0xFFFFFFFF)
                if dtype.bits == 64:
                    words.append(value >> 32 & 0xFFFFFFFF)
                words.append(label)
        e.raw(S.SELECTION_MERGE, join.label, 0)
        e.raw(S.SWITCH, selector, labels[-1], *words)
        for label, region in zip(labels, op.regions, strict=True):
            e.label(label)
            self.region(region)
        self.selections.pop()
        self.enter(join, op.results)

    # loops

    def header(self, start: list[tuple[Value, int]]) -> tuple[int, list[int], list[int]]:
        """Start a loop's header: its label, the phis, and where each phi's second value goes."""
        e = self.e
        before, label = e.block, e.module.id()
        e.branch(label)
        e.label(label)
        phis, holes = [], []
        for value, first in start:
            phi = e.ins(S.PHI, e.type(value.type), first, before, 0, 0)
            holes.append(len(e.code) - 2)
            phis.append(phi)
            e.define(value, phi)
        return label, phis, holes

    def close(
        self, loop: Loop, header: int, args: tuple[Value, ...], holes: list[int], iv: int
    ) -> None:
        """The continue block: next values into the header's phis. `iv` counts up if not 0."""
        e = self.e
        e.label(loop.next.label)
        types = [v.type for v in args]
        if not loop.next.edges:  # control never gets here, but the phis need values
            nexts = [e.module.null(e.type(t)) for t in types]
        elif iv:
            nexts = self.merge(loop.next, list(types[1:]))
            dtype = args[0].type
            assert isinstance(dtype, DType)
            one = e.int_const(1, dtype.bits)
            nexts.insert(0, e.ins(S.I_ADD, e.type(dtype), iv, one))
        else:
            nexts = self.merge(loop.next, list(types))
        e.branch(header)
        for hole, value in zip(holes, nexts, strict=True):
            e.code[hole] = value
            e.code[hole + 1] = loop.next.label

    def for_(self, op: Op) -> None:
        e = self.e
        (body,) = op.regions
        low, high, *start = e.operands(op)
        header, phis, holes = self.header(list(zip(body.args, [low, *start], strict=True)))
        loop = Loop(Join(e.module.id()), Join(e.module.id()))
        dtype = body.args[0].type
        assert isinstance(dtype, DType)
        less = S.S_LESS_THAN if dtype.is_signed else S.U_LESS_THAN
        inside, more = e.module.id(), e.ins(less, e.module.bool_, phis[0], high)
        e.raw(S.LOOP_MERGE, loop.out.label, loop.next.label, 0)
        e.raw(S.BRANCH_CONDITIONAL, more, inside, loop.out.label)
        loop.out.edges.append((header, phis[1:]))
        self.body(loop, inside, body)
        self.close(loop, header, body.args, holes, phis[0])
        self.enter(loop.out, op.results)

    def body(self, loop: Loop, label: int, region: Region) -> None:
        self.loops.append(loop)
        self.e.label(label)
        self.region(region)
        self.loops.pop()

    def while_(self, op: Op) -> None:
        e = self.e
        condition, body = op.regions
        header, phis, holes = self.header(list(zip(condition.args, e.operands(op), strict=True)))
        loop = Loop(Join(e.module.id()), Join(e.module.id()))
        inside = e.module.id()
        merge = (S.LOOP_MERGE, loop.out.label, loop.next.label, 0)
        simple = not any(o.regions or o.name in ("assert", "atomic") for o in condition.ops)
        if not simple:  # the header block must end at once, so the condition gets its own
            e.raw(*merge)
            first = e.module.id()
            e.branch(first)
            e.label(first)
        self.loops.append(loop)
        self.whiles.append((inside, phis))
        if simple:
            self.region(Region(condition.args, condition.ops[:-1]))
            e.raw(*merge)
            self.region(Region((), condition.ops[-1:]))
        else:
            self.region(condition)
        self.whiles.pop()
        self.loops.pop()
        for value, phi in zip(body.args, phis, strict=True):
            e.alias(value, phi)
        self.body(loop, inside, body)
        self.close(loop, header, condition.args, holes, 0)
        self.enter(loop.out, op.results)

    # terminators

    def condition(self, op: Op) -> None:
        e = self.e
        inside, carried = self.whiles[-1]
        out = self.loops[-1].out
        out.edges.append((e.block, carried))
        e.raw(S.BRANCH_CONDITIONAL, e.use(op.operands[0]), inside, out.label)

    def yield_(self, op: Op) -> None:
        self.leave(self.selections[-1], self.e.operands(op))

    def continue_(self, op: Op) -> None:
        self.leave(self.loops[-1].next, self.e.operands(op))

    def break_(self, op: Op) -> None:
        self.leave(self.loops[-1].out, self.e.operands(op))

    def return_(self, op: Op) -> None:
        self.e.raw(S.RETURN)


_CONTROL: dict[str, Callable[[Flow, Op], None]] = {
    "if": Flow.if_,
    "switch": Flow.switch,
    "for": Flow.for_,
    "while": Flow.while_,
    "condition": Flow.condition,
    "yield": Flow.yield_,
    "continue": Flow.continue_,
    "break": Flow.break_,
    "return": Flow.return_,
}
