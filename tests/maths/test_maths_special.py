"""Special values: what C (annex F), IEEE 754 and Python's math give, without exceptions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maths_evaluation import evaluate

INF, NAN = math.inf, math.nan
PI = math.pi

UNARY = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (1e4, INF), (-1e4, 0.0)],
    "exp2": [(0.0, 1.0), (1.0, 2.0), (10.0, 1024.0), (-3.0, 0.125), (INF, INF), (-INF, 0.0),
             (NAN, NAN)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN), (-100.0, -1.0)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (-INF, NAN),
            (NAN, NAN)],
    "log2": [(1.0, 0.0), (8.0, 3.0), (0.25, -2.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN),
             (INF, INF), (NAN, NAN)],
    "log10": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (-INF, NAN),
              (NAN, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF), (-INF, NAN),
              (NAN, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (1e-30, 1.0)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0, PI / 2), (-1.0, -PI / 2), (1.5, NAN), (-INF, NAN),
             (NAN, NAN)],
    "acos": [(1.0, 0.0), (-1.0, PI), (0.0, PI / 2), (1.5, NAN), (INF, NAN), (NAN, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (NAN, NAN)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (1e4, INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN), (-1e4, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (40.0, 1.0)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-5.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (2.0, NAN), (-INF, NAN),
              (NAN, NAN)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (9.0, 1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (NAN, NAN), (40.0, 0.0)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (27.0, 3.0), (-8.0, -2.0), (INF, INF), (-INF, -INF),
             (NAN, NAN)],
    "gamma": [(0.0, INF), (-0.0, -INF), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (-1.0, NAN),
              (-7.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN), (500.0, INF), (-500.5, -0.0)],
    "lgamma": [(0.0, INF), (-0.0, INF), (1.0, 0.0), (2.0, 0.0), (-3.0, INF), (INF, INF),
               (-INF, INF), (NAN, NAN)],
    "rsqrt": [(1.0, 1.0), (4.0, 0.5), (0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN),
              (-INF, NAN), (NAN, NAN)],
}  # fmt: skip

POW = [
    (0.0, -3.0, INF), (-0.0, -3.0, -INF), (0.0, -2.0, INF), (-0.0, -2.0, INF), (-0.0, -2.5, INF),
    (0.0, -INF, INF), (-0.0, -INF, INF), (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0),
    (-0.0, 2.5, 0.0), (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (1.0, NAN, 1.0), (1.0, INF, 1.0),
    (1.0, -7.5, 1.0), (NAN, 0.0, 1.0), (INF, 0.0, 1.0), (-3.0, -0.0, 1.0), (-2.0, 0.5, NAN),
    (-2.0, 3.0, -8.0), (-2.0, -2.0, 0.25), (0.5, -INF, INF), (2.0, -INF, 0.0), (0.5, INF, 0.0),
    (2.0, INF, INF), (-0.5, INF, 0.0), (-2.0, INF, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0),
    (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, 0.5, INF), (INF, -1.0, 0.0), (INF, 1.0, INF),
    (NAN, 2.0, NAN), (2.0, NAN, NAN), (0.0, NAN, NAN), (INF, NAN, NAN), (NAN, INF, NAN),
    (2.0, 10.0, 1024.0), (9.0, 0.5, 3.0), (10.0, 2.0, 100.0), (-1.0, 3e30, 1.0), (2.0, 1e5, INF),
    (2.0, -1e5, 0.0), (-2.0, 1e30, INF), (0.5, 1e30, 0.0),
]  # fmt: skip

ATAN2 = [
    (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, PI), (-0.0, -0.0, -PI), (0.0, 1.0, 0.0),
    (-0.0, 1.0, -0.0), (0.0, -1.0, PI), (-0.0, -1.0, -PI), (1.0, 0.0, PI / 2), (1.0, -0.0, PI / 2),
    (-1.0, 0.0, -PI / 2), (-1.0, -0.0, -PI / 2), (1.0, INF, 0.0), (-1.0, INF, -0.0),
    (1.0, -INF, PI), (-1.0, -INF, -PI), (INF, 1.0, PI / 2), (-INF, 1.0, -PI / 2),
    (INF, INF, PI / 4), (INF, -INF, 3 * PI / 4), (-INF, INF, -PI / 4), (-INF, -INF, -3 * PI / 4),
    (NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, INF, NAN), (1.0, 1.0, PI / 4),
    (-1.0, -1.0, -3 * PI / 4),
]  # fmt: skip

HYPOT = [
    (3.0, 4.0, 5.0), (-5.0, 12.0, 13.0), (0.0, -0.0, 0.0), (INF, NAN, INF), (NAN, -INF, INF),
    (NAN, 1.0, NAN), (1.0, NAN, NAN), (0.0, 7.0, 7.0), (-INF, 2.0, INF),
]  # fmt: skip

FMOD = [
    (5.5, 2.0, 1.5), (-5.5, 2.0, -1.5), (5.5, -2.0, 1.5), (6.0, 3.0, 0.0), (-6.0, 3.0, -0.0),
    (0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (1.0, INF, 1.0), (-1.0, -INF, -1.0), (1.0, 0.0, NAN),
    (INF, 2.0, NAN), (NAN, 2.0, NAN), (2.0, NAN, NAN), (0.0, 0.0, NAN), (2.0, 5.0, 2.0),
]  # fmt: skip

KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])


def assert_same(op: str, args: tuple[float, ...], got: float, expected: float, kind: type) -> None:
    """Equal bits for 0, inf, NAN and whole numbers; else within 4 ulp."""
    text = f"{op}{args} in {kind.__name__}: got {got!r}, expected {expected!r}"
    wanted = kind(expected)
    if math.isnan(expected):
        assert math.isnan(got), text
    elif math.isinf(expected) or expected == math.floor(expected):
        assert got == wanted, text
        assert math.copysign(1, got) == math.copysign(1, expected), text
    else:
        assert abs(got - wanted) <= 4 * np.spacing(abs(wanted)), text


@KINDS
@pytest.mark.parametrize("op", sorted(UNARY))
def test_special_values(op: str, kind: type) -> None:
    x, expected = np.array(UNARY[op], kind).T
    for value, got, want in zip(x, evaluate(op, x.copy()), expected, strict=True):
        assert_same(op, (float(value),), got, float(want), kind)


@KINDS
@pytest.mark.parametrize(
    ("op", "table"), [("pow", POW), ("atan2", ATAN2), ("hypot", HYPOT), ("fmod", FMOD)]
)
def test_special_pairs(op: str, table: list[tuple[float, float, float]], kind: type) -> None:
    x, y, expected = (column.copy() for column in np.array(table, kind).T)
    for a, b, got, want in zip(x, y, evaluate(op, x, y), expected, strict=True):
        assert_same(op, (float(a), float(b)), got, float(want), kind)


@KINDS
def test_no_function_leaves_its_range(kind: type, rng: np.random.Generator) -> None:
    x = np.concatenate(
        [rng.uniform(-20, 20, 100_000), np.linspace(-1e-3, 1e-3, 1001), np.arange(1, 500) * PI / 2]
    )
    x = x.astype(kind)
    for op in ("sin", "cos", "tanh", "erf"):
        for mode in ("unfused", "fused"):
            assert np.abs(evaluate(op, x, mode=mode)).max() <= 1, f"{op} beyond 1, {mode}"
    assert evaluate("exp", x).min() >= 0
    assert evaluate("erfc", x).min() >= 0
    assert evaluate("cosh", x).min() >= 1


@KINDS
def test_odd_functions_are_odd_and_even_ones_even(kind: type, rng: np.random.Generator) -> None:
    x = (rng.uniform(0, 1, 20_000) ** 3 * 30).astype(kind)
    for op in ("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "cbrt"):
        assert np.array_equal(evaluate(op, -x), -evaluate(op, x), equal_nan=True), op
    for op in ("cos", "cosh"):
        assert np.array_equal(evaluate(op, -x), evaluate(op, x)), op


@KINDS
def test_gamma_of_small_whole_numbers_is_exact(kind: type) -> None:
    n = np.arange(1, 4 if kind is np.float32 else 8)
    assert [int(v) for v in evaluate("gamma", n.astype(kind))] == [math.factorial(k - 1) for k in n]
