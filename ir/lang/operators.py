"""Operators: on constants by Python, on values by ops."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core import Value
from ..dtypes import DType, FragmentType, VectorType, element_of
from ..limits import MAX_BITS, MAX_ITEMS
from . import constants, counters, literals
from .budget import bounded, spend
from .values import Counter, Entry, WeakSelect, describe, equal

if TYPE_CHECKING:
    from .tracer import Tracer

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
    ast.MatMult: "matmul",
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "matmul": "@",
}  # fmt: skip


QUOTED = {name: repr(symbol) for name, symbol in SYMBOLS.items()}


def _python_power(a: Any, b: Any) -> Any:
    """`a ** b` of constants; of floats with the same bits on every host."""
    if isinstance(a, float) or isinstance(b, float) or (isinstance(b, int) and b < 0):
        return constants.power(a, b)
    return a**b


PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": _python_power,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_RUNTIME = (Value, WeakSelect)


def binary(t: Tracer, node: ast.AST, name: str, a: Entry, b: Entry) -> Entry:
    """`a op b`."""
    if name not in PYTHON:
        t.fail(node, f"the operator {SYMBOLS[name]} is not supported in a kernel")
    if type(a) is Counter or type(b) is Counter:
        return _counted(t, node, name, a, b)
    if not isinstance(a, _RUNTIME) and not isinstance(b, _RUNTIME):
        return _constant(t, node, name, a, b)
    if name == "pow":
        return power(t, node, a, b)
    (x, y), weak = literals.common(t, node, [a, b], QUOTED[name])
    element = element_of(x.type)
    if name == "div" and not element.is_float:
        t.fail(node, f"'/' divides floats, found {x.type}; use // or convert to a float first")
    if name in ("floordiv", "mod") and element.is_float:
        from .inline import library

        return library(t, node, "float_floordiv" if name == "floordiv" else "float_mod", x, y)
    if name in ("shl", "shr", "and", "or", "xor") and element.is_float:
        t.fail(node, f"{SYMBOLS[name]!r} takes integers, found {x.type}")
    if element.is_bool and name not in ("and", "or", "xor", "eq", "ne"):
        t.fail(node, f"{SYMBOLS[name]!r} takes numbers, found {x.type}")
    made = t.emit(node, name, x, y)
    if weak and t.probing and made.type == x.type:
        t.weak.add(made.id)
    return made


def _counted(t: Tracer, node: ast.AST, name: str, a: Entry, b: Entry) -> Entry:
    """The same with the number of an iteration that stands for others."""
    if isinstance(a, Value):
        return binary(t, node, name, a, counters.beside(t, node, b, a))
    if isinstance(b, Value):
        return binary(t, node, name, counters.beside(t, node, a, b), b)
    return counters.combine(t, node, name, a, b)


_PLAIN = (int, float, str, tuple)


def _too_great(name: str, a: Entry, b: Entry) -> bool:
    """Whether a constant is certainly greater than a trace takes; found without computing it."""
    if isinstance(a, int) and isinstance(b, int):
        if name == "pow":
            return b > 0 and abs(a) > 1 and (abs(a).bit_length() - 1) * b > MAX_BITS
        return name == "shl" and a != 0 and b > MAX_BITS
    if name != "mul" or not (isinstance(a, int) or isinstance(b, int)):
        return False
    sequence, times = (b, a) if isinstance(a, int) else (a, b)
    return isinstance(sequence, str | tuple) and len(sequence) * times > MAX_ITEMS


def _constant(t: Tracer, node: ast.AST, name: str, a: Entry, b: Entry) -> Entry:
    if name in ("eq", "ne"):
        counters.refuse(t, node, a, b)
        return equal(a, b) is (name == "eq")
    if not isinstance(a, _PLAIN) or not isinstance(b, _PLAIN):
        found = f"{describe(a)} and {describe(b)}"
        t.fail(node, f"{SYMBOLS[name]!r} takes values or constants, found {found}")
    if isinstance(a, str) and name == "mod":
        t.fail(node, "'%' of a string is not supported in a kernel")
    if _too_great(name, a, b):
        t.fail(node, "the constant is too great")
    if name == "pow" and (isinstance(a, float) or isinstance(b, float)):
        spend(t, node, constants.STEPS)
    try:
        return bounded(t, node, PYTHON[name](a, b))
    except (ArithmeticError, TypeError, ValueError) as error:
        t.fail(node, f"cannot compute this constant: {error}")


def power(t: Tracer, node: ast.AST, a: Entry, b: Entry) -> Entry:
    """`a ** b`: products for small constant exponents, else pow or, for integers, a loop."""
    if isinstance(a, Value) and isinstance(b, int | float) and not isinstance(b, bool):
        floats = element_of(a.type).is_float
        if b in (0, 1, 2, 3, 4) and (floats or isinstance(b, int)):
            return _product(t, node, a, int(b))
        if not floats and isinstance(b, int) and b < 0:
            t.fail(node, f"an integer to the power of {b} is no integer; convert it to a float")
    (x, y), _ = literals.common(t, node, [a, b], "'**'")
    if element_of(x.type).is_float:
        return t.emit(node, "pow", x, y)
    from .inline import library

    if not isinstance(x.type, DType):
        t.fail(node, f"'**' of {x.type}: expected floats, scalars or a small constant exponent")
    return library(t, node, "int_power", x, y)


def _product(t: Tracer, node: ast.AST, x: Value, n: int) -> Value:
    if n == 0:
        return t.const(node, 1, x.type)
    square = t.emit(node, "mul", x, x) if n > 1 else x
    if n == 4:
        return t.emit(node, "mul", square, square)
    return t.emit(node, "mul", square, x) if n == 3 else square


def compare(t: Tracer, node: ast.AST, op: ast.cmpop, a: Entry, b: Entry) -> Entry:
    """One link of a comparison."""
    kind = type(op)
    if kind in COMPARE:
        return binary(t, node, COMPARE[kind], a, b)
    if isinstance(op, ast.Is | ast.IsNot):
        for entry in (a, b):
            t.require_static(node, entry, "what `is` compares")
        equal = a is b or (isinstance(a, DType | VectorType | FragmentType | bool) and a == b)
        return equal is isinstance(op, ast.Is)
    found = _contains(t, node, a, b)
    return found if isinstance(op, ast.In) else invert(t, node, found)


def _contains(t: Tracer, node: ast.AST, a: Entry, b: Entry) -> Entry:
    if isinstance(b, str) and isinstance(a, str):
        return a in b
    if not isinstance(b, tuple):
        t.fail(node, f"'in' searches a tuple, found {describe(b)}")
    result: Entry = False
    for item in b:
        link = binary(t, node, "eq", a, item)
        if link is True:
            return True
        if link is not False:
            result = link if result is False else t.emit(node, "or", result, link)
    return result


def invert(t: Tracer, node: ast.AST, entry: Entry) -> Entry:
    """`not entry`."""
    cond = literals.condition(t, node, entry)
    return (not cond) if isinstance(cond, bool) else t.emit(node, "not", cond)


def unary(t: Tracer, node: ast.UnaryOp) -> Entry:
    entry = t.expression(node.operand)
    if isinstance(node.op, ast.Not):
        vector = isinstance(entry, Value) and isinstance(entry.type, VectorType | FragmentType)
        if vector and element_of(entry.type).is_bool:
            return t.emit(node, "not", entry)
        return invert(t, node, entry)
    if isinstance(entry, WeakSelect):
        entry = literals.value(t, node, entry)
    if not isinstance(entry, Value):
        if not isinstance(entry, int | float):
            t.fail(node, f"expected a number, found {describe(entry)}")
        if isinstance(node.op, ast.Invert):
            if isinstance(entry, bool | float):
                t.fail(node, f"'~' takes an integer, found {describe(entry)}")
            return ~entry
        return -entry if isinstance(node.op, ast.USub) else +entry
    element = element_of(entry.type)
    if isinstance(node.op, ast.UAdd):
        return entry
    if isinstance(node.op, ast.Invert):
        if element.is_float:
            t.fail(node, f"'~' takes an integer, found {entry.type}")
        return t.emit(node, "not", entry)
    if element.is_bool:
        t.fail(node, f"'-' takes a number, found {entry.type}")
    return t.emit(node, "neg", entry)
