"""Loads and stores: one scalar, one run of consecutive elements, or lane by lane.

A uniform address is one scalar access, a consecutive one a vector access, anything else a gather
or scatter. Lanes that are not active never touch memory.
"""

from __future__ import annotations

from ...ir.core import Op, Value
from ...ir.dtypes import MemType, Space, bool_, lanes_of, u8
from ..llvm.types import Ty, memory_type
from .lanes import SCALAR, VECTOR
from .lowering import Lowering, Memory, pointer_of
from .shapes import Kind

_WALK = 6  # how deep the terms of an index are followed


def emit_load(x: Lowering, op: Op) -> None:
    """Define the result of a load."""
    value, memory = op.result, x.memory[op.operands[0].id]
    access = _Access(x, memory, op.operands[1], lanes_of(value.type))
    parts = access.load()
    if memory.type.element.is_bool:
        t = Ty(u8, 0 if access.uniform else x.width)
        parts = [x.f.value(f"icmp ne {t.text} {p}, {t.const(0)}") for p in parts]
    if access.uniform and x.lanes.form(value) == VECTOR:
        parts = [x.lanes.splat(p, memory.type.element) for p in parts]
    x.lanes.set(value, *parts)


def emit_store(x: Lowering, op: Op) -> None:
    """Store a scalar or vector value."""
    target, index, value = op.operands
    memory = x.memory[target.id]
    access = _Access(x, memory, index, lanes_of(value.type))
    form = SCALAR if access.uniform and x.lanes.form(value) == SCALAR else VECTOR
    parts = x.lanes.parts(value, form)
    if memory.type.element.is_bool:
        source, to = (Ty(d, x.width if form == VECTOR else 0) for d in (bool_, u8))
        parts = [x.f.value(f"zext {source.text} {p} to {to.text}") for p in parts]
    access.store(parts, form)


def emit_alloc(x: Lowering, op: Op) -> None:
    """Zero a private array; a workgroup array needs nothing."""
    memory = x.memory[op.result.id]
    if memory.type.space is not Space.PRIVATE:
        return
    assert memory.type.count is not None
    f, size = x.f, memory.type.count * memory.type.element.bytes * x.width
    base, step = pointer_of(x, memory), memory.type.element.bytes * x.width
    align = min(step, 64)
    if memory.type.count <= 16:
        for at in range(0, size, step):
            place = f.value(f"getelementptr i8, ptr {base}, i64 {at}")
            f.do(f"store <{step} x i8> zeroinitializer, ptr {place}, align {align}")
        return
    counter = f.alloca("i64")
    f.do(f"store i64 0, ptr {counter}")
    head, done = f.label("zero"), f.label("zeroed")
    f.block(head)
    at = f.value(f"load i64, ptr {counter}")
    place = f.value(f"getelementptr i8, ptr {base}, i64 {at}")
    f.do(f"store <{step} x i8> zeroinitializer, ptr {place}, align {align}")
    following = f.value(f"add nuw nsw i64 {at}, {step}")
    f.do(f"store i64 {following}, ptr {counter}")
    more = f.value(f"icmp ult i64 {following}, {size}")
    f.branch_if(more, head, done)
    f.block(done)


def index64(x: Lowering, value: Value, depth: int = _WALK) -> str:
    """A uniform index, or the base of a consecutive one, in 64 bits.

    Sums that cannot wrap are extended term by term: constants then end up in the addressing mode
    and loops advance one pointer.
    """
    assert not isinstance(value.type, MemType)
    op, dtype = x.defs.get(value.id), Ty(value.type).dtype  # type: ignore[arg-type]
    text = x.lanes.scalar(value)
    if not text.startswith("%"):
        return (
            text
            if dtype.is_signed or not text.startswith("-")
            else str(int(text) + (1 << dtype.bits))
        )
    if dtype.bits == 64:
        return text
    known = (
        all(v.id in x.lanes.held and x.lanes.held[v.id].form != VECTOR for v in op.operands)
        if op
        else False
    )
    if (
        op
        and known
        and depth
        and value.id in x.analysis.no_wrap
        and op.name in ("add", "sub", "mul")
    ):
        a, b = (index64(x, v, depth - 1) for v in op.operands)
        return x.f.value(f"{op.name} i64 {a}, {b}")
    if dtype.is_signed:
        return x.f.value(f"sext i{dtype.bits} {text} to i64")
    wide = x.f.value(f"zext i{dtype.bits} {text} to i64")
    shape = x.analysis.of(value)
    if shape.kind is not Kind.CONSECUTIVE or shape.align >= x.width:
        return wide
    # The lanes may pass the end of the type: those behind it begin at 0 again.
    near = x.f.value(f"icmp ugt i64 {wide}, {(1 << dtype.bits) - x.width}")
    below = x.f.value(f"sub i64 {wide}, {1 << dtype.bits}")
    return x.f.value(f"select i1 {near}, i64 {below}, i64 {wide}")


class _Access:
    """One access of `count` elements per lane at memory[index * count]."""

    def __init__(self, x: Lowering, memory: Memory, index: Value, count: int) -> None:
        self.x, self.memory, self.index, self.count = x, memory, index, count
        self.element = memory_type(memory.type.element)
        self.bytes = memory.type.element.bytes
        self.private = memory.type.space is Space.PRIVATE
        kind = x.analysis.kind(index)
        self.uniform = kind <= Kind.UNIFORM and not self.private
        # A private array interleaves its lanes: a uniform index is a run of elements there.
        self.run = kind <= Kind.UNIFORM if self.private else kind is Kind.CONSECUTIVE
        self.base = pointer_of(x, memory)
        self.vector = f"<{x.width} x {self.element}>"

    def place(self, part: int) -> str:
        """The address of a part, of lane 0 in a run."""
        x, f = self.x, self.x.f
        at = index64(x, self.index)
        scale = self.count * self.memory.stride
        offset = part * self.memory.stride
        if not at.startswith("%"):
            constant = int(at) * scale + offset
            return f.value(f"getelementptr {self.element}, ptr {self.base}, i64 {constant}")
        if scale > 1:
            at = f.value(f"mul i64 {at}, {scale}")
        pointer = f.value(f"getelementptr {self.element}, ptr {self.base}, i64 {at}")
        if offset:
            pointer = f.value(f"getelementptr {self.element}, ptr {pointer}, i64 {offset}")
        return pointer

    def places(self, part: int) -> str:
        """The addresses of a part in every lane."""
        x, f = self.x, self.x.f
        dtype = Ty(self.index.type).dtype  # type: ignore[arg-type]
        t = Ty(dtype, x.width)
        at, wide = x.lanes.vector(self.index), f"<{x.width} x i64>"
        scale, offset = self.count * self.memory.stride, part * self.memory.stride
        if dtype.bits < 64 and (
            scale > 1 or self.private or not dtype.is_signed or dtype.bits < 32
        ):
            at = f.value(f"{'sext' if dtype.is_signed else 'zext'} {t.text} {at} to {wide}")
            type_ = wide
        else:
            type_ = t.text
        if scale > 1:
            at = f.value(f"mul {wide} {at}, splat (i64 {scale})")
        if self.private:
            at = f.value(f"add {wide} {at}, {self._lane_offsets(offset)}")
        elif offset:
            at = f.value(f"add {wide} {at}, splat (i64 {offset})")
        return f.value(f"getelementptr {self.element}, ptr {self.base}, {type_} {at}")

    def _lane_offsets(self, offset: int) -> str:
        return "<" + ", ".join(f"i64 {offset + n}" for n in range(self.x.width)) + ">"

    def load(self) -> list[str]:
        """One value per part: a scalar where the address is uniform, else a vector."""
        f, x = self.x.f, self.x
        if self.uniform:
            places = [self.place(n) for n in range(self.count)]
            return [f.value(f"load {self.element}, ptr {p}, align {self.bytes}") for p in places]
        if self.run and self.count > 1 and not self.private and x.mask is None:
            return self._load_interleaved()
        if self.run and (self.count == 1 or self.private):
            return [self._load_run(self.place(n)) for n in range(self.count)]
        return [self._gather(self.places(n)) for n in range(self.count)]

    def _load_run(self, place: str) -> str:
        f, x = self.x.f, self.x
        # Private memory exists for every lane: inactive ones may read theirs.
        if x.mask is None or self.private:
            return f.value(f"load {self.vector}, ptr {place}, align {self.bytes}")
        mask = x.masks.to_bools(x.mask)
        name = f"llvm.masked.load.v{x.width}{_mangled(self.element)}.p0"
        f.declarations[name] = f"declare {self.vector} @{name}(ptr, {x.masks.bools}, {self.vector})"
        return f.value(
            f"call {self.vector} @{name}(ptr align {self.bytes} {place}, "
            f"{x.masks.bools} {mask}, {self.vector} zeroinitializer)"
        )

    def _load_interleaved(self) -> list[str]:
        f, n, width = self.x.f, self.count, self.x.width
        whole = f"<{n * width} x {self.element}>"
        block = f.value(f"load {whole}, ptr {self.place(0)}, align {self.bytes}")
        parts = []
        for part in range(n):
            lanes = ", ".join(f"i32 {lane * n + part}" for lane in range(width))
            parts.append(
                f.value(f"shufflevector {whole} {block}, {whole} poison, <{width} x i32> <{lanes}>")
            )
        return parts

    def _gather(self, places: str) -> str:
        f, x = self.x.f, self.x
        pointers = f"<{x.width} x ptr>"
        name = f"llvm.masked.gather.v{x.width}{_mangled(self.element)}.v{x.width}p0"
        f.declarations[name] = (
            f"declare {self.vector} @{name}({pointers}, {x.masks.bools}, {self.vector})"
        )
        return f.value(
            f"call {self.vector} @{name}({pointers} align {self.bytes} {places}, "
            f"{x.masks.bools} {x.masks.to_bools(x.mask)}, {self.vector} zeroinitializer)"
        )

    def store(self, parts: list[str], form: str) -> None:
        """Store one value per part; scalars only where the address is uniform."""
        f, x = self.x.f, self.x
        if self.uniform and form == SCALAR:
            for n, part in enumerate(parts):
                f.do(f"store {self.element} {part}, ptr {self.place(n)}, align {self.bytes}")
        elif self.run and self.count > 1 and not self.private and x.mask is None:
            self._store_interleaved(parts)
        elif self.run and (self.count == 1 or self.private):
            for n, part in enumerate(parts):
                self._store_run(self.place(n), part)
        else:
            for n, part in enumerate(parts):
                self._scatter(self.places(n), part)

    def _store_run(self, place: str, value: str) -> None:
        f, x = self.x.f, self.x
        if x.mask is None:
            f.do(f"store {self.vector} {value}, ptr {place}, align {self.bytes}")
            return
        if self.private:
            old = f.value(f"load {self.vector}, ptr {place}, align {self.bytes}")
            value = x.masks.blend(x.mask, self.vector, value, old)
            f.do(f"store {self.vector} {value}, ptr {place}, align {self.bytes}")
            return
        name = f"llvm.masked.store.v{x.width}{_mangled(self.element)}.p0"
        f.declarations[name] = f"declare void @{name}({self.vector}, ptr, {x.masks.bools})"
        f.do(
            f"call void @{name}({self.vector} {value}, ptr align {self.bytes} {place}, "
            f"{x.masks.bools} {x.masks.to_bools(x.mask)})"
        )

    def _store_interleaved(self, parts: list[str]) -> None:
        f, n, width = self.x.f, self.count, self.x.width
        joined, size = list(parts), width
        while len(joined) > 1:  # vectors are joined in pairs: a shuffle takes two of one type
            pairs = zip(joined[::2], joined[1::2], strict=True)
            whole = f"<{size} x {self.element}>"
            lanes = ", ".join(f"i32 {k}" for k in range(2 * size))
            mask = f"<{2 * size} x i32> <{lanes}>"
            joined = [f.value(f"shufflevector {whole} {a}, {whole} {b}, {mask}") for a, b in pairs]
            size *= 2
        whole = f"<{size} x {self.element}>"
        lanes = ", ".join(
            f"i32 {part * width + lane}" for lane in range(width) for part in range(n)
        )
        order = f"<{size} x i32> <{lanes}>"
        block = f.value(f"shufflevector {whole} {joined[0]}, {whole} poison, {order}")
        f.do(f"store {whole} {block}, ptr {self.place(0)}, align {self.bytes}")

    def _scatter(self, places: str, value: str) -> None:
        f, x = self.x.f, self.x
        pointers = f"<{x.width} x ptr>"
        name = f"llvm.masked.scatter.v{x.width}{_mangled(self.element)}.v{x.width}p0"
        f.declarations[name] = f"declare void @{name}({self.vector}, {pointers}, {x.masks.bools})"
        f.do(
            f"call void @{name}({self.vector} {value}, {pointers} align {self.bytes} {places}, "
            f"{x.masks.bools} {x.masks.to_bools(x.mask)})"
        )


def _mangled(type_: str) -> str:
    return {"float": "f32", "double": "f64"}.get(type_, type_)
