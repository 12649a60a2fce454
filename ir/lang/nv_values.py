"""Tensor maps while a kernel is traced: a buffer, and expressions that a launch evaluates."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..abi import GRID_OPS
from ..core import Attr, Op, Value, const_value
from ..dtypes import DType, Space
from ..verify_nv import MOST_BOX, SWIZZLES
from .values import Entry, Memory, describe

if TYPE_CHECKING:
    from .tracer import Tracer

RANK = 5
_CHUNK = 16  # bytes


@dataclass(frozen=True)
class TensorView:
    """A buffer seen as a tensor; see `ir.extensions.TensorMap`."""

    memory: Memory
    shape: tuple[Attr, ...]
    strides: tuple[Attr, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def attrs(self) -> dict[str, Attr]:
        return {n: getattr(self, n) for n in ("shape", "strides", "box", "swizzle")}


def make(
    t: Tracer,
    node: ast.AST,
    buffer: Entry,
    shape: Entry,
    box: Entry,
    strides: Entry,
    swizzle: Entry,
) -> Entry:
    """`nv.tensor_map(...)`."""
    if not isinstance(buffer, Memory) or buffer.type.space is not Space.BUFFER:
        t.fail(node, f"a tensor map is made of a buffer, found {describe(buffer)}")
    if not isinstance(shape, tuple) or not 1 <= len(shape) <= RANK:
        t.fail(node, f"a tensor has a shape of 1 to {RANK} extents, found {describe(shape)}")
    sizes = tuple(expression(t, node, e) for e in shape)
    if not isinstance(box, tuple) or len(box) != len(shape):
        t.fail(node, f"a box has {len(shape)} extents as the tensor has, found {describe(box)}")
    extents = tuple(t.static_int(node, e, "an extent of a box") for e in box)
    if min(extents) < 1 or max(extents) > MOST_BOX:
        t.fail(node, f"the extents of a box are 1 to {MOST_BOX}, found {extents}")
    span = t.static_int(node, swizzle, "a swizzle")
    if span not in SWIZZLES:
        known = ", ".join(map(str, SWIZZLES))
        t.fail(node, f"a swizzle is one of {known} bytes, found {span}")
    row = extents[-1] * buffer.type.element.bytes
    if row % _CHUNK or (span and row > span):
        most = f" and at most {span}" if span else ""
        t.fail(node, f"a row of a box is a multiple of {_CHUNK} bytes{most}, found {row}")
    if strides is None:
        steps = _row_major(sizes)
    else:
        given = strides if isinstance(strides, tuple) else (strides,)
        if len(given) != len(shape) - 1:
            t.fail(node, f"{len(shape) - 1} strides are needed, found {len(given)}")
        steps = tuple(expression(t, node, e) for e in given)
    return TensorView(buffer, sizes, steps, extents, span)


def _row_major(shape: tuple[Attr, ...]) -> tuple[Attr, ...]:
    steps: list[Attr] = []
    size: Attr = 1
    for extent in shape[:0:-1]:
        if isinstance(size, int) and isinstance(extent, int):
            size *= extent
        else:
            size = extent if size == 1 else ("mul", size, extent)
        steps.insert(0, size)
    return tuple(steps)


def expression(t: Tracer, node: ast.AST, entry: Entry) -> Attr:
    """What a launch computes for an integer that depends on nothing but its arguments."""
    if isinstance(entry, int) and not isinstance(entry, bool):
        return entry
    if isinstance(entry, Value):
        found = _of_value(t, entry)
        if found is not None:
            return found
    t.fail(
        node,
        "a launch has to compute this: it is made of len(buffer), scalar parameters, constants, "
        f"+ - * //, min and max; found {describe(entry)}",
    )


def _of_value(t: Tracer, value: Value) -> Attr | None:
    t.asked.append(value.id)
    for param, own in t.params:
        if own.id == value.id:
            whole = isinstance(value.type, DType) and value.type.is_int
            return ("scalar", param.name) if whole else None
    op = t.builder.definition(value)
    if op is None:
        return None
    if op.name == "const":
        number = const_value(op)
        return number if isinstance(number, int) else None
    if op.name == "count":
        names = [p.name for p, own in t.params if own.id == op.operands[0].id]
        return ("count", names[0]) if names else None
    return _of_op(t, op)


def _of_op(t: Tracer, op: Op) -> Attr | None:
    if op.name == "convert":
        return _of_value(t, op.operands[0])
    if op.name not in GRID_OPS or len(op.operands) != 2:
        return None
    a, b = (_of_value(t, v) for v in op.operands)
    return None if a is None or b is None else (op.name, a, b)
