"""Structured control flow: if, switch, for, while and their terminators.

Loop state and results travel through function-local variables, as in the modules that drivers see
most: NVIDIA's compiler (580.159) crashes on about one in thirty programs that use OpPhi instead,
and drivers turn such variables into registers at once. Blocks are laid out as glslang does. A join
is a block that several edges reach; where all edges bring the same value, that value is used. A
block that nothing reaches is ended at once, so that no dead code is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...ir.core import Op, Region, Value
from ...ir.dtypes import DType
from .emitter import Emitter
from .opcodes import Op as S

Slot = tuple[int, int]  # variable, type


@dataclass(slots=True)
class Join:
    """A block under construction, a variable for each value it receives, and the edges so far."""

    label: int
    slots: list[Slot]
    edges: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """The two blocks that a loop body can leave for, and the variables of its carried values."""

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
        e, lower, forms = self.e, self.lower, self.e.forms
        for op in region.ops:
            if op.operands and op.results:
                form = forms.get((op.name, id(op.operands[0].type), id(op.results[0].type)))
                if form is not None:
                    e.follow(op, form)
                    continue
            handler = _CONTROL.get(op.name)
            if handler is None:
                lower(e, op)
                continue
            e.at(op.loc)
            handler(self, op)
            if self.dead:
                e.raw(S.UNREACHABLE)
                self.dead = False
                return

    # joins

    def slots(self, values: Sequence[Value]) -> list[Slot]:
        """A variable for each value, named as it."""
        e, made = self.e, []
        for value in values:
            t = e.type(value.type)
            made.append((e.variable(t), t))
            if value.hint:
                e.module.name(made[-1][0], value.hint)
        return made

    def join(self, results: Sequence[Value] = ()) -> Join:
        return Join(self.e.module.id(), self.slots(results))

    def bring(self, join: Join, values: list[int]) -> None:
        """Put the values of an edge into the join's variables."""
        join.edges.append(values)
        for (variable, _), value in zip(join.slots, values, strict=True):
            self.e.raw(S.STORE, variable, value)

    def leave(self, join: Join, values: list[int]) -> None:
        """End the current block with an edge to a join."""
        self.bring(join, values)
        self.e.branch(join.label)

    def read(self, slots: list[Slot], values: Sequence[Value]) -> list[int]:
        """Load variables and bind values to what they hold."""
        loaded = [self.e.ins(S.LOAD, t, variable) for variable, t in slots]
        for value, result in zip(values, loaded, strict=True):
            self.e.alias(value, result)
        return loaded

    def enter(self, join: Join, results: Sequence[Value]) -> None:
        """Start the block of a join and bind its results."""
        e = self.e
        e.label(join.label)
        if not join.edges:
            self.dead = True
            return
        for n, (value, (variable, t)) in enumerate(zip(results, join.slots, strict=True)):
            first = join.edges[0][n]
            same = all(values[n] == first for values in join.edges)
            e.alias(value, first if same else e.ins(S.LOAD, t, variable))

    # selections

    def if_(self, op: Op) -> None:
        e = self.e
        then, otherwise = op.regions
        join, yes = self.join(op.results), e.module.id()
        self.selections.append(join)
        condition = e.use(op.operands[0])
        if len(otherwise.ops) == 1 and otherwise.ops[0].name == "yield":
            self.bring(join, e.operands(otherwise.ops[0]))
            e.raw(S.SELECTION_MERGE, join.label, 0)
            e.raw(S.BRANCH_CONDITIONAL, condition, yes, join.label)
            e.label(yes)
            self.region(then)
        else:
            no = e.module.id()
            e.raw(S.SELECTION_MERGE, join.label, 0)
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
        join = self.join(op.results)
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

    def start(self, loop: Loop, carried: list[Slot], initial: list[int]) -> int:
        """Enter a loop: initial values, the header, and the block of its test; gives the header."""
        e = self.e
        for (variable, _), value in zip(carried, initial, strict=True):
            e.raw(S.STORE, variable, value)
        header, test = e.module.id(), e.module.id()
        e.branch(header)
        e.label(header)
        e.raw(S.LOOP_MERGE, loop.out.label, loop.next.label, 0)
        e.branch(test)
        e.label(test)
        return header

    def body(self, loop: Loop, label: int, region: Region) -> None:
        self.loops.append(loop)
        self.e.label(label)
        self.region(region)
        self.loops.pop()

    def for_(self, op: Op) -> None:
        e = self.e
        (body,) = op.regions
        low, high, *initial = e.operands(op)
        carried = self.slots(body.args)
        loop = Loop(self.join(op.results), Join(e.module.id(), carried[1:]))
        header = self.start(loop, carried, [low, *initial])
        values = self.read(carried, body.args)
        dtype = body.args[0].type
        assert isinstance(dtype, DType)
        less = S.S_LESS_THAN if dtype.is_signed else S.U_LESS_THAN
        more, inside = e.ins(less, e.module.bool_, values[0], high), e.module.id()
        self.bring(loop.out, values[1:])
        e.raw(S.BRANCH_CONDITIONAL, more, inside, loop.out.label)
        self.body(loop, inside, body)
        e.label(loop.next.label)
        if loop.next.edges:
            one = e.int_const(1, dtype.bits)
            e.raw(S.STORE, carried[0][0], e.ins(S.I_ADD, carried[0][1], values[0], one))
        e.branch(header)
        self.enter(loop.out, op.results)

    def while_(self, op: Op) -> None:
        e = self.e
        condition, body = op.regions
        carried = self.slots(condition.args)
        loop = Loop(self.join(op.results), Join(e.module.id(), carried))
        header = self.start(loop, carried, e.operands(op))
        values = self.read(carried, condition.args)
        inside = e.module.id()
        self.loops.append(loop)
        self.whiles.append((inside, values))
        self.region(condition)
        self.whiles.pop()
        self.loops.pop()
        for value, result in zip(body.args, values, strict=True):
            e.alias(value, result)
        self.body(loop, inside, body)
        e.label(loop.next.label)
        e.branch(header)
        self.enter(loop.out, op.results)

    # terminators

    def condition(self, op: Op) -> None:
        inside, carried = self.whiles[-1]
        out = self.loops[-1].out
        self.bring(out, carried)
        self.e.raw(S.BRANCH_CONDITIONAL, self.e.use(op.operands[0]), inside, out.label)

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
