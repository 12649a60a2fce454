"""Workgroups of several subgroups that meet at barriers.

The body is cut at its barriers. Control flow around a barrier is the same for the whole workgroup:
it is emitted once, in scalars, outside. Between barriers lies a *phase*, a loop over the subgroups.
What differs between invocations and is needed in a later phase is computed again there if that is
cheap, and else lies in scratch memory, one block per subgroup; what a loop with a barrier carries
lies there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...ir.core import Op, Region, Value, walk
from ...ir.dtypes import Access, MemType, Space, element_of, lanes_of
from ...ir.ops import ROWS, Effect
from ..llvm.types import Ty, memory_type
from . import body, control, identity
from .lanes import SCALAR, VECTOR, Held
from .lowering import Lowering, Scope, SlotGroup, per_subgroup
from .shapes import Kind

_AGAIN = 8  # ops that are computed again rather than kept
_COSTLY = ("div", "sqrt", "rsqrt", "floordiv", "mod", "fma")


def has_barriers(kernel_body: Region) -> bool:
    """Whether a kernel synchronises its workgroup."""
    return any(op.name == "barrier" for op in walk(kernel_body))


@dataclass(frozen=True, slots=True)
class _Block:
    """Where a value lies in scratch memory: offset, bytes per subgroup, form."""

    at: int
    stride: int
    form: str


def emit_phased(x: Lowering, end: str) -> None:
    """Emit the body of one workgroup; control arrives at `end` when it is done."""
    phases = _Phases(x, end)
    phases.begin()
    phases.region(x.kernel.body)


class _Phases:
    def __init__(self, x: Lowering, end: str) -> None:
        self.x, self.f, self.end = x, x.f, end
        self.blocks: dict[int, _Block] = {}  # by value number
        self.group: dict[int, Held] = dict(x.lanes.held)  # values of the whole workgroup
        self.variables: dict[int, SlotGroup] = {}  # of those, the ones that loops carry
        self.loops: list[tuple[str, str, Op]] = []  # latch, exit, op
        self.yielding: list[Op] = []  # the ifs and switches around, innermost last
        self.remade: dict[int, int] = {}
        self.read_only = {
            v.id
            for p, v in zip(x.kernel.params, x.kernel.body.args, strict=True)
            if p.is_memory and p.access is Access.READ and not p.may_alias
        }
        self.phase_of = _phases_of(x, self.outer)
        # Invocations may return between phases: who is left is kept from one to the next.
        self.left: _Block | None = None
        if x.analysis.returns is Kind.VARYING:
            stride = (4 * x.width + 63) // 64 * 64
            self.left = _Block(x.scratch.take(stride * x.subgroups), stride, VECTOR)

    def begin(self) -> None:
        """Nobody has returned yet."""
        if self.left is not None:
            with each_subgroup(self.x):
                _keep_left(self.x, self.left)

    # Which ops stand outside of phases

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
            if region.terminator.name != "yield" or any(self.leaves_together(o) for o in region.ops):
                return True
        return False

    def common(self, value: Value) -> bool:
        return self.x.analysis.kind(value) is Kind.GROUP

    def hoisted(self, op: Op) -> bool:
        """Whether an op is computed once for the whole workgroup, before the phase."""
        if not op.results or not all(self.common(v) for v in op.results):
            return False
        return self.pure(op) and all(self.shared(v) for v in _uses([op], ()))

    def shared(self, value: Value) -> bool:
        """Whether a value exists outside of phases."""
        return isinstance(value.type, MemType) or value.id in self.group or value.id in self.variables

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
                self.restore_group()
                body.emit_op(self.x, op)
                self.group.update({v.id: self.x.lanes.held[v.id] for v in op.results})
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
        self.flush(run, list(zip(self.targets(terminator), terminator.operands, strict=True)))
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
                self.place(value)
            self.choice(op)
        else:
            self.loop(op)

    def require_common(self, op: Op, value: Value) -> str:
        if not self.common(value):
            raise self.x.fail(op, "control flow around a barrier differs between invocations")
        self.restore_group()
        if value.id in self.blocks:  # every subgroup computed the same
            self.load(value, self.blocks[value.id])
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
            cases = [(int(n), label) for n, label in zip(values, labels, strict=False) if isinstance(n, int)]
            f.switch(Ty(element_of(op.operands[0].type)).text, condition, labels[-1], cases)
        reached = False
        for label, region in zip(labels, op.regions, strict=True):
            f.block(label)
            saved, self.yielding = dict(self.group), [*self.yielding, op]
            self.region(region)
            self.group, self.yielding = saved, self.yielding[:-1]
            reached = reached or f.open
            f.branch(merge)
        if reached:
            f.block(merge)

    def loop(self, op: Op) -> None:
        f, carried = self.f, _carried(op)
        inits = op.operands[2:] if op.name == "for" else op.operands
        for value, result in zip(carried, op.results, strict=True):
            self.place(value)
            # What an invocation carries when it leaves is its result.
            if not self.common(value) and self.x.lanes.form(value) == self.x.lanes.form(result):
                self.same_place(result, value)
            else:
                self.place(result)
        self.flush([], list(zip(carried, inits, strict=True)))
        latch, exit_, head, inside = (f.label(w) for w in ("latch", "exit", "head", "body"))
        counter = None
        if op.name == "for":
            lo, hi = (self.require_common(op, v) for v in op.operands[:2])
            counter = control.slots_for(self.x, op.regions[0].args[0], SCALAR)
            counter.slots[0].store(lo)
        f.block(head)
        saved = dict(self.group)
        leave = f.label("leave")
        if counter is not None:
            t = Ty(counter.dtype)
            count = counter.slots[0].load()
            self.group[op.regions[0].args[0].id] = Held(SCALAR, (count,))
            less = "slt" if counter.dtype.is_signed else "ult"
            f.branch_if(f.value(f"icmp {less} {t.text} {count}, {hi}"), inside, leave)
        else:
            first = op.regions[0]
            for arg, value in zip(first.args, carried, strict=True):
                self.same_place(arg, value)
            self.region(first)
            f.branch_if(self.require_common(op, first.terminator.operands[0]), inside, leave)
        f.block(leave)
        pairs = zip(op.results, carried, strict=True)
        self.flush([], [(r, v) for r, v in pairs if self.blocks.get(r.id, 0) is not self.blocks.get(v.id)])
        f.branch(exit_)
        f.block(inside)
        self.loops.append((latch, exit_, op))
        self.region(op.regions[-1])
        self.loops.pop()
        f.block(latch)
        if counter is not None:
            t = Ty(counter.dtype)
            counter.slots[0].store(f.value(f"add {t.text} {counter.slots[0].load()}, 1"))
        f.branch(head)
        self.group = saved
        f.block(exit_)

    # Where values live

    def place(self, value: Value) -> None:
        """Give a value that control flow defines a variable or a block."""
        if self.common(value):
            self.variables[value.id] = control.slots_for(self.x, value)
        else:
            self.blocks.setdefault(value.id, self.block_for(value))

    def same_place(self, value: Value, other: Value) -> None:
        if other.id in self.variables:
            self.variables[value.id] = self.variables[other.id]
        else:
            self.blocks[value.id] = self.blocks[other.id]

    def block_for(self, value: Value) -> _Block:
        form = self.x.lanes.form(value)
        size = element_of(value.type).bytes * lanes_of(value.type)
        stride = (size * (self.x.width if form == VECTOR else 1) + 63) // 64 * 64
        return _Block(self.x.scratch.take(stride * self.x.subgroups), stride, form)

    def restore_group(self) -> None:
        """Make the workgroup's values, and only those, visible."""
        self.x.lanes.held = dict(self.group)
        for number, variable in self.variables.items():
            parts = tuple(slot.load() for slot in variable.slots)
            self.x.lanes.held[number] = Held(variable.form, parts)

    # Phases

    def flush(self, run: Sequence[Op], moves: Sequence[tuple[Value, Value]] = ()) -> None:
        """Emit a phase: `run`, then the assignment of values to variables and blocks."""
        shared = [(t, v) for t, v in moves if t.id in self.variables and self.shared(v)]
        apart = [(t, v) for t, v in moves if (t, v) not in shared]
        self.restore_group()
        values = [self.x.lanes.parts(v, SCALAR) for _, v in shared]  # all is read before a write
        work = [op for op in run if not _nothing(op)]
        if work or apart:
            self.phase(work, apart)
        for (target, _), parts in zip(shared, values, strict=True):
            self.assign(target, parts)

    def assign(self, variable: Value, parts: Sequence[str]) -> None:
        for slot, part in zip(self.variables[variable.id].slots, parts, strict=True):
            slot.store(part)

    def phase(self, run: Sequence[Op], moves: Sequence[tuple[Value, Value]]) -> None:
        x, f = self.x, self.f
        self.restore_group()
        with each_subgroup(x, self.left):
            defined = {v.id for op in run for v in op.results}
            for value in _uses(run, [v for _, v in moves]):
                if value.id not in defined:
                    self.fetch(value)
            for op in run:
                if f.open:
                    body.emit_op(x, op)
            if f.open:
                self.keep(run, moves)
        x.lanes.held = dict(self.group)

    def fetch(self, value: Value) -> None:
        """Make a value of an earlier phase available in this one."""
        x = self.x
        if value.id in x.lanes.held or isinstance(value.type, MemType):
            return
        if value.id in self.blocks:
            self.load(value, self.blocks[value.id])
            return
        op = x.defs[value.id]
        for operand in op.operands:
            self.fetch(operand)
        body.emit_op(x, op)

    def again(self, value: Value) -> int:
        """How many ops it takes to compute a value again; more than `_AGAIN`: it is kept."""
        if self.shared(value):
            return 0
        if value.id in self.remade:
            return self.remade[value.id]
        op = self.x.defs.get(value.id)
        cost = _AGAIN + 1
        if op is not None and not op.regions and op.name not in _COSTLY:
            effect = ROWS[op.name].effect
            if effect is Effect.ID or effect is Effect.PURE:
                cost = min(cost, 1 + sum(self.again(v) for v in op.operands))
        self.remade[value.id] = cost
        return cost

    def keep(self, run: Sequence[Op], moves: Sequence[tuple[Value, Value]]) -> None:
        """Store what later phases need. All is read before anything is written."""
        x = self.x
        later = self.phase_of
        kept = [
            (v, v) for op in run for v in op.results
            if v.id in later and not isinstance(v.type, MemType) and self.again(v) > _AGAIN
        ]  # fmt: skip
        for value, _ in kept:
            if value.id not in self.blocks:
                self.blocks[value.id] = self.block_for(value)
        pending = []
        for target, value in [*kept, *moves]:
            # A variable of the workgroup: all subgroups set it to the same.
            form = SCALAR if target.id in self.variables else self.blocks[target.id].form
            pending.append((target, x.lanes.parts(value, form)))
        for target, parts in pending:
            if target.id in self.variables:
                self.assign(target, parts)
            else:
                self.store(target, self.blocks[target.id], parts)

    def store(self, value: Value, block: _Block, parts: Sequence[str]) -> None:
        x, f = self.x, self.f
        t = x.lanes.type_in(value, block.form)
        for place, part in zip(self.places(value, block), parts, strict=True):
            memory = t.wrap(memory_type(t.dtype))
            if t.dtype.is_bool:
                part = f.value(f"zext {t.text} {part} to {memory}")
            f.do(f"store {memory} {part}, ptr {place}, align {t.dtype.bytes}")

    def load(self, value: Value, block: _Block) -> None:
        x, f = self.x, self.f
        t = x.lanes.type_in(value, block.form)
        memory = t.wrap(memory_type(t.dtype))
        parts = [f.value(f"load {memory}, ptr {p}, align {t.dtype.bytes}") for p in self.places(value, block)]
        if t.dtype.is_bool:
            parts = [f.value(f"trunc {memory} {p} to {t.text}") for p in parts]
        x.lanes.held[value.id] = Held(block.form, tuple(parts))

    def places(self, value: Value, block: _Block) -> Iterable[str]:
        base = per_subgroup(self.x, block.at, block.stride)
        step = element_of(value.type).bytes * (self.x.width if block.form == VECTOR else 1)
        for n in range(lanes_of(value.type)):
            yield self.f.value(f"getelementptr i8, ptr {base}, i64 {n * step}") if n else base


def _carried(op: Op) -> tuple[Value, ...]:
    return op.regions[-1].args[1:] if op.name == "for" else op.regions[-1].args


def _nothing(op: Op) -> bool:
    """Whether an op needs no code in a phase."""
    if op.name == "alloc":
        type_ = op.result.type
        return isinstance(type_, MemType) and type_.space is Space.WORKGROUP
    return ROWS[op.name].effect is Effect.DEBUG


def _uses(run: Iterable[Op], more: Iterable[Value]) -> list[Value]:
    """The values that ops use, in order of first use, nested regions included."""
    found: dict[int, Value] = {}
    for op in run:
        for value in op.operands:
            found.setdefault(value.id, value)
        for region in op.regions:
            inner = {v.id for o in walk(region) for v in o.results}
            inner |= {v.id for o in walk(region) for r in o.regions for v in r.args}
            inner |= {v.id for v in region.args}
            for o in walk(region):
                for value in o.operands:
                    if value.id not in inner:
                        found.setdefault(value.id, value)
    for value in more:
        found.setdefault(value.id, value)
    return list(found.values())


def _phases_of(x: Lowering, outer: Callable[[Op], bool]) -> set[int]:
    """The values that are used in another phase than the one that defines them."""
    phase = {v.id: 0 for v in x.kernel.body.args}
    crossing: set[int] = set()
    number = 0

    def visit(region: Region) -> None:
        nonlocal number
        for value in region.args:
            phase.setdefault(value.id, number)
        for op in region.ops:
            if outer(op):
                crossing.update(v.id for v in op.operands)
                for inner in op.regions:
                    number += 1
                    visit(inner)
                number += 1
                for value in op.results:
                    phase[value.id] = number
                continue
            for value in _uses([op], ()):
                if phase.get(value.id) != number:
                    crossing.add(value.id)
            for value in op.results:
                phase[value.id] = number

    visit(x.kernel.body)
    return crossing


def _keep_left(x: Lowering, left: _Block) -> None:
    place = per_subgroup(x, left.at, left.stride)
    alive = x.f.value(f"load {x.masks.type}, ptr {x.scopes[0].alive}")
    x.f.do(f"store {x.masks.type} {alive}, ptr {place}")


def _resume(x: Lowering, left: _Block) -> None:
    """Go on with those lanes that have not returned in an earlier phase, if there are any."""
    f, place = x.f, per_subgroup(x, left.at, left.stride)
    x.mask = f.value(f"load {x.masks.type}, ptr {place}")
    f.do(f"store {x.masks.type} {x.mask}, ptr {x.scopes[0].alive}")
    go = f.label("go")
    f.branch_if(x.masks.any(x.mask), go, x.dead[-1])
    f.block(go)


@contextmanager
def each_subgroup(x: Lowering, left: _Block | None = None) -> Iterator[None]:
    """A loop over the subgroups of the workgroup; the block of the statement is its body.

    left: where it is kept who has not returned in an earlier phase.
    """
    f, t = x.f, Ty(x.index).text
    head, step, done = (f.label(w) for w in ("subgroup", "next", "phase"))
    slot = f.alloca(t)
    f.do(f"store {t} 0, ptr {slot}")
    f.block(head)
    if x.subgroups > 1:
        x.subgroup = f.value(f"load {t}, ptr {slot}")
    enter_subgroup(x, Scope(step, step))
    if left is not None:
        _resume(x, left)
    yield
    f.block(step)
    if left is not None:
        _keep_left(x, left)
    x.scopes.pop()
    x.dead.pop()
    x.mask = None
    if x.subgroups > 1:
        following = f.value(f"add nuw nsw {t} {x.subgroup}, 1")
        f.do(f"store {t} {following}, ptr {slot}")
        f.branch_if(f.value(f"icmp ult {t} {following}, {x.subgroups}"), head, done)
        x.subgroup = "0"
    f.block(done)


def enter_subgroup(x: Lowering, scope: Scope) -> None:
    """Start the code of one subgroup: its mask, and what a return acts on."""
    f, rest = x.f, x.kernel.workgroup_count % x.width
    x.mask = None
    if rest:
        t = Ty(x.index, x.width)
        first = x.lanes.splat(identity.linear(x), x.index)
        linear = f.value(f"add {t.text} {first}, {x.lanes.numbers(x.index)}")
        inside = f.value(f"icmp ult {t.text} {linear}, {t.const(x.kernel.workgroup_count)}")
        x.mask = x.masks.from_bools(inside)
    if x.analysis.returns is Kind.VARYING:
        scope.alive = f.alloca(x.masks.type)
        f.do(f"store {x.masks.type} {x.masks.value(x.mask)}, ptr {scope.alive}")
    x.scopes.append(scope)
    x.dead.append(scope.exit)

