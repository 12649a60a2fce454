"""What the parts of a suite's file may be. All of these end in a CommandError that says the file
and the row (`where`), what was expected there, and what was found."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from ..store.expressions import LARGEST, Expression, ExpressionError
from .errors import CommandError

_WORD = 1 << 63  # what i64 and the device's own counts hold is below it
_SHOWN = 80  # characters of what was found


def fail(where: str, message: str) -> NoReturn:
    raise CommandError(f"{where}: {message}")


def shown(value: Any) -> str:
    """What was found, short."""
    try:
        return f"{value!r:.{_SHOWN}}"
    except ValueError:  # Python writes no integers of thousands of digits
        bits = f" of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"an integer{bits}" if bits else f"a {type(value).__name__} of huge integers"


def keys(where: str, data: Any, known: set[str]) -> None:
    """A mapping with some of the known keys, each of which has a value."""
    if not isinstance(data, dict):
        fail(where, f"expected a mapping, got {shown(data)}")
    if odd := [shown(key) for key in data if key not in known]:
        fail(where, f"unknown key {odd[0]} (known: {', '.join(sorted(known))})")
    if bare := [key for key, value in data.items() if value is None]:
        fail(where, f"{bare[0]} is stated without a value")


def entries(where: str, value: Any) -> list[Any]:
    """The entries of a list that has some, or the one that stands in its place."""
    if value == []:
        fail(where, "an empty list; expected at least one entry")
    return value if isinstance(value, list) else [value]


def text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        fail(where, f"expected a text, got {shown(value)}")
    return value


def texts(where: str, value: Any) -> tuple[str, ...]:
    """Names: one or a list of them."""
    return tuple(text(where, part) for part in entries(where, value))


def positive(where: str, value: Any) -> float:
    """A number that ratios are held against."""
    if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
        fail(where, f"expected a positive finite number, got {shown(value)}")
    return float(value)


def plain(value: Any) -> bool:
    """Whether it is a number that elements of a buffer can be made of."""
    return type(value) is float or (type(value) is int and -_WORD <= value < _WORD)


def size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def sizes(where: str, value: Any) -> list[dict[str, int]]:
    """Problems: names with sizes."""
    found = entries(f"{where}: sizes", value)
    for one in found:
        whole = isinstance(one, dict) and all(isinstance(n, str) and size(one[n]) for n in one)
        if not whole:
            fail(where, f"sizes are names with integers of 0 to {LARGEST}, got {shown(one)}")
    return found


def expression(where: str, value: Any) -> Expression:
    if type(value) not in (str, int):
        fail(where, f"expected an expression, a text or an integer, got {shown(value)}")
    try:
        return Expression(str(value))
    except ExpressionError as error:
        return fail(where, str(error))
    except ValueError:  # of its digits
        return fail(where, f"expected an expression, got {shown(value)}")


def computed(where: str, what: Expression, names: Mapping[str, Any]) -> Any:
    """What an expression is worth."""
    try:
        return what.value(names)
    except ExpressionError as error:
        return fail(where, str(error))
    except (MemoryError, OverflowError) as error:
        return fail(where, f"{what.text!r} cannot be computed: {error or type(error).__name__}")


def integer(
    where: str, what: Expression, names: Mapping[str, Any], low: int = -_WORD, high: int = _WORD - 1
) -> int:
    """What an expression is worth, which is an integer of `low` to `high`."""
    value = computed(where, what, names)
    if type(value) is not int or not low <= value <= high:
        expected = f"expected an integer of {low} to {high}"
        fail(where, f"{what.text!r} is {shown(value)} for {dict(names)}; {expected}")
    return value


def shape(where: str, parts: Iterable[Expression], names: Mapping[str, Any]) -> list[int]:
    """The extents of a buffer, whose elements can be counted."""
    found, elements = [integer(where, part, names, 0, LARGEST) for part in parts], 1
    for extent in found:
        elements *= extent
    if elements > LARGEST:
        fail(where, f"a shape of {elements} elements; at most {LARGEST} (for {dict(names)})")
    return found
