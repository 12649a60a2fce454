"""Maths: an op of the table, numpy's and Python's variants of one, or a library function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import Value
from ..dtypes import bool_, element_of, f32, i32, u32, with_element
from . import literals
from .conversions import convert
from .foreign import evaluate
from .functions import COMPOSED, ELEMENTWISE
from .inline import library
from .operators import binary
from .values import Entry, WeakSelect, describe, is_number

if TYPE_CHECKING:
    from .tracer import Tracer


def elementwise(name: str) -> Callable[..., Entry]:
    """The handler of an op that takes and gives values of one type."""

    def handler(t: Tracer, node: ast.AST, *args: Entry) -> Entry:
        if not any(isinstance(a, Value | WeakSelect) for a in args):
            return evaluate(t, node, name, args)
        if name == "ldexp":
            return _ldexp(t, node, *args)
        if name == "dot4":
            return _dot4(t, node, *args)
        wants_float = name in FLOAT_OPS
        prepared = [float(a) if wants_float and is_number(a) else a for a in args]
        values, weak = literals.common(t, node, prepared, name)
        if wants_float and not element_of(values[0].type).is_float:
            found = values[0].type
            if not weak:
                t.fail(node, f"{name} takes floats, found {found}; convert it, as in f32(...)")
            values = [t.emit(node, "convert", v, type=with_element(v.type, f32)) for v in values]
        return t.emit(node, name, *values)

    return handler


INT_OPS = {"popcount", "clz", "ctz", "reverse_bits", "mul_high", "dot4"}
FLOAT_OPS = {n for n in (*ELEMENTWISE, "pow") if n not in INT_OPS and n != "sign"}


def _ldexp(t: Tracer, node: ast.AST, x: Entry, n: Entry) -> Entry:
    value = literals.value(t, node, float(x) if is_number(x) else x)
    wanted = with_element(value.type, i32)
    if isinstance(n, Value) and element_of(n.type).is_int and element_of(n.type) != i32:
        n = convert(t, node, n, with_element(n.type, i32), None, True)
    return t.emit(node, "ldexp", value, literals.typed(t, node, n, wanted, "the exponent of ldexp"))


def _dot4(t: Tracer, node: ast.AST, a: Entry, b: Entry, acc: Entry) -> Entry:
    x, y = (literals.value(t, node, e) for e in (a, b))
    wanted = u32 if x.type == u32 and y.type == u32 else i32
    return t.emit(node, "dot4", x, y, literals.typed(t, node, acc, wanted, "the sum of dot4"))


def fold(name: str) -> Callable[..., Entry]:
    """min and max of any number of operands."""

    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        if kwargs:
            t.fail(node, f"{name} takes no keyword arguments in a kernel")
        if len(args) == 1 and isinstance(args[0], tuple):
            args = list(args[0])
        if not args:
            t.fail(node, f"{name} takes at least one value")
        result = args[0]
        for entry in args[1:]:
            if not any(isinstance(e, Value | WeakSelect) for e in (result, entry)):
                for e in (result, entry):
                    if not isinstance(e, int | float):
                        t.fail(node, f"{name} takes numbers, found {describe(e)}")
                result = (min if name == "min" else max)(result, entry)
                continue
            (a, b), _ = literals.common(t, node, [result, entry], name)
            result = t.emit(node, name, a, b)
        return result

    return handler


def _binary(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        if kwargs or len(args) != 2:
            t.fail(node, f"{name} takes 2 arguments, found {len(args) + len(kwargs)}")
        return binary(t, node, name, *args)

    return handler


def _unary(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        if kwargs or len(args) != 1:
            t.fail(node, f"{name} takes 1 argument, found {len(args) + len(kwargs)}")
        if not isinstance(args[0], Value | WeakSelect):
            return evaluate(t, node, name, tuple(args))
        value = literals.value(t, node, args[0])
        if name == "not_logical":
            return t.emit(node, "not", literals.typed(t, node, value, bool_))
        return t.emit(node, name, value)

    return handler


def _round(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if kwargs or not args or len(args) > 2 or (len(args) == 2 and args[1] not in (0, None)):
        t.fail(node, "round takes one value in a kernel; scale it to round to digits")
    if not isinstance(args[0], Value | WeakSelect):
        return evaluate(t, node, "round", (args[0],))
    value = literals.value(t, node, args[0])
    return value if element_of(value.type).is_int else t.emit(node, "rint", value)


def _divmod(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
    if kwargs or len(args) != 2:
        t.fail(node, f"divmod takes 2 arguments, found {len(args) + len(kwargs)}")
    return (binary(t, node, "floordiv", *args), binary(t, node, "mod", *args))


def _nan_first(name: str) -> Callable[..., Entry]:
    """numpy's maximum and minimum, which give NaN where either operand is one."""

    def handler(t: Tracer, node: ast.AST, args: list[Entry], kwargs: dict[str, Entry]) -> Entry:
        if kwargs or len(args) != 2:
            t.fail(node, f"np.{name}imum takes 2 arguments, found {len(args) + len(kwargs)}")
        best = fold(name)(t, node, args, {})
        if not isinstance(best, Value) or not element_of(best.type).is_float:
            return best
        for entry in args:
            value = literals.typed(t, node, entry, best.type)
            best = t.emit(node, "select", t.emit(node, "isnan", value), value, best)
        return best

    return handler


def _composed(name: str) -> Callable[..., Entry]:
    def handler(t: Tracer, node: ast.AST, *args: Entry) -> Entry:
        if not any(isinstance(a, Value | WeakSelect) for a in args):
            return evaluate(t, node, name, args)
        integers = name in ("gcd", "lcm", "square")
        prepared = [float(a) if is_number(a) and not integers else a for a in args]
        values, _ = literals.common(t, node, prepared, name)
        wants = element_of(values[0].type)
        if not (wants.is_float or (integers and wants.is_int)) or (
            name in ("gcd", "lcm") and wants.is_float
        ):
            kind = "integers" if name in ("gcd", "lcm") else "floats"
            t.fail(node, f"{name} takes {kind}, found {values[0].type}")
        return library(t, node, name, *values)

    return handler


HANDLERS: dict[str, Callable[..., Entry]] = {
    **{name: elementwise(name) for name in ELEMENTWISE},
    **{name: _composed(name) for name in COMPOSED},
}
OPERATORS = (
    "add", "sub", "mul", "div", "floordiv", "mod", "pow", "and", "or", "xor", "shl", "shr", "eq",
    "ne", "lt", "le", "gt", "ge",
)  # fmt: skip
VARIADIC: dict[str, Callable[..., Entry]] = {
    "min": fold("min"),
    "max": fold("max"),
    "np_max": _nan_first("max"),
    "np_min": _nan_first("min"),
    "abs": _unary("abs"),
    "neg": _unary("neg"),
    "invert": _unary("not"),
    "logical_not": _unary("not_logical"),
    "round": _round,
    "divmod": _divmod,
    **{name: _binary(name) for name in OPERATORS},
}
