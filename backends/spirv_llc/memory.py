"""Buffers and arrays as global variables of the module; loads and stores.

A buffer is seen through one variable per shape in use, all with its binding: elements, vectors of 2
or 4 elements, or (for float atomics) integers. In memory a bool is an i8 and a 16-bit float an i16;
arrays hold bool as i32, and floats that atomics update as integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...ir.core import Op, Param, Value
from ...ir.dtypes import Access, DType, MemType, Space, bool_, lanes_of
from ..llvm.types import Ty, memory_type
from ..simt.lowering import Memory
from ..usage import MemoryUse
from .lowering import PRIVATE, STORAGE, UNIFORM, WORKGROUP, Lowering

_NARROW = ("i8", "i16")
BITS = 0  # the "lanes" of the view of floats as integers
_RESTRICT, _ALIASED, _COHERENT, _NON_WRITABLE, _NON_READABLE = 19, 20, 23, 24, 25


@dataclass(slots=True)
class Buffer:
    """A buffer parameter. element: what it holds."""

    param: Param
    binding: int
    element: DType
    use: MemoryUse
    views: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Array:
    """A workgroup or private array of items of `lanes` elements. bits: floats held as integers."""

    element: DType
    where: str  # as `Declarations.array`
    space: str
    lanes: int
    bits: bool


class Memories:
    """Every buffer and array of one kernel, and the declarations of the module."""

    def __init__(self, x: Lowering) -> None:
        self.x = x
        self.known: dict[int, Buffer | Array] = {}
        self.shared_bytes = 0
        for param, value in zip(x.kernel.params, x.kernel.body.args, strict=True):
            if isinstance(value.type, MemType):
                use = x.usage.memory.get(value.id, MemoryUse())
                self.known[value.id] = Buffer(param, len(self.known), value.type.element, use)
                x.memory[value.id] = Memory(value.type, "null", STORAGE)
        self.uniform = len(self.known)
        self._faults = ""

    # declarations

    def parameters(self, words: int) -> str:
        """Declare the parameter block, of so many 32-bit words; as `Declarations.block`."""
        kind = f"[{words // 4} x <4 x i32>]"
        return self.x.declarations.block("params.", kind, UNIFORM, self.uniform)

    def faults(self) -> str:
        """The fault bitmap, declared at first use; as `Declarations.block`."""
        if not self._faults:
            block = self.x.declarations.block
            self._faults = block("faults.", "[0 x i32]", STORAGE, self.uniform + 1)
        return self._faults

    def view(self, buffer: Buffer, lanes: int) -> str:
        """The variable that shows a buffer as items of this shape, declared at first use; as
        `Declarations.block`."""
        if lanes not in buffer.views:
            kind = f"[0 x {item_type(buffer.element, lanes)}]"
            name, more = f"buffer{buffer.binding}.{lanes}.", self.decorations(buffer)
            block = self.x.declarations.block(name, kind, STORAGE, buffer.binding, more)
            buffer.views[lanes] = block
        return buffer.views[lanes]

    def decorations(self, buffer: Buffer) -> list[int]:
        """Aliasing, direction and coherence of the variables of a buffer."""
        use, usage, param = buffer.use, self.x.usage, buffer.param
        shapes = use.load_lanes | use.store_lanes
        if use.atomics:
            shapes = shapes | {BITS if buffer.element.is_float else 1}
        found = [_ALIASED if param.may_alias or len(shapes) > 1 else _RESTRICT]
        if param.access is Access.READ and not use.writes:
            found.append(_NON_WRITABLE)
        elif param.access is Access.WRITE and not use.reads:
            found.append(_NON_READABLE)
        shared = param.may_alias or (use.reads and use.writes)
        if shared and param.access is not Access.READ and (usage.ordered or usage.fences):
            found.append(_COHERENT)
        return found

    def allocate(self, op: Op) -> None:
        """Declare a workgroup array, or a private one, which begins as zeros."""
        memory, use = op.result.type, self.x.usage.memory[op.result.id]
        assert isinstance(memory, MemType)
        assert memory.count is not None
        shapes = use.load_lanes | use.store_lanes
        lanes = shapes.pop() if len(shapes) == 1 and not use.atomics else 1
        lanes = lanes if memory.count % lanes == 0 else 1
        shared = memory.space is Space.WORKGROUP
        bits = memory.element.is_float and bool(use.atomics)
        space = WORKGROUP if shared else PRIVATE
        array = Array(memory.element, "", space, lanes, bits)
        kind = f"[{memory.count // lanes} x {_vector(self.held(array), lanes)}]"
        start = "poison" if shared else "zeroinitializer"
        where = self.x.declarations.array(f"array{op.result.id}.", kind, space, start)
        array = replace(array, where=where)
        if shared:
            width = 4 if memory.element == bool_ else memory.element.bytes
            self.shared_bytes += (memory.count * width + 15) // 16 * 16
        self.known[op.result.id] = array
        self.x.memory[op.result.id] = Memory(memory, "null", space)

    # access

    def place(self, memory: Buffer | Array, index: str, lanes: int = 1) -> str:
        """The address of an item of `lanes` elements (or BITS), with its type. index: with its
        type as well."""
        f = self.x.f
        if isinstance(memory, Buffer):
            address = f"getelementptr {self.view(memory, lanes)}, i32 0, i32 0, {index}"
            return f"{STORAGE} {f.value(address)}"
        return f"{memory.space} {f.value(f'getelementptr {memory.where}, i32 0, {index}')}"

    def index(self, value: Value) -> str:
        """An index with its type, of at least 32 bits."""
        t, text = self.x.type_of(value), self.x.scalar(value)
        if t.dtype.bits >= 32:
            return f"{t.text} {text}"
        word = "sext" if t.dtype.is_signed else "zext"
        return f"i32 {self.x.f.value(f'{word} {t.text} {text} to i32')}"

    def elements(self, value: Value, lanes: int) -> list[str]:
        """The indexes of the elements of the index-th vector."""
        kind, text = self.index(value).split(" ")
        first = self.x.f.value(f"mul {kind} {text}, {lanes}")
        rest = [self.x.f.value(f"add {kind} {first}, {n}") for n in range(1, lanes)]
        return [f"{kind} {at}" for at in (first, *rest)]

    def load(self, op: Op) -> None:
        memory, lanes = self.known[op.operands[0].id], lanes_of(op.result.type)
        index = op.operands[1]
        if isinstance(memory, Buffer) or memory.lanes == lanes:
            places = [self.place(memory, self.index(index), lanes)]
        else:
            places = [self.place(memory, at) for at in self.elements(index, lanes)]
        each = lanes // len(places)
        kind = self.held(memory)
        whole = [self.x.f.value(f"load {_vector(kind, each)}, {place}") for place in places]
        parts = [part for item in whole for part in self._apart(item, kind, each)]
        self.x.set(op.result, [self._from(memory, part) for part in parts])

    def store(self, op: Op) -> None:
        memory, index, value = self.known[op.operands[0].id], op.operands[1], op.operands[2]
        lanes, kind = lanes_of(value.type), self.held(memory)
        parts = [self._to(memory, part) for part in self.x.parts(value)]
        if isinstance(memory, Buffer) or memory.lanes == lanes:
            place = self.place(memory, self.index(index), lanes)
            self.x.f.do(f"store {self._together(parts, kind)}, {place}")
            return
        for at, part in zip(self.elements(index, lanes), parts, strict=True):
            self.x.f.do(f"store {kind} {part}, {self.place(memory, at)}")

    # 8- and 16-bit types are loaded, stored and converted to 32 bits and back, and nothing else is
    # done with them: that needs features of storage only.

    def _apart(self, whole: str, kind: str, lanes: int) -> list[str]:
        """The components of a vector."""
        f = self.x.f
        if lanes == 1:
            return [whole]
        if kind in _NARROW:
            vector = _vector("i32", lanes)
            whole = f.value(f"zext {_vector(kind, lanes)} {whole} to {vector}")
            words = [f.value(f"extractelement {vector} {whole}, i64 {n}") for n in range(lanes)]
            return [f.value(f"trunc i32 {word} to {kind}") for word in words]
        vector = _vector(kind, lanes)
        return [f.value(f"extractelement {vector} {whole}, i64 {n}") for n in range(lanes)]

    def _together(self, parts: list[str], kind: str) -> str:
        """A vector of these components, with its type; the scalar where there is one."""
        f, held = self.x.f, "i32" if kind in _NARROW else kind
        if kind in _NARROW:
            parts = [self._wide(part, kind) for part in parts]
        vector, whole = _vector(held, len(parts)), parts[0]
        if len(parts) > 1:
            whole = "poison"
            for n, part in enumerate(parts):
                whole = f.value(f"insertelement {vector} {whole}, {held} {part}, i64 {n}")
        if kind not in _NARROW:
            return f"{vector} {whole}"
        narrow = _vector(kind, len(parts))
        return f"{narrow} {f.value(f'trunc {vector} {whole} to {narrow}')}"

    def _wide(self, part: str, kind: str) -> str:
        return self.x.f.value(f"zext {kind} {part} to i32") if part.startswith("%") else part

    @staticmethod
    def held(memory: Buffer | Array) -> str:
        """The type of an element in memory."""
        if isinstance(memory, Array) and memory.element == bool_:
            return "i32"
        if isinstance(memory, Array) and memory.bits:
            return f"i{memory.element.bits}"
        return memory_type(memory.element)

    def _from(self, memory: Buffer | Array, part: str) -> str:
        """The value that an element in memory stands for."""
        f, t = self.x.f, Ty(memory.element)
        if memory.element == bool_:
            word = f.value(f"zext i8 {part} to i32") if isinstance(memory, Buffer) else part
            return f.value(f"icmp ne i32 {word}, 0")
        if isinstance(memory, Array) and memory.bits:
            return f.value(f"bitcast i{t.dtype.bits} {part} to {t.text}")
        return part

    def _to(self, memory: Buffer | Array, part: str) -> str:
        f, t = self.x.f, Ty(memory.element)
        if memory.element == bool_:
            word = f.value(f"select i1 {part}, i32 1, i32 0")
            return f.value(f"trunc i32 {word} to i8") if isinstance(memory, Buffer) else word
        if isinstance(memory, Array) and memory.bits:
            return f.value(f"bitcast {t.text} {part} to i{t.dtype.bits}")
        return part


def item_type(element: DType, lanes: int) -> str:
    """The type of an item of a buffer."""
    return f"i{element.bits}" if lanes == BITS else _vector(memory_type(element), lanes)


def _vector(kind: str, lanes: int) -> str:
    return kind if lanes <= 1 else f"<{lanes} x {kind}>"
