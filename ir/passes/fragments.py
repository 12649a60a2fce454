"""Matrix fragments as scalars of each lane: the first pass of every target without such values.

A fragment becomes the elements that the lane holds (`fragment_layout`): elementwise ops act on
each, loads and stores find each by its row and column, a row is reduced by exchanges between lanes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core import Kernel, Op, Value
from ..dtypes import (
    DType,
    FragmentType,
    MemType,
    Space,
    Type,
    VectorType,
    element_of,
    f32,
    i32,
    u32,
)
from .effects import value_types
from .fragment_layout import Lane, Layout, portable, run_length
from .retype import Retyper


@dataclass(frozen=True)
class Fragments:
    """Lower fragments to plain ops, which every target has."""

    name: str = "fragments"

    def __call__(self, kernel: Kernel) -> Kernel:
        return PortableLowering(kernel).run() if has_fragments(kernel) else kernel


def has_fragments(kernel: Kernel) -> bool:
    """Whether any value is a fragment; one needs a subgroup to hold it."""
    if kernel.subgroup is None:
        return False
    return any(isinstance(t, FragmentType) for t in value_types(kernel))


class FragmentLowering(Retyper, ABC):
    """The walk that targets share; a subclass has the layouts and the product.

    widest: elements of the longest load or store.
    """

    widest = 4

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.size = kernel.subgroup or 32
        self.index = kernel.index
        self.lanes: dict[Lane, Value] = {}
        self.arrays: list[Op] = []

    @abstractmethod
    def layout(self, t: FragmentType) -> Layout:
        """Which elements of a fragment a lane holds."""

    @abstractmethod
    def mma(self, op: Op) -> None:
        """Define the result of a `fragment_mma`."""

    def run(self) -> Kernel:
        kernel = super().run()
        if not self.arrays:
            return kernel
        body = replace(kernel.body, ops=(*self.arrays, *kernel.body.ops))
        return replace(kernel, body=body)

    # values

    def types(self, t: Type) -> tuple[Type, ...] | None:
        if not isinstance(t, FragmentType):
            return None
        layout = self.layout(t)
        held = u32 if layout.packed > 1 else t.element
        return (held,) * (len(layout.offsets) // layout.packed)

    def arguments(self, args: tuple[Value, ...]) -> tuple[Value, ...]:
        """What lanes know about themselves, once for the kernel."""
        lane = self.b.emit("subgroup_lane", type=self.index)
        used = {t for t in value_types(self.kernel) if isinstance(t, FragmentType)}
        for t in sorted(used, key=str):
            layout = self.layout(t)
            self.number(lane, layout.row)
            self.number(lane, layout.column)
        self.prepare(lane)
        return super().arguments(args)

    def prepare(self, lane: Value) -> None:
        """What else a target computes from the lane at the head of the body."""

    def number(self, lane: Value, wanted: Lane) -> None:
        """Note the lane's number without its scale, which the users multiply with."""
        key = replace(wanted, scale=1)
        if wanted.modulo == 1 or key in self.lanes:
            return
        value = lane
        if wanted.shift:
            value = self.b.emit("shr", value, self.k(wanted.shift))
        if wanted.modulo << wanted.shift < self.size:
            value = self.b.emit("and", value, self.k(wanted.modulo - 1))
        self.lanes[key] = value

    def k(self, n: int) -> Value:
        return self.b.const(n, self.index)

    def at(self, wanted: Lane, offset: int, unit: int = 1) -> Value | None:
        """The lane's number plus an offset, both divided by `unit`; None for 0."""
        number = self.lanes.get(replace(wanted, scale=1)) if wanted.modulo > 1 else None
        scale = wanted.scale // unit
        if number is not None and scale > 1:
            number = self.b.emit("mul", number, self.k(scale))
        return self.plus(number, self.k(offset // unit) if offset else None)

    def plus(self, a: Value | None, b: Value | None) -> Value | None:
        if a is None or b is None:
            return b if a is None else a
        return self.b.emit("add", a, b)

    def held(self, v: Value) -> list[Value]:
        """The elements of a fragment that the lane holds, packed as the layout says."""
        return list(self.all(v))

    def hold(self, v: Value, parts: Sequence[Value]) -> None:
        """Let a fragment consist of elements that are packed as the layout says."""
        self.set(v, *parts)

    def elements(self, v: Value) -> list[Value]:
        """The elements of a fragment that the lane holds, unpacked."""
        parts = self.held(v)
        t = v.type
        packed = self.layout(t).packed if isinstance(t, FragmentType) else 1
        if packed == 1:
            return parts
        kind = VectorType(element_of(t), packed)
        words = [self.b.emit("bitcast", p, type=kind) for p in parts]
        return [self.b.emit("extract", w, lane=n) for w in words for n in range(packed)]

    def settle(self, v: Value, parts: Sequence[Value]) -> None:
        """Let a fragment consist of these elements."""
        t = v.type
        assert isinstance(t, FragmentType)
        packed = self.layout(t).packed
        if packed > 1:
            runs = [parts[n : n + packed] for n in range(0, len(parts), packed)]
            whole = [self.b.emit("vector", *run) for run in runs]
            parts = [self.b.emit("bitcast", w, type=u32) for w in whole]
        self.hold(v, parts)

    # ops

    def translate(self, op: Op) -> None:
        special = SPECIAL.get(op.name)
        if special is not None:
            special(self, op)
        else:
            self.elementwise(op)

    def elementwise(self, op: Op) -> None:
        """The op on each element; a scalar operand serves all."""
        result = op.result
        assert isinstance(result.type, FragmentType)
        count = len(self.layout(result.type).offsets)
        operands = [
            self.elements(v) if isinstance(v.type, FragmentType) else [self.value(v)] * count
            for v in op.operands
        ]
        wanted = (result.type.element,)
        done = [
            self.b.op(op.name, args, dict(op.attrs), wanted).result
            for args in zip(*operands, strict=True)
        ]
        self.settle(result, done)

    def splat(self, op: Op) -> None:
        t = op.result.type
        if isinstance(t, FragmentType):
            self.settle(op.result, [self.value(op.operands[0])] * len(self.layout(t).offsets))
        else:
            self.keep(op)

    def reduce(self, op: Op) -> None:
        t, kind = op.operands[0].type, str(op.attr("kind"))
        assert isinstance(t, FragmentType)
        assert isinstance(op.result.type, FragmentType)
        layout = self.layout(t)
        wide = f32 if kind == "add" and t.element.is_float else t.element
        parts = [self.cast(p, wide) for p in self.elements(op.operands[0])]
        rows: dict[int, Value] = {}
        for (row, _), part in zip(layout.offsets, parts, strict=True):
            rows[row] = self.b.emit(kind, rows[row], part) if row in rows else part
        found = []
        for row, _ in self.layout(op.result.type).offsets:
            value, step = rows[row], 1 << layout.column.shift
            while step < layout.column.modulo << layout.column.shift:
                other = self.b.emit("subgroup_shuffle_xor", value, self.b.const(step, i32))
                value = self.b.emit(kind, value, other)
                step *= 2
            found.append(self.cast(value, t.element))
        self.set(op.result, *found)

    def broadcast(self, op: Op) -> None:
        t, source = op.result.type, op.operands[0].type
        assert isinstance(t, FragmentType)
        assert isinstance(source, FragmentType)
        held = [row for row, _ in self.layout(source).offsets]
        rows = dict(zip(held, self.all(op.operands[0]), strict=True))
        self.hold(op.result, [rows[row] for row, _ in self.layout(t).offsets])

    def role(self, op: Op) -> None:
        """An accumulator as an a: the same elements in each lane."""
        a, b = op.operands[0].type, op.result.type
        assert isinstance(a, FragmentType)
        assert isinstance(b, FragmentType)
        one, other = self.layout(a), self.layout(b)
        assert (one.row, one.column, one.offsets) == (other.row, other.column, other.offsets)
        self.settle(op.result, self.elements(op.operands[0]))

    def coordinate(self, op: Op) -> None:
        t, dim = op.result.type, op.attr("dim")
        assert isinstance(t, FragmentType)
        layout = self.layout(t)
        base = layout.column if dim else layout.row
        known: dict[int, Value] = {}
        for offsets in layout.offsets:
            n = offsets[1 if dim else 0]
            if n not in known:
                known[n] = self.cast(self.at(base, n) or self.k(0), i32)
        self.settle(op.result, [known[o[1 if dim else 0]] for o in layout.offsets])

    def cast(self, v: Value, t: DType) -> Value:
        return v if v.type == t else self.b.emit("convert", v, type=t)

    # memory

    def load(self, op: Op) -> None:
        t = op.result.type
        assert isinstance(t, FragmentType)
        memory = self.value(op.operands[0])
        parts: list[Value] = []
        for index, width in self.reach(op, t):
            if width == 1:
                parts.append(self.b.emit("load", memory, index))
                continue
            whole = self.b.emit("load", memory, index, lanes=width)
            parts += [self.b.emit("extract", whole, lane=n) for n in range(width)]
        self.settle(op.result, parts)

    def store(self, op: Op) -> None:
        value = op.operands[3]
        assert isinstance(value.type, FragmentType)
        memory, parts = self.value(op.operands[0]), self.elements(value)
        for index, width in self.reach(op, value.type):
            run, parts = parts[:width], parts[width:]
            whole = run[0] if width == 1 else self.b.emit("vector", *run)
            self.b.do("store", memory, index, whole)

    def reach(self, op: Op, t: FragmentType) -> list[tuple[Value, int]]:
        """Where the elements of a lane lie, in order: indexes of runs and their lengths.

        A run of neighbours is one vector, whose index counts such vectors: index and stride are
        multiples of 16 bytes, so they divide.
        """
        layout = self.layout(t)
        if op.name == "fragment_load" and len(op.operands) == 4:
            return [(place, 1) for place in self.swizzled(op, layout)]
        flat = op.attr("layout") == "row"
        slow, fast = (layout.row, layout.column) if flat else (layout.column, layout.row)
        places = [(r, c) if flat else (c, r) for r, c in layout.offsets]
        width = run_length(places, fast.scale, t.element, self.widest)
        index, stride = (self.cast(self.value(v), self.index) for v in op.operands[1:3])
        if width > 1:
            shift = self.k(width.bit_length() - 1)
            index, stride = (self.b.emit("shr", v, shift) for v in (index, stride))
        if (line := self.at(slow, 0)) is not None:
            index = self.b.emit("add", index, self.b.emit("mul", line, stride))
        if (along := self.at(fast, 0, width)) is not None:
            index = self.b.emit("add", index, along)
        lines = {0: index}
        found = []
        for line_at, start in places[::width]:
            if line_at not in lines:
                step = self.b.emit("mul", stride, self.k(line_at))
                lines[line_at] = self.b.emit("add", index, step)
            place = lines[line_at]
            if start:
                place = self.b.emit("add", place, self.k(start // width))
            found.append((place, width))
        return found

    def swizzled(self, op: Op, layout: Layout) -> list[Value]:
        """Where the elements of a lane lie in swizzled rows."""
        index, stride, column = (self.cast(self.value(v), self.index) for v in op.operands[1:4])
        memory = op.operands[0].type
        assert isinstance(memory, MemType)
        unit = self.k(16 // memory.element.bytes)
        found = []
        for r, c in layout.offsets:
            row, along = self.at(layout.row, r) or self.k(0), self.at(layout.column, c)
            turn = self.b.emit("mul", self.b.emit("and", row, self.k(7)), unit)
            place = self.plus(column, along)
            assert place is not None
            line = self.b.emit("add", index, self.b.emit("mul", row, stride))
            found.append(self.b.emit("add", line, self.b.emit("xor", place, turn)))
        return found


class PortableLowering(FragmentLowering):
    """Products by broadcasts of a from lane to lane, with b in a private array of the lane."""

    def layout(self, t: FragmentType) -> Layout:
        return portable(t, self.size)

    def prepare(self, lane: Value) -> None:
        self.lane = lane

    def scratch(self, t: DType, count: int) -> Value:
        """The private array of this type and size; products follow one another in it."""
        wanted = MemType(Space.PRIVATE, t, count)
        for op in self.arrays:
            if op.result.type == wanted:
                return op.result
        memory = self.b.value(wanted, f"fragment{len(self.arrays)}")
        self.arrays.append(Op("alloc", (), (memory,), (("name", memory.hint),), (), None))
        return memory

    def mma(self, op: Op) -> None:
        a, b, c = op.operands
        assert isinstance(a.type, FragmentType)
        assert isinstance(c.type, FragmentType)
        sum_type = f32 if c.type.element.is_float else i32
        wide = min(self.size, 16)
        per = 16 // wide  # columns of b and c that a lane holds
        width = min(wide, a.type.columns)  # lanes that hold different columns of a
        sets = a.type.columns // width
        rows = [self.cast(v, sum_type) for v in self.elements(a)]
        right = [self.cast(v, sum_type) for v in self.elements(b)]
        total = [self.cast(v, sum_type) for v in self.elements(c)]
        memory = self.scratch(sum_type, len(right))
        for n, v in enumerate(right):
            self.b.do("store", memory, self.k(n), v)
        for n in range(sets):
            total = self.columns(rows[n::sets], total, memory, n * width, width, per)
        self.settle(op.result, [self.cast(v, c.type.element) for v in total])

    def columns(
        self, rows: list[Value], total: list[Value], memory: Value, first: int, width: int, per: int
    ) -> list[Value]:
        """Add the products of `width` columns of a, one after the other."""
        with self.b.region(self.index, *[v.type for v in total]) as built:
            k, *sums = built.args
            source, name = k, "subgroup_broadcast"
            if self.size > 16:  # the lane of that column in the own group of rows
                group = self.b.emit("and", self.lane, self.k(-16))
                source, name = self.b.emit("add", group, k), "subgroup_shuffle"
            at = self.b.emit("add", k, self.k(first)) if first else k
            at = self.b.emit("mul", at, self.k(per)) if per > 1 else at
            cells = [self.b.emit("add", at, self.k(n)) if n else at for n in range(per)]
            right = [self.b.emit("load", memory, cell) for cell in cells]
            for i, row in enumerate(rows):
                left = self.b.emit(name, row, source)
                for n in range(per):
                    old = sums[i * per + n]
                    sums[i * per + n] = self.fused(left, right[n], old)
            self.b.do("continue", *sums)
        types = tuple([v.type for v in total])
        operands = (self.k(0), self.k(width), *total)
        return list(self.b.op("for", operands, {}, types, (built.region,)).results)

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        if element_of(c.type).is_float:
            return self.b.emit("fma", a, b, c)
        return self.b.emit("add", self.b.emit("mul", a, b), c)


SPECIAL: dict[str, Callable[[FragmentLowering, Op], None]] = {
    "splat": FragmentLowering.splat,
    "fragment_load": lambda lowering, op: lowering.load(op),
    "fragment_store": FragmentLowering.store,
    "fragment_mma": lambda lowering, op: lowering.mma(op),
    "fragment_reduce": FragmentLowering.reduce,
    "fragment_broadcast": FragmentLowering.broadcast,
    "fragment_cast": lambda lowering, op: lowering.role(op),
    "fragment_coordinate": FragmentLowering.coordinate,
}
