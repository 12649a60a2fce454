"""Where the values of a workgroup live while its phases run one after the other.

What is the same for the whole workgroup is a scalar outside of phases. Anything else that a later
phase needs is computed again there, if that takes a few ops, or kept in scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...ir.core import Op, Region, Value, walk
from ...ir.dtypes import MemType, element_of, lanes_of
from ...ir.ops import ROWS, Effect
from ..llvm.types import memory_type
from . import body, control
from .lanes import SCALAR, VECTOR, Held
from .lowering import Lowering, SlotGroup, per_subgroup
from .shapes import Kind
from .subgroup_loop import Block

_AGAIN = 8  # ops that are computed again rather than kept
_COSTLY = ("div", "sqrt", "rsqrt", "floordiv", "mod", "fma")

Moves = Sequence[tuple[Value, Value]]  # targets and what is assigned to them


class PhaseValues:
    """Values outside of phases (`group`, `variables`) and in scratch memory (`blocks`)."""

    def __init__(self, x: Lowering, outer: Callable[[Op], bool]) -> None:
        self.x, self.f = x, x.f
        self.blocks: dict[int, Block] = {}  # by value number
        self.group: dict[int, Held] = dict(x.lanes.held)
        self.variables: dict[int, SlotGroup] = {}  # those of `group` that control flow assigns
        self.remade: dict[int, int] = {}
        self.crossing = _crossing(x, outer)

    def common(self, value: Value) -> bool:
        return self.x.analysis.kind(value) is Kind.GROUP

    def shared(self, value: Value) -> bool:
        """Whether a value exists outside of phases."""
        if isinstance(value.type, MemType):
            return True
        return value.id in self.group or value.id in self.variables

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

    def inherit(self, heir: Value, value: Value) -> None:
        """Let a value that a later phase needs lie where `value`, needed no more, lies."""
        form = self.x.lanes.form
        kept = heir.id in self.crossing and self.again(heir) > _AGAIN
        if kept and not self.common(heir) and value.id in self.blocks and form(heir) == form(value):
            self.same_place(heir, value)

    def place_carried(self, value: Value, result: Value) -> None:
        """Places for what a loop carries and for its result: one, if they are held alike, since
        what an invocation carries when it leaves is its result."""
        self.place(value)
        form = self.x.lanes.form
        if not self.common(value) and form(value) == form(result):
            self.same_place(result, value)
        else:
            self.place(result)

    def apart(self, targets: Sequence[Value], values: Sequence[Value]) -> Moves:
        """The targets that are not where their values are, with these values."""
        pairs = zip(targets, values, strict=True)
        return [(t, v) for t, v in pairs if t.id in self.variables or not self.one_place(t, v)]

    def one_place(self, a: Value, b: Value) -> bool:
        return a.id in self.blocks and self.blocks[a.id] is self.blocks.get(b.id)

    def block_for(self, value: Value) -> Block:
        form = self.x.lanes.form(value)
        size = element_of(value.type).bytes * lanes_of(value.type)
        stride = (size * (self.x.width if form == VECTOR else 1) + 63) // 64 * 64
        return Block(self.x.scratch.take(stride * self.x.subgroups), stride, form)

    def restore_group(self) -> None:
        """Make the workgroup's values, and only those, visible."""
        self.x.lanes.held = dict(self.group)
        for number, variable in self.variables.items():
            parts = tuple(slot.load() for slot in variable.slots)
            self.x.lanes.held[number] = Held(variable.form, parts)

    def assign(self, variable: Value, parts: Sequence[str]) -> None:
        """Set a variable of the workgroup."""
        for slot, part in zip(self.variables[variable.id].slots, parts, strict=True):
            slot.store(part)

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
        if op is not None and can_be_remade(op):
            cost = min(cost, 1 + sum(self.again(v) for v in op.operands))
        self.remade[value.id] = cost
        return cost

    def keep(self, run: Sequence[Op], moves: Moves) -> None:
        """Store what later phases need. All is read before anything is written."""
        x = self.x
        later = self.crossing
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

    def store(self, value: Value, block: Block, parts: Sequence[str]) -> None:
        x, f = self.x, self.f
        t = x.lanes.type_in(value, block.form)
        for place, part in zip(self.places(value, block), parts, strict=True):
            memory = t.wrap(memory_type(t.dtype))
            if t.dtype.is_bool:
                part = f.value(f"zext {t.text} {part} to {memory}")
            f.do(f"store {memory} {part}, ptr {place}, align {t.dtype.bytes}")

    def load(self, value: Value, block: Block) -> None:
        x, f = self.x, self.f
        t = x.lanes.type_in(value, block.form)
        memory = t.wrap(memory_type(t.dtype))
        parts = [
            f.value(f"load {memory}, ptr {p}, align {t.dtype.bytes}")
            for p in self.places(value, block)
        ]
        if t.dtype.is_bool:
            parts = [f.value(f"trunc {memory} {p} to {t.text}") for p in parts]
        x.lanes.held[value.id] = Held(block.form, tuple(parts))

    def places(self, value: Value, block: Block) -> Iterable[str]:
        base = per_subgroup(self.x, block.at, block.stride)
        step = element_of(value.type).bytes * (self.x.width if block.form == VECTOR else 1)
        for n in range(lanes_of(value.type)):
            yield self.f.value(f"getelementptr i8, ptr {base}, i64 {n * step}") if n else base


def can_be_remade(op: Op) -> bool:
    """Whether a later phase may compute an op again, rather than find its result kept."""
    if op.regions or op.name in _COSTLY:
        return False
    return ROWS[op.name].effect in (Effect.ID, Effect.PURE)


def uses(run: Iterable[Op], more: Iterable[Value]) -> list[Value]:
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


def _crossing(x: Lowering, outer: Callable[[Op], bool]) -> set[int]:
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
            for value in uses([op], ()):
                if phase.get(value.id) != number:
                    crossing.add(value.id)
            for value in op.results:
                phase[value.id] = number

    visit(x.kernel.body)
    return crossing
