"""Matrix fragments: loads, stores, products, row reductions; `HANDLERS` by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core import Attr, Value
from ..dtypes import DType, FragmentType, Space, Type, element_of, i32
from . import literals, memory
from .surface import fragment
from .values import Entry, Memory, describe

if TYPE_CHECKING:
    from .tracer import Tracer

ALIGN = 16  # bytes that an index and a stride are multiples of


def make_type(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    """`fragment(element, role, shape)`."""
    for entry in (*args, *kwargs.values()):
        t.require_static(node, entry, "a part of a fragment type")
    if not args or not isinstance(args[0], DType):
        found = describe(args[0]) if args else "nothing"
        t.fail(
            node, f"fragment takes an element type and a role, as in fragment(f16, 'a'): {found}"
        )
    try:
        return fragment(*args, **kwargs)
    except (TypeError, ValueError) as error:
        t.fail(node, str(error))


def broadcast(t: Tracer, node: ast.AST, row: Value) -> Value:
    """One value per row as an accumulator."""
    assert isinstance(row.type, FragmentType)
    return t.emit(node, "fragment_broadcast", row)


def absorbs(wide: Type, narrow: Type) -> bool:
    """Whether a value of type `narrow` meets a fragment of type `wide` by repetition."""
    if not isinstance(wide, FragmentType) or element_of(narrow) != wide.element:
        return False
    if isinstance(narrow, FragmentType):
        return wide.role == "acc" and narrow.role == "row"
    return isinstance(narrow, DType)


def convert(t: Tracer, node: ast.AST, entry: Value, wanted: FragmentType) -> Value:
    """A fragment as another element type or, from an accumulator, another role."""
    source = entry.type
    if not isinstance(source, FragmentType):
        t.fail(node, f"cannot convert {source} to {wanted}; fill a fragment by calling its type")
    value = entry
    if source.element != wanted.element:
        value = t.emit(node, "convert", value, type=replace(source, element=wanted.element))
    if value.type == wanted:
        return value
    if absorbs(wanted, value.type):
        return broadcast(t, node, value)
    if source.role != "acc" or wanted.role != "a" or (wanted.rows, wanted.columns) != (16, 16):
        t.fail(
            node,
            f"cannot convert {source} to {wanted}: a fragment keeps its role and shape, but for an "
            "acc that becomes an a of 16x16",
        )
    return t.emit(node, "fragment_cast", value)


def _needs_subgroup(t: Tracer, node: ast.AST) -> None:
    from .intrinsics import subgroup

    subgroup(t, node)


def _place(t: Tracer, node: ast.AST, base: Entry, index: Entry, stride: Entry) -> tuple[Value, ...]:
    """Memory, index and stride as values; constants are checked for alignment."""
    if not isinstance(base, Memory):
        t.fail(node, f"expected a buffer or a workgroup array, found {describe(base)}")
    if base.type.space is Space.PRIVATE:
        t.fail(node, f"{base.name!r} is private to an invocation; a subgroup holds a fragment")
    if stride is None:
        if base.shape is None or len(base.shape) < 2:
            t.fail(node, f"a stride is needed: {base.name!r} has no rows; write stride=...")
        stride = base.shape[-1]
    if isinstance(stride, bool | float) or not isinstance(stride, int | Value):
        t.fail(node, f"a stride is an integer, found {describe(stride)}")
    if isinstance(stride, Value) and not (isinstance(stride.type, DType) and stride.type.is_int):
        t.fail(node, f"a stride is an integer, found {stride.type}")
    if base.shape is not None and not isinstance(index, tuple):
        base = Memory(base.value, None, base.name)
    unit = max(1, ALIGN // base.type.element.bytes)
    last = index[-1] if isinstance(index, tuple) and index else index
    for what, entry in (("stride", stride), ("index", last)):
        if isinstance(entry, int) and entry % unit:
            t.fail(
                node,
                f"the {what} of a fragment of {base.type.element} is a multiple of {unit} "
                f"({ALIGN} bytes), found {entry}",
            )
    return base.value, memory.flat_index(t, node, base, index), literals.value(t, node, stride)


def _swizzled(
    t: Tracer, node: ast.AST, base: Memory, index: Entry, stride: Entry, layout: Entry
) -> tuple[Value, ...]:
    """Memory, start of the first row, length of a row, and first column."""
    assert base.shape is not None
    if not isinstance(index, tuple) or len(index) != len(base.shape):
        t.fail(node, f"{base.name!r} is swizzled: give one index for each dimension")
    if stride is not None or layout != "row":
        t.fail(node, f"{base.name!r} is swizzled: its rows have one stride, and layout 'row'")
    for what, entry, unit in (("row", index[-2], 8), ("column", index[-1], 16)):
        if isinstance(entry, int) and entry % unit:
            t.fail(node, f"the {what} of a fragment in a swizzled array is a multiple of {unit}")
    length = t.const(node, base.shape[-1], t.index)
    column = literals.value(t, node, index[-1])
    return base.value, memory.row_start(t, node, base, index[:-1]), length, column


def _layout(t: Tracer, node: ast.AST, layout: Entry) -> dict[str, Attr]:
    if layout not in ("row", "column"):
        t.fail(node, f"a layout is 'row' or 'column', found {describe(layout)}")
    return {"layout": str(layout)}


def _load(
    t: Tracer, node: ast.AST, type_: Entry, base: Entry, index: Entry, stride: Entry, layout: Entry
) -> Entry:
    _needs_subgroup(t, node)
    if not isinstance(type_, FragmentType):
        t.fail(node, f"fragment_load takes a fragment type first, found {describe(type_)}")
    attrs = _layout(t, node, layout)
    if isinstance(base, Memory) and base.swizzled:
        place = _swizzled(t, node, base, index, stride, layout)
    else:
        place = _place(t, node, base, index, stride)
    return t.op(node, "fragment_load", place, attrs, (type_,)).result


def _store(
    t: Tracer, node: ast.AST, base: Entry, index: Entry, value: Entry, stride: Entry, layout: Entry
) -> Entry:
    _needs_subgroup(t, node)
    if not isinstance(value, Value) or not isinstance(value.type, FragmentType):
        t.fail(node, f"fragment_store writes a fragment, found {describe(value)}")
    attrs = _layout(t, node, layout)
    place = _place(t, node, base, index, stride)
    if isinstance(base, Memory):
        memory.check_writes(t, node, base)
        if base.swizzled:
            t.fail(node, f"{base.name!r} is swizzled; fragments are only loaded from there")
    t.op(node, "fragment_store", (*place, value), attrs)
    return None


def _fragment(t: Tracer, node: ast.AST, entry: Entry, what: str) -> Value:
    if not isinstance(entry, Value) or not isinstance(entry.type, FragmentType):
        t.fail(node, f"{what} is a fragment, found {describe(entry)}")
    return entry


def _mma(t: Tracer, node: ast.AST, a: Entry, b: Entry, c: Entry) -> Entry:
    _needs_subgroup(t, node)
    values = (_fragment(t, node, e, f"operand {n} of mma") for n, e in enumerate((a, b, c), 1))
    return t.emit(node, "fragment_mma", *values)


def _reduce(kind: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, entry: Entry) -> Entry:
        _needs_subgroup(t, node)
        value = _fragment(t, node, entry, f"the operand of row_{kind}")
        return t.emit(node, "fragment_reduce", value, kind=kind)

    return handler


def _coordinate(dim: int) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, type_: Entry) -> Entry:
        _needs_subgroup(t, node)
        if not isinstance(type_, FragmentType):
            t.fail(node, f"expected a fragment type, found {describe(type_)}")
        wanted = replace(type_, element=i32)
        return t.emit(node, "fragment_coordinate", type=wanted, dim=dim)

    return handler


HANDLERS: dict[str, Callable[..., Entry]] = {
    "fragment_load": _load,
    "fragment_store": _store,
    "mma": _mma,
    **{f"row_{kind}": _reduce(kind) for kind in ("add", "max", "min")},
    "fragment_row": _coordinate(0),
    "fragment_column": _coordinate(1),
}
