"""Structured control flow in the form that LLVM's structurizer for SPIR-V takes.

It takes selections and loops that have one way in and one way out, a block of their own behind
them, and no branch to anywhere else. So no branch leaves a construct early: a `break`, `continue`
or `return` within a selection notes in a variable what is being left, everything up to there is
skipped by a selection of its own, and loops ask the variable at their head. Values that constructs
give or carry lie in variables, as LLVM would put them there itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.core import Op, Region, Value
from ..simt.body import emit_op
from ..simt.lowering import Lowering
from .exits import ends, leaves, loop_exits, passes

if TYPE_CHECKING:
    from ..llvm.text import Function

_RETURN = 1  # what the variable holds while the kernel is being left; 0: nothing is


@dataclass(slots=True)
class Frame:
    """An open construct. slots: variables of its results, or of what a loop carries. number: that
    of a loop, from 1; 0: a selection."""

    slots: list[list[str]]
    number: int = 0

    @property
    def broken(self) -> int:
        return 2 * self.number

    @property
    def continued(self) -> int:
        return 2 * self.number + 1


class Control:
    """Emits the regions of one kernel."""

    def __init__(self, x: Lowering) -> None:
        self.x = x
        self.frames: list[Frame] = []
        self.loops = 0
        self._leaving = ""

    @property
    def f(self) -> Function:
        return self.x.f

    # variables

    def leaving(self) -> str:
        """The variable that says what is being left, made at first use."""
        if not self._leaving:
            self._leaving = self.f.alloca("i32")
        return self._leaving

    def leave(self, code: int) -> None:
        self.f.do(f"store i32 {code}, ptr {self.leaving()}")

    def staying(self) -> str:
        """Whether nothing is being left, as i1."""
        left = self.f.value(f"load i32, ptr {self.leaving()}")
        return self.f.value(f"icmp eq i32 {left}, 0")

    def arrive(self, code: int) -> None:
        """What was being left by `code` has been left."""
        left = self.f.value(f"load i32, ptr {self.leaving()}")
        here = self.f.value(f"icmp eq i32 {left}, {code}")
        rest = self.f.value(f"select i1 {here}, i32 0, i32 {left}")
        self.f.do(f"store i32 {rest}, ptr {self.leaving()}")

    def slots(self, values: Sequence[Value]) -> list[list[str]]:
        """A variable for each component of each value, whose types are known."""
        found = []
        for value in values:
            kind = self.x.type_of(value).text
            lanes = getattr(value.type, "lanes", 1)
            found.append([self.f.alloca(kind) for _ in range(lanes)])
        return found

    def keep(self, slots: Sequence[list[str]], values: Sequence[Value]) -> None:
        """Store values in variables: all are read before, being SSA values."""
        for group, value in zip(slots, values, strict=True):
            kind = self.x.type_of(value).text
            for slot, part in zip(group, self.x.parts(value), strict=True):
                self.f.do(f"store {kind} {part}, ptr {slot}")

    def fetch(self, slots: Sequence[list[str]], values: Sequence[Value]) -> None:
        """Define values by variables."""
        for group, value in zip(slots, values, strict=True):
            kind = self.x.type_of(value).text
            self.x.set(value, [self.f.value(f"load {kind}, ptr {slot}") for slot in group])

    # regions

    def body(self, region: Region, end: str) -> None:
        """The body of the kernel; all ways out of it go to the block `end`."""
        if any(op.regions for op in region.ops):
            self.leave(0)
        self.ops(region.ops, end)

    def ops(self, ops: Sequence[Op], end: str) -> None:
        """Emit ops of a region; control then goes to `end`, by whatever way."""
        for n, op in enumerate(ops[:-1]):
            emit_op(self.x, op)
            if op.regions and not passes(op):
                break  # what follows is dead
            if op.regions and leaves(op) and self._matters(ops[n + 1 :]):
                rest, over = self.f.label("rest"), self.f.label("over")
                self.f.branch_if(self.staying(), rest, over)
                self.f.block(rest)
                self.ops(ops[n + 1 :], over)
                self.f.block(over)
                break
        else:
            self.terminate(ops[-1])
        self.f.branch(end)

    def _matters(self, rest: Sequence[Op]) -> bool:
        """Whether it shows if ops run while something is being left."""
        return len(rest) > 1 or rest[0].name != "yield"

    def terminate(self, op: Op) -> None:
        """What the last op of a region does, but for the branch."""
        if op.name == "yield":
            self.keep(self.frames[-1].slots, op.operands)
        elif op.name == "return":
            if self.frames:
                self.leave(_RETURN)
        elif op.name in ("break", "continue"):
            loop = next(frame for frame in reversed(self.frames) if frame.number)
            self.keep(loop.slots, op.operands)
            if op.name == "break":
                self.leave(loop.broken)
            elif loop is not self.frames[-1]:
                self.leave(loop.continued)
        else:
            raise self.x.fail(op, f"op {op.name} ends no region")

    def region(self, frame: Frame, region: Region, end: str) -> None:
        self.frames.append(frame)
        self.ops(region.ops, end)
        self.frames.pop()

    # constructs

    def emit(self, op: Op) -> None:
        """Emit an op that owns regions."""
        {"if": self._if, "switch": self._switch, "for": self._for, "while": self._while}[op.name](
            op
        )

    def _if(self, op: Op) -> None:
        f, frame = self.f, Frame(self.slots(op.results))
        arms = [f.label("then"), f.label("else")]
        join = f.label("join")
        empty = len(op.regions[1].ops) == 1 and not op.results and ends(op.regions[1])
        f.branch_if(self.x.scalar(op.operands[0]), arms[0], join if empty else arms[1])
        for label, region in zip(arms, op.regions[: 2 - empty], strict=False):
            f.block(label)
            self.region(frame, region, join)
        f.block(join)
        self.fetch(frame.slots, op.results)

    def _switch(self, op: Op) -> None:
        f, frame = self.f, Frame(self.slots(op.results))
        labels, join = [f.label("case") for _ in op.regions], f.label("join")
        cases = op.attr("cases")
        assert isinstance(cases, tuple)
        pairs = zip(cases, labels, strict=False)
        table = [(int(n), label) for n, label in pairs if isinstance(n, int)]
        selector = self.x.type_of(op.operands[0])
        f.switch(selector.text, self.x.scalar(op.operands[0]), labels[-1], table)
        for label, region in zip(labels, op.regions, strict=True):
            f.block(label)
            self.region(frame, region, join)
        f.block(join)
        self.fetch(frame.slots, op.results)

    def _loop(self, inits: Sequence[Value], inside: Sequence[Region]) -> tuple[Frame, set[str]]:
        """The frame of a loop, its variables set, and how control leaves its inside."""
        self.loops += 1
        frame = Frame(self.slots(inits), self.loops)
        self.keep(frame.slots, inits)
        return frame, loop_exits(inside)

    def _close(self, frame: Frame, left: set[str], latch: str, head: str, out: str) -> None:
        """The end of a loop, behind the block that all ways through its body lead to."""
        if "continue" in left:
            self.arrive(frame.continued)
        self.f.branch(latch)
        self.f.block(latch)
        self.f.branch(head)
        self.f.block(out)
        if "break" in left:
            self.arrive(frame.broken)

    def _for(self, op: Op) -> None:
        f, x, (region,) = self.f, self.x, op.regions
        low, high, *inits = op.operands
        counter, *args = region.args
        t = x.type_of(counter)
        frame, left = self._loop(inits, op.regions)
        place = f.alloca(t.text)
        f.do(f"store {t.text} {x.scalar(low)}, ptr {place}")
        head, inside, end, latch, out = (f.label(w) for w in ("for", "body", "end", "next", "done"))
        f.branch(head)
        f.block(head)
        at = f.value(f"load {t.text}, ptr {place}")
        test = f"icmp {'s' if t.dtype.is_signed else 'u'}lt {t.text}"
        again = f.value(f"{test} {at}, {x.scalar(high)}")
        if left & {"break", "return"}:
            again = f.value(f"and i1 {again}, {self.staying()}")
        f.branch_if(again, inside, out)
        f.block(inside)
        x.set(counter, [at])
        self.fetch(frame.slots, args)
        self.region(frame, region, end)
        f.block(end)
        f.do(f"store {t.text} {f.value(f'add {t.text} {at}, 1')}, ptr {place}")
        self._close(frame, left, latch, head, out)
        self.fetch(frame.slots, op.results)

    def _while(self, op: Op) -> None:
        f, x, (test, region) = self.f, self.x, op.regions
        frame, left = self._loop(op.operands, op.regions)
        plain = not (left & {"break", "return"} or any(inner.regions for inner in test.ops))
        head, inside, end, latch, out = (
            f.label(w) for w in ("while", "body", "end", "next", "done")
        )
        stop = f.label("stop")
        over = "" if plain else f.alloca("i1")
        if not plain:
            f.do(f"store i1 false, ptr {over}")
        f.branch(head)
        f.block(head)
        if not plain:  # the test may only be made where the loop has not been left
            again = f.value(f"xor i1 {f.value(f'load i1, ptr {over}')}, true")
            if left & {"break", "return"}:
                again = f.value(f"and i1 {again}, {self.staying()}")
            begin = f.label("test")
            f.branch_if(again, begin, out)
            f.block(begin)
        self.fetch(frame.slots, test.args)
        for inner in test.ops[:-1]:
            emit_op(x, inner)
        condition = x.scalar(test.terminator.operands[0])
        f.branch_if(condition, inside, out if plain else stop)
        if not plain:
            f.block(stop)
            f.do(f"store i1 true, ptr {over}")
            f.branch(end)
        f.block(inside)
        for arg, value in zip(region.args, test.args, strict=True):
            x.set(arg, x.parts(value))
        self.region(frame, region, end)
        f.block(end)
        self._close(frame, left, latch, head, out)
        self.fetch(frame.slots, op.results)
