"""8-bit floats in the language: what may be written, what it means, and what a refusal says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gristmill.ir.lang import Diagnostic
from gristmill.ir.lang.conversions import ROUNDINGS

NAMES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
LIMITS = {"f8e4m3": 448, "f8e5m2": 57344}
EVERY = np.arange(256, dtype=np.uint8)


def rounded(values: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(NAMES[name]).astype(np.float32)


@pytest.fixture
def numbers(rng: np.random.Generator) -> np.ndarray:
    found = [0, -0.0, 1, 448, 464, 464.1, 480, 1e9, 57344, 61439, 61440, 1e30, np.inf, np.nan, 1e-9]
    found += list(rng.normal(0, 1, 400) * 10.0 ** rng.integers(-6, 6, 400))
    both = np.array(found, np.float32)
    return np.concatenate([both, -both])


@pytest.mark.parametrize("name", NAMES)
def test_conversions_round_or_saturate(name: str, elementwise: Any, numbers: np.ndarray) -> None:
    found = elementwise(f"f32({name}(a))", "f32", numbers)
    np.testing.assert_array_equal(found, rounded(numbers, name))
    found = elementwise(f"f32(convert(a, {name}, saturate=True))", "f32", numbers)
    limit = LIMITS[name]
    np.testing.assert_array_equal(found, rounded(np.clip(numbers, -limit, limit), name))
    whole = np.array([0, 1, -1, 17, 448, 449, 500, -70000, 2**31 - 1, -(2**31)], np.int32)
    found = elementwise(f"f32(convert(a, {name}, saturate=True))", "f32", whole)
    clipped = np.clip(whole, -limit, limit).astype(np.float32)
    np.testing.assert_array_equal(found, rounded(clipped, name))


@pytest.mark.parametrize("name", NAMES)
def test_one_kind_becomes_the_other(name: str, elementwise: Any) -> None:
    other = next(n for n in NAMES if n != name)
    values = EVERY.view(NAMES[name]).astype(np.float32)
    found = elementwise(f"f32(convert(bitcast(a, {name}), {other}))", "f32", EVERY)
    np.testing.assert_array_equal(found, rounded(values, other))
    found = elementwise(f"f32(convert(bitcast(a, {name}), {other}, saturate=True))", "f32", EVERY)
    limit = LIMITS[other]
    np.testing.assert_array_equal(found, rounded(np.clip(values, -limit, limit), other))


@pytest.mark.parametrize("name", NAMES)
def test_values_are_moved_as_they_are(name: str, load: Callable[[str], Any], run: Any) -> None:
    module = load(
        f"""
T = {name}


@kernel(workgroup=lambda: 64)
def moved(x: Read[T], y: Write[T], z: Write[u8], n: T, *, SUBGROUP: int = 8):
    tile = workgroup_array(T, 64)
    own = private_array(T, 2)
    i = global_id(0)
    tile[local_id(0)] = x[i]
    own[i % 2] = T(1.5)
    barrier()
    both = vec(T, 2)(tile[63 - local_id(0)], own[i % 2])
    y[i] = select(i % 4 == 3, n, select(i % 4 == 2, both.y, both.x))
    z[i] = bitcast(subgroup_shuffle_xor(x[i], 1), u8)
"""
    )
    y, z = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    run(module.moved, EVERY, y, z, 3.0, grid=(4, 1, 1))
    turned = EVERY.reshape(4, 64)[:, ::-1].reshape(-1)
    i = np.arange(256)
    half, three = (np.array([v], np.float32).astype(NAMES[name]).view(np.uint8) for v in (1.5, 3))
    want = np.where(i % 4 == 3, three, np.where(i % 4 == 2, half, turned))
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z, EVERY[i ^ 1])


WRONG = {
    "x[0] + x[1]": "add: f8e4m3 is stored, moved and converted only: compute in another type",
    "-x[0]": "neg: f8e4m3 is stored",
    "T(max(x[0], x[1]))": "max: f8e4m3 is stored",
    "T(x[0] == x[1])": "eq: f8e4m3 is stored",
    "T(exp(x[0]))": "exp: f8e4m3 is stored",
    "x[0] * 2.0": "mul: f8e4m3 is stored",
    "T(isnan(x[0]))": "isnan: f8e4m3 is stored",
    "subgroup_add(x[0])": "f8e4m3 is stored",
    "convert(f32(x[0]), T, rounding='zero')": "f8e4m3 is rounded to nearest, not 'zero'",
    "f32(x[0])": "expected f8e4m3",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_computes_is_refused_at_its_line(line: str, load: Callable[[str], Any]) -> None:
    assert "zero" in ROUNDINGS
    module = load(
        "T = f8e4m3\n\n\n@kernel(workgroup=lambda: 32)\n"
        "def k(x: Read[T], y: Write[T], *, SUBGROUP: int = 32):\n"
        f"    y[0] = {line}\n"
    )
    with pytest.raises(Diagnostic) as caught:
        module.k.trace("s")
    assert WRONG[line] in caught.value.message
    assert f"y[0] = {line}" in str(caught.value)
