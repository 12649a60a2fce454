"""Intrinsics: ids, memory, synchronisation, vectors, subgroups; `HANDLERS` by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import Attr, Value
from ..dtypes import (
    DType,
    FragmentType,
    Space,
    VectorType,
    bool_,
    element_of,
    u32,
    u64,
    with_element,
)
from . import copies, fragments, literals, memory, nv_handlers
from .conversions import bitcast, convert
from .elementwise import fold
from .functions import ATOMICS, REDUCTIONS, python_name
from .inline import library
from .values import Entry, Memory, describe

if TYPE_CHECKING:
    from .tracer import Tracer


# ids


def _dim(t: Tracer, node: ast.AST, entry: Entry) -> int:
    dim = t.static_int(node, entry, "a dimension")
    if dim not in (0, 1, 2):
        t.fail(node, f"a dimension is 0, 1 or 2, found {dim}")
    return dim


def _id(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, dim: Entry) -> Entry:
        return t.emit(node, name, type=t.index, dim=_dim(t, node, dim))

    return handler


def _plain_id(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST) -> Entry:
        if name != "local_linear_id":
            subgroup(t, node)
        return t.emit(node, name, type=t.index)

    return handler


def _workgroup_size(t: Tracer, node: ast.AST, dim: Entry) -> Entry:
    return t.workgroup[_dim(t, node, dim)]


def subgroup(t: Tracer, node: ast.AST) -> int:
    """The subgroup size; a Diagnostic where the kernel states none."""
    if t.subgroup is None:
        t.fail(
            node,
            "a kernel that uses subgroups has the constexpr SUBGROUP, their size: "
            "add `*, SUBGROUP: int = 32` to its parameters",
        )
    return t.subgroup


# memory


def _memory(t: Tracer, node: ast.AST, entry: Entry) -> Memory:
    if not isinstance(entry, Memory):
        t.fail(node, f"expected a buffer or an array, found {describe(entry)}")
    return entry


def _load_vector(t: Tracer, node: ast.AST, base: Entry, index: Entry, lanes: Entry) -> Entry:
    n = memory.check_lanes(t, node, lanes)
    return memory.load(t, node, _memory(t, node, base), index, n)


def _store_vector(t: Tracer, node: ast.AST, base: Entry, index: Entry, value: Entry) -> Entry:
    memory.store_vector(t, node, _memory(t, node, base), index, value)
    return None


def _atomic(kind: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, base: Entry, index: Entry, *values: Entry) -> Entry:
        place = _memory(t, node, base)
        memory.check_writes(t, node, place)
        if not place.type.access.reads:
            t.fail(node, f"{place.name!r} is write-only; atomics need ReadWrite")
        position = memory.flat_index(t, node, place, index)
        what = f"an element of {place.name!r}"
        operands = [literals.typed(t, node, v, place.type.element, what) for v in values]
        if kind == "compare_exchange":
            return t.emit(node, "compare_exchange", place.value, position, *operands)
        return t.emit(node, "atomic", place.value, position, *operands, kind=kind)

    return handler


def _barrier(t: Tracer, node: ast.AST) -> Entry:
    t.op(node, "barrier")
    return None


def _fence(t: Tracer, node: ast.AST, scope: Entry, order: Entry) -> Entry:
    if scope not in ("workgroup", "device"):
        t.fail(node, f"the scope of a fence is 'workgroup' or 'device', found {describe(scope)}")
    if order not in ("acquire", "release", "acq_rel"):
        t.fail(
            node,
            f"the order of a fence is 'acquire', 'release' or 'acq_rel', found {describe(order)}",
        )
    attrs: dict[str, Attr] = {"scope": scope, "order": order}
    t.op(node, "fence", (), attrs)
    return None


# vectors and choices


def _select(t: Tracer, node: ast.AST, cond: Entry, a: Entry, b: Entry) -> Entry:
    if isinstance(cond, Value) and isinstance(cond.type, VectorType | FragmentType):
        chosen: Value | bool = cond
        if not cond.type.element.is_bool:
            t.fail(node, f"the condition of a select is a bool, found {cond.type}")
    else:
        chosen = literals.condition(t, node, cond)
    if isinstance(chosen, bool):
        return a if chosen else b
    (x, y), weak = literals.common(t, node, [a, b], "select")
    if not isinstance(chosen.type, DType) and with_element(x.type, bool_) != chosen.type:
        wide = with_element(chosen.type, element_of(x.type))
        x, y = (literals.typed(t, node, v, wide) for v in (x, y))
    made = t.emit(node, "select", chosen, x, y)
    if weak and t.probing:
        t.weak.add(made.id)
    return made


def _shuffle(t: Tracer, node: ast.AST, a: Entry, b: Entry, lanes: Entry) -> Entry:
    x, y = (literals.value(t, node, e) for e in (a, b))
    if not isinstance(lanes, tuple) or len(lanes) not in (2, 4, 8):
        t.fail(node, f"shuffle chooses 2, 4 or 8 lanes by a tuple, found {describe(lanes)}")
    numbers = tuple(t.static_int(node, n, "a lane") for n in lanes)
    return t.emit(node, "shuffle", x, y, lanes=numbers)


def _clamp(t: Tracer, node: ast.AST, x: Entry, low: Entry, high: Entry) -> Entry:
    lowest = fold("max")(t, node, [x, low], {})
    return fold("min")(t, node, [lowest, high], {})


def _ceil_div(t: Tracer, node: ast.AST, a: Entry, b: Entry) -> Entry:
    if isinstance(a, int) and isinstance(b, int) and b != 0:
        return -(-a // b)
    return library(t, node, "int_ceil_div", a, b)


def _static_assert(t: Tracer, node: ast.AST, cond: Entry, message: Entry) -> Entry:
    t.require_static(node, cond, "the condition of static_assert")
    if not literals.condition(t, node, cond):
        t.fail(node, str(message))
    return None


def _static_range(t: Tracer, node: ast.AST, start: Entry, stop: Entry, step: Entry) -> Entry:
    bounds = [start] if stop is None else [start, stop] if step is None else [start, stop, step]
    return tuple(range(*(t.static_int(node, b, "a bound of static_range") for b in bounds)))


def _convert(
    t: Tracer, node: ast.AST, value: Entry, type_: Entry, rounding: Entry, saturate: Entry
) -> Entry:
    return convert(t, node, value, type_, rounding, saturate)


# subgroups


def _reduce(kind: str, inclusive: bool | None) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, entry: Entry) -> Entry:
        subgroup(t, node)
        value = literals.value(t, node, entry)
        if inclusive is None:
            return t.emit(node, "subgroup_reduce", value, kind=kind)
        return t.emit(node, "subgroup_scan", value, kind=kind, inclusive=inclusive)

    return handler


def _lane_op(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, entry: Entry, lane: Entry) -> Entry:
        subgroup(t, node)
        value, number = (literals.value(t, node, e) for e in (entry, lane))
        return t.emit(node, name, value, number)

    return handler


def _vote(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, entry: Entry) -> Entry:
        size = subgroup(t, node)
        vote = literals.typed(t, node, entry, bool_, "a vote")
        if name != "subgroup_ballot":
            return t.emit(node, name, vote)
        return t.emit(node, name, vote, type=u64 if size > 32 else u32)

    return handler


def _elect(t: Tracer, node: ast.AST) -> Entry:
    subgroup(t, node)
    return t.emit(node, "subgroup_elect")


HANDLERS: dict[str, Callable[..., Entry]] = {
    **{name: _id(name) for name in ("global_id", "local_id", "group_id", "num_groups")},
    **{
        name: _plain_id(name)
        for name in ("local_linear_id", "subgroup_id", "subgroup_lane", "num_subgroups")
    },
    **{f"atomic_{python_name(kind)}": _atomic(kind) for kind in ATOMICS},
    **{f"subgroup_{python_name(k)}": _reduce(k, None) for k in REDUCTIONS},
    **{f"subgroup_inclusive_{python_name(k)}": _reduce(k, True) for k in REDUCTIONS},
    **{f"subgroup_exclusive_{python_name(k)}": _reduce(k, False) for k in REDUCTIONS},
    **{
        f"subgroup_{n}": _lane_op(f"subgroup_{n}")
        for n in ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down", "broadcast")
    },
    **{f"subgroup_{n}": _vote(f"subgroup_{n}") for n in ("ballot", "any", "all")},
    "subgroup_elect": _elect,
    **copies.HANDLERS,
    **fragments.HANDLERS,
    **nv_handlers.HANDLERS,
    "workgroup_size": _workgroup_size,
    "subgroup_size": subgroup,
    "workgroup_array": memory.make_workgroup_array,
    "private_array": lambda t, node, e, s: memory.make_array(t, node, Space.PRIVATE, e, s),
    "registers": memory.make_registers,
    "load_vector": _load_vector,
    "store_vector": _store_vector,
    "atomic_compare_exchange": _atomic("compare_exchange"),
    "barrier": _barrier,
    "fence": _fence,
    "convert": _convert,
    "bitcast": lambda t, node, v, ty: bitcast(t, node, v, ty),
    "select": _select,
    "shuffle": _shuffle,
    "ceil_div": _ceil_div,
    "clamp": _clamp,
    "static_range": _static_range,
    "static_assert": _static_assert,
}
