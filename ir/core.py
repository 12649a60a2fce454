"""Kernel IR: typed SSA with structured regions, as frozen values.

A `Kernel` is one function body executed by every invocation of a grid. Control flow is never a
jump: `if`, `switch`, `for` and `while` are ops that own regions, and a region ends in exactly one
terminator.

    if %c -> results          regions: then, else                  (no region arguments)
    switch %x {cases} -> ...  regions: one per case, then default  (no region arguments)
    for %lo, %hi, init... ->  region(iv, carried...)   iv counts lo, lo+1, ... while iv < hi
    while init... ->          regions: cond(carried...), body(carried...)

Terminators: `yield v...` gives the results of the enclosing if or switch; `continue v...` ends an
iteration of the innermost loop with the next carried values; `break v...` leaves it with its
results; `condition %c` ends the cond region of a while (false: leave with the carried values);
`return` ends the invocation. After a region that does not end in `yield`, control does not reach
the op behind the if.

Values are numbered; two kernels are equal when their structure, numbers and attributes are equal
(hints and source locations do not count). `renumber` gives the canonical numbering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .dtypes import DType, MemType, Type
from .interface import Attr as Attr
from .interface import Loc as Loc
from .interface import Param as Param
from .interface import bits_float as bits_float
from .interface import const_bits as const_bits
from .interface import float_bits as float_bits
from .interface import node


@node
class Value:
    """An SSA value: number, type and, for readers only, the name it had in the source."""

    id: int
    type: Type
    hint: str = field(default="", compare=False)


# Most ops have one or two operands: a comprehension takes four times as long for those.


def types_of(values: Sequence[Value]) -> tuple[Type, ...]:
    """The types of values."""
    count = len(values)
    if count == 2:
        a, b = values
        return a.type, b.type
    if count == 1:
        return (values[0].type,)
    return tuple([v.type for v in values])


def replaced(values: tuple[Value, ...], new: Mapping[int, Value]) -> tuple[Value, ...]:
    """Values, or what `new` has for their numbers."""
    get, count = new.get, len(values)
    if count == 2:
        a, b = values
        return get(a.id, a), get(b.id, b)
    if count == 1:
        (a,) = values
        return (get(a.id, a),)
    return tuple([get(v.id, v) for v in values])


@node
class Op:
    """One operation. `attrs` is sorted by name; `loc` is where the source asked for it."""

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attrs: tuple[tuple[str, Attr], ...] = ()
    regions: tuple[Region, ...] = ()
    loc: Loc | None = field(default=None, compare=False)

    def attr(self, name: str) -> Attr:
        """The attribute `name`; KeyError where the op has none."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"op {self.name} has no attribute {name}")

    @property
    def result(self) -> Value:
        """The single result of an op that has one."""
        (value,) = self.results
        return value


@node
class Region:
    """A list of ops, the last of which is a terminator, with the region's arguments."""

    args: tuple[Value, ...] = ()
    ops: tuple[Op, ...] = ()

    @property
    def terminator(self) -> Op:
        return self.ops[-1]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A traced kernel.

    `body.args` holds one value per parameter, in order. `fast` is a sorted subset of
    {"approximate", "contract", "reassociate"}. `sites` are the messages of the fault sites, by
    site number. `constexprs` records what the specialization was made with. `grid` gives the
    workgroups per dimension as expressions of `ir.abi.evaluate`; without it a launch states them.
    """

    name: str
    specialization: str
    params: tuple[Param, ...]
    workgroup: tuple[int, int, int]
    index: DType
    body: Region
    subgroup: int | None = None
    fast: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    constexprs: tuple[tuple[str, Attr], ...] = ()
    grid: tuple[Attr, Attr, Attr] | None = None

    def __str__(self) -> str:
        """The IR text, as `ir.text` reads it back."""
        from .text import print_kernel

        return print_kernel(self)

    @property
    def workgroup_count(self) -> int:
        """Invocations in a workgroup."""
        return math.prod(self.workgroup)


def with_body(kernel: Kernel, body: Region) -> Kernel:
    """The kernel with another body (as `replace` gives it, which takes ten times as long)."""
    return Kernel(
        kernel.name,
        kernel.specialization,
        kernel.params,
        kernel.workgroup,
        kernel.index,
        body,
        kernel.subgroup,
        kernel.fast,
        kernel.sites,
        kernel.constexprs,
        kernel.grid,
    )


class _Walked:
    """The ops of the body of a kernel, and the same by name, once somebody asks for those."""

    def __init__(self, body: Region | None, ops: list[Op]) -> None:
        self.body, self.ops = body, ops
        self.named: dict[str, list[Op]] | None = None


_last = _Walked(None, [])


def walk(region: Region) -> Iterator[Op]:
    """Every op of a region, outer before inner, in program order.

    Each step of a compile asks the same kernel several questions: the ops of the last body that was
    walked, which a `return` tells from other regions, are kept.
    """
    return iter(_walked(region).ops)


def _walked(region: Region) -> _Walked:
    global _last
    known = _last
    if region is known.body:
        return known
    found: list[Op] = []
    _gather(region, found.append)
    walked = _Walked(region, found)
    if found and region.ops[-1].name == "return":
        _last = walked
    return walked


def ops_by_name(region: Region) -> dict[str, list[Op]]:
    """The ops that `walk` gives, by their names; nobody changes that."""
    walked = _walked(region)
    named = walked.named
    if named is None:
        named = {}
        for op in walked.ops:
            if (ops := named.get(op.name)) is None:
                ops = named[op.name] = []
            ops.append(op)
        walked.named = named  # whole: another thread may ask
    return named


def ops_named(region: Region, *names: str) -> list[Op]:
    """The ops that `walk` gives and that have one of these names, in its order."""
    named = ops_by_name(region)
    there = [name for name in names if name in named]
    if len(there) > 1:
        return [op for op in walk(region) if op.name in there]
    return named[there[0]] if there else []


def _gather(region: Region, take: Callable[[Op], None]) -> None:
    for op in region.ops:
        take(op)
        if op.regions:
            for inner in op.regions:
                _gather(inner, take)


def map_region(region: Region, visit: Callable[[Op], Op]) -> Region:
    """Rebuild a region bottom-up: `visit` sees each op with its regions already rebuilt."""
    ops = []
    for op in region.ops:
        if op.regions:
            op = replace(op, regions=tuple(map_region(r, visit) for r in op.regions))
        ops.append(visit(op))
    return Region(region.args, tuple(ops))


def max_id(kernel: Kernel) -> int:
    """The greatest value number in use (-1 in a kernel without values)."""
    best = max((v.id for v in kernel.body.args), default=-1)
    for op in walk(kernel.body):
        for value in op.results:
            best = max(best, value.id)
        for region in op.regions:
            for value in region.args:
                best = max(best, value.id)
    return best


def renumber(kernel: Kernel) -> Kernel:
    """The same kernel with values numbered 0, 1, ... in program order."""
    new: dict[int, Value] = {}

    def define(value: Value) -> Value:
        new[value.id] = Value(len(new), value.type, value.hint)
        return new[value.id]

    def rebuild(region: Region) -> Region:
        args = tuple(define(v) for v in region.args)
        ops = []
        for op in region.ops:
            operands = tuple(new[v.id] for v in op.operands)
            regions = tuple(rebuild(r) for r in op.regions)
            results = tuple(define(v) for v in op.results)
            ops.append(Op(op.name, operands, results, op.attrs, regions, op.loc))
        return Region(args, tuple(ops))

    return with_body(kernel, rebuild(kernel.body))


def const_value(op: Op) -> int | float | bool:
    """The Python value of a `const` op."""
    bits = op.attr("bits")
    assert isinstance(bits, int)
    dtype = op.result.type
    assert isinstance(dtype, DType)
    if dtype.is_float:
        return bits_float(bits, dtype)
    if dtype.is_bool:
        return bool(bits)
    return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits


def is_memory(value: Value) -> bool:
    """Whether a value is a reference to memory."""
    return isinstance(value.type, MemType)
