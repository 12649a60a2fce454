"""Buffers, workgroup arrays and private arrays: declarations, loads, stores and atomics.

A buffer is declared once, as items of the widest vector that every store fills: WGSL may write a
whole item where one component is stored. For devices that do not (`component_stores`) it is the
widest vector accessed, as an access in parts costs several. A buffer or array with atomics holds
atomic words, floats among them as their bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.core import Op, Param, Value
from ...ir.dtypes import Access, DType, MemType, Space, element_of, lanes_of, vector_of
from ..usage import MemoryUse, Usage
from .arithmetic import index
from .helpers import zero
from .writer import Writer

# kind of atomic -> function of WGSL
_ATOMICS = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd",
    "or": "atomicOr", "xor": "atomicXor", "exchange": "atomicExchange",
}  # fmt: skip
_MOST_ZEROS = 1024  # of a private array, written out; compilers keep longer ones in memory


def _component(value: str, lanes: int, n: int) -> str:
    return f"{value}.{'xyzw'[n]}" if lanes > 1 else value


@dataclass(frozen=True, slots=True)
class Memory:
    """A declared buffer or array of items of `lanes` elements. bits: floats held as their bits."""

    name: str
    element: DType
    lanes: int
    atomic: bool
    bits: bool
    count: int | None  # elements; None for a buffer


class Memories:
    """Every buffer and array of one kernel, by value number."""

    def __init__(self, w: Writer, usage: Usage) -> None:
        self.w, self.usage = w, usage
        self.known: dict[int, Memory] = {}
        self.shared_bytes = 0
        self.bindings: dict[int, int] = {}
        for param, value in zip(w.kernel.params, w.kernel.body.args, strict=True):
            if param.is_memory:
                self.bindings[value.id] = len(self.bindings)
                self.declare_buffer(param, value)

    def use(self, value: Value) -> MemoryUse:
        return self.usage.memory.get(value.id, MemoryUse())

    def shape(self, value: Value, lanes: int, dtype: DType) -> tuple[str, bool]:
        """The item type of a memory, and whether it holds floats as bits."""
        w, use = self.w, self.use(value)
        if not use.atomics:
            return w.type(dtype if lanes == 1 else vector_of(dtype, lanes)), False
        native = use.atomics <= {"add", "exchange"} and "atomic_f32_add" in w.native
        if dtype.name == "f32" and native and value.id in self.bindings:
            w.requires.add("atomic_f32_add")
            return "atomic<f32>", False
        if dtype.bits == 64:
            shared = value.id not in self.bindings
            w.requires |= {"i64", "atomic_shared_i64" if shared else "atomic_i64"}
        word = f"u{dtype.bits}" if dtype.is_float else dtype.name
        return f"atomic<{word}>", dtype.is_float

    def declare_buffer(self, param: Param, value: Value) -> None:
        w, use, memory = self.w, self.use(value), value.type
        assert isinstance(memory, MemType)
        number = self.bindings[value.id]
        lanes = 1
        if not use.atomics and not param.may_alias:
            lanes = min(use.store_lanes, default=max(use.load_lanes, default=1))
            widest = max(use.load_lanes | use.store_lanes, default=1)
            if "component_stores" in w.native and lanes < widest:
                w.requires.add("component_stores")
                lanes = widest
        item, bits = self.shape(value, lanes, memory.element)
        name = f"{w.stem(param.name, 'buffer')}_{number}"
        # As the manifest has it, which a layout of bindings is made from.
        access = "read" if param.access is Access.READ else "read_write"
        w.globals.append(
            f"@group(0) @binding({number}) var<storage, {access}> {name}: array<{item}>;"
        )
        found = Memory(name, memory.element, lanes, bool(use.atomics), bits, None)
        self.known[value.id] = found

    def allocate(self, op: Op) -> None:
        """A workgroup or private array."""
        w, value = self.w, op.results[0]
        memory, use = value.type, self.use(op.results[0])
        assert isinstance(memory, MemType)
        assert memory.count is not None
        shapes = use.load_lanes | use.store_lanes
        lanes = max(shapes) if len(shapes) == 1 and not use.atomics else 1
        lanes = lanes if memory.count % lanes == 0 else 1
        item, bits = self.shape(value, lanes, memory.element)
        name = w.name(str(dict(op.attrs).get("name") or value.hint))
        array = f"array<{item}, {memory.count // lanes}>"
        if memory.space is Space.WORKGROUP:
            w.globals.append(f"var<workgroup> {name}: {array};")
            width = 4 if memory.element.is_bool else memory.element.bytes
            self.shared_bytes += (memory.count * width + 15) // 16 * 16
        else:
            w.head.append(f"var {name}: {array};")
            items = memory.count // lanes
            if items <= _MOST_ZEROS and not memory.element.is_float:
                # naga makes a null constant of an array without a value: see `helpers.zero`. Which
                # places a compiler knows is not to be told here: it unrolls loops.
                one = zero(memory.element if lanes == 1 else vector_of(memory.element, lanes))
                w.head[-1] = f"var {name} = {array}({', '.join([one] * items)});"
        found = Memory(name, memory.element, lanes, bool(use.atomics), bits, memory.count)
        self.known[value.id] = found

    # access

    def place(self, value: Value) -> str:
        """The text of an index; one that WGSL knows may not lie outside, so none is known to it."""
        known = self.w.bits.get(value.id)
        if known is not None:
            return self.w.runtime(f"{known & 0xFFFFFFFF}u") if known else "0u"
        return index(self.w, self.w.use(value), element_of(value.type))

    def item(self, memory: Memory, at: str) -> str:
        """The value of an item."""
        text = f"{memory.name}[{at}]"
        if not memory.atomic:
            return text
        loaded = f"atomicLoad(&{text})"
        return self.as_bits(memory, loaded, out=True)

    def as_bits(self, memory: Memory, text: str, *, out: bool) -> str:
        """Words as the floats that they stand for, or back."""
        if not memory.bits:
            return text
        name = memory.element.name if out else f"u{memory.element.bits}"
        return f"bitcast<{name}>({text})"

    def load(self, op: Op) -> None:
        w = self.w
        memory, lanes = self.known[op.operands[0].id], lanes_of(op.results[0].type)
        at = self.place(op.operands[1])
        if memory.lanes == lanes:
            w.effect(op, self.item(memory, at))
            return
        if lanes < memory.lanes:  # a part of an item
            per, at = memory.lanes // lanes, w.named(f"u32({at})")
            whole = f"{memory.name}[{at} / {per}u]"
            if lanes == 1:
                w.effect(op, f"{whole}[{at} % {per}u]")
            else:
                item = w.let(whole)
                w.effect(op, f"select({item}.xy, {item}.zw, ({at} % 2u) == 1u)")
            return
        at = w.let(at)
        parts = [
            self.item(memory, f"{at} * {lanes // memory.lanes} + {n}")
            for n in range(lanes // memory.lanes)
        ]
        w.effect(op, f"{w.type(op.results[0].type)}({', '.join(parts)})")

    def store(self, op: Op) -> None:
        w = self.w
        memory, t = self.known[op.operands[0].id], op.operands[2].type
        lanes, value = lanes_of(t), w.use(op.operands[2])
        at = self.place(op.operands[1])
        if memory.lanes == lanes:
            self.write(memory, at, value)
            return
        if lanes < memory.lanes:  # a part of an item, alone
            at, value, per = w.named(f"u32({at})"), w.let(value), memory.lanes // lanes
            for n in range(lanes):
                part = f"{at} % {per}u" + (f" * {lanes}u + {n}u" if lanes > 1 else "")
                w.line(f"{memory.name}[{at} / {per}u][{part}] = {_component(value, lanes, n)};")
            return
        at, value = w.let(at), w.let(value)
        per = lanes // memory.lanes
        for n in range(per):
            part = "xyzw"[n * memory.lanes : (n + 1) * memory.lanes]
            self.write(memory, f"{at} * {per} + {n}", f"{value}.{part}")

    def write(self, memory: Memory, at: str, value: str) -> None:
        if memory.atomic:
            word = self.as_bits(memory, value, out=False)
            self.w.line(f"atomicStore(&{memory.name}[{at}], {word});")
        else:
            self.w.line(f"{memory.name}[{at}] = {value};")

    def count(self, op: Op, counts: list[str]) -> None:
        """The element count of a buffer (from the parameter block) or array."""
        value = op.operands[0]
        if value.id in self.bindings:
            self.w.bind(op.results[0], counts[self.bindings[value.id]])
        else:
            count = self.known[value.id].count
            assert count is not None
            self.w.constant(op.results[0], count)

    # atomics

    def atomic(self, op: Op) -> None:
        w, kind = self.w, str(op.attr("kind"))
        memory, value = self.known[op.operands[0].id], w.use(op.operands[2])
        target = f"&{memory.name}[{self.place(op.operands[1])}]"
        if not memory.bits or kind == "exchange":
            word = self.as_bits(memory, value, out=False)
            w.effect(op, self.as_bits(memory, f"{_ATOMICS[kind]}({target}, {word})", out=True))
            return
        value, old = w.let(value), w.name("old")
        t = op.results[0].type
        w.line(f"var {old}: u{memory.element.bits};")
        with w.block("loop {"):
            w.line(f"{old} = atomicLoad({target});")
            now = self.as_bits(memory, old, out=True)
            if kind == "add":
                new = f"{now} + {value}"
            else:
                new = f"{w.helper('least' if kind == 'min' else 'greatest', t)}({now}, {value})"
            word = self.as_bits(memory, new, out=False)
            exchanged = f"atomicCompareExchangeWeak({target}, {old}, {word}).exchanged"
            w.line(f"if ({exchanged}) {{ break; }}")
        w.effect(op, self.as_bits(memory, old, out=True))

    def compare_exchange(self, op: Op) -> None:
        """WGSL's exchange may fail without cause: it is tried until it does neither."""
        w = self.w
        memory = self.known[op.operands[0].id]
        target = f"&{memory.name}[{self.place(op.operands[1])}]"
        expected, desired = (
            w.let(self.as_bits(memory, w.use(v), out=False)) for v in op.operands[2:4]
        )
        old = w.name("old")
        word = f"u{memory.element.bits}" if memory.bits else memory.element.name
        w.line(f"var {old}: {word};")
        with w.block("loop {"):
            tried = w.let(f"atomicCompareExchangeWeak({target}, {expected}, {desired})")
            w.line(f"{old} = {tried}.old_value;")
            w.line(f"if ({tried}.exchanged || {old} != {expected}) {{ break; }}")
        w.effect(op, self.as_bits(memory, old, out=True))
