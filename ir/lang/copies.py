"""Asynchronous copies; `HANDLERS` by name."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..dtypes import DType, Space
from . import literals, memory
from .values import Entry, Memory, describe

if TYPE_CHECKING:
    from .tracer import Tracer

SIZES = (4, 8, 16)  # bytes of one copy


def _copy(
    t: Tracer,
    node: ast.AST,
    target: Entry,
    target_index: Entry,
    source: Entry,
    source_index: Entry,
    count: Entry,
    given: Entry,
) -> Entry:
    if not isinstance(target, Memory) or target.type.space is not Space.WORKGROUP:
        t.fail(node, f"copy_async fills a workgroup array, found {describe(target)}")
    if not isinstance(source, Memory) or source.type.space is not Space.BUFFER:
        t.fail(node, f"copy_async reads a buffer, found {describe(source)}")
    if target.type.element != source.type.element:
        elements = f"{source.type.element} to {target.type.element}"
        t.fail(node, f"copy_async moves elements as they are, not {elements}")
    if not source.type.access.reads:
        t.fail(node, f"{source.name!r} is write-only, but is read here; declare it ReadWrite")
    number = t.static_int(node, count, "the number of elements of a copy")
    size = number * source.type.element.bytes
    if size not in SIZES:
        sizes = ", ".join(str(s // source.type.element.bytes) for s in SIZES)
        element = source.type.element
        t.fail(node, f"a copy moves 4, 8 or 16 bytes: {sizes} elements of {element}, not {number}")
    for what, index in (("target", target_index), ("source", source_index)):
        last = index[-1] if isinstance(index, tuple) and index else index
        if isinstance(last, int) and last % number:
            t.fail(node, f"the {what} index of a copy is a multiple of {number}, found {last}")
    operands = [
        target.value,
        memory.flat_index(t, node, target, target_index),
        source.value,
        memory.flat_index(t, node, source, source_index),
    ]
    if given is not None:
        left = literals.value(t, node, given)
        if not (isinstance(left.type, DType) and left.type.is_int):
            t.fail(node, f"the number of given elements is an integer, found {left.type}")
        operands.append(left)
    t.op(node, "copy_async", tuple(operands), {"count": number})
    return None


def _commit(t: Tracer, node: ast.AST) -> Entry:
    t.op(node, "copy_commit")
    return None


def _wait(t: Tracer, node: ast.AST, pending: Entry) -> Entry:
    left = t.static_int(node, pending, "the number of pending groups")
    if not 0 <= left < 64:
        t.fail(node, f"copy_wait leaves 0 to 63 groups pending, found {left}")
    t.op(node, "copy_wait", (), {"pending": left})
    return None


HANDLERS: dict[str, Callable[..., Entry]] = {
    "copy_async": _copy,
    "copy_commit": _commit,
    "copy_wait": _wait,
}
