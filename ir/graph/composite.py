"""Composites: ops that stand for a graph of primitives, until a target proves to have a kernel.

A composite is a function of arrays. The oracle evaluates what the function builds; a planner that
has no kernel for it plans that instead; and the types of its results are those that it comes to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

from .array import Array, mistake
from .builder import operands_of
from .core import Attr, Graph
from .table import OPS, AttrRow, Attrs, GraphOp, Types, define, require

Function = Callable[..., Any]
Attributes = tuple[tuple[str, Attr], ...]


def composite(
    name: str, operands: int | tuple[int, int | None], *, updates: bool = False, **attrs: AttrRow
) -> Callable[[Function], Function]:
    """Enter an op by its decomposition: a function of arrays and, by keyword, attributes. In its
    place stands a function that adds the op itself to the graph of its first operand."""
    arity = (operands, operands) if isinstance(operands, int) else operands

    def enter(function: Function) -> Function:
        def rule(types: Types, given: Attrs) -> Types:
            require(given.get("axis", 0) >= 0, "an axis counts from 0 here")
            return _results(name, types, tuple(sorted(given.items())))

        @wraps(function)
        def add(*arrays: Array, **given: Attr) -> Any:
            if not arrays or not isinstance(arrays[0], Array):
                raise mistake(f"{name}: its operands are arrays of a graph")
            results = arrays[0].builder.node(name, *arrays, **given)
            return results[0] if len(results) == 1 else results

        doc = function.__doc__ or ""
        define(GraphOp(name, arity, rule, attrs, function, updates, doc))
        return add

    return enter


def _results(name: str, types: Types, attrs: Attributes) -> Types:
    return tuple(output.tensor.type for output in decomposed(name, types, attrs).outputs)


def decomposed(name: str, types: Types, attrs: Attributes) -> Graph:
    """What a composite stands for, as a graph of its own: operands are its inputs in their order,
    results its outputs. It may hold composites again. Raises GraphTypeError, KeyError for a
    primitive."""
    return _decomposed(name, types, attrs, repr(attrs))


@lru_cache(1 << 10)
def _decomposed(name: str, types: Types, attrs: Attributes, written: str) -> Graph:
    """written: the attributes, since 0.0 and -0.0 are equal and so are 1 and 1.0."""
    row = OPS[name]
    if row.decompose is None:
        raise KeyError(f"{name} is a primitive")
    builder, arrays = operands_of({f"operand{n}": t for n, t in enumerate(types)})
    made = row.decompose(*arrays, **dict(attrs))
    for n, array in enumerate([made] if isinstance(made, Array) else made):
        builder.output(f"result{n}", array)
    return builder.build()
