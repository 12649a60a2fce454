"""A fast evaluator of expanded IR over numpy arrays, one element (or vector) per invocation.

It shares nothing with the interpreter, and does arithmetic in one of several ways (MODES):
"unfused" computes fma as a product and a sum, "fused" with one rounding; "contracted" fuses in
addition every product that feeds a sum or difference, as a compiler that may contract does;
"loose" is unfused, with div off by up to 2.5 ulp and sqrt by up to 3 ulp, as Vulkan allows, and
"flushed" unfused with 0 for every denormal operand and result, as a device without them has it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gristmill.ir.builder import Builder
from gristmill.ir.core import Op, Region, Value
from gristmill.ir.dtypes import DTYPES, DType, Type, element_of, i32, with_element
from gristmill.ir.maths import expand
from gristmill.ir.ops import ROWS

Array = np.ndarray

MODES = ("unfused", "fused", "contracted")


def operand_types(op: str, t: Type) -> tuple[Type, ...]:
    """The operand types of `op` on the value type t."""
    return (t, with_element(t, i32)) if op == "ldexp" else (t,) * ROWS[op].arity


def build(op: str, t: Type, fused: bool = True) -> tuple[Region, Value]:
    """The expansion of `op` on operands of type t, as a region and its result."""
    builder = Builder()
    args = tuple(builder.value(u) for u in operand_types(op, t))
    result = expand(builder, op, args, fused=fused)
    return Region(args, tuple(builder.ops)), result


def _fma(a: Array, b: Array, c: Array) -> Array:
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


def _to_int(a: Array, kind: np.dtype) -> Array:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    whole = np.trunc(np.where(np.isnan(a), 0, a))
    inside = (whole > float(low)) & (whole < float(high))
    result = np.where(inside, whole, 0).astype(kind)
    edge = np.where(whole <= float(low), kind.type(low), result)
    return np.where(whole >= float(high), kind.type(high), edge)


def _mul_high(a: Array, b: Array) -> Array:
    if a.dtype.itemsize == 4:
        return ((a.astype(np.uint64) * b) >> np.uint64(32)).astype(np.uint32)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = (middle & low) + a0 * b1
    return a1 * b1 + (middle >> half) + (other >> half)


def _shift(fn: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, n: fn(a, n & a.dtype.type(a.dtype.itemsize * 8 - 1))


def _mod(a: Array, b: Array) -> Array:
    assert a.dtype.kind == "u", "only unsigned remainders are expected here"
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b)).astype(a.dtype)


def _off(result: Array, ulps: float) -> Array:
    """The result moved by up to `ulps` ulp, the direction by a hash of its bits."""
    words = np.ascontiguousarray(result).view(f"u{result.dtype.itemsize}").reshape(result.shape)
    noise = ((words * words.dtype.type(2654435761)) >> words.dtype.type(8)) % words.dtype.type(1001)
    moved = result.astype(np.longdouble) + np.spacing(result) * (
        (noise.astype(float) / 500 - 1) * (ulps - 0.5)
    )
    special = ~np.isfinite(result) | (result == 0) | (result == 1)
    return np.where(special, result, moved.astype(result.dtype))


_OPS: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "abs": np.abs, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "shl": _shift(np.left_shift), "shr": _shift(np.right_shift), "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "select": np.where, "rint": np.rint, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "sqrt": np.sqrt, "mod": _mod, "copysign": np.copysign, "mul_high": _mul_high,
    "min": lambda a, b: np.fmin(a, b) if a.dtype.kind == "f" else np.minimum(a, b),
    "max": lambda a, b: np.fmax(a, b) if a.dtype.kind == "f" else np.maximum(a, b),
}  # fmt: skip


class Evaluation:
    """Values of one run in one mode; vectors have their lanes on the last axis."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.values: dict[int, Array] = {}
        self.products: dict[int, tuple[Array, Array]] = {}

    def run(self, region: Region, args: tuple[Array, ...]) -> tuple[Array, ...]:
        """Evaluate a region; what its terminator gives."""
        for value, arg in zip(region.args, args, strict=True):
            self.values[value.id] = arg
        for op in region.ops:
            if op.name in ("yield", "condition", "continue"):
                return self.get(op.operands)
            for value, result in zip(op.results, self._results(op), strict=True):
                self.values[value.id] = result
        return ()

    def get(self, values: tuple[Value, ...]) -> tuple[Array, ...]:
        return tuple(self.values[v.id] for v in values)

    def _results(self, op: Op) -> tuple[Array, ...]:
        if op.name == "if":
            (condition,) = self.get(op.operands)
            arms = [self.run(region, ()) for region in op.regions]
            return tuple(_merge(condition, y, n) for y, n in zip(*arms, strict=True))
        if op.name == "while":
            return self._loop(op)
        return (self._simple(op),)

    def _loop(self, op: Op) -> tuple[Array, ...]:
        state = self.get(op.operands)
        while True:
            (going,) = self.run(op.regions[0], state)
            if not np.any(going):
                return state
            new = self.run(op.regions[1], state)
            state = tuple(_merge(going, n, old) for n, old in zip(new, state, strict=True))

    def _simple(self, op: Op) -> Array:
        kind = element_of(op.result.type)
        if op.name == "const":
            return _constant(op, kind)
        a = self.get(op.operands)
        match op.name:
            case "splat":
                return a[0]
            case "extract":
                return a[0][..., op.attr("lane")]
            case "convert":
                to_int = a[0].dtype.kind == "f" and kind.is_int
                return _to_int(a[0], kind.storage) if to_int else a[0].astype(kind.storage)
            case "bitcast":
                return np.asarray(a[0]).view(kind.storage)
            case "fma" if self.mode in ("fused", "contracted"):
                return _fma(*a)
            case "fma":
                product = _flushed(self.mode, _flushed(self.mode, a[0]) * _flushed(self.mode, a[1]))
                return _flushed(self.mode, product + _flushed(self.mode, a[2]))
            case "add" | "sub" | "mul" | "div" | "sqrt" if kind.is_float and self.mode == "flushed":
                return _flushed(self.mode, _OPS[op.name](*(_flushed(self.mode, v) for v in a)))
            case "div" | "sqrt" if self.mode == "loose":
                return _off(_OPS[op.name](*a), 2.5 if op.name == "div" else 3.0)
            case "mul" if kind.is_float:
                self.products[op.result.id] = (a[0], a[1])
            case "add" | "sub" if kind.is_float and self.mode == "contracted":
                return self._contracted(op, a)
        return _OPS[op.name](*a)

    def _contracted(self, op: Op, a: tuple[Array, ...]) -> Array:
        sign = -1 if op.name == "sub" else 1
        left, right = (self.products.get(v.id) for v in op.operands)
        if left is not None:
            return _fma(left[0], left[1], sign * a[1])
        if right is not None:
            return _fma(sign * right[0], right[1], a[0])
        return _OPS[op.name](*a)


def _flushed(mode: str, a: Array) -> Array:
    """The operand with 0 for denormals, in the mode of that name."""
    if mode != "flushed" or a.dtype.kind != "f":
        return a
    return np.where(np.abs(a) < np.finfo(a.dtype).tiny, np.copysign(np.zeros_like(a), a), a)


def _merge(condition: Array, yes: Array, no: Array) -> Array:
    if np.ndim(yes) > np.ndim(condition) > 0:
        condition = condition[..., None]
    return np.where(condition, yes, no)


def _constant(op: Op, kind: DType) -> Array:
    bits = op.attr("bits")
    if kind.is_bool:
        return np.asarray(bool(bits))
    return np.asarray([bits], f"u{kind.bytes}").view(kind.storage)[0]


def evaluate(op: str, *args: Array, mode: str = "unfused", type_: Type | None = None) -> Array:
    """`op` of numpy arrays through its expansion for type_ (by default the scalar of args[0])."""
    dtype = DTYPES[{"float32": "f32", "float64": "f64"}[args[0].dtype.name]]
    region, result = build(op, type_ or dtype)
    evaluation = Evaluation(mode)
    with np.errstate(all="ignore"):
        evaluation.run(region, args)
    return np.broadcast_to(evaluation.values[result.id], args[0].shape)
