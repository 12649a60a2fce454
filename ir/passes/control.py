"""Control flow under the `Rewriter`: each op with regions, rebuilt and, where possible, removed.

    if true/false, switch of a constant    the chosen arm stands in its place
    if with arms of values only            selects
    for that runs no times                 its initial values
    while false                            its condition, run once
    carried values that never change       their initial values
    conditions                             are known inside the arms that they guard

`rewrite` returns True where control cannot reach what follows; the caller then ends the block.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

from ..core import Op, Region, Value
from ..dtypes import DType, MemType
from .effects import LOOPS, MERGEABLE, names

if TYPE_CHECKING:
    from .rewrite import Rewriter

# Too costly to run on a path that would not have needed them.
COSTLY = names(
    "div sqrt rsqrt floordiv mod exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos"
    " atan sinh cosh tanh asinh acosh atanh erf erfc cbrt gamma lgamma pow atan2 hypot fmod"
    " ldexp"
)
CHEAP = MERGEABLE - COSTLY


def rewrite(rw: Rewriter, op: Op) -> bool:
    """Rewrite an op with regions (operands final) into `rw.out`."""
    if op.name == "if":
        return _if(rw, op)
    if op.name == "switch":
        return _switch(rw, op)
    return _for(rw, op) if op.name == "for" else _while(rw, op)


def _inline(rw: Rewriter, op: Op, region: Region) -> bool:
    """Put an arm in the place of its op; True where the arm leaves."""
    mark = len(rw.out)
    ended = rw.block(region.ops)
    if not ended or rw.out[-1].name != "yield" or len(rw.out) <= mark:
        return True
    rw.replace(op.results, rw.out.pop().operands)
    return False


def _finish(rw: Rewriter, op: Op, regions: tuple[Region, ...]) -> None:
    if not all(map(is_, regions, op.regions)):
        op = Op(op.name, op.operands, op.results, op.attrs, regions, op.loc)
    rw.out.append(op)


def _finish_arms(rw: Rewriter, op: Op, arms: tuple[Region, ...]) -> bool:
    """Put an if or switch with its new arms; True where none of them yields, so that control does
    not come by here: the op then has no results."""
    ended = "yield" not in [arm.ops[-1].name for arm in arms]
    if ended and op.results:
        op = Op(op.name, op.operands, (), op.attrs, op.regions, op.loc)
    _finish(rw, op, arms)
    return ended


def _if(rw: Rewriter, op: Op) -> bool:
    condition = op.operands[0]
    bits = rw.known.get(condition.id)
    if rw.flow and bits is not None:
        return _inline(rw, op, op.regions[0 if bits else 1])
    if rw.flow and (inner := rw.defs.get(condition.id)) is not None and inner.name == "not":
        arms = (op.regions[1], op.regions[0])
        swapped = Op("if", inner.operands, op.results, op.attrs, arms, op.loc)
        return _if_arms(rw, swapped, op.regions)
    return _if_arms(rw, op, op.regions)


def _if_arms(rw: Rewriter, op: Op, key: tuple[Region, ...]) -> bool:
    """Rewrite both arms; `key` are the regions as the kernel holds them."""
    merger = rw.merger
    state = merger.snapshot() if merger else None
    new = []
    for arm, truth in zip(op.regions, (True, False), strict=True):
        assumed: list[Value] = []
        if rw.flow:
            _assume(rw, op.operands[0], truth, assumed)
        new.append(rw.region(arm))
        for v in assumed:
            del rw.subst[v.id]
        if merger and state:
            merger.restore(state)
    if merger:
        merger.clobber_regions(key)
    then, other = new
    if rw.flow and then.ops[-1].name == "yield" and other.ops[-1].name == "yield":
        if _arms_to_selects(rw, op, then, other):
            return False
        _same_results(rw, op, then, other)
    return _finish_arms(rw, op, (then, other))


def _assume(rw: Rewriter, value: Value, truth: bool, noted: list[Value]) -> None:
    """Let a condition be a constant from here on; `noted` gains the values for which it is."""
    if value.id in rw.known or value.id in rw.subst:
        return
    rw.subst[value.id] = rw.truth(truth)
    noted.append(value)
    inner = rw.defs.get(value.id)
    if inner is None:
        return
    if inner.name == "not":
        _assume(rw, inner.operands[0], not truth, noted)
    elif inner.name == ("and" if truth else "or"):
        for o in inner.operands:
            _assume(rw, o, truth, noted)


def _arms_to_selects(rw: Rewriter, op: Op, then: Region, other: Region) -> bool:
    """Run both arms and choose, where they hold nothing but a few cheap values."""
    if len(then.ops) + len(other.ops) - 2 > rw.convert_ifs:
        return False
    ops = (*then.ops[:-1], *other.ops[:-1])
    if not all(o.name in CHEAP for o in ops):
        return False
    if any(isinstance(v.type, MemType) for v in op.results):
        return False
    if not op.results:
        return True
    rw.out.extend(ops)
    for result, a, b in zip(
        op.results, then.terminator.operands, other.terminator.operands, strict=True
    ):
        rw.loc = op.loc
        rw.replace((result,), (rw.emit("select", (op.operands[0], a, b), result.type),))
    return True


def _same_results(rw: Rewriter, op: Op, then: Region, other: Region) -> None:
    """A result that is one value on both paths is that value (it dominates the op)."""
    for result, a, b in zip(
        op.results, then.terminator.operands, other.terminator.operands, strict=True
    ):
        if a.id == b.id:
            rw.replace((result,), (a,))


def _switch(rw: Rewriter, op: Op) -> bool:
    value = op.operands[0]
    bits = rw.known.get(value.id)
    if rw.flow and bits is not None:
        cases = op.attr("cases")
        dtype = value.type
        assert isinstance(cases, tuple)
        assert isinstance(dtype, DType)
        mask = (1 << dtype.bits) - 1
        hits = [n for n, case in enumerate(cases) if isinstance(case, int) and case & mask == bits]
        return _inline(rw, op, op.regions[hits[0] if hits else -1])
    merger = rw.merger
    state = merger.snapshot() if merger else None
    new = []
    for arm in op.regions:
        new.append(rw.region(arm))
        if merger and state:
            merger.restore(state)
    if merger:
        merger.clobber_regions(op.regions)
    return _finish_arms(rw, op, tuple(new))


def _for(rw: Rewriter, op: Op) -> bool:
    low, high, *init = op.operands
    if rw.flow:
        if _empty(rw, low, high):
            rw.replace(op.results, init)
            return False
        _invariant(rw, op, tuple(init), (op.regions[0].args[1:],))
    _loop(rw, op)
    return False


def _empty(rw: Rewriter, low: Value, high: Value) -> bool:
    if low.id == high.id:
        return True
    a, b = rw.known.get(low.id), rw.known.get(high.id)
    return a is not None and b is not None and trip_count(a, b, low.type) == 0  # type: ignore[arg-type]


def trip_count(low: int, high: int, dtype: DType) -> int:
    """Iterations of a `for` between two bit patterns of `dtype`."""
    if dtype.is_signed:
        sign = 1 << (dtype.bits - 1)
        low, high = (low ^ sign) - sign, (high ^ sign) - sign
    return max(high - low, 0)


def _while(rw: Rewriter, op: Op) -> bool:
    cond, body = op.regions
    if rw.flow:
        never = cond.terminator.name == "condition" and cond.terminator.operands
        if never and _is_false(rw, cond, never[0]):
            rw.replace(cond.args, op.operands)
            ended = rw.block(cond.ops[:-1])
            rw.replace(op.results, op.operands)
            return ended
        _invariant(rw, op, op.operands, (cond.args, body.args))
    _loop(rw, op)
    return False


def _is_false(rw: Rewriter, cond: Region, value: Value) -> bool:
    if value.id in rw.subst or value.id in rw.known:
        return rw.known.get(rw.subst.get(value.id, value).id) == 0
    return any(
        o.name == "const" and o.results[0].id == value.id and o.attrs[0][1] == 0 for o in cond.ops
    )


def _loop(rw: Rewriter, op: Op) -> None:
    merger = rw.merger
    if merger:
        merger.clobber_regions(op.regions)
    new = tuple([rw.region(r) for r in op.regions])
    if merger:
        merger.clobber_regions(op.regions)
    _finish(rw, op, new)


def _invariant(
    rw: Rewriter, op: Op, init: tuple[Value, ...], args: tuple[tuple[Value, ...], ...]
) -> None:
    """Replace carried values that every iteration hands on as they are."""
    body = op.regions[-1]
    end = body.terminator
    if end.name != "continue" or not init:
        return
    same = [
        n
        for n, v in enumerate(end.operands)
        if v.id == body.args[n - len(end.operands)].id or rw.subst.get(v.id, v).id == init[n].id
    ]
    if not same or _jumps(op.regions):
        return
    for n in same:
        for group in args:
            rw.replace((group[n],), (init[n],))
        rw.replace((op.results[n],), (init[n],))


def _jumps(regions: tuple[Region, ...]) -> bool:
    """Whether a `break` or `continue` of this loop stands anywhere but at its body's end."""
    pending = [op for region in regions for op in region.ops[:-1]]
    for op in pending:
        if op.name in ("break", "continue"):
            return True
        if op.regions and op.name not in LOOPS:
            pending += [inner for region in op.regions for inner in region.ops]
    return False
