"""Structured control flow as branches and phis.

A join is a block that several edges reach, each with its values; where all edges bring the same
value, that value is used. A block that nothing reaches is never begun: control has then left, and
the function is not open.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Region, Value
from ..llvm.text import Phi
from . import body
from .flow import Join, Loop
from .lowering import Lowering


def leave(x: Lowering, join: Join, values: Sequence[Value]) -> None:
    """End the current block with an edge to a join."""
    bring(x, join, values)
    x.f.branch(join.label)


def bring(x: Lowering, join: Join, values: Sequence[Value]) -> None:
    """Note an edge from the current block, whose branch is written elsewhere."""
    join.edges.append((x.f.current, [x.brought(v) for v in values]))


def enter(x: Lowering, join: Join, results: Sequence[Value]) -> None:
    """Begin the block of a join and define its results; nothing where no edge reaches it."""
    if not join.edges:
        return
    x.f.block(join.label)
    for n, value in enumerate(results):
        columns = zip(*(values[n] for _, values in join.edges), strict=True)
        x.set_phis(value, [_merged(x, x.phi_type(value), join, column) for column in columns])


def _merged(x: Lowering, type_: str, join: Join, column: Sequence[str]) -> str:
    if column.count(column[0]) == len(column):
        return column[0]
    phi = x.f.phi(type_)
    phi.edges += zip(column, (block for block, _ in join.edges), strict=True)
    return phi.name


def emit_control(x: Lowering, op: Op) -> None:
    """Emit an op that owns regions."""
    _EMIT[op.name](x, op)


def emit_terminator(x: Lowering, op: Op) -> None:
    """Leave the current block as the region's last op says."""
    flow = x.flow
    match op.name:
        case "yield":
            leave(x, flow.selections[-1], op.operands)
        case "continue":
            leave(x, flow.loops[-1].latch, op.operands)
        case "break":
            leave(x, flow.loops[-1].out, op.operands)
        case "condition":
            out, (inside, carried) = flow.loops[-1].out, flow.whiles[-1]
            bring(x, out, carried)
            x.f.branch_if(x.scalar(op.operands[0]), inside, out.label)
        case "return":
            x.f.ret()
        case _:
            raise x.fail(op, f"op {op.name} ends no region")


def _trivial(region: Region) -> bool:
    return len(region.ops) == 1 and region.ops[0].name == "yield"


def _if(x: Lowering, op: Op) -> None:
    f, (then, otherwise) = x.f, op.regions
    condition = x.scalar(op.operands[0])
    if _trivial(then) and _trivial(otherwise):
        _select(x, op, condition)
        return
    join = Join(f.label("join"))
    arms = []
    for word, region in (("then", then), ("else", otherwise)):
        if _trivial(region):
            bring(x, join, region.terminator.operands)
            arms.append((join.label, region))
        else:
            arms.append((f.label(word), region))
    f.branch_if(condition, arms[0][0], arms[1][0])
    x.flow.selections.append(join)
    for label, region in arms:
        if label != join.label:
            f.block(label)
            body.emit_region(x, region)
    x.flow.selections.pop()
    enter(x, join, op.results)


def _select(x: Lowering, op: Op, condition: str) -> None:
    yes, no = (r.terminator.operands for r in op.regions)
    for value, a, b in zip(op.results, yes, no, strict=True):
        t = x.type_of(value).text
        pairs = zip(x.parts(a), x.parts(b), strict=True)
        x.set(value, [x.f.value(f"select i1 {condition}, {t} {p}, {t} {q}") for p, q in pairs])


def _switch(x: Lowering, op: Op) -> None:
    f = x.f
    join = Join(f.label("join"))
    labels = [f.label("case") for _ in op.regions]
    cases = op.attr("cases")
    assert isinstance(cases, tuple)
    table = [(int(n), label) for n, label in zip(cases, labels, strict=False) if isinstance(n, int)]
    selector = x.type_of(op.operands[0])
    f.switch(selector.text, x.scalar(op.operands[0]), labels[-1], table)
    x.flow.selections.append(join)
    for label, region in zip(labels, op.regions, strict=True):
        f.block(label)
        body.emit_region(x, region)
    x.flow.selections.pop()
    enter(x, join, op.results)


def _carry(
    x: Lowering, inits: Sequence[list[str]], args: Sequence[Value], before: str
) -> list[list[Phi]]:
    """Phis for carried values at the head of a loop, with their edges from before it."""
    made = []
    for init, arg in zip(inits, args, strict=True):
        phis = [x.f.phi(x.phi_type(arg)) for _ in init]
        x.set_phis(arg, [phi.name for phi in phis])
        made.append(phis)
        _feed(phis, init, before)
    return made


def _feed(phis: Sequence[Phi], parts: Sequence[str], block: str) -> None:
    for phi, part in zip(phis, parts, strict=True):
        phi.edges.append((part, block))


def _close(
    x: Lowering, op: Op, latch: Join, args: Sequence[Value], phis: Sequence[list[Phi]]
) -> bool:
    """Begin the latch of a loop, where the next carried values meet; False: nothing continues."""
    if not latch.edges:
        return False
    enter(x, latch, args)  # the body is written: its arguments may mean the next ones
    x.turn_ends(op)
    for group, arg in zip(phis, args, strict=True):
        _feed(group, x.held(arg), x.f.current)
    return True


def _for(x: Lowering, op: Op) -> None:
    """The test stands at the end of the body, and once more before it: so compilers want loops."""
    f, (region,) = x.f, op.regions
    low, high, *inits = op.operands
    counter, *args = region.args
    t = x.type_of(counter)
    sign = "s" if t.dtype.is_signed else "u"
    test = f"icmp {sign}lt {t.text}"
    head, out, latch = f.label("for"), Join(f.label("done")), Join(f.label("next"))
    before, first = f.current, [x.held(v) for v in inits]
    if not _runs(x, low, high):
        bring(x, out, inits)
        f.branch_if(f.value(f"{test} {x.scalar(low)}, {x.scalar(high)}"), head, out.label)
    f.block(head)
    iv = f.phi(t.text)
    iv.edges.append((x.scalar(low), before))
    x.set(counter, [iv.name])
    phis = _carry(x, first, args, before)
    x.flow.loops.append(Loop(out, latch))
    body.emit_region(x, region)
    x.flow.loops.pop()
    if _close(x, op, latch, args, phis):
        # Below `high` the next number exists.
        following = f.value(f"add n{sign}w {t.text} {iv.name}, 1")
        iv.edges.append((following, f.current))
        bring(x, out, args)
        f.branch_if(f.value(f"{test} {following}, {x.scalar(high)}"), head, out.label)
    enter(x, out, op.results)


def _runs(x: Lowering, low: Value, high: Value) -> bool:
    """Whether a loop is known to have a first turn, and the target wants no test of that."""
    if not x.sure_loops:
        return False
    first, end = x.constant(low), x.constant(high)
    return first is not None and end is not None and first < end


def _while(x: Lowering, op: Op) -> None:
    f, (test, region) = x.f, op.regions
    before, head, inside = f.current, f.label("while"), f.label("body")
    out, latch = Join(f.label("done")), Join(f.label("next"))
    first = [x.held(v) for v in op.operands]
    f.branch(head)
    f.block(head)
    phis = _carry(x, first, test.args, before)
    for arg, again in zip(test.args, region.args, strict=True):
        x.set_phis(again, x.held(arg))
    x.flow.loops.append(Loop(out, latch))
    x.flow.whiles.append((inside, test.args))
    body.emit_region(x, test)
    x.flow.whiles.pop()
    f.block(inside)
    body.emit_region(x, region)
    x.flow.loops.pop()
    if _close(x, op, latch, region.args, phis):
        f.branch(head)
    enter(x, out, op.results)


_EMIT = {"if": _if, "switch": _switch, "for": _for, "while": _while}
OWNERS = tuple(_EMIT)
