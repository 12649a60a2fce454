"""What expressions of the kernel language compute, against Python and numpy."""

# ruff: noqa: E501  (tables of cases and kernel sources)

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.7, -3.7, 1e30, -1e-30, math.inf, -math.inf, math.nan]


def floats(rng: np.random.Generator, kind: type = np.float32) -> np.ndarray:
    some = rng.normal(scale=10.0, size=64 - len(SPECIAL))
    with np.errstate(over="ignore"):
        return np.concatenate([SPECIAL, some]).astype(kind)


def integers(rng: np.random.Generator, kind: type = np.int32) -> np.ndarray:
    info = np.iinfo(kind)
    edges = [0, 1, 2, 7, info.max, info.min, info.max - 1, info.min + 1]
    return np.concatenate([edges, rng.integers(-50 if info.min else 0, 50, 56)]).astype(kind)


def check(found: np.ndarray, expected: np.ndarray, ulp: float = 0.0) -> None:
    expected = np.asarray(expected).astype(found.dtype)
    if found.dtype == np.bool_:
        found, expected = found.astype(np.int8), expected.astype(np.int8)
    bound = ulp * np.spacing(np.abs(np.where(np.isfinite(expected), expected, 1)))
    with np.errstate(invalid="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        near = same | (np.abs(found - expected) <= bound)
    assert near.all(), list(zip(found[~near][:5], expected[~near][:5], strict=True))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_float_floor_division_and_remainder_are_numpys(
    kind: type, elementwise: Any, rng: Any
) -> None:
    a, b = floats(rng, kind), rng.permutation(floats(rng, kind))
    name = f"f{np.dtype(kind).itemsize * 8}"
    with np.errstate(all="ignore"):
        check(elementwise("a % b", name, a, b), np.mod(a, b))
        check(elementwise("a // b", name, a, b), np.floor_divide(a, b))
        check(elementwise("np.fmod(a, b)", name, a, b), np.fmod(a, b))


@pytest.mark.parametrize(
    ("kernel", "numpy"),
    [
        ("math.degrees(a)", np.degrees), ("np.deg2rad(a)", np.radians), ("np.square(a)", np.square),
        ("np.reciprocal(a)", np.reciprocal), ("np.sinc(a)", np.sinc), ("round(a)", np.rint),
        ("math.floor(a)", np.floor), ("np.fix(a)", np.trunc), ("abs(a)", np.abs), ("-a", np.negative),
        ("np.sign(a)", np.sign), ("a ** 2", lambda a: a**2), ("a ** 4", lambda a: a**4),
        ("math.modf(a)[0]", lambda a: np.modf(a)[0]), ("math.modf(a)[1]", lambda a: np.modf(a)[1]),
        ("np.frexp(a)[0]", lambda a: np.frexp(a)[0]), ("f32(np.frexp(a)[1])", lambda a: np.frexp(a)[1]),
        ("1.0 if np.signbit(a) else 0.0", np.signbit), ("select(isnan(a), 1.0, 0.0)", np.isnan),
        ("math.sqrt(abs(a)) + 1", lambda a: np.sqrt(np.abs(a)) + 1),
    ],
)  # fmt: skip
def test_unary_maths(kernel: str, numpy: Any, elementwise: Any, rng: Any) -> None:
    a = floats(rng)
    with np.errstate(all="ignore"):
        check(elementwise(kernel, "f32", a), numpy(a), ulp=4)


def test_denormals_in_frexp_and_nextafter(elementwise: Any) -> None:
    a = np.array([1e-40, -1e-42, 1.4e-45, 0.0, -0.0, 1.0] + [0.0] * 58, np.float32)
    check(elementwise("math.frexp(a)[0]", "f32", a), np.frexp(a)[0])
    check(elementwise("i32(math.frexp(a)[1])", "i32", a), np.frexp(a)[1])
    for to in ("1.0", "-1.0", "math.inf"):
        target = np.float32(eval(to))
        check(elementwise(f"np.nextafter(a, {to})", "f32", a), np.nextafter(a, target))


@pytest.mark.parametrize(
    ("kernel", "numpy"),
    [
        ("math.remainder(a, b)", np.vectorize(lambda a, b: _remainder(a, b))),
        ("np.maximum(a, b)", np.maximum), ("np.minimum(a, b)", np.minimum),
        ("max(a, b)", np.fmax), ("np.fmin(a, b)", np.fmin), ("np.copysign(a, b)", np.copysign),
        ("np.hypot(a, b)", np.hypot), ("np.arctan2(a, b)", np.arctan2),
        ("np.logaddexp(a, b)", np.logaddexp), ("np.logaddexp2(a, b)", np.logaddexp2),
        ("np.heaviside(a, b)", np.heaviside), ("np.where(a < b, a, b)", lambda a, b: np.where(a < b, a, b)),
        ("np.clip(a, -1.0, 1.0)", lambda a, b: np.where(np.isnan(a), -1, np.clip(a, -1, 1))),
        ("np.nextafter(a, b)", np.nextafter), ("a ** b", np.power),
    ],
)  # fmt: skip
def test_binary_maths(kernel: str, numpy: Any, elementwise: Any, rng: Any) -> None:
    a, b = floats(rng), rng.permutation(floats(rng))
    with np.errstate(all="ignore"):
        check(elementwise(kernel, "f32", a, b), numpy(a, b), ulp=6)


def _remainder(a: float, b: float) -> float:
    try:
        return math.remainder(a, b)
    except ValueError:
        return math.nan


@pytest.mark.parametrize(
    "kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32, np.uint64]
)
def test_integer_operators(kind: type, elementwise: Any, rng: Any) -> None:
    name = f"{'u' if np.dtype(kind).kind == 'u' else 'i'}{np.dtype(kind).itemsize * 8}"
    a, b = integers(rng, kind), rng.permutation(integers(rng, kind))
    width = np.dtype(kind).itemsize * 8
    wrap = np.dtype(kind)
    with np.errstate(all="ignore"):
        for op in ("+", "-", "*", "&", "|", "^"):
            check(elementwise(f"a {op} b", name, a, b), eval(f"a {op} b"))
    for op in ("//", "%"):
        fallback = (lambda p: p) if op == "//" else (lambda p: 0)
        expected = [
            eval(f"p {op} q") if q else fallback(p)
            for p, q in zip(a.tolist(), b.tolist(), strict=True)
        ]
        wrapped = np.array([e & ((1 << width) - 1) for e in expected], np.uint64).astype(
            f"u{width // 8}"
        )
        check(elementwise(f"a {op} b", name, a, b), wrapped.view(wrap))
    gcds = [math.gcd(p, q) for p, q in zip(a.tolist()[8:], b.tolist()[8:], strict=True)]
    found = elementwise("math.gcd(a, b)", name, a, b)[8:]
    fits = np.array(
        [
            abs(int(q)) <= np.iinfo(kind).max and g <= np.iinfo(kind).max
            for q, g in zip(b[8:], gcds, strict=True)
        ]
    )
    assert found[fits].tolist() == np.array(gcds, object)[fits].tolist()


def test_integer_power_wraps_and_truncates(elementwise: Any) -> None:
    a = np.array([2, -3, 0, 1, -1, -1, 5, 10, 7, 0], np.int32)
    b = np.array([10, 5, 0, -4, -3, -4, -1, 12, 1, 3], np.int32)
    expected = np.array([1024, -243, 1, 1, -1, 1, 0, 10**12, 7, 0]).astype(np.int32)
    check(elementwise("a ** b", "i32", a, b), expected)


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(0, 5, 1), (5, 0, 1), (0, 10, 3), (10, 0, -3), (-5, 6, 4), (3, 3, -1), (2**31 - 5, 2**31 - 1, 3),
     (-(2**31) + 2, -(2**31), -1), (-(2**31), 2**31 - 1, 2**30), (2**31 - 1, -(2**31), -(2**30)), (7, 9, 0)],
)  # fmt: skip
def test_ranges_count_as_pythons(low: int, high: int, step: int, load: Any, run: Any) -> None:
    module = load(
        "@kernel()\ndef dynamic(out: ReadWrite[i32], a: i32, b: i32, c: i32):\n    n = 0\n"
        "    for k in range(a, b, c):\n        n += 1\n        out[n] = k\n    out[0] = n\n"
        "@kernel()\ndef fixed(out: ReadWrite[i32], *, A: int, B: int, C: int):\n    n = 0\n"
        "    for k in range(A, B, C):\n        n += 1\n        out[n] = k\n    out[0] = n\n"
    )
    expected = list(range(low, high, step)) if step else []
    for fixed in (False, True):
        out = np.zeros(16, np.int32)
        if fixed and step:
            run(module.fixed, out, A=low, B=high, C=step)
        else:
            run(module.dynamic, out, low, high, step)
        assert out[1 : 1 + len(expected)].tolist() == expected
        assert out[0] == len(expected)


@pytest.mark.parametrize("rounding", ["nearest", "zero", "floor", "ceil"])
def test_narrowing_floats_rounds_as_stated(rounding: str, elementwise: Any, rng: Any) -> None:
    a = np.concatenate(
        [floats(rng), (rng.normal(size=200) * 10.0 ** rng.integers(-9, 6, 200)).astype(np.float32)]
    )
    found = elementwise(f"f32(convert(a, f16, rounding={rounding!r}))", "f32", a)
    with np.errstate(all="ignore"):
        near = a.astype(np.float16)
        wide = near.astype(np.float32)
        up, down = np.nextafter(near, np.float16(np.inf)), np.nextafter(near, np.float16(-np.inf))
        expected = {
            "nearest": near,
            "floor": np.where(wide > a, down, near),
            "ceil": np.where(wide < a, up, near),
            "zero": np.where(np.abs(wide) > np.abs(a), np.where(a > 0, down, up), near),
        }[rounding]
    check(found, expected.astype(np.float32))


@pytest.mark.parametrize("rounding", ["nearest", "zero", "floor", "ceil"])
def test_floats_become_integers_by_rounding_and_saturating(
    rounding: str, elementwise: Any, rng: Any
) -> None:
    a = np.concatenate([floats(rng), np.array([127.5, 128.4, -128.5, 254.5, 300.0], np.float32)])
    fn = {"nearest": np.rint, "zero": np.trunc, "floor": np.floor, "ceil": np.ceil}[rounding]
    whole = np.where(np.isnan(a), 0, fn(a))
    check(elementwise(f"convert(a, i8, rounding={rounding!r})", "i8", a), np.clip(whole, -128, 127))
    check(elementwise(f"convert(a, u8, rounding={rounding!r})", "u8", a), np.clip(whole, 0, 255))


def test_integers_wrap_or_saturate(elementwise: Any, rng: Any) -> None:
    a = integers(rng)
    check(elementwise("i8(a)", "i8", a), a.astype(np.int8))
    check(elementwise("convert(a, i8, saturate=True)", "i8", a), np.clip(a, -128, 127))
    check(elementwise("convert(a, u64, saturate=True)", "u64", a), np.clip(a, 0, None))
    check(
        elementwise("convert(u32(a), i32, saturate=True)", "i32", a),
        np.minimum(a.view(np.uint32), 2**31 - 1),
    )


def test_saturating_floats_stay_finite(elementwise: Any) -> None:
    a = np.array([1e6, -1e6, np.inf, np.nan, 1.0], np.float32)
    found = elementwise("f32(convert(a, f16, saturate=True))", "f32", a)
    check(found, np.array([65504, -65504, 65504, np.nan, 1], np.float32))


@pytest.mark.parametrize(
    "text",
    ["a < b < 3", "a if a > b else b", "(a > 0 and b > 0) or a == b", "not (a < b)", "a in (1, 2, 3)",
     "a not in (1, b)", "1 <= a <= b != 4", "(a > 0) ^ (b > 0)", "min(a, b, 3) + max((a, b))",
     "divmod(a, 7)[1] + abs(b)", "(lambda_ := a + 1) * lambda_", "1 if a > 0 else 0", "2 * (1 if a > 0 else 3)"],
)  # fmt: skip
def test_expressions_are_pythons(text: str, elementwise: Any, rng: Any) -> None:
    a, b = (rng.integers(-6, 6, 64).astype(np.int32) for _ in range(2))
    found = elementwise(f"r = {text}\ni32(r)", "i32", a, b)
    expected = [
        int(eval(text, {"a": p, "b": q})) for p, q in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert found.tolist() == expected


def test_weak_constants_take_the_type_of_what_they_meet(elementwise: Any, rng: Any) -> None:
    a = floats(rng, np.float64)[13:]
    body = "s = 0.1 if a > 0 else 0.2\nt = 0.0\nfor k in range(3):\n    t += a * 0.1\ns + t"
    with np.errstate(all="ignore"):
        t = (a * 0.1) + (a * 0.1) + (a * 0.1)
    check(elementwise(body, "f64", a), np.where(a > 0, 0.1, 0.2) + t)


def test_the_right_side_runs_only_when_needed(load: Any, run: Any) -> None:
    module = load(
        "@kernel(workgroup=lambda: 8)\ndef k(x: Read[f32], out: Write[i32]):\n    i = global_id(0)\n"
        "    if i < len(x) and x[i] > 0.0:\n        out[i] = 1\n    else:\n        out[i] = 2\n"
        "    if i >= len(x) or x[i] > 0.0:\n        out[i + 8] = 1\n    else:\n        out[i + 8] = 2\n"
        "    out[i + 16] = i32(x[i]) if i < len(x) else -1\n"
        "    out[i + 24] = 1 if 0 <= i < len(x) and 1.0 < x[i] < 3.0 else 0\n"
    )
    x, out = np.array([1, -1, 2], np.float32), np.zeros(32, np.int32)
    run(module.k, x, out)  # an access out of bounds would be a problem
    assert out[:8].tolist() == [1, 2, 1, 2, 2, 2, 2, 2]
    assert out[8:16].tolist() == [1, 2, 1, 1, 1, 1, 1, 1]
    assert out[16:24].tolist() == [1, -1, 2, -1, -1, -1, -1, -1]
    assert out[24:].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


def test_dot_products_bits_and_vectors(elementwise: Any, rng: Any) -> None:
    a, b = (rng.integers(0, 2**32, 64, dtype=np.uint32) for _ in range(2))
    lanes = [x.view(np.uint8).reshape(-1, 4).astype(np.int64) for x in (a, b)]
    check(elementwise("dot4(a, b, 7)", "u32", a, b), (lanes[0] * lanes[1]).sum(1) + 7)
    check(elementwise("mul_high(a, b)", "u32", a, b), (a.astype(np.uint64) * b) >> np.uint64(32))
    check(
        elementwise("np.bitwise_count(a) if False else popcount(a)", "u32", a),
        [int(x).bit_count() for x in a],
    )
    check(
        elementwise(
            "v = u32x4(a, b, 1, 2)\nv[1] = v.x\nshuffle(v, v, (1, 4))[0] + v.w", "u32", a, b
        ),
        a + np.uint32(2),
    )
    check(elementwise("bitcast(bitcast(a, f32), u32)", "u32", a), a)


def test_bool_values_and_buffers(elementwise: Any, rng: Any) -> None:
    a, b = (rng.integers(0, 2, 64).astype(np.bool_) for _ in range(2))
    check(elementwise("(a and not b) or (a == b)", "bool_", a, b), (a & ~b) | (a == b))
    check(elementwise("f32(a) + f32(True)", "f32", a), a.astype(np.float32) + 1)


def test_what_stands_behind_a_return_of_one_arm_runs_only_without_it(load: Any, run: Any) -> None:
    module = load(
        "@device\ndef f(a, b, log):\n    if a:\n        if b:\n            return 1\n"
        "    else:\n        return 2\n    log[0] = 5\n    log[1] = 6\n    return 3\n\n"
        "@kernel()\ndef k(given: Read[i32], log: ReadWrite[i32], out: Write[i32]):\n"
        "    out[0] = f(given[0] > 0, given[1] > 0, log)\n"
    )
    for a, b, expected in ((1, 1, [0, 0, 1]), (0, 1, [0, 0, 2]), (1, 0, [5, 6, 3])):
        log, out = np.zeros(2, np.int32), np.zeros(1, np.int32)
        run(module.k, np.array([a, b], np.int32), log, out)
        assert [*log, *out] == expected
