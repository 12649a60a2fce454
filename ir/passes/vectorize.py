"""Neighbouring loads and stores of one block become vector loads and stores.

A group of n accesses qualifies when their indexes are affine (`affine`) with equal terms, all
divisible by n, and constants n*m, n*m + 1, ..., n*m + n - 1: then the first is aligned whatever
the terms are, also where the index wraps. A vector load stands where the group's first load
stood, provided that nothing writes that memory up to its last; a vector store stands where the
last store stood, provided that nothing reads or writes that memory from the first on, and that
control cannot leave in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core import Kernel, Op, Region, Value, with_body
from ..dtypes import MemType, Space, Type, lanes_of, vector_of
from .affine import SUMS, AffineForms
from .effects import READERS, SYNCS, WRITERS, Aliasing, Summary, free_number, summarize

Key = tuple[object, ...]

_ACTING = WRITERS | SYNCS | READERS  # what looks at memory or orders it, beside regions


@dataclass(frozen=True)
class Vectorize:
    """Join accesses to buffers into vectors of `widths` lanes and at most `max_bytes` bytes."""

    widths: tuple[int, ...] = (4, 2)
    max_bytes: int = 16
    name: str = "vectorize"

    def __call__(self, kernel: Kernel) -> Kernel:
        if not _has_neighbours(kernel):
            return kernel
        walker = _Vectorizer(kernel, self)
        body = walker.region(kernel.body)
        return kernel if body is kernel.body else with_body(kernel, body)


def _has_neighbours(kernel: Kernel) -> bool:
    """Whether any block accesses one buffer twice in one way."""
    regions = [kernel.body]
    for region in regions:
        if _twice(region.ops):
            return True
        for op in region.ops:
            if op.regions:
                regions += op.regions
    return False


def _twice(ops: Sequence[Op]) -> bool:
    seen = set()
    for op in ops:
        if op.name in ("load", "store"):
            memory = op.operands[0]
            if memory.type.space is Space.BUFFER:  # type: ignore[union-attr]
                if (op.name, memory.id) in seen:
                    return True
                seen.add((op.name, memory.id))
    return False


class _Vectorizer:
    def __init__(self, kernel: Kernel, options: Vectorize) -> None:
        self.options = options
        self.kernel = kernel
        self.forms = AffineForms()
        self.effects = dict(summarize(kernel))  # to which it adds what it makes
        self.aliasing = Aliasing(kernel)
        self.rebuilt: list[tuple[Region, ...]] = []  # alive, so that their ids stay theirs
        self.next = -1

    def fresh(self, type_: Type) -> Value:
        if self.next < 0:
            self.next = free_number(self.kernel)
        self.next += 1
        return Value(self.next - 1, type_)

    def region(self, region: Region) -> Region:
        ops = list(region.ops)
        changed = False
        for n, op in enumerate(ops):
            if op.name in SUMS:
                self.forms.define(op)
            elif op.regions:
                regions = tuple([self.region(r) for r in op.regions])
                if any(a is not b for a, b in zip(regions, op.regions, strict=True)):
                    ops[n] = Op(op.name, op.operands, op.results, op.attrs, regions, op.loc)
                    self.effects[id(regions)] = self.effects[id(op.regions)]
                    self.rebuilt.append(regions)
                    changed = True
        if _twice(ops):
            for width in self.options.widths:
                if (new := self.block(ops, width)) is not None:
                    ops = new
                    changed = True
        return Region(region.args, tuple(ops)) if changed else region

    def block(self, ops: list[Op], width: int) -> list[Op] | None:
        """The ops with groups of `width` joined; None where there is no group."""
        acting = [(n, op) for n, op in enumerate(ops) if op.regions or op.name in _ACTING]
        loads = [g for g in self.load_groups(acting, width) if len(g) == width]
        stores = list(self.store_groups(acting, width))
        if not loads and not stores:
            return None
        before: dict[int, list[Op]] = {}
        instead: dict[int, list[Op]] = {}
        for lanes in loads:
            self.join_loads(ops, lanes, width, before, instead)
        for group in stores:
            self.join_stores(ops, group, width, instead)
        out: list[Op] = []
        for n, op in enumerate(ops):
            out.extend(before.get(n, ()))
            out.extend(instead.get(n, (op,)))
        return out

    # finding groups

    def position(self, op: Op, width: int) -> tuple[Key, int] | None:
        """(group, lane) of a scalar access to a buffer that may be part of a vector."""
        memory, index = op.operands[:2]
        t = memory.type
        assert isinstance(t, MemType)
        value = op.operands[2] if op.name == "store" else op.results[0]
        if t.space is not Space.BUFFER or t.element.is_bool or lanes_of(value.type) > 1:
            return None
        if t.element.bytes * width > self.options.max_bytes:
            return None
        form = self.forms.of(index)
        if not form.divisible(width):
            return None
        bits = index.type.bits  # type: ignore[union-attr]
        key = (memory.id, form.terms, form.constant // width, bits, str(index.type))
        return key, form.constant % width

    def load_groups(self, ops: Sequence[tuple[int, Op]], width: int) -> list[dict[int, list[int]]]:
        groups: dict[Key, dict[int, list[int]]] = {}
        versions: dict[int, int] = {}
        epoch = 0
        for n, op in ops:
            if op.name == "load":
                found = self.position(op, width)
                if found is not None:
                    key, lane = found
                    memory = op.operands[0].id
                    group = groups.setdefault((*key, versions.get(memory, 0), epoch), {})
                    group.setdefault(lane, []).append(n)
                continue
            touched = self.changes(op)
            if touched is None:
                epoch += 1
            else:
                for memory in touched:
                    versions[memory] = n + 1
        return list(groups.values())

    def changes(self, op: Op) -> frozenset[int] | tuple[int, ...] | None:
        """Memory that an op writes; None where it synchronises or control may leave."""
        if op.regions:
            summary: Summary = self.effects[id(op.regions)]
            if summary.jumps or summary.sync:
                return None
            return self.aliasing.written(summary.writes)
        if op.name in WRITERS:
            return self.aliasing.touched(op.operands[0].id)
        return None if op.name in SYNCS else ()

    def store_groups(self, ops: Sequence[tuple[int, Op]], width: int) -> Iterator[dict[int, int]]:
        pending: dict[int, tuple[Key, dict[int, int]]] = {}
        for n, op in ops:
            if op.name == "store":
                memory = op.operands[0].id
                found = self.position(op, width)
                held = pending.get(memory)
                for other in self.aliasing.touched(memory):
                    pending.pop(other, None)
                if found is None:
                    continue
                key, lane = found
                lanes = held[1] if held is not None and held[0] == key else {}
                if lane in lanes:
                    lanes = {}
                lanes[lane] = n
                if len(lanes) == width:
                    yield lanes
                else:
                    pending[memory] = key, lanes
                continue
            if op.name in READERS or op.name == "copy_async":
                read = op.operands[2 if op.name == "copy_async" else 0]
                for other in self.aliasing.touched(read.id):
                    pending.pop(other, None)
                continue
            touched = self.changes(op)
            if touched is None:
                pending.clear()
                continue
            if op.regions:
                touched = frozenset(touched) | self.aliasing.written(
                    self.effects[id(op.regions)].reads
                )
            for other in touched:
                pending.pop(other, None)

    # rebuilding

    def join_loads(
        self,
        ops: list[Op],
        lanes: dict[int, list[int]],
        width: int,
        before: dict[int, list[Op]],
        instead: dict[int, list[Op]],
    ) -> None:
        first = min(min(at) for at in lanes.values())
        op = ops[first]
        memory, index = op.operands
        head, whole = self.whole_index(index, width, op)
        element = op.results[0].type
        vector = self.fresh(vector_of(element, width))
        load = Op("load", (memory, whole), (vector,), (("lanes", width),), (), op.loc)
        before[first] = [*head, load]
        for lane, places in lanes.items():
            for n in places:
                old = ops[n]
                attrs = (("lane", lane),)
                instead[n] = [Op("extract", (vector,), old.results, attrs, (), old.loc)]

    def join_stores(
        self, ops: list[Op], lanes: dict[int, int], width: int, instead: dict[int, list[Op]]
    ) -> None:
        last = max(lanes.values())
        op = ops[last]
        memory, index, value = op.operands
        head, whole = self.whole_index(index, width, op)
        vector = self.fresh(vector_of(value.type, width))
        values = tuple([ops[lanes[n]].operands[2] for n in range(width)])
        for n in lanes.values():
            instead[n] = []
        instead[last] = [
            *head,
            Op("vector", values, (vector,), (), (), op.loc),
            Op("store", (memory, whole, vector), (), (), (), op.loc),
        ]

    def whole_index(self, index: Value, width: int, op: Op) -> tuple[list[Op], Value]:
        """The index in whole vectors: any index of the group, shifted, gives it."""
        count, whole = self.fresh(index.type), self.fresh(index.type)
        bits = (("bits", width.bit_length() - 1),)
        const = Op("const", (), (count,), bits, (), op.loc)
        return [const, Op("shr", (index, count), (whole,), (), (), op.loc)], whole
