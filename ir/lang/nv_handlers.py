"""What each function of `nv` traces to; `HANDLERS` by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import Attr, Value
from ..dtypes import DType, Space, i32, u32, u64
from ..ops.nv import ATOM_BYTES, STEP_BYTES, SUMS
from . import literals, memory, nv_values
from . import nv as nv  # fills the table
from .nv_values import TensorView
from .values import Entry, Memory, Registers, describe

if TYPE_CHECKING:
    from .tracer import Tracer

WARPGROUP = 128  # invocations
Handler = Callable[..., Entry]


def _int(t: Tracer, node: ast.AST, entry: Entry, what: str) -> Value:
    """An integer as an i32."""
    value = literals.value(t, node, entry)
    if not isinstance(value.type, DType) or not value.type.is_int:
        t.fail(node, f"{what} is an integer, found {value.type}")
    return value if value.type == i32 else t.emit(node, "convert", value, type=i32)


def _array(t: Tracer, node: ast.AST, entry: Entry, what: str) -> Memory:
    if not isinstance(entry, Memory) or entry.type.space is not Space.WORKGROUP:
        t.fail(node, f"{what} is a workgroup array, found {describe(entry)}")
    return entry


def _buffer(t: Tracer, node: ast.AST, entry: Entry) -> Memory:
    if not isinstance(entry, Memory) or entry.type.space is not Space.BUFFER:
        t.fail(node, f"expected a buffer, found {describe(entry)}")
    return entry


def _place(t: Tracer, node: ast.AST, base: Memory, index: Entry, unit: int) -> Value:
    """An index of a tile, a multiple of `unit` bytes where it is known."""
    shape = base.shape
    if shape is not None and not isinstance(index, tuple):
        base = Memory(base.value, None, base.name)
    flat = memory.flat_index(t, node, base, index)
    op = t.builder.definition(flat)
    step = unit // base.type.element.bytes
    if op is not None and op.name == "const" and int(op.attr("bits")) % step:  # type: ignore[arg-type]
        t.fail(node, f"the index is a multiple of {step} elements ({unit} bytes)")
    return flat


# mbarriers


def _mbarriers(t: Tracer, node: ast.AST, count: Entry) -> Entry:
    return memory.make_array(t, node, Space.WORKGROUP, u64, count)


def _barrier(t: Tracer, node: ast.AST, entry: Entry, index: Entry) -> tuple[Value, Value]:
    barriers = _array(t, node, entry, "mbarriers")
    if barriers.type.element != u64:
        t.fail(node, f"mbarriers come from nv.mbarriers(count), found {describe(entry)}")
    return barriers.value, memory.flat_index(t, node, barriers, index)


def _with_number(name: str, what: str, result: bool = False) -> Handler:
    def handler(t: Tracer, node: ast.AST, entry: Entry, index: Entry, number: Entry) -> Entry:
        place = _barrier(t, node, entry, index)
        value = _int(t, node, number, what)
        op = t.op(node, name, (*place, value))
        return op.result if result else None

    return handler


def _arrive(t: Tracer, node: ast.AST, entry: Entry, index: Entry, count: Entry) -> Entry:
    number = t.static_int(node, count, "a number of arrivals")
    t.op(node, "nv_mbarrier_arrive", _barrier(t, node, entry, index), {"count": number})
    return None


# copies


def _bulk_load(
    t: Tracer,
    node: ast.AST,
    target: Entry,
    to: Entry,
    source: Entry,
    start: Entry,
    count: Entry,
    barriers: Entry,
    index: Entry,
) -> Entry:
    array, buffer = _array(t, node, target, "the target of a copy"), _buffer(t, node, source)
    _same_elements(t, node, array, buffer)
    operands = (
        array.value,
        _place(t, node, array, to, 16),
        buffer.value,
        _place(t, node, buffer, start, 16),
        _int(t, node, count, "a number of elements"),
        *_barrier(t, node, barriers, index),
    )
    t.op(node, "nv_bulk_load", operands)
    return None


def _bulk_store(
    t: Tracer,
    node: ast.AST,
    target: Entry,
    to: Entry,
    source: Entry,
    start: Entry,
    count: Entry,
) -> Entry:
    array, buffer = _array(t, node, source, "the source of a copy"), _buffer(t, node, target)
    _same_elements(t, node, array, buffer)
    memory.check_writes(t, node, buffer)
    operands = (
        buffer.value,
        _place(t, node, buffer, to, 16),
        array.value,
        _place(t, node, array, start, 16),
        _int(t, node, count, "a number of elements"),
    )
    t.op(node, "nv_bulk_store", operands)
    return None


def _same_elements(t: Tracer, node: ast.AST, a: Memory, b: Memory) -> None:
    if a.type.element != b.type.element:
        t.fail(node, f"a copy moves elements as they are: {describe(a)}, {describe(b)}")


def _view(t: Tracer, node: ast.AST, entry: Entry, at: Entry) -> tuple[TensorView, list[Value]]:
    if not isinstance(entry, TensorView):
        t.fail(node, f"expected what nv.tensor_map gives, found {describe(entry)}")
    parts = at if isinstance(at, tuple) else (at,)
    if len(parts) != len(entry.box):
        t.fail(node, f"{len(entry.box)} coordinates are needed, found {len(parts)}")
    return entry, [_int(t, node, p, "a coordinate") for p in parts]


def _tensor_load(
    t: Tracer,
    node: ast.AST,
    map_: Entry,
    at: Entry,
    target: Entry,
    index: Entry,
    barriers: Entry,
    number: Entry,
    multicast: Entry,
) -> Entry:
    view, coordinates = _view(t, node, map_, at)
    array = _array(t, node, target, "the target of a copy")
    _same_elements(t, node, array, view.memory)
    if not view.memory.type.access.reads:
        t.fail(node, f"{view.memory.name!r} is write-only, but is read here; declare it ReadWrite")
    mask = [] if multicast is None else [_int(t, node, multicast, "a mask of workgroups")]
    operands = (
        array.value,
        _place(t, node, array, index, ATOM_BYTES if view.swizzle else 128),
        view.memory.value,
        *_barrier(t, node, barriers, number),
        *coordinates,
        *mask,
    )
    t.op(node, "nv_tensor_load", operands, {**view.attrs, "multicast": bool(mask)})
    return None


def _tensor_store(
    t: Tracer, node: ast.AST, map_: Entry, at: Entry, source: Entry, index: Entry
) -> Entry:
    view, coordinates = _view(t, node, map_, at)
    array = _array(t, node, source, "the source of a copy")
    _same_elements(t, node, array, view.memory)
    memory.check_writes(t, node, view.memory)
    place = _place(t, node, array, index, ATOM_BYTES if view.swizzle else 128)
    operands = (view.memory.value, array.value, place, *coordinates)
    t.op(node, "nv_tensor_store", operands, view.attrs)
    return None


def _bulk_wait(t: Tracer, node: ast.AST, pending: Entry, read: Entry) -> Entry:
    left = t.static_int(node, pending, "the number of pending groups")
    t.require_static(node, read, "whether reads are waited for")
    attrs: dict[str, Attr] = {"pending": left, "read": bool(read)}
    t.op(node, "nv_bulk_wait", (), attrs)
    return None


# products


def _warpgroups(t: Tracer, node: ast.AST) -> None:
    count = t.workgroup[0] * t.workgroup[1] * t.workgroup[2]
    if count % WARPGROUP:
        t.fail(node, f"a warpgroup has {WARPGROUP} invocations: a workgroup of {count} has no "
                     "whole number of them")  # fmt: skip


def _total(t: Tracer, node: ast.AST, entry: Entry) -> Registers:
    if not isinstance(entry, Registers):
        t.fail(node, f"a sum is an array made by registers(...), found {describe(entry)}")
    return entry


def _cells(t: Tracer, array: Registers) -> list[Value]:
    return [t.state[(array.number, n)] for n in range(array.count)]


def _wgmma(
    t: Tracer,
    node: ast.AST,
    total: Entry,
    a: Entry,
    a_index: Entry,
    b: Entry,
    b_index: Entry,
    depth: Entry,
    transposed: Entry,
) -> Entry:
    _warpgroups(t, node)
    sums = _total(t, node, total)
    right = _array(t, node, b, "the second operand of a product")
    element = right.type.element
    if element.name not in SUMS:
        known = ", ".join(SUMS)
        t.fail(node, f"products of {element} are not known; known: {known}")
    if sums.type != SUMS[element.name]:
        wanted = SUMS[element.name]
        t.fail(node, f"products of {element} are summed in {wanted}, found {sums.type}")
    columns = 2 * sums.count
    if columns % 8 or not 8 <= columns <= 256:
        t.fail(node, f"a sum has 4, 8, .. or 128 registers (8 to 256 columns), found {sums.count}")
    row = 128 // element.bytes
    deep = row if depth is None else t.static_int(node, depth, "the depth of a product")
    step = STEP_BYTES // element.bytes
    if deep % step or not 0 < deep <= row:
        t.fail(node, f"a product of {element} is {step}, {2 * step} .. {row} deep, found {deep}")
    t.require_static(node, transposed, "whether b is transposed")
    if transposed and element.bits != 16:
        t.fail(node, f"a transposed tile holds 16-bit elements, found {element}")
    operands = _left(t, node, a, a_index, element, deep)
    operands += [right.value, _place(t, node, right, b_index, ATOM_BYTES)]
    attrs: dict[str, Attr] = {
        "columns": columns,
        "depth": deep,
        "element": element.name,
        "registers": isinstance(a, Registers),
        "transposed": bool(transposed),
    }
    made = t.op(node, "nv_wgmma", (*operands, *_cells(t, sums)), attrs)
    for n, value in enumerate(made.results):
        t.state[(sums.number, n)] = value
    return None


def _left(
    t: Tracer, node: ast.AST, a: Entry, index: Entry, element: DType, depth: int
) -> list[Value]:
    if isinstance(a, Registers):
        words = depth * element.bytes // STEP_BYTES * 4
        if a.type != u32 or a.count != words:
            t.fail(node, f"a in registers is {words} words of u32, found {a.count} of {a.type}")
        return _cells(t, a)
    tile = _array(t, node, a, "the first operand of a product")
    if tile.type.element != element:
        t.fail(node, f"a product of {tile.type.element} and {element}")
    return [tile.value, _place(t, node, tile, index, ATOM_BYTES)]


def _wgmma_wait(t: Tracer, node: ast.AST, total: Entry, pending: Entry) -> Entry:
    left = t.static_int(node, pending, "the number of pending groups")
    if not 0 <= left < 8:
        t.fail(node, f"0 to 7 groups may be pending, found {left}")
    sums = None if total is None else _total(t, node, total)
    cells = [] if sums is None else _cells(t, sums)
    made = t.op(node, "nv_wgmma_wait", tuple(cells), {"pending": left})
    if sums is not None:
        for n, value in enumerate(made.results):
            t.state[(sums.number, n)] = value
    return None


def _in_warpgroup(t: Tracer, node: ast.AST, register: Entry) -> tuple[int, Callable[..., Value]]:
    number = t.static_int(node, register, "the number of a register")
    if not 0 <= number < 128:
        t.fail(node, f"a sum has registers 0 to 127, found {number}")

    def step(name: str, value: Value, n: int) -> Value:
        return t.emit(node, name, value, t.const(node, n, t.index))

    return number, step


def _row(t: Tracer, node: ast.AST, register: Entry) -> Entry:
    """Subgroup w of the warpgroup has rows 16 w and on, its lane l those of l // 4 and 8 more."""
    number, step = _in_warpgroup(t, node, register)
    own = t.emit(node, "local_linear_id", type=t.index)
    first = step("mul", step("mod", step("floordiv", own, 32), 4), 16)
    inner = step("floordiv", step("mod", own, 32), 4)
    return step("add", t.emit(node, "add", first, inner), 8 * (number // 2 % 2))


def _column(t: Tracer, node: ast.AST, register: Entry) -> Entry:
    """Four registers cover eight columns, two of each row."""
    number, step = _in_warpgroup(t, node, register)
    own = t.emit(node, "local_linear_id", type=t.index)
    inner = step("mul", step("mod", own, 4), 2)
    return step("add", inner, 8 * (number // 4) + number % 2)


def _set_max_registers(t: Tracer, node: ast.AST, count: Entry) -> Entry:
    _warpgroups(t, node)
    number = t.static_int(node, count, "a number of registers")
    if number % 8 or not 24 <= number <= 240:
        t.fail(node, f"the number of registers is a multiple of 8 from 24 to 240, found {number}")
    t.op(node, "nv_set_max_registers", (), {"count": number})
    return None


# roles, clusters, launches


def _role(t: Tracer, node: ast.AST, first: Entry, count: Entry) -> Entry:
    low, number = (t.static_int(node, e, "a number of subgroups") for e in (first, count))
    most = -(-t.workgroup[0] * t.workgroup[1] * t.workgroup[2] // 32)
    if low < 0 or number < 1 or low + number > most:
        t.fail(node, f"a workgroup has subgroups 0 to {most - 1}, found {number} from {low} on")
    return t.emit(node, "nv_role", first=low, count=number)


def _warpgroup(t: Tracer, node: ast.AST) -> Entry:
    _warpgroups(t, node)
    return t.emit(node, "nv_warpgroup", type=t.index)


def _named_barrier(t: Tracer, node: ast.AST, id_: Entry, count: Entry) -> Entry:
    if isinstance(id_, int) and not 1 <= id_ <= 15:
        t.fail(node, f"named barriers are 1 to 15, found {id_}")
    number = _int(t, node, id_, "the number of a barrier")
    size = t.static_int(node, count, "the number of invocations")
    if size % 32 or not 32 <= size <= 1024:
        t.fail(node, f"whole subgroups wait at a named barrier, found {size} invocations")
    t.op(node, "nv_named_barrier", (number,), {"count": size})
    return None


def _plain(name: str) -> Handler:
    def handler(t: Tracer, node: ast.AST) -> Entry:
        t.op(node, name)
        return None

    return handler


HANDLERS: dict[str, Handler] = {
    "grid_barrier": _plain("grid_barrier"),
    "nv.mbarriers": _mbarriers,
    "nv.init": _with_number("nv_mbarrier_init", "a number of arrivals"),
    "nv.arrive": _arrive,
    "nv.expect": _with_number("nv_mbarrier_expect", "a number of bytes"),
    "nv.wait": _with_number("nv_mbarrier_wait", "a parity"),
    "nv.try_wait": _with_number("nv_mbarrier_try_wait", "a parity", True),
    "nv.bulk_load": _bulk_load,
    "nv.bulk_store": _bulk_store,
    "nv.bulk_commit": _plain("nv_bulk_commit"),
    "nv.bulk_wait": _bulk_wait,
    "nv.tensor_map": nv_values.make,
    "nv.tensor_load": _tensor_load,
    "nv.tensor_store": _tensor_store,
    "nv.fence_async": _plain("nv_fence_async"),
    "nv.wgmma": _wgmma,
    "nv.wgmma_fence": _plain("nv_wgmma_fence"),
    "nv.wgmma_commit": _plain("nv_wgmma_commit"),
    "nv.wgmma_wait": _wgmma_wait,
    "nv.wgmma_row": _row,
    "nv.wgmma_column": _column,
    "nv.set_max_registers": _set_max_registers,
    "nv.role": _role,
    "nv.warpgroup": _warpgroup,
    "nv.named_barrier": _named_barrier,
    "nv.cluster_rank": lambda t, node: t.emit(node, "nv_cluster_rank", type=t.index),
    "nv.cluster_barrier": _plain("nv_cluster_barrier"),
    "nv.wait_for_previous": _plain("nv_wait_for_previous"),
    "nv.launch_next": _plain("nv_launch_next"),
}
