"""Fixtures of single ops, and of what a planner makes of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ir.graph import GraphBuilder
from ...ir.graph.array import Array
from ...ir.graph.functions import apply, arange, concat, maximum, minimum, pad, scatter, take, where
from .fixture import EXACT, Bound, Fixture, Typed, Values, one
from .mutation import Drop, Mutation, Put, Respecialize, Swap

Rng = np.random.Generator
FUNCTION = Bound(8, relative=True)  # 4 ulp: no function of f32 errs by more (LANGUAGE.md)


def uniform(rng: Rng, *shape: int, low: float = -1.0, high: float = 1.0) -> Values:
    return rng.uniform(low, high, shape)


def dyadic(rng: Rng, *shape: int) -> Values:
    """Multiples of 1/8 up to 4, whose sums and products are exact in f32 and f16 hold them."""
    return rng.integers(-32, 33, shape) / 8


def fixture(
    name: str,
    outputs: Callable[..., Mapping[str, Array]],
    given: Callable[[Rng], Mapping[str, Values | Typed]],
    mutation: Mutation,
    bound: Bound = EXACT,
    weights: tuple[str, ...] = (),
) -> Fixture:
    """Of a function of arrays that gives outputs by name."""

    def build(g: GraphBuilder, **arrays: Array) -> None:
        for output, array in outputs(**arrays).items():
            g.output(output, array)

    return Fixture(name, one(build, given, weights=weights), bound, mutation)


def _each(*ops: str) -> Callable[..., Mapping[str, Array]]:
    """The results of ops of the same operands."""
    return lambda **arrays: {op: apply(op, *arrays.values()) for op in ops}


def _of(*names: str, **range_: float) -> Callable[[Rng], dict[str, Values | Typed]]:
    return lambda rng: {name: uniform(rng, 5, 67, **range_) for name in names}


def _integers(rng: Rng) -> dict[str, Values | Typed]:
    divisors = rng.integers(1, 9, (6, 33)) * rng.choice([-1, 1], (6, 33))
    return {"a": rng.integers(-99, 100, (6, 33), np.int32), "b": divisors.astype(np.int32)}


def _shifts(rng: Rng) -> dict[str, Values | Typed]:
    shifts = rng.integers(0, 32, (6, 33), np.int32)
    return {"a": rng.integers(-(2**31), 2**31, (6, 33), np.int64).astype(np.int32), "b": shifts}


def _special(rng: Rng) -> dict[str, Values | Typed]:
    a, b = dyadic(rng, 4, 33), dyadic(rng, 4, 33)
    a[0, :3], b[0, 3:6], a[1, 1], b[1, 1] = np.nan, np.nan, np.inf, -np.inf
    return {"a": a, "b": b}


def _casts(rng: Rng) -> dict[str, Values | Typed]:
    x = uniform(rng, 3, 37, low=-300, high=300)
    x[0, :4] = np.nan, np.inf, -np.inf, 1e30
    wide = rng.integers(-(2**31), 2**31, (3, 37), np.int64).astype(np.int32)
    return {"x": x, "n": wide, "h": Typed(uniform(rng, 3, 37), "f16"), "b": x > 0}


def _cast_all(x: Array, n: Array, h: Array, b: Array) -> dict[str, Array]:
    finite = where(apply("isnan", x) | apply("isinf", x), 0.0, x)
    return {
        **{f"x_{t}": x.cast(t) for t in ("f16", "bf16", "i32", "i8")},
        **{f"n_{t}": n.cast(t) for t in ("i8", "u32", "i64", "bool")},
        "h_f32": h.cast("f32"),
        "b_i32": b.cast("i32"),
        "f8": finite.cast("f8e4m3"),
    }


def _moved(x: Array, b: Array, h: Array) -> dict[str, Array]:
    return {
        "transposed": x.transpose(2, 0, 1),
        "column": b[:, None].broadcast_to(3, 4, 5),
        "part": x[1:, ::2, 1:4],
        "both": concat([x, x[:, :2]], 1),
        "padded": pad(x, [(1, 0), (0, 2), (2, 1)], -1.5),
        "halves": h.T,
        "counted": arange(x, 9),
    }


def _movement(rng: Rng) -> dict[str, Values | Typed]:
    half = Typed(uniform(rng, 7, 9), "f16")
    return {"x": uniform(rng, 4, 6, 5), "b": uniform(rng, 4), "h": half}


def _rows_and_places(rng: Rng) -> dict[str, Values | Typed]:
    return {
        "x": dyadic(rng, 9, 20),
        "rows": rng.permutation(9)[:4].astype(np.int32),
        "new": dyadic(rng, 4, 20),
        "twice": np.array([3, -1, 3, 8], np.int32),
        "some": np.array([3, -1, 0, -1], np.int32),
    }


def _indexed(x: Array, rows: Array, new: Array, twice: Array, some: Array) -> dict[str, Array]:
    return {
        "columns": scatter(x.T, some, new.T, 1),
        "some": scatter(x, some, new),
        "set": scatter(x, rows, new),
        "added": scatter(x, twice, new, kind="add"),
        "x": x,  # it is not written to
    }


def _reduced(x: Array) -> dict[str, Array]:
    return {
        "rows": x.sum(2),
        "columns": x.sum(0),
        "mean": x.mean((0, 2)),
        "product": (x * 0.25 + 1.0).prod(2),
    }


def _places(x: Array) -> dict[str, Array]:
    return {
        "max": x.max(1),
        "min": x.min(0),
        "argmax": x.argmax(1),
        "argmin": x.argmin(0),
    }


def _with_nan(rng: Rng) -> dict[str, Values | Typed]:
    x = dyadic(rng, 6, 41)
    x[2, 5] = x[0, :] = np.nan
    return {"x": x}


def _running(x: Array) -> dict[str, Array]:
    back: Any = {"kind": "sum", "exclusive": True, "reverse": True}
    return {"sum": x.cumsum(1), "back": apply("cumulative", x, axis=0, **back)}


def _products(a: Array, b: Array, w: Array) -> dict[str, Array]:
    return {"batch": a @ b, "weight": a[0] @ w, "transposed": a[0].T @ a[0]}


def _matrices(rng: Rng) -> dict[str, Values | Typed]:
    return {"a": uniform(rng, 2, 16, 33), "b": uniform(rng, 2, 33, 16), "w": uniform(rng, 33, 24)}


def _compared(a: Array, b: Array) -> dict[str, Array]:
    found = {op: apply(op, a, b) for op in ("eq", "ne", "lt", "le", "gt", "ge")}
    return {
        **found,
        "nan": apply("isnan", a),
        "infinite": apply("isinf", a),
        "chosen": where(a < b, a, b * 2.0),
        "greater": maximum(a, b),
        "less": minimum(a, b),
    }


ADD = Respecialize("binary", "add_f32", "sub_f32")
ELEMENTWISE = (
    fixture("arithmetic", _each("add", "sub", "mul"), _of("a", "b"), ADD, Bound(1, relative=True)),
    fixture(
        "division", _each("div"), _of("a", "b", low=0.5, high=2), Swap("binary", 0, 1), FUNCTION
    ),
    fixture(
        "powers",
        _each("pow"),
        _of("a", "b", low=0.5, high=2),
        Respecialize("binary", "pow_f32", "mul_f32"),
        FUNCTION,
    ),
    fixture(
        "roundings",
        _each("floor", "ceil", "rint", "abs", "neg", "sign"),
        _of("x", low=-9, high=9),
        Respecialize("unary", "rint_f32", "floor_f32"),
    ),
    fixture(
        "exponentials",
        _each("exp", "expm1", "sinh", "cosh", "tanh", "erf"),
        _of("x", low=-3, high=3),
        Respecialize("unary", "exp_f32", "cosh_f32"),
        FUNCTION,
    ),
    fixture(
        "roots and logarithms",
        _each("sqrt", "rsqrt", "log"),
        _of("x", low=0.1, high=9),
        Respecialize("unary", "sqrt_f32", "log_f32"),
        FUNCTION,
    ),
    fixture(
        "trigonometry",
        _each("sin", "cos", "tan", "asin", "acos", "atan"),
        _of("x", low=-0.99, high=0.99),
        Respecialize("unary", "sin_f32", "asin_f32"),
        FUNCTION,
    ),
    fixture(
        "integers",
        _each("add", "sub", "mul", "floordiv", "mod", "max", "min", "and", "or", "xor"),
        _integers,
        Swap("binary", 0, 1),
    ),
    fixture("shifts", _each("shl", "shr"), _shifts, Respecialize("binary", "shl_i32", "shr_i32")),
    fixture("casts", _cast_all, _casts, Drop("cast")),
    fixture("comparison and choice", _compared, _special, Swap("where", 1, 2)),
)

MOVEMENT = (
    fixture("movement", _moved, _movement, Put("copy_strided", -1, 1)),
    fixture(
        "gather",
        lambda x, rows, n: {"rows": take(x, rows), "columns": take(x, rows, 1), "n": take(n, rows)},
        lambda rng: {
            "x": uniform(rng, 9, 20),
            "rows": rng.integers(0, 9, 7, np.int32),
            "n": rng.integers(-99, 99, (9, 5), np.int32),
        },
        Put("take", -1, 1),
    ),
    fixture("scatter", _indexed, _rows_and_places, Drop("scatter_last")),
)

ROWS = (
    fixture(
        "reductions",
        _reduced,
        lambda rng: {"x": uniform(rng, 7, 3, 45)},
        Respecialize("reduce_rows", "sum_f32", "mean_f32"),
        Bound(7 * 45 + 2, magnitude=7 * 45 / 2),
    ),
    fixture("extremes", _places, _with_nan, Respecialize("reduce_rows", "min_f32", "max_f32")),
    fixture(
        "running sums",
        _running,
        lambda rng: {"x": uniform(rng, 5, 70)},
        Put("scan_rows", -2, 1),
        Bound(70, magnitude=70 / 2),
    ),
    fixture(
        "matmul",
        _products,
        _matrices,
        Swap("matmul", 0, 1),
        Bound(33 + 1, magnitude=33 / 2),
        weights=("w",),
    ),
)


def _exchange(g: GraphBuilder, x: Array) -> None:
    a, b = (g.state(name, "f32", (4, 3)) for name in "ab")
    g.output("old", a + 0.0)
    g.commit(b, a + x)
    g.commit(a, b)  # what b was


def _donated(g: GraphBuilder, x: Array, places: Array) -> None:
    """A state that is updated where it lies, and one that is made anew from it."""
    table, total = g.state("table", "f32", (8, 4)), g.state("total", "f32", (4,))
    new = scatter(table, places, x)
    g.output("sum", new.sum(0))
    g.commit(table, new, donates=True)
    g.commit(total, total + x.sum(0))


def _kept(g: GraphBuilder, x: Array, places: Array) -> None:
    """The old content of a state is read behind its update: it is not made in place."""
    table = g.state("table", "f32", (8, 4))
    new = scatter(table, places, x)
    g.output("old", (table * 2.0).sum(1))
    g.commit(table, new)


def _placed(rng: Rng) -> dict[str, Values | Typed]:
    return {"x": dyadic(rng, 3, 4), "places": rng.permutation(8)[:3].astype(np.int32)}


STATES = (
    Fixture(
        "states exchanged",
        one(_exchange, lambda rng: {"x": dyadic(rng, 4, 3)}, steps=4),
        EXACT,
        Drop("copy_strided"),
    ),
    Fixture("state in place", one(_donated, _placed, steps=4), EXACT, Drop("scatter_rows")),
    Fixture("state kept", one(_kept, _placed, steps=3), EXACT, Drop("copy_strided")),
)

PRIMITIVES = (*ELEMENTWISE, *MOVEMENT, *ROWS, *STATES)
