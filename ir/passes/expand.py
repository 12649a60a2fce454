"""Lowering of ops that a target lacks, first half of legalization: op by op, types unchanged.

The code for one (op, operand types) is made once, legalized in turn, simplified, and kept as a
template (`template`) that every use copies: a maths function is some fifty ops. f16 and bf16 go
through f32 and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..builder import Builder
from ..core import Attr, Kernel, Op, Param, Region, Value, replaced, types_of, with_body
from ..dtypes import DType, Type, VectorType, element_of, f32, i32, with_element
from .dce import Dce
from .effects import free_number, names
from .lower_nan import keep_nans
from .lowerings import LOWERINGS, Context
from .simplify import Simplify
from .support import OPTIONAL, Support
from .template import CONSTANTS, Compiler, Copier, Settled, Template

_SUBGROUP = names(
    "subgroup_reduce subgroup_scan subgroup_shuffle subgroup_shuffle_xor subgroup_shuffle_up"
    " subgroup_shuffle_down subgroup_broadcast"
)
_DIVISIONS = names("floordiv mod")
_CANDIDATES = OPTIONAL | _SUBGROUP | _DIVISIONS


@dataclass(frozen=True)
class Expand:
    """Replace ops that `support` does not list as native by ops that every target has."""

    support: Support
    name: str = "expand"

    def __call__(self, kernel: Kernel) -> Kernel:
        return self.settling(kernel)[0]

    def settling(self, kernel: Kernel) -> tuple[Kernel, Settled]:
        """The same, and what of it came out of templates simplified."""
        if not _lacks(kernel, self.support):
            return kernel, Settled()
        walk = _Expander(kernel, self.support, free_number(kernel))
        body = walk.region(kernel.body)
        return with_body(kernel, body), walk.copier.settled


def _lacks(kernel: Kernel, support: Support) -> bool:
    """Whether there is an op that the target lacks: one look at each op, and at each name on each
    type of an operand."""
    regions = [kernel.body]
    seen: dict[tuple[str, int], Op] = {}
    for region in regions:
        for op in region.ops:
            if op.name in _CANDIDATES:
                seen[op.name, id(op.operands[0].type)] = op
            elif op.regions:
                regions += op.regions
    return not all(native(support, op) for op in seen.values())


class _Expander:
    def __init__(self, kernel: Kernel, support: Support, first: int) -> None:
        self.kernel = kernel
        self.support = support
        self.subst: dict[int, Value] = {}
        self.copier = Copier(first)

    def region(self, region: Region) -> Region:
        out: list[Op] = []
        subst, copier = self.subst, self.copier
        changed = False
        mark = copier.enter()
        for op in region.ops:
            new = op
            for v in op.operands:
                if v.id in subst:
                    operands = replaced(op.operands, subst)
                    new = Op(op.name, operands, op.results, op.attrs, op.regions, op.loc)
                    break
            if op.regions:
                regions = tuple([self.region(r) for r in op.regions])
                if any(a is not b for a, b in zip(regions, op.regions, strict=True)):
                    new = Op(op.name, new.operands, op.results, op.attrs, regions, op.loc)
            elif op.name in _CANDIDATES and not native(self.support, op):
                subst[op.results[0].id] = copier.copy(self.lowered(new), new, out)
                changed = True
                continue
            elif op.name in CONSTANTS:
                copier.note(op)
            changed |= new is not op
            out.append(new)
        copier.leave(mark)
        return Region(region.args, tuple(out)) if changed else region

    def lowered(self, op: Op) -> Template:
        # What a division is by, where that is a constant.
        by = self.copier.known.get(op.operands[1].id) if op.name in _DIVISIONS else None
        return lowering(
            op.name,
            types_of(op.operands),
            op.results[0].type,
            op.attrs if by is None else (("by", by),),
            self.support,
            self.kernel.subgroup,
            self.kernel.index,
        )


def native(support: Support, op: Op) -> bool:
    """Whether an op may stay."""
    t = op.operands[0].type
    if op.name in _DIVISIONS:
        return element_of(t).bits <= support.divides
    if op.name in _SUBGROUP and isinstance(t, VectorType) and not support.subgroup_vectors:
        return False
    if op.name in OPTIONAL:
        return support.has(op.name, t) or _narrow_keeps(support, op)
    return True


def _narrow_keeps(support: Support, op: Op) -> bool:
    """Subgroup ops of narrow types: native once their operand is held in its wide type."""
    if op.name not in _SUBGROUP:
        return False
    return support.has(op.name, support.register(element_of(op.operands[0].type)))


@lru_cache(2048)
def lowering(
    name: str,
    types: tuple[Type, ...],
    result: Type,
    attrs: tuple[tuple[str, Attr], ...],
    support: Support,
    subgroup: int | None,
    index: DType,
) -> Template:
    """The lowering of one op on operands of these types."""
    builder = Builder(len(types))
    args = tuple([Value(n, t) for n, t in enumerate(types)])
    context = Context(builder, support, dict(attrs), subgroup, index)
    value = _lower(context, name, args, result)
    body = Region(args, tuple(builder.ops))
    shell = Kernel("", "", (), (1, 1, 1), index, body, subgroup)
    walk = _Expander(shell, support, free_number(shell))
    ops = walk.region(body).ops  # what the lowering uses, lowered as well
    return _simplified(ops, args, walk.subst.get(value.id, value))


def _lower(c: Context, name: str, args: tuple[Value, ...], result: Type) -> Value:
    first = args[0].type
    if name in _SUBGROUP and isinstance(first, VectorType) and not c.support.subgroup_vectors:
        return c.lanes(name, args, first)
    element = element_of(first)
    if element.is_float and element.bits == 16 and name not in _SUBGROUP:
        wide = tuple([c.widen(v) for v in args])
        if result == first:
            value = _lower_or_keep(c, name, wide, with_element(result, f32))
            return c.b.emit("convert", value, type=result)
        return _lower_or_keep(c, name, wide, result)
    known = LOWERINGS.get(name)
    if known is not None:
        return known(c, *args)
    from ..maths import expand

    value = expand(c.b, name, args, fused=c.support.has("fma", first))
    return value if c.support.keeps_nan else keep_nans(c, name, args, value)


def _lower_or_keep(c: Context, name: str, args: tuple[Value, ...], result: Type) -> Value:
    if c.support.has(name, args[0].type):
        return c.b.op(name, args, dict(c.attrs), (result,)).result
    return _lower(c, name, args, result)


def _simplified(ops: tuple[Op, ...], args: tuple[Value, ...], result: Value) -> Template:
    params = tuple([Param(f"a{v.id}", "scalar", element_of(v.type)) for v in args])
    shown = Op("print", (result,))  # an effect, which keeps the result
    body = Region(args, (*ops, shown, Op("return")))
    kernel = Kernel("", "", params, (1, 1, 1), i32, body)
    *rest, shown, _ = Dce()(Simplify(strength=True)(kernel)).body.ops
    return Compiler(args).template(rest, shown.operands[0])
