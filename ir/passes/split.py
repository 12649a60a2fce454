"""Vectors longer than a target's become two of half the length: lanes in order, low half first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core import Attr, Kernel, Op, Value
from ..dtypes import DTYPES, Type, VectorType, element_of, i32, u32, vector_of
from .effects import value_types
from .retype import Retyper


@dataclass(frozen=True)
class Split:
    """Split vectors of more than `max_lanes` lanes."""

    max_lanes: int
    name: str = "split"

    def __call__(self, kernel: Kernel) -> Kernel:
        return self.where(kernel, value_types(kernel))

    def where(self, kernel: Kernel, types: Sequence[Type]) -> Kernel:
        """The same, given the types of the kernel's values."""
        if not any(type(t) is VectorType and t.lanes > self.max_lanes for t in types):
            return kernel
        return _Splitter(kernel, self.max_lanes).run()


class _Splitter(Retyper):
    def __init__(self, kernel: Kernel, lanes: int) -> None:
        super().__init__(kernel)
        self.lanes = lanes

    def types(self, t: Type) -> tuple[Type, ...] | None:
        if isinstance(t, VectorType) and t.lanes > self.lanes:
            return (vector_of(t.element, self.lanes),) * (t.lanes // self.lanes)
        return None

    def translate(self, op: Op) -> None:
        if all(len(self.all(v)) == 1 for v in op.operands) and (
            not op.results or self.types(op.results[0].type) is None
        ):
            self.keep(op)
            return
        special = _SPECIAL.get(op.name)
        if special is not None:
            special(self, op)
            return
        # Elementwise: one op per part; operands without parts (a scalar condition) serve all.
        result = op.results[0]
        types = self.types(result.type)
        assert types is not None, f"op {op.name} has long vectors but no part-wise form"
        done = []
        for n, t in enumerate(types):
            parts = [self.all(v) for v in op.operands]
            operands = [p[n % len(p)] for p in parts]
            done.append(self.b.op(op.name, operands, dict(op.attrs), (t,)).result)
        self.set(result, *done)

    def _lane(self, vector: Value, lane: int) -> Value:
        """The scalar in one lane of an old vector."""
        parts = self.all(vector)
        width = parts[0].type.lanes  # type: ignore[union-attr]
        return self.b.emit("extract", parts[lane // width], lane=lane % width)

    def _build(self, result: Value, lanes: list[Value]) -> None:
        """Let an old vector value consist of these scalars."""
        types = self.types(result.type)
        if types is None:
            new = self.b.emit("vector", *lanes)
            self.set(result, new)
            return
        width = self.lanes
        parts = [
            self.b.emit("vector", *lanes[n * width : (n + 1) * width]) for n in range(len(types))
        ]
        self.set(result, *parts)

    def _vector(self, op: Op) -> None:
        self._build(op.result, [self.value(v) for v in op.operands])

    def _splat(self, op: Op) -> None:
        types = self.types(op.result.type)
        assert types is not None
        part = self.b.emit("splat", self.value(op.operands[0]), type=types[0])
        self.set(op.result, *(part,) * len(types))

    def _extract(self, op: Op) -> None:
        lane = op.attr("lane")
        assert isinstance(lane, int)
        self.set(op.result, self._lane(op.operands[0], lane))

    def _insert(self, op: Op) -> None:
        lane = op.attr("lane")
        assert isinstance(lane, int)
        parts = list(self.all(op.operands[0]))
        n = lane // self.lanes
        parts[n] = self.b.emit(
            "insert", parts[n], self.value(op.operands[1]), lane=lane % self.lanes
        )
        self.set(op.result, *parts)

    def _shuffle(self, op: Op) -> None:
        a, b = op.operands
        width = a.type.lanes  # type: ignore[union-attr]
        chosen = op.attr("lanes")
        assert isinstance(chosen, tuple)
        lanes: list[Value] = []
        for n in chosen:
            assert isinstance(n, int)
            lanes.append(self._lane(a if n < width else b, n % width))
        self._build(op.result, lanes)

    def _bitcast(self, op: Op) -> None:
        a, result = op.operands[0], op.result
        types = self.types(result.type) or (result.type,)
        parts = self.all(a)
        if len(parts) == len(types):
            done = [self.b.emit("bitcast", p, type=t) for p, t in zip(parts, types, strict=True)]
            self.set(result, *done)
        elif len(parts) > len(types):  # narrow lanes to wider ones: the halves join
            self._join_halves(result, parts)
        else:
            self._cut_halves(result, parts[0], types)

    def _join_halves(self, result: Value, parts: tuple[Value, ...]) -> None:
        t = result.type
        count = t.lanes if isinstance(t, VectorType) else 1
        element = element_of(t)
        if count < len(parts):  # one scalar: by way of words of half its width
            half = VectorType(DTYPES[f"u{element.bits // 2}"], 2)
            words = [self.b.emit("bitcast", p, type=half.element) for p in parts]
            self.set(result, self.b.emit("bitcast", self.b.emit("vector", *words), type=t))
            return
        each = count // len(parts)
        piece: Type = VectorType(element, each) if each > 1 else element
        done = [self.b.emit("bitcast", p, type=piece) for p in parts]
        self.set(result, self._concat(done, each))

    def _concat(self, pieces: list[Value], each: int) -> Value:
        if each == 1:
            return self.b.emit("vector", *pieces)
        return self.b.emit("shuffle", *pieces, lanes=tuple(range(2 * each)))

    def _cut_halves(self, result: Value, a: Value, types: tuple[Type, ...]) -> None:
        t = a.type
        if not isinstance(t, VectorType):
            t = VectorType(DTYPES[f"u{t.bits // 2}"], 2)  # type: ignore[union-attr]
            a = self.b.emit("bitcast", a, type=t)
        each = t.lanes // len(types)
        done = []
        for n, part in enumerate(types):
            if each == 1:
                piece = self.b.emit("extract", a, lane=n)
            else:
                lanes: Attr = tuple(range(n * each, (n + 1) * each))
                piece = self.b.emit("shuffle", a, a, lanes=lanes)
            done.append(self.b.emit("bitcast", piece, type=part))
        self.set(result, *done)

    def _load(self, op: Op) -> None:
        types = self.types(op.result.type)
        assert types is not None
        done = []
        for n in range(len(types)):
            index = self._part_index(self.value(op.operands[1]), len(types), n)
            attrs = dict(op.attrs) | {"lanes": self.lanes}
            done.append(self.b.op("load", (op.operands[0], index), attrs, (types[n],)).result)
        self.set(op.result, *done)

    def _store(self, op: Op) -> None:
        parts = self.all(op.operands[2])
        for n, part in enumerate(parts):
            index = self._part_index(self.value(op.operands[1]), len(parts), n)
            self.b.op("store", (op.operands[0], index, part), dict(op.attrs))

    def _part_index(self, index: Value, parts: int, n: int) -> Value:
        t = element_of(index.type)
        if t.bits < 32:  # would wrap where the index itself does not
            index = self.b.emit("convert", index, type=i32 if t.is_signed else u32)
        scaled = self.b.emit("mul", index, self.b.const(parts, index.type))
        return self.b.emit("add", scaled, self.b.const(n, index.type)) if n else scaled

    def _debug(self, op: Op) -> None:
        """Dropped: the interpreter alone prints, and it runs the kernel before any pass."""


_SPECIAL = {
    "vector": _Splitter._vector,
    "splat": _Splitter._splat,
    "extract": _Splitter._extract,
    "insert": _Splitter._insert,
    "shuffle": _Splitter._shuffle,
    "bitcast": _Splitter._bitcast,
    "load": _Splitter._load,
    "store": _Splitter._store,
    "print": _Splitter._debug,
    "breakpoint": _Splitter._debug,
}
