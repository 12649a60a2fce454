"""A fast evaluator of expanded IR over numpy arrays, one element per invocation.

It shares nothing with the interpreter, and evaluates in three ways: "unfused" computes fma as a
product and a sum, "fused" with one rounding, "contracted" fuses in addition every product that
feeds a sum or difference, as a compiler that may contract would.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gristmill.ir.builder import Builder
from gristmill.ir.core import Op, Region, Value
from gristmill.ir.dtypes import DType, Type, VectorType, element_of, i32, lanes_of
from gristmill.ir.maths import expand

Array = np.ndarray


def build(op: str, types: tuple[Type, ...], fused: bool = True) -> tuple[Region, Value]:
    """The expansion of `op` on operands of these types, as a region and its result."""
    builder = Builder()
    args = tuple(builder.value(t) for t in types)
    result = expand(builder, op, args, fused=fused)
    return Region(args, tuple(builder.ops)), result


def operand_types(op: str, dtype: Type) -> tuple[Type, ...]:
    from gristmill.ir.dtypes import with_element
    from gristmill.ir.ops import ROWS

    if op == "ldexp":
        return dtype, with_element(dtype, i32)
    return (dtype,) * ROWS[op].arity


def _fma(a: Array, b: Array, c: Array) -> Array:
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


def _to_int(a: Array, kind: np.dtype) -> Array:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    whole = np.trunc(np.where(np.isnan(a), 0, a))
    inside = (whole > float(low)) & (whole < float(high))
    result = np.where(inside, whole, 0).astype(kind)
    return np.where(whole >= float(high), kind.type(high), np.where(whole <= float(low), kind.type(low), result))


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
    assert a.dtype.kind == "u"
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b)).astype(a.dtype)


_OPS: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "abs": np.abs, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "shl": _shift(np.left_shift), "shr": _shift(np.right_shift), "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "select": np.where, "min": np.fmin, "max": np.fmax, "rint": np.rint,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sqrt": np.sqrt, "mod": _mod,
    "copysign": np.copysign, "mul_high": _mul_high,
}  # fmt: skip


class Evaluation:
    """Evaluates ops, region by region; `counts` is how often each op ran (constants apart)."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.values: dict[int, Array] = {}
        self.products: dict[int, tuple[Array, Array]] = {}

    def run(self, region: Region, args: tuple[Array, ...]) -> Op | None:
        for value, arg in zip(region.args, args, strict=True):
            self.values[value.id] = arg
        for op in region.ops:
            if op.name in ("yield", "condition", "continue"):
                return op
            self._one(op)
        return None

    def get(self, values: tuple[Value, ...]) -> tuple[Array, ...]:
        return tuple(self.values[v.id] for v in values)

    def _one(self, op: Op) -> None:
        if op.name == "if":
            results = self._branch(op)
        elif op.name == "while":
            results = self._loop(op)
        else:
            results = (self._simple(op),)
        for value, result in zip(op.results, results, strict=True):
            self.values[value.id] = result

    def _simple(self, op: Op) -> Array:
        kind = element_of(op.result.type)
        if op.name == "const":
            return _constant(op, kind)
        a = self.get(op.operands)
        if op.name == "splat":
            return a[0]
        if op.name == "convert":
            floats = a[0].dtype.kind == "f" and kind.is_int
            return _to_int(a[0], kind.storage) if floats else a[0].astype(kind.storage)
        if op.name == "bitcast":
            return np.asarray(a[0]).view(kind.storage)
        if op.name == "fma":
            return a[0] * a[1] + a[2] if self.mode == "unfused" else _fma(*a)
        if op.name == "mul" and kind.is_float and self.mode == "contracted":
            self.products[op.result.id] = (a[0], a[1])
        if op.name in ("add", "sub") and kind.is_float and self.mode == "contracted":
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

    def _branch(self, op: Op) -> tuple[Array, ...]:
        (condition,) = self.get(op.operands)
        arms = []
        for region in op.regions:
            end = self.run(region, ())
            assert end is not None
            arms.append(self.get(end.operands))
        return tuple(np.where(condition, y, n) for y, n in zip(*arms, strict=True))

    def _loop(self, op: Op) -> tuple[Array, ...]:
        state = self.get(op.operands)
        while True:
            end = self.run(op.regions[0], state)
            assert end is not None
            (going,) = self.get(end.operands)
            if not np.any(going):
                return state
            end = self.run(op.regions[1], state)
            assert end is not None
            state = tuple(np.where(going, new, old) for new, old in zip(self.get(end.operands), state, strict=True))


def _constant(op: Op, kind: DType) -> Array:
    bits = op.attr("bits")
    if kind.is_bool:
        return np.asarray(bool(bits))
    return np.asarray([bits], f"u{kind.bytes}").view(kind.storage)[0]


def evaluate(op: str, *args: Array, mode: str = "unfused") -> Array:
    """`op` of numpy arrays through its expansion."""
    names = {"float32": "f32", "float64": "f64"}
    from gristmill.ir.dtypes import DTYPES

    dtype = DTYPES[names[args[0].dtype.name]]
    region, result = build(op, operand_types(op, dtype))
    run = Evaluation(mode)
    with np.errstate(all="ignore"):
        run.run(region, args)
    return np.broadcast_to(run.values[result.id], args[0].shape)


def count_ops(op: str, dtype: Type, fused: bool = True) -> tuple[int, int]:
    """Ops of an expansion on its main path and inside branches and loops, constants apart."""
    region, _ = build(op, operand_types(op, dtype), fused)

    def count(r: Region) -> int:
        return sum(o.name not in ("const", "splat", "yield") for o in r.ops) + sum(
            count(i) for o in r.ops for i in o.regions
        )

    main = sum(o.name not in ("const", "splat") and not o.regions for o in region.ops)
    return main, count(region) - main


def vector_type(dtype: DType, lanes: int) -> Type:
    return VectorType(dtype, lanes) if lanes > 1 else dtype


__all__ = ["Evaluation", "build", "count_ops", "evaluate", "lanes_of", "operand_types", "vector_type"]
