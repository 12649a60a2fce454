"""mbarriers and copies of the bulk copy engine; `HANDLERS` by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import Attr, Value
from ..dtypes import DType, Space, i32, u64
from ..ops.nv import ATOM_BYTES
from . import literals, memory, nv_values
from . import nv as nv  # fills the table
from .nv_values import TensorView
from .values import Entry, Memory, describe

if TYPE_CHECKING:
    from .tracer import Tracer

WARPGROUP = 128  # invocations
Handler = Callable[..., Entry]


def int_of(t: Tracer, node: ast.AST, entry: Entry, what: str) -> Value:
    """An integer as an i32."""
    value = literals.value(t, node, entry)
    if not isinstance(value.type, DType) or not value.type.is_int:
        t.fail(node, f"{what} is an integer, found {value.type}")
    return value if value.type == i32 else t.emit(node, "convert", value, type=i32)


def array_of(t: Tracer, node: ast.AST, entry: Entry, what: str) -> Memory:
    if not isinstance(entry, Memory) or entry.type.space is not Space.WORKGROUP:
        t.fail(node, f"{what} is a workgroup array, found {describe(entry)}")
    return entry


def _buffer(t: Tracer, node: ast.AST, entry: Entry) -> Memory:
    if not isinstance(entry, Memory) or entry.type.space is not Space.BUFFER:
        t.fail(node, f"expected a buffer, found {describe(entry)}")
    return entry


def place_of(t: Tracer, node: ast.AST, base: Memory, index: Entry, unit: int) -> Value:
    """An index of a tile, a multiple of `unit` bytes where it is known."""
    shape = base.shape
    if shape is not None and not isinstance(index, tuple):
        base = Memory(base.value, None, base.name)
    flat = memory.flat_index(t, node, base, index)
    t.asked.append(flat.id)
    op = t.builder.definition(flat)
    step = unit // base.type.element.bytes
    if op is not None and op.name == "const" and int(op.attr("bits")) % step:  # type: ignore[arg-type]
        t.fail(node, f"the index is a multiple of {step} elements ({unit} bytes)")
    return flat


# mbarriers


def _mbarriers(t: Tracer, node: ast.AST, count: Entry) -> Entry:
    return memory.make_array(t, node, Space.WORKGROUP, u64, count)


def _barrier(t: Tracer, node: ast.AST, entry: Entry, index: Entry) -> tuple[Value, Value]:
    barriers = array_of(t, node, entry, "mbarriers")
    if barriers.type.element != u64:
        t.fail(node, f"mbarriers come from nv.mbarriers(count), found {describe(entry)}")
    return barriers.value, memory.flat_index(t, node, barriers, index)


def _with_number(name: str, what: str, result: bool = False) -> Handler:
    def handler(t: Tracer, node: ast.AST, entry: Entry, index: Entry, number: Entry) -> Entry:
        place = _barrier(t, node, entry, index)
        value = int_of(t, node, number, what)
        op = t.op(node, name, (*place, value))
        return op.result if result else None

    return handler


def _arrive(
    t: Tracer, node: ast.AST, entry: Entry, index: Entry, count: Entry, rank: Entry
) -> Entry:
    number = t.static_int(node, count, "a number of arrivals")
    place = _barrier(t, node, entry, index)
    there = () if rank is None else (int_of(t, node, rank, "a rank in the cluster"),)
    t.op(node, "nv_mbarrier_arrive", (*place, *there), {"count": number})
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
    array, buffer = array_of(t, node, target, "the target of a copy"), _buffer(t, node, source)
    _same_elements(t, node, array, buffer)
    operands = (
        array.value,
        place_of(t, node, array, to, 16),
        buffer.value,
        place_of(t, node, buffer, start, 16),
        int_of(t, node, count, "a number of elements"),
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
    array, buffer = array_of(t, node, source, "the source of a copy"), _buffer(t, node, target)
    _same_elements(t, node, array, buffer)
    memory.check_writes(t, node, buffer)
    operands = (
        buffer.value,
        place_of(t, node, buffer, to, 16),
        array.value,
        place_of(t, node, array, start, 16),
        int_of(t, node, count, "a number of elements"),
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
    return entry, [int_of(t, node, p, "a coordinate") for p in parts]


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
    array = array_of(t, node, target, "the target of a copy")
    _same_elements(t, node, array, view.memory)
    if not view.memory.type.access.reads:
        t.fail(node, f"{view.memory.name!r} is write-only, but is read here; declare it ReadWrite")
    mask = [] if multicast is None else [int_of(t, node, multicast, "a mask of workgroups")]
    operands = (
        array.value,
        place_of(t, node, array, index, ATOM_BYTES if view.swizzle else 128),
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
    array = array_of(t, node, source, "the source of a copy")
    _same_elements(t, node, array, view.memory)
    memory.check_writes(t, node, view.memory)
    place = place_of(t, node, array, index, ATOM_BYTES if view.swizzle else 128)
    operands = (view.memory.value, array.value, place, *coordinates)
    t.op(node, "nv_tensor_store", operands, view.attrs)
    return None


def _tensor_prefetch(t: Tracer, node: ast.AST, map_: Entry, at: Entry) -> Entry:
    view, coordinates = _view(t, node, map_, at)
    t.op(node, "nv_tensor_prefetch", (view.memory.value, *coordinates), view.attrs)
    return None


def _bulk_wait(t: Tracer, node: ast.AST, pending: Entry, read: Entry) -> Entry:
    left = t.static_int(node, pending, "the number of pending groups")
    t.require_static(node, read, "whether reads are waited for")
    attrs: dict[str, Attr] = {"pending": left, "read": bool(read)}
    t.op(node, "nv_bulk_wait", (), attrs)
    return None


HANDLERS: dict[str, Handler] = {
    "nv.mbarriers": _mbarriers,
    "nv.init": _with_number("nv_mbarrier_init", "a number of arrivals"),
    "nv.arrive": _arrive,
    "nv.expect": _with_number("nv_mbarrier_expect", "a number of bytes"),
    "nv.wait": _with_number("nv_mbarrier_wait", "a parity"),
    "nv.try_wait": _with_number("nv_mbarrier_try_wait", "a parity", True),
    "nv.bulk_load": _bulk_load,
    "nv.bulk_store": _bulk_store,
    "nv.bulk_wait": _bulk_wait,
    "nv.tensor_map": nv_values.make,
    "nv.tensor_load": _tensor_load,
    "nv.tensor_store": _tensor_store,
    "nv.tensor_prefetch": _tensor_prefetch,
}
