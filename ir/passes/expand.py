"""Lowering of ops that a target lacks, first half of legalization: op by op, types unchanged.

The code for one (op, operand types) is made once, legalized in turn, simplified, and kept as a
template that every use copies: a maths function is some fifty ops. f16 and bf16 go through f32 and
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ..builder import Builder
from ..core import Attr, Kernel, Loc, Op, Param, Region, Value
from ..dtypes import DType, Type, VectorType, element_of, f32, i32, with_element
from .dce import Dce
from .effects import free_number, names, op_names
from .lower_nan import keep_nans
from .lowerings import LOWERINGS, Context
from .simplify import Simplify
from .support import OPTIONAL, Support

_SUBGROUP = names(
    "subgroup_reduce subgroup_scan subgroup_shuffle subgroup_shuffle_xor subgroup_shuffle_up"
    " subgroup_shuffle_down subgroup_broadcast"
)
_CANDIDATES = OPTIONAL | _SUBGROUP


@dataclass(frozen=True)
class Expand:
    """Replace ops that `support` does not list as native by ops that every target has."""

    support: Support
    name: str = "expand"

    def __call__(self, kernel: Kernel) -> Kernel:
        return self.settling(kernel)[0]

    def settling(self, kernel: Kernel) -> tuple[Kernel, list[Op]]:
        """The same, and ops of it that came out of a template simplified."""
        if _CANDIDATES.isdisjoint(op_names(kernel)):
            return kernel, []
        walk = _Expander(kernel, self.support)
        body = walk.region(kernel.body)
        if body is kernel.body:
            return kernel, []
        return replace(kernel, body=body), walk.settled


@dataclass(frozen=True)
class _Template:
    """Ops that compute `result` from values 0, 1, ... (the operands)."""

    ops: tuple[Op, ...]
    result: Value


class _Expander:
    def __init__(self, kernel: Kernel, support: Support) -> None:
        self.kernel = kernel
        self.support = support
        self.subst: dict[int, Value] = {}
        self.next = -1
        self.settled: list[Op] = []

    def region(self, region: Region) -> Region:
        out: list[Op] = []
        subst = self.subst
        changed = False
        for op in region.ops:
            new = op
            if subst and any(v.id in subst for v in op.operands):
                operands = tuple([subst.get(v.id, v) for v in op.operands])
                new = Op(op.name, operands, op.results, op.attrs, op.regions, op.loc)
            if op.regions:
                regions = tuple([self.region(r) for r in op.regions])
                if any(a is not b for a, b in zip(regions, op.regions, strict=True)):
                    new = Op(op.name, new.operands, op.results, op.attrs, regions, op.loc)
            elif op.name in _CANDIDATES and not native(self.support, op):
                self.expand(new, out)
                changed = True
                continue
            changed |= new is not op
            out.append(new)
        return Region(region.args, tuple(out)) if changed else region

    def expand(self, op: Op, out: list[Op]) -> None:
        found = template(
            op.name,
            tuple([v.type for v in op.operands]),
            op.results[0].type,
            op.attrs,
            self.support,
            self.kernel.subgroup,
            self.kernel.index,
        )
        if self.next < 0:
            self.next = free_number(self.kernel)
        names = dict(enumerate(op.operands))
        self.copy(found.ops, names, op.loc, out, len(op.operands))
        self.subst[op.results[0].id] = names[found.result.id]

    def copy(
        self, ops: Sequence[Op], names: dict[int, Value], loc: Loc | None, out: list[Op], args: int
    ) -> None:
        """Copy ops of a template with `args` arguments. What uses none of these is settled: only
        they bring in values that the template has not seen."""
        for op in ops:
            operands = tuple([names[v.id] for v in op.operands])
            regions: tuple[Region, ...] = ()
            if op.regions:
                regions = tuple([self.copy_region(r, names, loc, args) for r in op.regions])
            new = Op(op.name, operands, self.copied(op.results, names), op.attrs, regions, loc)
            out.append(new)
            if all(v.id >= args for v in op.operands):
                self.settled.append(new)

    def copied(self, values: tuple[Value, ...], names: dict[int, Value]) -> tuple[Value, ...]:
        new = []
        for v in values:
            names[v.id] = value = Value(self.next, v.type)
            self.next += 1
            new.append(value)
        return tuple(new)

    def copy_region(
        self, region: Region, names: dict[int, Value], loc: Loc | None, args: int
    ) -> Region:
        inner = self.copied(region.args, names)
        ops: list[Op] = []
        self.copy(region.ops, names, loc, ops, args)
        return Region(inner, tuple(ops))


def native(support: Support, op: Op) -> bool:
    """Whether an op may stay."""
    t = op.operands[0].type
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
def template(
    name: str,
    types: tuple[Type, ...],
    result: Type,
    attrs: tuple[tuple[str, Attr], ...],
    support: Support,
    subgroup: int | None,
    index: DType,
) -> _Template:
    """The lowering of one op on operands of these types."""
    builder = Builder(len(types))
    args = tuple([Value(n, t) for n, t in enumerate(types)])
    context = Context(builder, support, dict(attrs), subgroup, index)
    value = _lower(context, name, args, result)
    found = _Template(tuple(builder.ops), value)
    return _simplified(_legal(found, len(types), support, subgroup, index), args)


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
    lowering = LOWERINGS.get(name)
    if lowering is not None:
        return lowering(c, *args)
    from ..maths import expand

    value = expand(c.b, name, args, fused=c.support.has("fma", first))
    return value if c.support.keeps_nan else keep_nans(c, name, args, value)


def _lower_or_keep(c: Context, name: str, args: tuple[Value, ...], result: Type) -> Value:
    if c.support.has(name, args[0].type):
        return c.b.op(name, args, dict(c.attrs), (result,)).result
    return _lower(c, name, args, result)


def _legal(
    found: _Template, first: int, support: Support, subgroup: int | None, index: DType
) -> _Template:
    """The template with what it uses lowered as well."""
    body = Region((), found.ops)
    shell = Kernel("", "", (), (1, 1, 1), index, body, subgroup)
    walk = _Expander(shell, support)
    walk.next = max(free_number(shell), first)
    body = walk.region(body)
    result = walk.subst.get(found.result.id, found.result)
    return _Template(body.ops, result)


def _simplified(found: _Template, args: tuple[Value, ...]) -> _Template:
    params = tuple([Param(f"a{v.id}", "scalar", element_of(v.type)) for v in args])
    shown = Op("print", (found.result,))  # an effect, which keeps the result
    body = Region(args, (*found.ops, shown, Op("return")))
    kernel = Kernel("", "", params, (1, 1, 1), i32, body)
    *ops, shown, _ = Dce()(Simplify(strength=True)(kernel)).body.ops
    return _Template(tuple(ops), shown.operands[0])
