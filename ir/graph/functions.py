"""Functions of arrays, named as numpy and the field name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import DType, f32, f64, i32
from .array import Array, Number, binary, common_shape, mistake, together
from .table import OPS
from .types import find_dtype, shown


def _unary(name: str) -> Callable[[Array], Array]:
    def function(x: Array) -> Array:
        return apply(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = OPS[name].doc
    return function


abs_, acos, acosh, asin, asinh, atan, atanh = map(
    _unary, ("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh")
)
ceil, cos, cosh, erf, erfc, exp, exp2, expm1 = map(
    _unary, ("ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1")
)
floor, isfinite, isinf, isnan, log, log2, log10, log1p = map(
    _unary, ("floor", "isfinite", "isinf", "isnan", "log", "log2", "log10", "log1p")
)
rint, rsqrt, sign, sin, sinh, sqrt, tan, tanh, trunc = map(
    _unary, ("rint", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc")
)


def maximum(a: Array | Number, b: Array | Number) -> Array:
    """The greater one; a NaN loses."""
    return binary("max", a, b)


def minimum(a: Array | Number, b: Array | Number) -> Array:
    """The lesser one; a NaN loses."""
    return binary("min", a, b)


def where(condition: Array, a: Array | Number, b: Array | Number) -> Array:
    """Elements of `a` where the condition holds, else those of `b`."""
    first, second = together(a, b)
    shape = common_shape([_array(condition).shape, first.shape])
    return apply("select", *(x.broadcast_to(*shape) for x in (condition, first, second)))


def matmul(a: Array, b: Array, *, dtype: DType | str | None = None) -> Array:
    """Products of matrices; leading dimensions broadcast. dtype: of the result, else that of `a`,
    and i32 and f32 for integers and floats of 8 bits."""
    if _array(a).rank < 2 or _array(b).rank < 2:
        raise mistake(f"matmul of {a.type} and {b.type}: each has two dimensions at least")
    lead = common_shape([a.shape[:-2], b.shape[:-2]])
    a = a.broadcast_to(*lead, *a.shape[-2:])
    b = b.broadcast_to(*lead, *b.shape[-2:])
    bytes_ = a.dtype.bits == 8
    natural = a.dtype if not bytes_ else i32 if a.dtype.is_int else f32
    return apply("matmul", a, b, dtype=natural if dtype is None else find_dtype(dtype))


def concat(arrays: Sequence[Array], axis: int = 0) -> Array:
    """One behind the other along a dimension."""
    return apply("concat", *arrays, axis=axis)


def pad(x: Array, widths: Sequence[tuple[int, int]], value: Number = 0) -> Array:
    """More elements before and behind each dimension."""
    pairs = [tuple(pair) for pair in widths] if isinstance(widths, (list, tuple)) else []
    if len(pairs) != _array(x).rank or any(len(pair) != 2 for pair in pairs):
        raise mistake(f"there is a pair of widths a dimension, not {shown(widths)}")
    low, high = (tuple(pair[n] for pair in pairs) for n in (0, 1))
    return apply("pad", x, x.builder.literal(value, x.dtype), low=low, high=high)


def take(x: Array, places: Array, axis: int = 0) -> Array:
    """The slices of `x` along a dimension that `places` counts."""
    return apply("gather", x, places, axis=axis)


def scatter(x: Array, places: Array, updates: Array, axis: int = 0, *, kind: str = "set") -> Array:
    """`x` but for some slices, which are put in their places or added."""
    return apply("scatter", x, places, updates, axis=axis, kind=kind)


def top_k(x: Array, k: int) -> tuple[Array, Array]:
    """The k greatest elements of each row, and their places."""
    values, places = x.builder.node("top_k", x, k=k)
    return values, places


def arange(like: Array, size: int, dtype: DType | str = "i32") -> Array:
    """0, 1, 2, ... in the graph of `like`."""
    return iota(like, (size,), 0, dtype)


def iota(like: Array, shape: tuple[int, ...], axis: int, dtype: DType | str = "i32") -> Array:
    """Each element is its place along a dimension."""
    return like.builder.op("iota", shape=shape, axis=axis, dtype=find_dtype(dtype))


def random_bits(state: Array, shape: tuple[int, ...]) -> Array:
    """Random u32, by counter, of a state of four."""
    return state.builder.op("random", state, shape=shape)


def widened(x: Array) -> Array:
    """As f32, in which f16 and bf16 are computed; f64 stays."""
    return x if x.dtype in (f32, f64) else x.cast(f32)


def apply(name: str, *operands: Array, **attrs: Any) -> Array:
    """An op of one result by its name, primitive or composite."""
    if not operands:
        raise mistake(f"{name} has no operand that is an array of a graph")
    return _array(operands[0]).builder.op(name, *operands, **attrs)


def _array(value: Array) -> Array:
    if not isinstance(value, Array):
        raise mistake(f"an operand is an array of a graph, not {type(value).__name__}")
    return value
