"""Functions of Python, `math` and numpy that a kernel may call, and constants computed by them."""

from __future__ import annotations

import ast
import builtins
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import DTYPES, DType
from ..ops import ROWS
from . import constants
from .budget import bounded, spend
from .surface import fragment, vec
from .values import Entry, describe

if TYPE_CHECKING:
    from .tracer import Tracer

TYPES: dict[Any, DType] = {
    np.bool_: DTYPES["bool"],
    np.int8: DTYPES["i8"],
    np.int16: DTYPES["i16"],
    np.int32: DTYPES["i32"],
    np.int64: DTYPES["i64"],
    np.uint8: DTYPES["u8"],
    np.uint16: DTYPES["u16"],
    np.uint32: DTYPES["u32"],
    np.uint64: DTYPES["u64"],
    np.float16: DTYPES["f16"],
    np.float32: DTYPES["f32"],
    np.float64: DTYPES["f64"],
}

_MATH = {
    "fabs": "abs", "pow": "pow", "isnan": "isnan", "degrees": "degrees", "radians": "radians",
}  # fmt: skip
_NUMPY = {
    "absolute": "abs", "abs": "abs", "fabs": "abs", "negative": "neg", "invert": "invert",
    "bitwise_not": "invert", "logical_not": "logical_not", "add": "add", "subtract": "sub",
    "multiply": "mul", "divide": "div", "true_divide": "div", "floor_divide": "floordiv",
    "mod": "mod", "remainder": "mod", "power": "pow", "float_power": "pow", "pow": "pow",
    "divmod": "divmod", "maximum": "np_max", "minimum": "np_min", "fmax": "max", "fmin": "min",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "logical_and": "and",
    "logical_or": "or", "logical_xor": "xor", "left_shift": "shl", "right_shift": "shr",
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2",
    "rad2deg": "degrees", "deg2rad": "radians", "where": "select", "clip": "clamp", "fix": "trunc",
    "round": "round", "around": "round", "bitwise_count": "popcount",
}  # fmt: skip
_SAME = (
    *(n for n, row in ROWS.items() if row.meaning is not None),
    "degrees", "radians", "modf", "frexp", "signbit", "logaddexp", "logaddexp2", "nextafter",
    "gcd", "lcm", "heaviside", "sinc", "square", "reciprocal",
)  # fmt: skip


def _foreign() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for name in _SAME:
        for module in (math, np):
            if callable(function := getattr(module, name, None)):
                found[function] = name
    found |= {getattr(math, n): to for n, to in _MATH.items()}
    found[math.remainder] = "remainder"
    found |= {getattr(np, n): to for n, to in _NUMPY.items() if hasattr(np, n)}
    for name in ("min", "max", "abs", "round", "divmod", "len", "print", "breakpoint", "int"):
        found[getattr(builtins, name)] = name
    found |= {float: "float", bool: "bool", pow: "pow", vec: "vec", fragment: "fragment"}
    return found


FOREIGN = _foreign()


_OF_THE_HOST = {"erf", "erfc", "gamma", "lgamma"}  # their last bit differs between C libraries


def evaluate(t: Tracer, node: ast.AST, name: str, args: tuple[Entry, ...]) -> Entry:
    """A function of constants, computed now in Python's floats, with equal bits on every host."""
    for entry in args:
        if not isinstance(entry, int | float):
            t.fail(node, f"{name} takes values, found {describe(entry)}")
    special: dict[str, Any] = {
        "int": int, "float": float, "abs": abs, "neg": lambda a: -a, "not": lambda a: ~a,
        "not_logical": lambda a: not a,
        "rsqrt": lambda a: 1 / math.sqrt(a), "sign": lambda a: (a > 0) - (a < 0),
        "rint": lambda a: float(round(a)), "floor": lambda a: float(math.floor(a)),
        "ceil": lambda a: float(math.ceil(a)), "trunc": lambda a: float(math.trunc(a)),
        "round": round, "round_half_even": round, "square": lambda a: a * a,
        "reciprocal": lambda a: 1 / a, "frexp": math.frexp, "modf": math.modf,
        "signbit": lambda a: math.copysign(1, a) < 0, "popcount": lambda a: int(a).bit_count(),
        "fdim": lambda a, b: max(a - b, 0.0),
    }  # fmt: skip
    function = special.get(name) or constants.function(name)
    if function is None and name not in _OF_THE_HOST:
        function = getattr(math, name, None)
    if function is None:
        t.fail(node, f"{name} of constants: give one a type, as in f32(...) or u32(...)")
    spend(t, node, constants.STEPS)
    try:
        return bounded(t, node, function(*args))
    except (ArithmeticError, TypeError, ValueError) as error:
        t.fail(node, f"cannot compute this constant: {name}: {error}")
