"""Loops over lanes, and leaving them.

Where all lanes of a loop leave together it is a scalar loop. Otherwise a slot holds the lanes that
are still in it, and it runs until none is left: what a lane carried when it left stays as it is.
A counted loop whose trip counts differ runs unmasked as far as every lane goes.
"""

from __future__ import annotations

from ...ir.core import Op, Region, Value, walk
from ...ir.dtypes import DType
from ..llvm.types import Ty
from . import body, control
from .lanes import SCALAR, VECTOR
from .lowering import Lowering, Scope, SlotGroup
from .masks import Mask
from .shapes import Kind

_TWICE = 300  # the largest body of which an unmasked copy is written


def emit_loop(x: Lowering, op: Op) -> None:
    """Emit a for or while and define its results."""
    loop = _Loop(x, op)
    if loop.masked and op.name == "for" and loop.can_run_unmasked():
        loop.run_unmasked()
    loop.run()
    for value, group in zip(op.results, loop.results, strict=True):
        control.define(x, value, group)


def emit_leave(x: Lowering, op: Op) -> None:
    """A break, continue or return of the active lanes."""
    if op.name == "return":
        _return(x)
        return
    scope, m = x.scopes[-1], x.masks
    together = scope.alive is None
    groups = scope.results if op.name == "break" else scope.carried
    for group, value in zip(groups, op.operands, strict=True):
        control.assign(x, group, value, None if together else x.mask)
    if together:
        x.f.branch(scope.exit if op.name == "break" else scope.latch)
        return
    gone = m.value(x.mask)
    _remove(x, scope.alive, gone)
    if op.name == "break":
        _remove(x, scope.live, gone)
    x.f.branch(x.dead[-1])


def _return(x: Lowering) -> None:
    together = all(s.depth == 0 for s in x.scopes) and all(s.live is None for s in x.scopes)
    if together:
        if x.scopes[0].alive is not None:
            x.f.do(f"store {x.masks.type} {x.masks.none}, ptr {x.scopes[0].alive}")
        x.f.branch(x.scopes[0].exit)
        return
    gone = x.masks.value(x.mask)
    for scope in x.scopes:
        _remove(x, scope.alive, gone)
        _remove(x, scope.live, gone)
    x.f.branch(x.dead[-1])


def _remove(x: Lowering, slot: str | None, gone: str) -> None:
    if slot is not None:
        old = x.f.value(f"load {x.masks.type}, ptr {slot}")
        x.f.do(f"store {x.masks.type} {x.masks.without(old, gone)}, ptr {slot}")


def partly_left(x: Lowering, region: Region, divergent: bool = False) -> bool:
    """Whether a part of the lanes may end a turn of a loop early. Where a part may leave the loop,
    by a break or return, the analysis finds it masked."""
    for op in region.ops:
        if op.name == "continue" and divergent:
            return True
        if op.name in ("if", "switch"):
            inner = divergent or x.analysis.kind(op.operands[0]) > Kind.UNIFORM
            if any(partly_left(x, r, inner) for r in op.regions):
                return True
    return False


class _Loop:
    def __init__(self, x: Lowering, op: Op) -> None:
        self.x, self.op, self.f = x, op, x.f
        self.counted = op.name == "for"
        self.masked = x.analysis.masked(op)
        self.body = op.regions[-1]
        self.args = self.body.args[1:] if self.counted else self.body.args
        inits = op.operands[2:] if self.counted else op.operands
        self.carried = [control.slots_for(x, v) for v in self.args]
        self.results = [self._result(v, c) for v, c in zip(op.results, self.carried, strict=True)]
        for group, init in zip(self.carried, inits, strict=True):
            control.assign(x, group, init)
        control.zero(x, [r for r, c in zip(self.results, self.carried, strict=True) if r is not c])
        if self.counted:
            self.counter = self._counter()

    def _result(self, value: Value, carried: SlotGroup) -> SlotGroup:
        """What a lane carries when it leaves is its result: one variable, if the forms agree."""
        same = self.x.lanes.form(value) == carried.form
        return carried if same else control.slots_for(self.x, value)

    def _counter(self) -> SlotGroup:
        x, value = self.x, self.body.args[0]
        group = control.slots_for(x, value)
        control.assign(x, group, self.op.operands[0])
        return group

    def has_leaves(self) -> bool:
        return self.masked or partly_left(self.x, self.body)

    # The copy without a mask

    def can_run_unmasked(self) -> bool:
        x = self.x
        lo = x.analysis.of(self.op.operands[0])
        leaving = partly_left(x, self.body) or any(
            o.name in ("break", "return") for o in walk(self.body)
        )
        # Under a mask it would be right as well, but lanes that are not there may have low bounds.
        small = sum(1 for _ in walk(self.body)) <= _TWICE
        return x.mask is None and lo.uniform and not leaving and small

    def run_unmasked(self) -> None:
        """Run while the counter is below every lane's bound."""
        x, f = self.x, self.f
        dtype = Ty(self.op.operands[1].type).dtype  # type: ignore[arg-type]
        v, sign = Ty(dtype, x.width), "s" if dtype.is_signed else "u"
        least = f.call(
            f"llvm.vector.reduce.{sign}min.{v.suffix}",
            Ty(dtype).text,
            (v.text, x.lanes.vector(self.op.operands[1])),
        )
        head, inside, latch, done = (f.label(w) for w in ("full", "whole", "step", "rest"))
        f.block(head)
        count = self.counter.slots[0].load()
        f.branch_if(f.value(f"icmp {sign}lt {Ty(dtype).text} {count}, {least}"), inside, done)
        f.block(inside)
        saved = dict(x.lanes.held)
        self.iteration(
            Scope(latch, done, op=self.op, carried=self.carried, results=self.results), latch
        )
        self.advance()
        f.branch(head)
        x.lanes.held = saved
        f.block(done)

    # The loop itself

    def run(self) -> None:
        x, f, mask = self.x, self.f, self.x.mask
        scope = Scope(
            f.label("latch"),
            f.label("exit"),
            op=self.op,
            carried=self.carried,
            results=self.results,
        )
        if self.has_leaves():
            scope.alive = f.alloca(x.masks.type)
        if self.masked:
            scope.live = f.alloca(x.masks.type)
            f.do(f"store {x.masks.type} {x.masks.value(mask)}, ptr {scope.live}")
        head, inside = f.label("head"), f.label("body")
        f.block(head)
        x.mask = mask if scope.live is None else f.value(f"load {x.masks.type}, ptr {scope.live}")
        self.test(scope, inside)
        f.block(inside)
        if scope.alive is not None:
            f.do(f"store {x.masks.type} {x.masks.value(x.mask)}, ptr {scope.alive}")
        self.iteration(scope, scope.latch)
        self.advance()
        f.branch(head)
        f.block(scope.exit)
        returns = any(o.name == "return" for o in walk(self.body))
        control.rejoin(x, mask, returns and self.masked, test=True)

    def iteration(self, scope: Scope, latch: str) -> None:
        """The body, once, up to the start of the latch."""
        x = self.x
        if self.counted:
            control.define(x, self.body.args[0], self.counter)
        for value, group in zip(self.args, self.carried, strict=True):
            control.define(x, value, group)
        x.scopes.append(scope)
        x.dead.append(latch)
        terminator = body.emit_region(x, self.body)
        if x.f.open:
            emit_leave(x, terminator)
        x.dead.pop()
        x.scopes.pop()
        x.f.block(latch)

    def advance(self) -> None:
        if not self.counted:
            return
        slot, group = self.counter.slots[0], self.counter
        t = Ty(group.dtype, self.x.width if group.form == VECTOR else 0)
        no_wrap = "nsw" if group.dtype.is_signed else "nuw"
        # Below a bound there is a next number; lanes that have left may run past it.
        flag = f"{no_wrap} " if group.form == SCALAR and not self.masked else ""
        slot.store(self.f.value(f"add {flag}{t.text} {slot.load()}, {t.const(1)}"))

    def test(self, scope: Scope, inside: str) -> None:
        """Let those lanes leave whose condition is false, and go in if any is left."""
        x, f, m = self.x, self.f, self.x.masks
        condition, uniform = self.condition()
        leave = f.label("leave") if self.separate() else scope.exit
        if not self.masked:
            f.branch_if(condition, inside, leave)
            self.hand_over(leave, scope, None)
            return
        here: Mask = x.mask
        if uniform:
            go = f.value(f"and i1 {condition}, {m.any(here)}")
            f.branch_if(go, inside, leave)
            self.hand_over(leave, scope, here)
            return
        active = m.value(m.both(here, condition))
        if self.separate():
            self.keep(m.without(here, condition))
        f.do(f"store {m.type} {active}, ptr {scope.live}")
        x.mask = active
        f.branch_if(m.any(active), inside, scope.exit)

    def condition(self) -> tuple[str, bool]:
        """What lets lanes in, a scalar (then True) or a mask."""
        x, f = self.x, self.f
        if not self.counted:
            first = self.op.regions[0]
            for value, group in zip(first.args, self.carried, strict=True):
                control.define(x, value, group)
            value = body.emit_region(x, first).operands[0]
            uniform = x.lanes.form(value) == SCALAR
            return (x.lanes.scalar(value) if uniform else x.mask_of(value)), uniform
        control.define(x, self.body.args[0], self.counter)
        iv, hi = self.body.args[0], self.op.operands[1]
        dtype = iv.type
        assert isinstance(dtype, DType)
        uniform = x.lanes.form(iv) == SCALAR and x.lanes.form(hi) == SCALAR
        t = Ty(dtype, 0 if uniform else x.width)
        a, b = (x.lanes.get(v, SCALAR if uniform else VECTOR) for v in (iv, hi))
        below = f.value(f"icmp {'s' if dtype.is_signed else 'u'}lt {t.text} {a}, {b}")
        return (below if uniform else x.masks.from_bools(below)), uniform

    def separate(self) -> bool:
        """Whether results have variables of their own, to be set when lanes leave."""
        return any(r is not c for r, c in zip(self.results, self.carried, strict=True))

    def hand_over(self, label: str, scope: Scope, mask: Mask) -> None:
        if label != scope.exit:
            self.f.block(label)
            self.keep(mask)
            self.f.branch(scope.exit)

    def keep(self, mask: Mask) -> None:
        """What is carried becomes the result of the lanes in `mask`."""
        for value, carried, result in zip(self.args, self.carried, self.results, strict=True):
            if carried is not result:
                control.define(self.x, value, carried)
                control.assign(self.x, result, value, mask)
