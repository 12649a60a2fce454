"""What a trace may take of time and of constants (`ir.limits`); beyond it, a Diagnostic."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..limits import MAX_BITS, MAX_ITEMS, MAX_STEPS
from .values import Entry

if TYPE_CHECKING:
    from .tracer import Tracer


def spend(t: Tracer, node: ast.AST, steps: int) -> None:
    """Count what takes as long as so many statements or expressions."""
    t.steps += steps
    if t.steps > MAX_STEPS:
        t.fail(
            node,
            f"tracing the kernel takes over {MAX_STEPS} statements and expressions; unroll less, "
            "or call fewer device functions from one another",
        )


def bounded(t: Tracer, node: ast.AST, entry: Entry) -> Entry:
    """An entry, refused where it is a constant of more than a trace takes."""
    kind = type(entry)
    if kind is int and entry.bit_length() <= MAX_BITS:
        return entry
    if kind in _SIZED:
        count, excess = measure(entry)
        if excess is not None:
            t.fail(node, excess)
        spend(t, node, count >> 2)
    return entry


_SIZED = frozenset({int, str, tuple})


def measure(entry: Entry) -> tuple[int, str | None]:
    """How many items a constant has, with those of tuples in tuples; what there is too much of.

    Tuples that hold another one twice have more items than can be counted: counting ends early.
    """
    count, left = 0, [entry]
    while left:
        item = left.pop()
        kind = type(item)
        if kind is tuple:
            count += len(item)
            left += item
        elif kind is int and item.bit_length() > MAX_BITS:
            return count, f"an int constant of {item.bit_length()} bits exceeds {MAX_BITS} bits"
        elif kind is str and len(item) > MAX_ITEMS:
            return count, f"a string of {len(item)} characters exceeds {MAX_ITEMS}"
        if count > MAX_ITEMS:
            return count, f"a tuple of tuples has over {MAX_ITEMS} items in all"
    return count, None
