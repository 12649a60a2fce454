"""Arithmetic as configurations write it: names, integers, + - * // %, comparisons, and, or, not,
and calls of ceil_div, min and max, as in Python. What is computed where a kernel runs becomes a
grid expression (`ir.abi.evaluate`) of names and integers."""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("", operator.mod),
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt},
    **{ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}
_CALLS: dict[str, Callable[..., Any]] = {
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}
LARGEST = 2**40  # of a size that a configuration names
_LONGEST = 500  # characters: an expression, not a program


class ExpressionError(ValueError):
    """A text that is no expression, or one that cannot be computed: what, and what is known."""


class Expression:
    """An expression. ExpressionError where the text is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > _LONGEST:
            raise ExpressionError(f"an expression of over {_LONGEST} characters")
        try:
            self._tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ExpressionError(
                f"{text!r} is no expression (names, integers, + - * //, ceil_div, min, max)"
            ) from None

    def value(self, names: Mapping[str, Any]) -> Any:
        """What it is worth where all its names have values."""
        try:
            return self._value(self._tree, names)
        except (ZeroDivisionError, TypeError) as error:
            raise ExpressionError(f"{self.text!r} cannot be computed: {error}") from error

    def of_sizes(self, constexprs: Mapping[str, Any], sizes: set[str]) -> Any:
        """The grid expression of it, with constexprs as their values and sizes as scalars."""
        return self._translated(self._tree, constexprs, sizes)

    def _value(self, tree: ast.expr, names: Mapping[str, Any]) -> Any:
        match tree:
            case ast.Constant(value=bool() | int() | str() as value):
                return value
            case ast.Name(id=name):
                if name not in names:
                    self._unknown(name, names)
                return names[name]
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
                return _BINARY[type(op)][1](self._value(a, names), self._value(b, names))
            case ast.Compare(left=a, ops=ops, comparators=others) if all(
                type(op) in _COMPARE for op in ops
            ):
                values = [self._value(part, names) for part in (a, *others)]
                pairs = zip(ops, values, values[1:], strict=False)
                return all(_COMPARE[type(op)](x, y) for op, x, y in pairs)
            case ast.BoolOp(op=op, values=parts):
                join = all if isinstance(op, ast.And) else any
                return join(self._value(part, names) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return not self._value(part, names)
            case ast.Call(func=ast.Name(id=name), args=[a, b], keywords=[]) if name in _CALLS:
                return _CALLS[name](self._value(a, names), self._value(b, names))
        self._odd(tree)

    def _translated(self, tree: ast.expr, constexprs: Mapping[str, Any], sizes: set[str]) -> Any:
        match tree:
            case ast.Constant(value=int() as value):
                return int(value)
            case ast.Name(id=name) if name in sizes:
                return ("scalar", name)
            case ast.Name(id=name) if isinstance(constexprs.get(name), int):
                return int(constexprs[name])
            case ast.Name(id=name):
                self._unknown(name, {*sizes, *constexprs})
            case ast.BinOp(left=a, op=op, right=b) if _BINARY.get(type(op), ("",))[0]:
                word, parts = _BINARY[type(op)][0], (a, b)
            case ast.Call(func=ast.Name(id=name), args=[a, b], keywords=[]) if name in _CALLS:
                word, parts = name, (a, b)
            case _:
                self._odd(tree)
        return (word, *(self._translated(part, constexprs, sizes) for part in parts))

    def _unknown(self, name: str, known: Iterable[str]) -> NoReturn:
        near = difflib.get_close_matches(name, known := sorted(known), 1, 0.5)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ExpressionError(
            f"unknown name {name!r} in {self.text!r}{meant} (known: {', '.join(known) or 'none'})"
        )

    def _odd(self, tree: ast.expr) -> NoReturn:
        raise ExpressionError(f"{ast.unparse(tree)!r} is not for expressions of a configuration")
