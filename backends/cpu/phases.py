"""Workgroups of several subgroups that meet at barriers.

The body is cut at its barriers. Control flow around a barrier is the same for the whole workgroup:
it is emitted once, in scalars, outside. Between barriers lies a *phase*, a loop over the subgroups.
What differs between invocations and is needed in a later phase is computed again there if that is
cheap, and else lies in scratch memory, one block per subgroup; what a loop with a barrier carries
lies there too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Region, Value, walk
from ...ir.dtypes import Access, MemType, Space, element_of
from ...ir.ops import ROWS, Effect
from ..llvm.types import Ty
from . import body, control
from .heirs import heirs
from .lanes import SCALAR, VECTOR, Held
from .lowering import Lowering, SlotGroup
from .phase_values import Moves, PhaseValues, uses
from .shapes import Kind
from .subgroup_loop import Block, each_subgroup, keep_left


def has_barriers(kernel_body: Region) -> bool:
    """Whether a kernel synchronises its workgroup."""
    return any(op.name == "barrier" for op in walk(kernel_body))


def emit_phased(x: Lowering, end: str) -> None:
    """Emit the body of one workgroup; control arrives at `end` when it is done."""
    phases = _Phases(x, end)
    phases.begin()
    phases.region(x.kernel.body)


class _Phases:
    def __init__(self, x: Lowering, end: str) -> None:
        self.x, self.f, self.end = x, x.f, end
        self.loops: list[tuple[str, str, Op]] = []  # latch, exit, op
        self.yielding: list[Op] = []  # the ifs and switches around, innermost last
        self.read_only = {
            v.id
            for p, v in zip(x.kernel.params, x.kernel.body.args, strict=True)
            if p.is_memory and p.access is Access.READ and not p.may_alias
        }
        self.values = PhaseValues(x, self.outer)
        # Invocations may return between phases: who is left is kept from one to the next.
        self.left: Block | None = None
        if x.analysis.returns is Kind.VARYING:
            stride = (4 * x.width + 63) // 64 * 64
            self.left = Block(x.scratch.take(stride * x.subgroups), stride, VECTOR)

    def begin(self) -> None:
        """Nobody has returned yet."""
        if self.left is not None:
            with each_subgroup(self.x):
                keep_left(self.x, self.left)

    # Which ops stand outside of phases

    def common(self, value: Value) -> bool:
        return self.x.analysis.kind(value) is Kind.GROUP

    def outer(self, op: Op) -> bool:
        """Whether control flow is emitted once for the whole workgroup."""
        return self.synchronises(op) or self.leaves_together(op)

    def synchronises(self, op: Op) -> bool:
        return op.name == "barrier" or any(has_barriers(r) for r in op.regions)

    def leaves_together(self, op: Op) -> bool:
        """Whether an if or switch ends the kernel or an outer loop for the whole workgroup."""
        if op.name not in ("if", "switch") or not self.common(op.operands[0]):
            return False
        for region in op.regions:
            if region.terminator.name != "yield" or any(
                self.leaves_together(o) for o in region.ops
            ):
                return True
        return False

    def hoisted(self, op: Op) -> bool:
        """Whether an op is computed once for the whole workgroup, before the phase."""
        if not op.results or not all(self.common(v) for v in op.results):
            return False
        return self.pure(op) and all(self.values.shared(v) for v in uses([op], ()))

    def pure(self, op: Op) -> bool:
        if op.regions:
            return not control.leaves(op) and all(self.pure(o) for r in op.regions for o in r.ops)
        if op.name == "load":
            return op.operands[0].id in self.read_only and self.common(op.operands[1])
        if op.name in ("yield", "continue", "break", "condition"):
            return True
        if any(not self.known(v) for v in op.results):
            return False
        return ROWS[op.name].effect in (Effect.PURE, Effect.ID)

    def known(self, value: Value) -> bool:
        return isinstance(value.type, MemType) or self.common(value)

    # Regions

    def region(self, region: Region) -> None:
        run: list[Op] = []
        pinned = False  # a part of the invocations may have returned: no phase can follow
        for op in region.ops[:-1]:
            if not self.f.open:
                return
            if self.outer(op) and not (pinned and not self.synchronises(op)):
                if pinned:
                    raise self.x.fail(op, "a barrier stands behind a return of some invocations")
                self.flush(run)
                run = []
                self.construct(op)
            elif not pinned and self.hoisted(op):
                self.values.restore_group()
                body.emit_op(self.x, op)
                self.values.group.update({v.id: self.x.lanes.held[v.id] for v in op.results})
            else:
                if control.leaves(op):
                    self.refuse_apart(op)
                    pinned = True
                run.append(op)
        if self.f.open:
            self.finish(run, region.terminator)

    def refuse_apart(self, op: Op) -> None:
        """A part of the invocations may return, but not leave a loop that has a barrier."""
        if self.loops:
            raise self.x.fail(op, "invocations leave a loop around a barrier one by one")

    def finish(self, run: list[Op], terminator: Op) -> None:
        if terminator.name == "return":
            self.flush(run)
            self.f.branch(self.end)
            return
        if terminator.name == "condition":
            self.flush(run)
            return
        self.flush(run, self.values.apart(self.targets(terminator), terminator.operands))
        if terminator.name in ("continue", "break"):
            latch, exit_, _ = self.loops[-1]
            self.f.branch(latch if terminator.name == "continue" else exit_)

    def targets(self, terminator: Op) -> list[Value]:
        """The values that a terminator's operands are assigned to."""
        if terminator.name == "yield":
            return list(self.yielding[-1].results)
        op = self.loops[-1][2]
        if terminator.name == "break":
            return list(op.results)
        return list(_carried(op))

    # Control flow around barriers

    def construct(self, op: Op) -> None:
        if op.name == "barrier":
            return
        if op.name in ("if", "switch"):
            for value in op.results:
                self.values.place(value)
            self.choice(op)
        else:
            self.loop(op)

    def require_common(self, op: Op, value: Value) -> str:
        if not self.values.common(value):
            raise self.x.fail(op, "control flow around a barrier differs between invocations")
        self.values.restore_group()
        if value.id in self.values.blocks:  # every subgroup computed the same
            self.values.load(value, self.values.blocks[value.id])
        return self.x.lanes.scalar(value)

    def choice(self, op: Op) -> None:
        f = self.f
        condition = self.require_common(op, op.operands[0])
        merge, labels = f.label("merge"), [f.label("arm") for _ in op.regions]
        if op.name == "if":
            f.branch_if(condition, labels[0], labels[1])
        else:
            values = op.attr("cases")
            assert isinstance(values, tuple)
            cases = [
                (int(n), label)
                for n, label in zip(values, labels, strict=False)
                if isinstance(n, int)
            ]
            f.switch(Ty(element_of(op.operands[0].type)).text, condition, labels[-1], cases)
        reached = False
        for label, region in zip(labels, op.regions, strict=True):
            f.block(label)
            saved, self.yielding = dict(self.values.group), [*self.yielding, op]
            self.region(region)
            self.values.group, self.yielding = saved, self.yielding[:-1]
            reached = reached or f.open
            f.branch(merge)
        if reached:
            f.block(merge)

    def loop(self, op: Op) -> None:
        f, carried = self.f, _carried(op)
        inits = op.operands[2:] if op.name == "for" else op.operands
        for value, result in zip(carried, op.results, strict=True):
            self.values.place_carried(value, result)
        self.flush([], list(zip(carried, inits, strict=True)))
        latch, exit_, head, inside, leave = (
            f.label(w) for w in ("latch", "exit", "head", "body", "leave")
        )
        saved = dict(self.values.group)
        if op.name == "for":
            counter, hi = self.counter(op)
            f.block(head)
            f.branch_if(self.below(op, counter, hi), inside, leave)
        else:
            counter = None
            f.block(head)
            f.branch_if(self.condition(op, carried), inside, leave)
        f.block(leave)
        self.flush([], self.values.apart(op.results, carried))
        f.branch(exit_)
        f.block(inside)
        self.loops.append((latch, exit_, op))
        for value, heir in heirs(op.regions[-1], carried, self.outer):
            self.values.inherit(heir, value)
        self.region(op.regions[-1])
        self.loops.pop()
        f.block(latch)
        if counter is not None:
            count = f.value(f"add {Ty(counter.dtype).text} {counter.slots[0].load()}, 1")
            counter.slots[0].store(count)
        f.branch(head)
        self.values.group = saved
        f.block(exit_)

    def counter(self, op: Op) -> tuple[SlotGroup, str]:
        """The variable that counts, and its bound."""
        lo, hi = (self.require_common(op, v) for v in op.operands[:2])
        counter = control.slots_for(self.x, op.regions[0].args[0], SCALAR)
        counter.slots[0].store(lo)
        return counter, hi

    def below(self, op: Op, counter: SlotGroup, hi: str) -> str:
        """Define the counter for an iteration; whether there is one."""
        t, count = Ty(counter.dtype), counter.slots[0].load()
        self.values.group[op.regions[0].args[0].id] = Held(SCALAR, (count,))
        sign = "s" if counter.dtype.is_signed else "u"
        return self.f.value(f"icmp {sign}lt {t.text} {count}, {hi}")

    def condition(self, op: Op, carried: Sequence[Value]) -> str:
        """Whether a while goes on."""
        first = op.regions[0]
        for arg, value in zip(first.args, carried, strict=True):
            self.values.same_place(arg, value)
        self.region(first)
        return self.require_common(op, first.terminator.operands[0])

    # Phases

    def flush(self, run: Sequence[Op], moves: Moves = ()) -> None:
        """Emit a phase: `run`, then the assignment of values to variables and blocks."""
        shared = [
            (t, v) for t, v in moves if t.id in self.values.variables and self.values.shared(v)
        ]
        apart = [(t, v) for t, v in moves if (t, v) not in shared]
        self.values.restore_group()
        values = [self.x.lanes.parts(v, SCALAR) for _, v in shared]  # all is read before a write
        work = [op for op in run if not _nothing(op)]
        if work or apart:
            self.phase(work, apart)
        for (target, _), parts in zip(shared, values, strict=True):
            self.values.assign(target, parts)

    def phase(self, run: Sequence[Op], moves: Moves) -> None:
        x, f = self.x, self.f
        self.values.restore_group()
        with each_subgroup(x, self.left):
            defined = {v.id for op in run for v in op.results}
            for value in uses(run, [v for _, v in moves]):
                if value.id not in defined:
                    self.values.fetch(value)
            for op in run:
                if f.open:
                    body.emit_op(x, op)
            if f.open:
                self.values.keep(run, moves)
        x.lanes.held = dict(self.values.group)


def _carried(op: Op) -> tuple[Value, ...]:
    return op.regions[-1].args[1:] if op.name == "for" else op.regions[-1].args


def _nothing(op: Op) -> bool:
    """Whether an op needs no code in a phase."""
    if op.name == "alloc":
        type_ = op.result.type
        return isinstance(type_, MemType) and type_.space is Space.WORKGROUP
    return ROWS[op.name].effect is Effect.DEBUG
