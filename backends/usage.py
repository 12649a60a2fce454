"""What a kernel does, found in one walk before anything is emitted.

Capabilities, variables and barrier semantics follow from it: which narrow types need arithmetic
(loading, storing and converting does not), how each buffer and array is accessed, and which
barriers stand where buffer accesses need ordering.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

from ..ir.core import Kernel, Op, Region, float_bits, is_memory
from ..ir.dtypes import DTYPES, DType, MemType, Space, Type, element_of, lanes_of
from ..ir.ops import ROWS
from ..ir.passes.effects import value_types
from ..ir.turns import NO_TURNS, Turns, loop_turns
from .ordering import Order


@dataclass(slots=True)
class MemoryUse:
    """How one buffer or array is accessed."""

    load_lanes: set[int] = field(default_factory=set)
    store_lanes: set[int] = field(default_factory=set)
    atomics: set[str] = field(default_factory=set)  # kinds
    reads: bool = False
    writes: bool = False


@dataclass(slots=True)
class Usage:
    """Facts of one kernel."""

    memory: dict[int, MemoryUse] = field(default_factory=dict)  # by value number
    arithmetic: set[str] = field(default_factory=set)  # narrow types used beyond storage
    rounds_half: bool = False  # whether any op rounds to f16
    subgroups: bool = False
    ordered: frozenset[int] = frozenset()  # id() of barriers that order buffers
    fences: bool = False
    ids: set[tuple[str, int]] = field(default_factory=set)  # id ops in use, with their dimension
    workgroup_arrays: bool = False
    divides: bool = False  # numbers of any type
    folds: bool = False  # whether a constant is an infinity or a zero, of floats
    wide_flags: bool = False  # whether numbers of 64 bits are compared
    turns: Turns = NO_TURNS  # of the loops of an invocation

    @property
    def lanes(self) -> bool:
        """Whether it may see the place of an invocation in its subgroup."""
        return self.subgroups or any(name.startswith("subgroup_") for name, _ in self.ids)


# Ops that give an f16 without rounding.
_KEEPS_HALF = frozenset(
    {"load", "const", "select", "if", "for", "while", "switch", "bitcast", "neg", "abs", "min"}
    | {"max", "copysign", "vector", "splat", "extract", "insert", "shuffle", "fragment_load"}
)
_STORAGE_ONLY = frozenset({"load", "store", "convert"})
_MEMORY = frozenset(
    {"load", "store", "atomic", "compare_exchange", "fragment_load", "fragment_store"}
)
_DIM_IDS = frozenset({"global_id", "local_id", "group_id", "num_groups"})
ID_OPS = _DIM_IDS | {"local_linear_id", "subgroup_id", "subgroup_lane", "num_subgroups"}


def narrow_name(t: Type) -> str:
    """The name of an element type of 8 or 16 bits; empty for others, which registers hold wider."""
    element = t if isinstance(t, DType) else t.element
    if element.bits >= 32 or element.is_bool or element.name == "bf16":
        return ""
    return element.name


def id_key(op: Op) -> tuple[str, int]:
    """An id op as (name, dimension); dimension 0 for those without."""
    if op.name not in _DIM_IDS:
        return op.name, 0
    d = op.attr("dim")
    assert isinstance(d, int)
    return op.name, d


_FOLDED = {
    t: tuple(float_bits(x, DTYPES[t]) for x in (0.0, -0.0, math.inf, -math.inf))
    for t in ("f16", "bf16", "f32", "f64")
}


class _Scan:
    def __init__(self, kernel: Kernel) -> None:
        self.usage = Usage()
        self.order = Order(kernel)
        self.has_loops = False
        types = [t for t in value_types(kernel) if not isinstance(t, MemType)]
        # Types of 8 and 16 bits, by id(). Loading, converting and storing their values needs
        # storage features only; everything else needs arithmetic.
        self.narrow = {id(t): t for t in types if narrow_name(t)}
        wide = any(element_of(t).bits == 64 for t in types)
        self.notes = _NOTES | _OF_WIDE if wide else _NOTES

    def arithmetic(self, t: Type) -> None:
        if name := narrow_name(t):
            self.usage.arithmetic.add(name)

    def region(self, region: Region) -> None:
        find, narrow = self.notes.get, self.narrow
        for op in region.ops:
            note = find(op.name)
            if note is not None:
                note(self, op)
            if narrow:
                for value in op.results:
                    if id(value.type) in narrow:
                        self.narrow_result(op, value.type)
                if op.name not in _STORAGE_ONLY:
                    for value in op.operands:
                        if id(value.type) in narrow:
                            self.arithmetic(value.type)
            if op.regions:
                self.nested(op)

    def nested(self, op: Op) -> None:
        loop = op.name in ("for", "while")
        self.has_loops |= loop
        with self.order.loop() if loop else nullcontext():
            for region in op.regions:
                self.region(region)

    def narrow_result(self, op: Op, t: Type) -> None:
        """Note what the narrow result of an op needs."""
        if op.name not in _STORAGE_ONLY:
            self.arithmetic(t)
        if op.name not in _KEEPS_HALF and narrow_name(t) == "f16":
            self.usage.rounds_half = True

    def array(self, op: Op) -> None:
        memory = op.results[0].type
        assert isinstance(memory, MemType)
        self.usage.memory[op.results[0].id] = MemoryUse()
        self.arithmetic(memory)
        self.usage.workgroup_arrays |= memory.space is Space.WORKGROUP

    def id(self, op: Op) -> None:
        self.usage.ids.add(id_key(op))

    def subgroup(self, op: Op) -> None:
        self.usage.subgroups = True

    def divide(self, op: Op) -> None:
        self.usage.divides = True

    def compare(self, op: Op) -> None:
        self.usage.wide_flags |= element_of(op.operands[0].type).bits == 64

    def const(self, op: Op) -> None:
        self.usage.folds |= op.attrs[0][1] in _FOLDED.get(str(op.results[0].type), ())

    def barrier(self, op: Op) -> None:
        self.order.note(op)
        self.usage.fences |= op.name == "fence"

    def access(self, op: Op) -> None:
        self.order.note(op)
        memory = op.operands[0]
        use = self.usage.memory.setdefault(memory.id, MemoryUse())
        if op.name.startswith("fragment_"):  # by the items that other accesses ask for
            use.reads |= op.name == "fragment_load"
            use.writes |= op.name == "fragment_store"
        elif op.name == "load":
            use.load_lanes.add(lanes_of(op.results[0].type))
            use.reads = True
        elif op.name == "store":
            use.store_lanes.add(lanes_of(op.operands[2].type))
            use.writes = True
        else:
            use.atomics.add(str(dict(op.attrs).get("kind", op.name)))
            use.reads = use.writes = True
        if id(op.operands[1].type) in self.narrow:
            self.arithmetic(op.operands[1].type)


# Ids of a subgroup need no subgroup operation.
_NOTES: dict[str, Callable[[_Scan, Op], None]] = {
    **dict.fromkeys(_MEMORY, _Scan.access),
    **dict.fromkeys((n for n in ROWS if n.startswith("subgroup_")), _Scan.subgroup),
    **dict.fromkeys(ID_OPS, _Scan.id),
    **dict.fromkeys(("barrier", "fence"), _Scan.barrier),
    "alloc": _Scan.array,
    "const": _Scan.const,
    **dict.fromkeys(("div", "floordiv", "mod"), _Scan.divide),
}
# Of kernels that hold numbers of 64 bits.
_OF_WIDE = dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), _Scan.compare)


def scan(kernel: Kernel) -> Usage:
    """The facts of a kernel."""
    walk = _Scan(kernel)
    walk.region(kernel.body)
    usage = walk.usage
    stored = {
        element_of(v.type).bits for v in kernel.body.args if is_memory(v) and v.id in usage.memory
    }
    for t in walk.narrow.values():  # without storage of that width even the type needs arithmetic
        if element_of(t).bits not in stored:
            walk.arithmetic(t)
    usage.ordered = walk.order.ordering()
    if walk.has_loops:
        usage.turns = loop_turns(kernel)
    return usage
