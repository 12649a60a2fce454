"""Buffers, workgroup arrays and private arrays: variables, loads and stores.

A buffer is one storage-buffer binding, seen through one variable per shape in use: its elements,
vectors of 2 or 4 elements, or (for float atomics) unsigned integers. Several variables on one
binding are decorated Aliased. In memory a bool is a u8 and bf16 a u16; arrays hold bool as u32 and
bf16 as f32, which needs no narrow types.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir.core import Op, Param, Value
from ...ir.dtypes import Access, DType, MemType, Space, lanes_of
from ..usage import MemoryUse
from .emitter import Emitter
from .native import on_bits
from .opcodes import Cap, Deco, MemoryAccess, Storage
from .opcodes import Op as S

_MOST_ZEROS = (1 << 16) - 4  # words behind the first three of an instruction
BITS = 0  # the "lanes" of the view of a float buffer as unsigned integers


@dataclass(slots=True)
class Buffer:
    """A buffer parameter; `views` maps lanes (or BITS) to (variable, pointer to one item)."""

    param: Param
    binding: int
    use: MemoryUse
    views: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def element(self) -> DType:
        return self.param.dtype


@dataclass(slots=True)
class Array:
    """A workgroup or private array of `lanes`-wide items. bits: floats held as integers. packed:
    as a buffer holds it."""

    memory: MemType
    variable: int
    pointer: int
    item: int
    lanes: int
    bits: bool
    packed: bool = False


Memory = Buffer | Array


class Memories:
    """Every buffer and array of one kernel, by value number."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.known: dict[int, Memory] = {}
        self.shared_bytes = 0
        binding = 0
        for param, value in zip(e.kernel.params, e.kernel.body.args, strict=True):
            if param.is_memory:
                use = e.usage.memory.get(value.id, MemoryUse())
                self.known[value.id] = Buffer(param, binding, use)
                binding += 1

    def buffer_number(self, value: Value) -> int | None:
        """The binding of a buffer; None for an array."""
        memory = self.known[value.id]
        return memory.binding if isinstance(memory, Buffer) else None

    # variables

    def view(self, buffer: Buffer, lanes: int) -> tuple[int, int]:
        """The variable that shows a buffer as items of this shape, made at first use."""
        if lanes not in buffer.views:
            e, module, dtype = self.e, self.e.module, buffer.element
            item, stride = self.stored(dtype, lanes), dtype.bytes * max(lanes, 1)
            pointer = module.block(item, stride, None, Storage.STORAGE_BUFFER)
            variable = module.variable(pointer, Storage.STORAGE_BUFFER)
            module.decorate(variable, Deco.DESCRIPTOR_SET, 0)
            module.decorate(variable, Deco.BINDING, buffer.binding)
            for decoration in self.decorations(buffer):
                module.decorate(variable, decoration)
            module.name(
                variable, buffer.param.name + ("" if lanes == 1 else f"_x{lanes or 'bits'}")
            )
            items = module.pointer(Storage.STORAGE_BUFFER, item)
            buffer.views[lanes] = (variable, items)
            self.need_storage(e, dtype)
        return buffer.views[lanes]

    def decorations(self, buffer: Buffer) -> list[int]:
        """Aliasing, direction and coherence of a buffer's variables."""
        use, usage, param = buffer.use, self.e.usage, buffer.param
        shapes = use.load_lanes | use.store_lanes
        if use.atomics and param.dtype.is_float:
            kinds = ({kind} for kind in use.atomics)
            bits = param.dtype.bits
            shapes = shapes | {1 - on_bits(self.e.native, kind, bits, False) for kind in kinds}
        elif use.atomics:
            shapes = shapes | {1}
        aliased = param.may_alias or len(shapes) > 1
        found = [Deco.ALIASED if aliased else Deco.RESTRICT]
        # By use as well: what is narrower than storage is read to be written.
        if param.access is Access.READ and not use.writes:
            found.append(Deco.NON_WRITABLE)
        elif param.access is Access.WRITE and not use.reads:
            found.append(Deco.NON_READABLE)
        shared = param.may_alias or (use.reads and use.writes)
        shared = shared and not self.e.module.vulkan_memory  # each access says so there
        if shared and param.access is not Access.READ and (usage.ordered or usage.fences):
            found.append(Deco.COHERENT)
        return found

    @staticmethod
    def need_storage(e: Emitter, dtype: DType) -> None:
        if dtype.bits == 16:
            e.module.capabilities.add(Cap.STORAGE_BUFFER_16BIT_ACCESS)
            e.requires.add("storage16")
        elif dtype.bits == 8:
            e.module.capabilities.add(Cap.STORAGE_BUFFER_8BIT_ACCESS)
            e.module.extension_in("SPV_KHR_8bit_storage", 0x00010500)
            e.requires.add("storage8")

    def stored(self, dtype: DType, lanes: int) -> int:
        """The type of an item in a buffer."""
        e = self.e
        if lanes == BITS or dtype.is_bool or dtype.name == "bf16":
            return e.ints(dtype.bits, max(lanes, 1))
        if lanes > 4:
            raise e.fail(f"an access of {lanes} lanes: legalize splits it first")
        return e.module.vector_type(e.type(dtype), lanes)

    def allocate(self, op: Op) -> None:
        """A workgroup or private array."""
        e, memory = self.e, op.results[0].type
        assert isinstance(memory, MemType)
        assert memory.count is not None
        use = e.usage.memory[op.results[0].id]
        shapes = use.load_lanes | use.store_lanes
        lanes = shapes.pop() if len(shapes) == 1 and not use.atomics else 1
        lanes = lanes if memory.count % lanes == 0 else 1
        dtype = memory.element
        shared = memory.space is Space.WORKGROUP
        bits = dtype.is_float and on_bits(e.native, use.atomics, dtype.bits, shared)
        # Matrices are loaded from there as they lie in memory.
        packed = dtype.name == "bf16" and shared and e.module.vulkan_memory
        if packed:
            item = e.ints(16, lanes)
            e.module.capabilities.add(Cap.INT16)
            e.requires.add("i16")
        elif dtype.is_bool or bits:
            item = e.ints(max(dtype.bits, 32), lanes)
        else:
            item = e.module.vector_type(e.type(dtype), lanes)
        widened = dtype.is_bool or (dtype.name == "bf16" and not packed)
        width = 4 if widened else dtype.bytes
        array = e.module.array_type(item, memory.count // lanes)
        if shared:
            storage = Storage.WORKGROUP
            variable = e.module.variable(e.module.pointer(storage, array), storage)
            self.shared_bytes += (memory.count * width + 15) // 16 * 16
        else:
            storage = Storage.FUNCTION
            variable = e.variable(array, zeros(e, array, memory, lanes, bits=bits))
        name = dict(op.attrs).get("name") or op.results[0].hint
        if name:
            e.module.name(variable, str(name))
        pointer = e.module.pointer(storage, item)
        self.known[op.results[0].id] = Array(memory, variable, pointer, item, lanes, bits, packed)

    # access

    def index(self, value: Value) -> int:
        """An index as at least 32 bits wide."""
        e, dtype = self.e, value.type
        assert isinstance(dtype, DType)
        if dtype.bits >= 32:
            return e.use(value)
        return e.widen(e.use(value), dtype)

    def pointer(self, memory: Memory, index: int, lanes: int = 1) -> int:
        """A pointer to one item of `lanes` elements (or BITS)."""
        e = self.e
        if isinstance(memory, Buffer):
            variable, items = self.view(memory, lanes)
            return e.ins(S.ACCESS_CHAIN, items, variable, e.module.word(0), index)
        return e.ins(S.ACCESS_CHAIN, memory.pointer, memory.variable, index)

    def load(self, op: Op) -> int:
        e = self.e
        memory, lanes = self.known[op.operands[0].id], lanes_of(op.results[0].type)
        index = self.index(op.operands[1])
        if isinstance(memory, Buffer):
            item = self.stored(memory.element, lanes)
            raw = e.ins(S.LOAD, item, self.pointer(memory, index, lanes), *self.marks(memory))
            return from_buffer(e, raw, memory.element, lanes)
        if memory.lanes == lanes:
            raw = e.ins(S.LOAD, memory.item, self.pointer(memory, index), *self.marks(memory))
            return self.from_array(memory, raw, lanes)
        marks = self.marks(memory)
        parts = [
            self.from_array(memory, e.ins(S.LOAD, memory.item, self.pointer(memory, at), *marks), 1)
            for at in self.elements(op.operands[1], index, lanes)
        ]
        return e.ins(S.COMPOSITE_CONSTRUCT, e.type(op.results[0].type), *parts)

    def store(self, op: Op) -> None:
        e = self.e
        memory, value = self.known[op.operands[0].id], e.use(op.operands[2])
        lanes = lanes_of(op.operands[2].type)
        index = self.index(op.operands[1])
        if isinstance(memory, Buffer):
            raw = to_buffer(e, value, memory.element, lanes)
            e.raw(S.STORE, self.pointer(memory, index, lanes), raw, *self.marks(memory))
        elif memory.lanes == lanes:
            whole = self.to_array(memory, value, lanes)
            e.raw(S.STORE, self.pointer(memory, index), whole, *self.marks(memory))
        else:
            parts = e.per_lane(value, e.type(memory.memory.element), lanes)
            for at, part in zip(self.elements(op.operands[1], index, lanes), parts, strict=True):
                one = self.to_array(memory, part, 1)
                e.raw(S.STORE, self.pointer(memory, at), one, *self.marks(memory))

    def marks(self, memory: Memory) -> tuple[int, ...]:
        """What an access to memory that invocations share says in the Vulkan memory model."""
        if not self.e.module.vulkan_memory:
            return ()
        private = isinstance(memory, Array) and memory.memory.space is Space.PRIVATE
        return () if private else (MemoryAccess.NON_PRIVATE,)

    def item_lanes(self, value: Value) -> int:
        """The lanes of the items in which a matrix may best be read from a memory."""
        memory = self.known[value.id]
        if isinstance(memory, Array):
            return memory.lanes
        shapes = memory.use.load_lanes | memory.use.store_lanes
        return shapes.pop() if len(shapes) == 1 and not memory.use.atomics else 1

    def elements(self, value: Value, index: int, lanes: int) -> list[int]:
        """The element indexes of the index-th vector."""
        e, dtype = self.e, value.type
        assert isinstance(dtype, DType)
        bits = max(dtype.bits, 32)
        t = e.ints(bits)
        first = e.ins(S.I_MUL, t, index, e.int_const(lanes, bits))
        rest = [e.ins(S.I_ADD, t, first, e.int_const(n, bits)) for n in range(1, lanes)]
        return [first, *rest]

    def from_array(self, memory: Array, raw: int, lanes: int) -> int:
        e, dtype = self.e, memory.memory.element
        if memory.packed:
            return from_buffer(e, raw, dtype, lanes)
        if dtype.is_bool:
            return e.ins(S.I_NOT_EQUAL, e.bools(lanes), raw, e.int_const(0, 32, lanes))
        return e.ins(S.BITCAST, e.type(dtype), raw) if memory.bits else raw

    def to_array(self, memory: Array, value: int, lanes: int) -> int:
        e, dtype = self.e, memory.memory.element
        if memory.packed:
            return to_buffer(e, value, dtype, lanes)
        if dtype.is_bool:
            return bool_word(e, value, lanes)
        return e.ins(S.BITCAST, memory.item, value) if memory.bits else value


def zeros(e: Emitter, array: int, memory: MemType, lanes: int, *, bits: bool) -> int:
    """The initial value of a private array of items of `lanes`; bits: floats held as integers.

    Written out as far as one instruction can: SPIRV-Tools' optimizer, which SwiftShader runs, gives
    0 for what it computes of a constant vector of which a lane is a null constant.
    """
    assert memory.count is not None
    count, dtype = memory.count // lanes, memory.element
    if count > _MOST_ZEROS:
        return e.module.null(array)
    width = 32 if dtype.is_bool or dtype.name == "bf16" else dtype.bits
    whole = bits or not dtype.is_float
    zero = e.int_const(0, width, lanes) if whole else e.float_const(0.0, width, lanes)
    return e.module.splat(array, count, zero)


def bool_word(e: Emitter, value: int, lanes: int) -> int:
    """A bool (or bool lanes) as u32 0 or 1."""
    one, zero = e.int_const(1, 32, lanes), e.int_const(0, 32, lanes)
    return e.ins(S.SELECT, e.ints(32, lanes), value, one, zero)


def from_buffer(e: Emitter, raw: int, dtype: DType, lanes: int) -> int:
    """The register form of what a buffer holds."""
    if dtype.is_bool:
        word = e.ins(S.U_CONVERT, e.ints(32, lanes), raw)
        return e.ins(S.I_NOT_EQUAL, e.bools(lanes), word, e.int_const(0, 32, lanes))
    if dtype.name == "bf16":
        word = e.ins(S.U_CONVERT, e.ints(32, lanes), raw)
        return bf16_from_word(e, word, lanes)
    return raw


def to_buffer(e: Emitter, value: int, dtype: DType, lanes: int) -> int:
    """What a buffer holds for a register."""
    if dtype.is_bool:
        return e.ins(S.U_CONVERT, e.ints(8, lanes), bool_word(e, value, lanes))
    if dtype.name == "bf16":
        return e.ins(S.U_CONVERT, e.ints(16, lanes), bf16_word(e, value, lanes))
    return value


def bf16_from_word(e: Emitter, word: int, lanes: int) -> int:
    """The register of a bf16 whose bits are the low half of a u32."""
    t = e.ints(32, lanes)
    return e.ins(
        S.BITCAST,
        e.floats(32, lanes),
        e.ins(S.SHIFT_LEFT_LOGICAL, t, word, e.int_const(16, 32, lanes)),
    )


def bf16_word(e: Emitter, value: int, lanes: int) -> int:
    """The bits of a bf16 register in the low half of a u32."""
    t = e.ints(32, lanes)
    return e.ins(S.SHIFT_RIGHT_LOGICAL, t, e.ins(S.BITCAST, t, value), e.int_const(16, 32, lanes))
