"""The numpy meanings of ops against plain Python, on edge values and random ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from gristmill.fuzz import scalar_ops as ops
from gristmill.ir.dtypes import (
    COMPUTED,
    DTYPES,
    DType,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    u8,
    u32,
    u64,
)
from gristmill.ir.ops import ROWS, meaning

INTS = [t for t in COMPUTED.values() if t.is_int]
FLOATS = [t for t in COMPUTED.values() if t.is_float]


def array(values: Sequence[Any], t: DType) -> np.ndarray:
    """Values in register form."""
    return np.array(values, np.float32 if t.name == "bf16" else t.storage)


def edges(t: DType, rng: np.random.Generator) -> list[Any]:
    """Values of type `t` at which something may go wrong, and some random ones."""
    if t.is_bool:
        return [False, True]
    words = [int(n) for n in rng.integers(0, 1 << 63, 12)]
    if t.is_int:
        near = [1 << n for n in (7, 8, 15, 16, 31, 32, 53, 62, 63)]
        values = [0, 1, 2, 3, t.min, t.max, t.min + 1, t.max - 1, *words]
        values += [sign * (n + d) for n in near for d in (-1, 0, 1) for sign in (1, -1)]
        return sorted({ops.wrap(n * 2 + n % 2 if n > 1 << 60 else n, t) for n in values})
    values = [0.0, 1.0, 0.5, 1.5, 2.5, 3.75, 127.5, 255.5, 65504.0, 65520.0, 2.0**31, 2.0**63]
    values += [
        2.0**64,
        1e-7,
        2.0**-24,
        2.0**-25,
        1 / 3,
        2.0**-149,
        2.0**-133,
        3e38,
        1e300,
        math.inf,
    ]
    values += [float(n) * 2.0 ** float(rng.integers(-90, 20)) for n in words]
    values = [ops.nearest(v, t) for v in values]
    return [math.nan, *values, *(-v for v in values)]


def same(got: Any, expected: Any) -> bool:
    return got == expected or (got != got and expected != expected)


def check(got: np.ndarray, expected: list[Any], *operands: Sequence[Any]) -> None:
    wrong = [
        (tuple(o[n] for o in operands), g, e)
        for n, (g, e) in enumerate(zip(got.tolist(), expected, strict=True))
        if not same(g, e)
    ]
    assert not wrong, f"(operands, got, expected): {wrong[:5]} and {len(wrong) - 5} more"


def apply(name: str, t: DType, out: DType, *operands: Sequence[Any]) -> np.ndarray:
    fn = ROWS[name].meaning
    assert fn is not None
    result = fn(*(array(o, t) for o in operands), out=out)
    return meaning.round_bf16(result) if out.name == "bf16" else result


def tuples(values: list[Any], arity: int) -> list[list[Any]]:
    """All combinations, one list per operand."""
    if arity == 1:
        return [values]
    return [[a for a in values for _ in values], [b for _ in values for b in values]]


@pytest.mark.parametrize("name", ops.INT)
def test_integer_op_equals_python(name: str, rng: np.random.Generator) -> None:
    for t in INTS:
        operands = tuples(edges(t, rng), ROWS[name].arity)
        expected = [ops.elementwise(name, t, *row) for row in zip(*operands, strict=True)]
        check(apply(name, t, t, *operands), expected, *operands)


@pytest.mark.parametrize("name", ops.FLOAT)
def test_float_op_equals_exact_arithmetic(name: str, rng: np.random.Generator) -> None:
    for t in FLOATS:
        operands = tuples(edges(t, rng), ROWS[name].arity)
        expected = [ops.elementwise(name, t, *row) for row in zip(*operands, strict=True)]
        check(apply(name, t, t, *operands), expected, *operands)


@pytest.mark.parametrize("name", ops.COMPARE)
def test_comparison_equals_python(name: str, rng: np.random.Generator) -> None:
    for t in FLOATS if name.startswith("is") else [*INTS, *FLOATS]:
        operands = tuples(edges(t, rng), ROWS[name].arity)
        expected = [ops.COMPARE[name](*row) for row in zip(*operands, strict=True)]
        check(apply(name, t, DTYPES["bool"], *operands), expected, *operands)


@pytest.mark.parametrize("source", COMPUTED)
@pytest.mark.parametrize("target", COMPUTED)
def test_conversion_rounds_once_wraps_and_saturates(
    source: str, target: str, rng: np.random.Generator
) -> None:
    s, t = DTYPES[source], DTYPES[target]
    values = edges(s, rng)
    if s.bits == 64 and s.is_int:  # halfway between two values of a narrow float, and next to it
        values += [
            ops.wrap(n + d, s) for n in (2049 << 40, 257 << 50, (1 << 53) + 1) for d in (-1, 0, 1)
        ]
    if s == f64 and t.is_float:
        middles = [1 + 2.0**-9, 1 + 2.0**-12, 1 + 2.0**-25, 3e-39]
        values += [x for v in middles for x in (v, math.nextafter(v, 2), math.nextafter(v, 0))]
    got = meaning.convert(array(values, s), out=t)
    check(got, [ops.convert(v, s, t) for v in values], values)


@pytest.mark.parametrize(
    ("name", "t", "operands", "expected"),
    [
        ("mod", i32, (-(1 << 31), -1), 0),
        ("floordiv", i32, (-(1 << 31), -1), -(1 << 31)),
        ("floordiv", i8, (-7, 2), -4),
        ("mod", i8, (-7, 2), 1),
        ("floordiv", u8, (200, 0), 200),
        ("mod", u8, (200, 0), 0),
        ("shl", i32, (1, 33), 2),
        ("shr", i64, (-1, 127), -1),
        ("shr", u64, ((1 << 64) - 1, 63), 1),
        ("abs", i8, (-128,), -128),
        ("clz", u64, (0,), 64),
        ("ctz", i8, (0,), 8),
        ("mul_high", u64, ((1 << 64) - 1, (1 << 64) - 1), (1 << 64) - 2),
        ("mul_high", i64, (-(1 << 63), -(1 << 63)), 1 << 62),
        ("reverse_bits", u32, (1,), 1 << 31),
    ],
)
def test_stated_edge_of_an_op(name: str, t: DType, operands: tuple, expected: int) -> None:
    assert apply(name, t, t, *([o] for o in operands)).tolist() == [expected]


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.meaning])
def test_meaning_takes_zero_dimensional_arrays(name: str) -> None:
    row = ROWS[name]
    for t in (i8, u64, f16, f32):
        kinds = {"dot4": (i32,) * 3, "ldexp": (f32, i32), "select": (DTYPES["bool"], t, t)}
        types = kinds.get(name, (t,) * row.arity)
        values = [np.array(1, d.storage) for d in types]
        assert row.meaning is not None
        try:
            result = row.meaning(*values, out=types[-1] if name != "ldexp" else f32)
        except TypeError:
            assert t.is_float or name not in ops.INT  # numpy refuses what the type rule refuses
            continue
        assert isinstance(result, np.ndarray), name
        assert result.shape == (), name


def exact_fma(a: float, b: float, c: float, t: DType) -> float:
    if not all(map(math.isfinite, (a, b))):
        return a * b + c
    if not math.isfinite(c):
        return c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    return math.fsum([a * b, c]) if total == 0 else ops.nearest(total, t)


@pytest.mark.parametrize("t", [f16, f32, f64], ids=str)
def test_fma_rounds_once(t: DType, rng: np.random.Generator) -> None:
    base = edges(t, rng)
    a, b, c = ([base[int(n)] for n in rng.integers(0, len(base), 3000)] for _ in range(3))
    near = [
        ops.nearest(-x * y, t) if math.isfinite(x * y) else 1.0 for x, y in zip(a, b, strict=True)
    ]
    a, b, c = a + a, b + b, c + near  # heavy cancellation
    expected = [exact_fma(*row, t) for row in zip(a, b, c, strict=True)]
    check(apply("fma", t, t, a, b, c), expected, a, b, c)


def test_fma_whose_product_overflows_f64_still_takes_the_infinity_of_the_sum() -> None:
    assert apply("fma", f64, f64, [1e200], [1e200], [-math.inf]).tolist() == [-math.inf]


def test_dot4_signs_follow_each_word_and_the_sum_wraps(rng: np.random.Generator) -> None:
    for a_type, b_type in ((i32, i32), (u32, u32), (i32, u32), (u32, i32)):
        t = u32 if (a_type, b_type) == (u32, u32) else i32
        a, b, c = edges(a_type, rng), edges(b_type, rng), edges(t, rng)
        size = min(map(len, (a, b, c)))
        a, b, c = a[:size], b[:size], c[:size]
        got = meaning.dot4(array(a, a_type), array(b, b_type), array(c, t), out=t)
        expected = [ops.dot4(x, a_type, y, b_type, z, t) for x, y, z in zip(a, b, c, strict=True)]
        check(got, expected, a, b, c)


def test_ldexp_rounds_once_down_to_denormals() -> None:
    x = np.array([1.5, 1 + 2**-23, -3.0, math.inf, 1.0, 1.0], np.float32)
    n = np.array([-149, -130, 200, 5, 10000, -10000], np.int32)
    got = meaning.ldexp(x, n, out=f32).tolist()
    expected = [ops.nearest(Fraction(3, 2) / 2**149, f32)]
    expected += [ops.nearest(Fraction(1 + 2**-23) / 2**130, f32), -math.inf, math.inf, math.inf, 0]
    assert got == expected


def test_lgamma_and_gamma_at_their_poles() -> None:
    x = np.array([0.0, -0.0, -1.0, -math.inf, math.inf, 1000.0])
    assert meaning.lgamma(x, out=f64).tolist()[:5] == [math.inf] * 5
    gamma = meaning.gamma(x, out=f64).tolist()
    assert gamma[:2] == [math.inf, -math.inf]
    assert math.isnan(gamma[2])
    assert math.isnan(gamma[3])
    assert gamma[4:] == [math.inf, math.inf]


def test_lgamma_of_f64_is_good_at_its_zeros_as_well(rng: np.random.Generator) -> None:
    near = [1 + s * 2.0**-n for n in range(2, 53, 3) for s in (1, -0.5)]
    spans = ((1e-9, 0.5), (0.5, 1.25), (1.25, 2.5), (2.5, 8), (8, 100))
    values = [*near, *(2 * v for v in near), *(v for s in spans for v in rng.uniform(*s, 40))]
    got = meaning.lgamma(np.array([*values, 1, 2]), out=f64).tolist()
    assert got[-2:] == [0, 0]
    with mpmath.workprec(200):
        for x, found in zip(values, got, strict=False):
            exact = mpmath.loggamma(mpmath.mpf(x))
            assert abs(exact - found) <= 3 * math.ulp(float(exact)), x


def test_bf16_takes_every_f32_to_the_nearest(rng: np.random.Generator) -> None:
    words = rng.integers(0, 1 << 32, 5000, dtype=np.uint32)
    words[::2] &= 0xFFFF0000
    words[::4] |= 0x8000  # ties
    values = words.view(np.float32)
    check(
        meaning.round_bf16(values),
        [ops.nearest(v, bf16) for v in values.tolist()],
        values.tolist(),
    )


UNARY_MATHS = [
    *("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan"),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "cbrt", "gamma", "lgamma"),
]


def python_maths(name: str, *x: float) -> float:
    """Python's math, with C's results where Python raises."""
    if name == "rsqrt":
        return math.inf if x[0] == 0 else 1 / math.sqrt(x[0]) if x[0] > 0 else math.nan
    if name in ("log", "log2", "log10") and x[0] == 0:
        return -math.inf
    if name == "gamma" and x[0] == 0:
        return math.copysign(math.inf, x[0])
    if name == "lgamma" and x[0] <= 0 and x[0] == int(x[0]):
        return math.inf
    try:
        return getattr(math, name)(*x)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


@pytest.mark.parametrize("name", [*UNARY_MATHS, "rsqrt", "atan2", "hypot", "fmod", "pow"])
def test_maths_is_that_of_python_rounded_to_f32(name: str, rng: np.random.Generator) -> None:
    arity = ROWS[name].arity
    values = [
        0.0,
        0.5,
        0.25,
        1.5,
        2.0,
        10.0,
        33.25,
        *rng.uniform(-1, 1, 20),
        *rng.uniform(-9, 9, 9),
    ]
    values = [ops.nearest(float(v), f32) for v in values]
    operands = tuples(values, arity)
    got = apply(name, f32, f32, *operands).astype(np.float64)
    exact = [python_maths(name, *row) for row in zip(*operands, strict=True)]
    if name == "pow":  # C gives an infinity for 0 ** -n
        exact = [
            math.inf if a == 0 and b < 0 else e
            for (a, b), e in zip(zip(*operands, strict=True), exact, strict=True)
        ]
    expected = np.array([ops.nearest(e, f32) for e in exact])
    np.testing.assert_allclose(got, expected, rtol=2**-23, atol=2.0**-149)
