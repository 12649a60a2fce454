"""Indexing: loads and stores of buffers and arrays, register cells, vector lanes, tuples."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core import Op, Value, const_value
from ..dtypes import DType, FragmentType, MemType, Space, VectorType, element_of
from ..limits import MAX_ARRAYS, MAX_PRIVATE, MAX_REGISTERS, MAX_SHARED
from . import counters, literals
from .budget import spend
from .values import Counter, Entry, Memory, Registers, Slot, SlotRef, WeakSelect, describe

if TYPE_CHECKING:
    from .tracer import Tracer

_NEAR = 64  # ops among which the making of a row number is looked for
MAX_DIMENSIONS = 8
CHUNK, ROWS = 16, 8  # bytes that a swizzled row moves together; rows of different order


def element(t: Tracer, node: ast.AST, base: Entry, index: Entry) -> Entry:
    """`base[index]`."""
    if isinstance(base, Memory):
        return load(t, node, base, index)
    if isinstance(base, Registers):
        return t.state[cell(t, node, base, index)]
    if isinstance(base, Value) and isinstance(base.type, VectorType):
        return t.emit(node, "extract", base, lane=lane(t, node, base.type, index))
    if isinstance(base, tuple):
        if isinstance(index, slice):
            for part in (index.start, index.stop, index.step):
                if part is not None:
                    t.static_int(node, part, "a bound of a slice")
            if index.step == 0:
                t.fail(node, "the step of a slice is 0")
            return base[index]
        number = t.static_int(node, index, "the index of a tuple")
        if not -len(base) <= number < len(base):
            t.fail(node, f"index {number} of a tuple of {len(base)}")
        return base[number]
    t.fail(node, f"expected a buffer, array, vector or tuple to index, found {describe(base)}")


def load(t: Tracer, node: ast.AST, memory: Memory, index: Entry, lanes: int = 1) -> Value:
    """One element, or a vector of `lanes` elements (index counts vectors)."""
    if not memory.type.access.reads:
        t.fail(node, f"{memory.name!r} is write-only, but is read here; declare it ReadWrite")
    position = flat_index(t, node, memory, index, lanes)
    if lanes == 1:
        return t.emit(node, "load", memory.value, position)
    return t.emit(node, "load", memory.value, position, lanes=lanes)


def store(t: Tracer, node: ast.AST, memory: Memory, index: Entry, entry: Entry) -> None:
    """Write one element; a vector is written by store_vector."""
    check_writes(t, node, memory)
    position = flat_index(t, node, memory, index)
    what = f"an element of {memory.name!r}"
    value = literals.typed(t, node, entry, memory.type.element, what)
    t.op(node, "store", (memory.value, position, value))


def store_vector(t: Tracer, node: ast.AST, memory: Memory, index: Entry, entry: Entry) -> None:
    """Write a vector to elements lanes*index and following."""
    check_writes(t, node, memory)
    if not isinstance(entry, Value) or not isinstance(entry.type, VectorType):
        t.fail(node, f"store_vector writes a vector, found {describe(entry)}")
    wanted = VectorType(memory.type.element, entry.type.lanes)
    value = literals.typed(t, node, entry, wanted, f"elements of {memory.name!r}")
    position = flat_index(t, node, memory, index, wanted.lanes)
    t.op(node, "store", (memory.value, position, value))


def check_writes(t: Tracer, node: ast.AST, memory: Memory) -> None:
    if not memory.type.access.writes:
        t.fail(node, f"{memory.name!r} is read-only, but is written here; declare it ReadWrite")


def flat_index(t: Tracer, node: ast.AST, memory: Memory, index: Entry, lanes: int = 1) -> Value:
    """An index as one integer: row-major over the shape of an array."""
    parts = index if isinstance(index, tuple) else (index,)
    shape = memory.shape
    if shape is None and len(parts) != 1:
        t.fail(node, f"buffer {memory.name!r} has one dimension, found {len(parts)} indices")
    if shape is not None and lanes > 1 and len(parts) == 1:
        shape = (math.prod(shape) // lanes,)
    elif shape is not None and lanes > 1:
        shape = (*shape[:-1], shape[-1] // lanes)
    if shape is not None and len(parts) != len(shape):
        t.fail(
            node,
            f"array {memory.name!r} of shape {memory.shape} takes {len(shape)} indices, "
            f"found {len(parts)}",
        )
    for n, part in enumerate(parts):
        _check_index(t, node, part, None if shape is None else shape[n])
    if memory.swizzled:
        if len(parts) == 1:
            t.fail(node, f"{memory.name!r} is swizzled: give one index for each dimension")
        return _swizzled(t, node, memory, parts, lanes)
    if len(parts) == 1:
        return literals.value(t, node, parts[0])
    assert shape is not None
    if all(isinstance(p, int) for p in parts):
        flat = 0
        for part, size in zip(parts, shape, strict=True):
            flat = flat * size + part
        return t.const(node, flat, t.index)
    total: Value | None = None
    for part, size in zip(parts, shape, strict=True):
        here = _as_index(t, node, part)
        if total is None:
            total = here
        else:
            scaled = t.emit(node, "mul", total, t.const(node, size, t.index))
            total = t.emit(node, "add", scaled, here)
    assert total is not None
    return total


def row_start(t: Tracer, node: ast.AST, memory: Memory, parts: tuple[Entry, ...]) -> Value:
    """The first element of a row of an array, whose number all but the last index give."""
    assert memory.shape is not None
    length = memory.shape[-1]
    row = t.emit(node, "mul", _as_index(t, node, parts[-1]), t.const(node, length, t.index))
    block = _block(t, node, memory, parts[:-1], length)
    return row if block is None else t.emit(node, "add", block, row)


def _block(
    t: Tracer, node: ast.AST, memory: Memory, parts: tuple[Entry, ...], length: int
) -> Value | None:
    """Where a block of rows begins, apart from the place within it: loops move the one or the
    other."""
    if not parts:
        return None
    assert memory.shape is not None
    outer = Memory(memory.value, memory.shape[: len(parts)], memory.name)
    number = flat_index(t, node, outer, parts)
    return t.emit(node, "mul", number, t.const(node, memory.shape[-2] * length, t.index))


def _swizzled(
    t: Tracer, node: ast.AST, memory: Memory, parts: tuple[Entry, ...], lanes: int
) -> Value:
    """Block, row and the place, within the row, of a column. Blocks are of whole eights of rows."""
    assert memory.shape is not None
    unit = CHUNK // memory.type.element.bytes // lanes
    if unit < 1:
        t.fail(node, f"a vector of {lanes} reaches over a chunk of {CHUNK} bytes of a swizzled row")
    row = _as_index(t, node, parts[-2])
    turn = t.emit(node, "and", _modulo_rows(t, row), t.const(node, ROWS - 1, t.index))
    turn = t.emit(node, "mul", turn, t.const(node, unit, t.index))
    place = t.emit(node, "xor", _as_index(t, node, parts[-1]), turn)
    length = memory.shape[-1] // lanes
    start = t.emit(node, "mul", row, t.const(node, length, t.index))
    inner = t.emit(node, "add", start, place)
    block = _block(t, node, memory, parts[:-2], length)
    return inner if block is None else t.emit(node, "add", block, inner)


def _modulo_rows(t: Tracer, row: Value) -> Value:
    """A row number, or one that leaves the same remainder by 8 and that several accesses share."""
    made = {v.id: op for op in t.builder.ops[-_NEAR:] for v in op.results}
    op = made.get(row.id)
    if op is not None and op.name == "add":
        t.asked += (row.id, op.operands[1].id)
        known = made.get(op.operands[1].id)
        if known is not None and known.name == "const" and const_value(known) % ROWS == 0:
            return op.operands[0]
    return row


def _as_index(t: Tracer, node: ast.AST, part: Entry) -> Value:
    value = literals.value(t, node, part)
    return value if value.type == t.index else t.emit(node, "convert", value, type=t.index)


def _check_index(t: Tracer, node: ast.AST, part: Entry, size: int | None) -> None:
    if isinstance(part, slice):
        t.fail(node, "slices are not supported in a kernel; index one element or use load_vector")
    if isinstance(part, (bool, float)) or not isinstance(part, (int, Value, WeakSelect)):
        t.fail(node, f"an index is an integer, found {describe(part)}")
    if isinstance(part, Value) and not (isinstance(part.type, DType) and part.type.is_int):
        t.fail(node, f"an index is an integer, found {part.type}")
    if isinstance(part, WeakSelect) and part.is_float:
        t.fail(node, "an index is an integer, found a float")
    if isinstance(part, int) and (part < 0 or (size is not None and part >= size)):
        t.fail(node, f"index {part} is out of range" + (f" (0 to {size - 1})" if size else ""))


def cell(t: Tracer, node: ast.AST, array: Registers, index: Entry) -> Slot:
    """The state slot of a register cell."""
    parts = index if isinstance(index, tuple) else (index,)
    if type(index) is Counter:
        return counters.cell(t, node, array, index)
    if len(parts) != len(array.shape):
        t.fail(
            node,
            f"a register array of shape {array.shape} takes {len(array.shape)} indices, "
            f"found {len(parts)}",
        )
    flat = 0
    for part, size in zip(parts, array.shape, strict=True):
        if isinstance(part, (Value, WeakSelect)):
            t.fail(
                node,
                "the index of a register array must be known when the kernel is traced; "
                "use static_range, or private_array for run-time indices",
            )
        number = t.static_int(node, part, "the index of a register array")
        if not 0 <= number < size:
            t.fail(node, f"index {number} is out of range (0 to {size - 1})")
        flat = flat * size + number
    return _within_reach(t, node, array, (array.number, flat))


def _within_reach(t: Tracer, node: ast.AST, array: Registers, slot: Slot) -> Slot:
    """The slot of a cell; where one iteration stands for others, it has only those of its own
    number."""
    if slot not in t.state:
        t.fail(node, f"cell {slot[1]} of a register array of {array.type} is out of reach here")
    return slot


def cells(t: Tracer, node: ast.AST, array: Registers) -> list[Value]:
    """What all cells of a register array hold."""
    return [t.state[_within_reach(t, node, array, (array.number, n))] for n in range(array.count)]


def lane(t: Tracer, node: ast.AST, type_: VectorType, index: Entry) -> int:
    """A constant lane number of a vector."""
    number = t.static_int(node, index, "the lane of a vector")
    if not 0 <= number < type_.lanes:
        t.fail(node, f"lane {number} of {type_} (0 to {type_.lanes - 1})")
    return number


def slot_value(t: Tracer, node: ast.AST, ref: SlotRef) -> Value:
    """The present value of a slot parameter."""
    return t.emit(node, "load", ref.value, t.const(node, 0, t.index))


def shape_of(t: Tracer, node: ast.AST, entry: Entry) -> tuple[int, ...]:
    """A constant shape: an int or a tuple of ints, all positive."""
    parts = entry if isinstance(entry, tuple) else (entry,)
    sizes = tuple(t.static_int(node, p, "the size of an array") for p in parts)
    if len(sizes) > MAX_DIMENSIONS:
        t.fail(node, f"an array has 1 to {MAX_DIMENSIONS} dimensions, found {len(sizes)}")
    if not sizes or min(sizes) <= 0:
        t.fail(node, f"an array has a positive size, found {entry}")
    return sizes


def make_array(t: Tracer, node: ast.AST, space: Space, element_: Entry, shape: Entry) -> Memory:
    """A workgroup or private array, declared at the top of the kernel."""
    if not isinstance(element_, DType):
        t.fail(node, f"an array in {space.value} memory holds scalars, found {describe(element_)}")
    sizes = shape_of(t, node, shape)
    count = math.prod(sizes)
    size = count * element_.bytes
    limit = MAX_SHARED if space is Space.WORKGROUP else MAX_PRIVATE
    total = size + sum(_bytes(op) for op in t.allocs if _space(op) is space)
    if total > limit:
        others = f" ({total} with the others)" if total > size else ""
        t.fail(
            node,
            f"a {space.value} array of {_count(size)} bytes{others} exceeds {limit} bytes, "
            "which no target offers",
        )
    if len(t.allocs) >= MAX_ARRAYS:
        t.fail(node, f"over {MAX_ARRAYS} arrays in one kernel; share one, and index it")
    with t.reopened(t.allocs):
        made = t.op(node, "alloc", (), {"name": ""}, (MemType(space, element_, count),)).result
    memory = Memory(made, sizes, "")
    if space is Space.PRIVATE and (t.loop_depth or t.region_depth):
        _clear(t, node, memory, count)
    return memory


def _count(number: int) -> str:
    """A size for a message; Python does not write out ints of thousands of digits."""
    return str(number) if number < 1 << 64 else "over 2**64"


def _bytes(op: Op) -> int:
    """Bytes of the array that an op declares."""
    memory = op.result.type
    return (
        memory.count * memory.element.bytes if isinstance(memory, MemType) and memory.count else 0
    )


def _space(op: Op) -> Space | None:
    memory = op.result.type
    return memory.space if isinstance(memory, MemType) else None


def make_workgroup_array(
    t: Tracer, node: ast.AST, element_: Entry, shape: Entry, swizzle: Entry
) -> Memory:
    """A workgroup array, swizzled or not."""
    if not isinstance(swizzle, bool):
        t.fail(node, f"swizzle is True or False, found {describe(swizzle)}")
    made = make_array(t, node, Space.WORKGROUP, element_, shape)
    if not swizzle:
        return made
    assert made.shape is not None
    chunks, rest = divmod(made.shape[-1] * made.type.element.bytes, CHUNK)
    whole = len(made.shape) > 1 and (len(made.shape) == 2 or made.shape[-2] % ROWS == 0)
    if not whole or rest or chunks < ROWS or chunks & (chunks - 1):
        t.fail(
            node,
            f"a swizzled array has rows of 8, 16, 32 ... chunks of {CHUNK} bytes, in blocks of "
            f"whole eights of rows, found shape {made.shape} of {made.type.element}",
        )
    return replace(made, swizzled=True)


def name_array(t: Tracer, memory: Memory, name: str) -> Memory:
    """Give a fresh array the name of the variable that holds it."""
    if memory.name or memory.type.space is Space.BUFFER:
        return memory
    for n, op in enumerate(t.allocs):
        if op.result == memory.value:
            value = Value(memory.value.id, memory.value.type, name)
            t.allocs[n] = replace(op, results=(value,), attrs=(("name", name),))
            return replace(memory, value=value, name=name)
    return memory


def _clear(t: Tracer, node: ast.AST, memory: Memory, count: int) -> None:
    """Zero a private array that is declared in a loop or branch, which may come by again."""
    from ..core import Region

    low, high = t.const(node, 0, t.index), t.const(node, count, t.index)
    with t.region(node) as ops:
        counter = t.builder.value(t.index)
        zero = t.const(node, 0, memory.type.element)
        t.op(node, "store", (memory.value, counter, zero))
        t.op(node, "continue")
        region = Region((counter,), tuple(ops))
    t.op(node, "for", (low, high), {}, (), regions=(region,))


def make_registers(t: Tracer, node: ast.AST, type_: Entry, shape: Entry, init: Entry) -> Registers:
    """A register array, every cell `init`."""
    if not isinstance(type_, DType | VectorType | FragmentType):
        t.fail(
            node, f"a register array holds scalars, vectors or fragments, found {describe(type_)}"
        )
    sizes = shape_of(t, node, shape)
    if math.prod(sizes) > MAX_REGISTERS:
        cells = _count(math.prod(sizes))
        t.fail(node, f"a register array of {cells} cells exceeds {MAX_REGISTERS}")
    spend(t, node, math.prod(sizes))
    if init == 0 and isinstance(init, int) and element_of(type_).is_bool:
        init = False
    value = literals.typed(t, node, init, type_, "a register cell")
    array = Registers(t.number(), sizes, type_)
    for n in range(array.count):
        t.state[(array.number, n)] = value
    return array


def check_lanes(t: Tracer, node: ast.AST, entry: Entry) -> int:
    lanes = t.static_int(node, entry, "the number of lanes")
    if lanes not in (2, 4, 8):
        t.fail(node, f"a vector has 2, 4 or 8 lanes, found {lanes}")
    return lanes
