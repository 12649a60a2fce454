"""Structured control flow over lanes: ifs and switches.

A uniform condition is a scalar branch. Under a divergent one each arm runs for its own lanes, and
not at all where there are none: loads, stores and loops in it must not run for nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Region, Value, walk
from ...ir.dtypes import element_of, lanes_of
from ...ir.ops import ROWS, Effect
from ..llvm.types import Ty
from . import body, loops
from .lanes import VECTOR, Slot
from .lowering import Lowering, SlotGroup
from .masks import Mask
from .shapes import Kind

_CHEAP = 8  # pure ops that are computed for all lanes rather than branched around
_TWICE = 600  # the largest body that is also written for "all lanes active"
_COSTLY = ("floordiv", "mod", "div", "sqrt", "rsqrt")


def emit_control(x: Lowering, op: Op) -> None:
    """Emit an op that owns regions."""
    if op.name in ("for", "while"):
        loops.emit_loop(x, op)
    elif x.analysis.kind(op.operands[0]) <= Kind.UNIFORM:
        _uniform(x, op)
    else:
        _divergent(x, op)


def slots_for(x: Lowering, value: Value, form: str | None = None) -> SlotGroup:
    """Variables for a value, in the form of its shape."""
    form = form or x.lanes.form(value)
    t = x.lanes.type_in(value, form)
    dtype = element_of(value.type)
    return SlotGroup(form, dtype, [Slot(x.f, t.text) for _ in range(lanes_of(value.type))])


def assign(x: Lowering, group: SlotGroup, value: Value, mask: Mask = None) -> None:
    """Set variables to a value; with a mask in the active lanes only."""
    t = Ty(group.dtype, x.width if group.form == VECTOR else 0)
    for slot, new in zip(group.slots, x.lanes.parts(value, group.form), strict=True):
        if mask is not None and group.form == VECTOR:
            new = x.masks.blend(mask, t.text, new, slot.load())
        slot.store(new)


def define(x: Lowering, value: Value, group: SlotGroup) -> None:
    """Define a value by what its variables hold."""
    x.lanes.set(value, *(slot.load() for slot in group.slots))


def zero(x: Lowering, groups: Sequence[SlotGroup]) -> None:
    """Give variables a value: what no lane sets must not be undefined."""
    for group in groups:
        for slot in group.slots:
            slot.store("zeroinitializer")


def leaves(op: Op) -> bool:
    """Whether lanes may leave a construct otherwise than behind it."""
    return any(_leaves(region, op.name in ("for", "while")) for region in op.regions)


def _leaves(region: Region, in_loop: bool) -> bool:
    for op in region.ops:
        if op.name == "return" or (op.name in ("break", "continue") and not in_loop):
            return True
        if any(_leaves(r, in_loop or op.name in ("for", "while")) for r in op.regions):
            return True
    return False


def finish_arm(
    x: Lowering, op: Op, terminator: Op, results: Sequence[SlotGroup], mask: Mask
) -> None:
    """End an arm: hand over its results, or leave."""
    if not x.f.open:
        return
    if terminator.name == "yield":
        for group, value in zip(results, terminator.operands, strict=True):
            assign(x, group, value, mask)
    else:
        loops.emit_leave(x, terminator)


def rejoin(x: Lowering, mask: Mask, left: bool, test: bool) -> None:
    """Behind a construct: the active lanes are those of before that have not left."""
    x.mask = mask
    if not left or x.scopes[-1].alive is None:
        return
    scope = x.scopes[-1]
    alive = x.f.value(f"load {x.masks.type}, ptr {scope.alive}")
    x.mask = x.masks.both(mask, alive)
    if test:
        go = x.f.label("go")
        x.f.branch_if(x.masks.any(x.mask), go, x.dead[-1])
        x.f.block(go)


def _uniform(x: Lowering, op: Op) -> None:
    f, mask = x.f, x.mask
    results = [slots_for(x, v) for v in op.results]
    merge = f.label("merge")
    labels = [f.label("arm") for _ in op.regions]
    condition = x.lanes.scalar(op.operands[0])
    if op.name == "if":
        f.branch_if(condition, labels[0], labels[1])
    else:
        cases = list(zip(_cases(op), labels[:-1], strict=True))
        f.switch(Ty(element_of(op.operands[0].type)).text, condition, labels[-1], cases)
    reached = False
    for label, region in zip(labels, op.regions, strict=True):
        f.block(label)
        x.mask = mask
        finish_arm(x, op, body.emit_region(x, region), results, None)
        reached = reached or f.open
        f.branch(merge)
    if not reached:
        # Every arm leaves; what stands behind is dead.
        x.mask = mask
        return
    f.block(merge)
    rejoin(x, mask, leaves(op), test=False)
    for value, group in zip(op.results, results, strict=True):
        define(x, value, group)


def _cases(op: Op) -> list[int]:
    values = op.attr("cases")
    assert isinstance(values, tuple)
    return [int(v) for v in values if isinstance(v, int)]


def _cheap(op: Op) -> bool:
    ops = [o for r in op.regions for o in r.ops[:-1]]
    if len(ops) > _CHEAP or any(r.terminator.name != "yield" for r in op.regions):
        return False
    return all(
        ROWS[o.name].effect is Effect.PURE and not o.regions and o.name not in _COSTLY for o in ops
    )


def _divergent(x: Lowering, op: Op) -> None:
    if op.name == "if" and _cheap(op):
        _both_arms(x, op)
        return
    mask, scope = x.mask, x.scopes[-1]
    results = [slots_for(x, v, VECTOR) for v in op.results]
    zero(x, results)
    merge = x.f.label("merge")
    scope.depth += 1
    fast = op.name == "if" and mask is None and scope.depth == 1 and not x.scopes[1:] and _worth(op)
    for n, (condition, region) in enumerate(_arms(x, op, mask)):
        _arm(x, op, condition, region, results, first=n == 0, merge=merge if fast else None)
    scope.depth -= 1
    x.f.block(merge)
    rejoin(x, mask, leaves(op), test=True)
    for value, group in zip(op.results, results, strict=True):
        define(x, value, group)


def _worth(op: Op) -> bool:
    """Whether a guard deserves a second body for the case that every lane passes it."""
    size = sum(1 for _ in walk(op.regions[0]))
    trivial = len(op.regions[1].ops) == 1 and op.regions[1].terminator.name == "yield"
    return trivial and 0 < size <= _TWICE and not leaves(op)


def _arms(x: Lowering, op: Op, mask: Mask) -> list[tuple[str, Region]]:
    """The lanes of each arm, as masks."""
    m, f = x.masks, x.f
    if op.name == "if":
        yes = x.mask_of(op.operands[0])
        arms = [(m.value(m.both(mask, yes)), op.regions[0])]
        if len(op.regions[1].ops) > 1 or op.regions[1].terminator.name != "yield" or op.results:
            arms.append((m.without(mask, yes), op.regions[1]))
        return arms
    chosen, t = x.lanes.vector(op.operands[0]), Ty(element_of(op.operands[0].type), x.width)
    arms, rest = [], mask
    for case, region in zip(_cases(op), op.regions[:-1], strict=True):
        here = m.from_bools(f.value(f"icmp eq {t.text} {chosen}, {t.const(case)}"))
        arms.append((m.value(m.both(mask, here)), region))
        rest = m.without(rest, here)
    return [*arms, (m.value(rest), op.regions[-1])]


def _arm(
    x: Lowering, op: Op, mask: str, region: Region, results: Sequence[SlotGroup],
    first: bool, merge: str | None,
) -> None:  # fmt: skip
    """One arm for the lanes of `mask`.

    first: no other arm has delivered results. merge: where to go on if all lanes took this one.
    """
    f = x.f
    if merge is not None:
        everyone, some = f.label("all"), f.label("some")
        f.branch_if(x.masks.all_bools(x.masks.to_bools(mask)), everyone, some)
        f.block(everyone)
        x.mask = None
        saved = dict(x.lanes.held)
        finish_arm(x, op, body.emit_region(x, region), results, None)
        f.branch(merge)
        x.lanes.held = saved
        f.block(some)
    run, end = f.label("arm"), f.label("end")
    f.branch_if(x.masks.any(mask), run, end)
    f.block(run)
    x.mask = mask
    x.dead.append(end)
    terminator = body.emit_region(x, region)
    finish_arm(x, op, terminator, results, None if first else x.mask)
    x.dead.pop()
    f.block(end)


def _both_arms(x: Lowering, op: Op) -> None:
    """Compute both arms for all lanes and select."""
    for region in op.regions:
        body.emit_region(x, region)
    condition = x.lanes.vector(op.operands[0])
    yes, no = (r.terminator.operands for r in op.regions)
    for value, a, b in zip(op.results, yes, no, strict=True):
        t = Ty(element_of(value.type), x.width)
        pairs = zip(x.lanes.parts(a, VECTOR), x.lanes.parts(b, VECTOR), strict=True)
        parts = [
            x.f.value(f"select {x.masks.bools} {condition}, {t.text} {p}, {t.text} {q}")
            for p, q in pairs
        ]
        x.lanes.set(value, *parts)
