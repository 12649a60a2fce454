"""The table of graph ops: one row an op, read by builder, verifier, text form, oracle and planner.

A primitive has a type rule. A composite has a decomposition instead, a function of the builder: it
says what the op means and, run on its operands' types alone, what types its results have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtypes import DType
from .core import Attr
from .types import GraphTypeError, TensorType, shown, whole

Types = tuple[TensorType, ...]
Attrs = Mapping[str, Any]
Rule = Callable[[Types, Attrs], Types]
REQUIRED = object()


@dataclass(frozen=True, slots=True)
class AttrRow:
    """An attribute: of what kind (bool, int, float, str, DType, tuple: of integers), its default,
    and for a str the words that it may be."""

    kind: type
    default: Any = REQUIRED
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphOp:
    """A row. arity: the least and the greatest number of operands, None for any number."""

    name: str
    arity: tuple[int, int | None]
    rule: Rule
    attrs: Mapping[str, AttrRow] = field(default_factory=dict)
    decompose: Callable[..., Any] | None = None
    updates: bool = False  # its result is its first operand but for some elements
    doc: str = ""

    @property
    def composite(self) -> bool:
        return self.decompose is not None


OPS: dict[str, GraphOp] = {}


def define(row: GraphOp) -> GraphOp:
    """Enter a row."""
    if row.name in OPS:
        raise ValueError(f"two rows for graph op {row.name}")
    OPS[row.name] = row
    return row


def primitive(
    name: str,
    operands: int | tuple[int, int | None],
    *,
    updates: bool = False,
    **attrs: AttrRow,
) -> Callable[[Rule], Rule]:
    """Enter an op by its type rule, whose docstring says what the op gives."""
    arity = (operands, operands) if isinstance(operands, int) else operands

    def enter(rule: Rule) -> Rule:
        define(GraphOp(name, arity, rule, attrs, updates=updates, doc=rule.__doc__ or ""))
        return rule

    return enter


def infer(name: str, operands: Sequence[TensorType], attrs: Mapping[str, Attr]) -> Types:
    """The types of an op's results, with attributes as `complete` gives them. Raises
    GraphTypeError."""
    row = find(name)
    least, most = row.arity
    if len(operands) < least or (most is not None and len(operands) > most):
        count = str(least) if least == most else f"{least} to {most if most is not None else 'any'}"
        raise GraphTypeError(f"{name} takes {count} operands, not {len(operands)}")
    try:
        return row.rule(tuple(operands), attrs)
    except GraphTypeError as error:
        given = ", ".join(map(str, operands))
        raise GraphTypeError(f"{name} of {given}: {error.what}", error.loc) from error


def find(name: str) -> GraphOp:
    """The row of an op. Raises GraphTypeError, with the nearest names."""
    row = OPS.get(name)
    if row is None:
        from difflib import get_close_matches

        near = get_close_matches(name, OPS, 3)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise GraphTypeError(f"there is no graph op {name!r}{hint}")
    return row


def complete(name: str, given: Mapping[str, Attr]) -> tuple[tuple[str, Attr], ...]:
    """All attributes of an op in the order of their names, defaults filled in. Raises
    GraphTypeError for one that the op does not have, that is missing or of another kind."""
    rows = find(name).attrs
    if unknown := sorted(set(given) - set(rows)):
        has = ", ".join(sorted(rows)) or "none"
        raise GraphTypeError(f"{name} has no attribute {unknown[0]!r}: it has {has}")
    return tuple((key, _checked(name, key, rows[key], given)) for key in sorted(rows))


def _checked(name: str, key: str, row: AttrRow, given: Mapping[str, Attr]) -> Attr:
    if key not in given and row.default is REQUIRED:
        raise GraphTypeError(f"{name} needs the attribute {key!r}")
    value: Attr = _plain(given.get(key, row.default), row.kind)
    if not isinstance(value, row.kind) or (row.kind is int and isinstance(value, bool)):
        wanted = "integers" if row.kind is tuple else row.kind.__name__
        raise GraphTypeError(f"{name}: {key} is {wanted}, not {shown(value)}")
    numbers = value if isinstance(value, tuple) else (value,) if row.kind is int else ()
    if any(abs(whole(n, key)) >= 1 << 63 for n in numbers):
        raise GraphTypeError(f"{name}: {key} is beyond the integers of 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise GraphTypeError(f"{name}: {key} is a number, not {value}")
    if row.words and value not in row.words:
        raise GraphTypeError(f"{name}: {key} is one of {', '.join(row.words)}, not {shown(value)}")
    return value


def _plain(value: Any, kind: type) -> Any:
    """numpy's numbers, lists and integers for floats as what an attribute holds."""
    if kind is tuple and isinstance(value, (tuple, list)):
        return tuple(whole(n, "each of them") for n in value)
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        value = value.item()
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 1 << 1000 else value
    return float(value) if kind is float and isinstance(value, float) else value


def require(condition: bool, message: str) -> None:
    """Raise GraphTypeError unless it holds."""
    if not condition:
        raise GraphTypeError(message)


def require_axis(axis: int, rank: int) -> None:
    require(0 <= axis < rank, f"axis {axis} of a tensor of rank {rank}: 0 to {rank - 1} are there")


def require_dtype(t: TensorType, what: str, *wanted: DType) -> None:
    names = " or ".join(map(str, wanted))
    require(t.dtype in wanted, f"{what} is {names}, not {t.dtype}")


def require_float(t: TensorType, what: str = "it") -> None:
    computes = t.dtype.is_float and t.dtype.computes
    require(computes, f"{what} is computed in floats, not in {t.dtype}: cast it")
