"""Eight-bit and bfloat16 formats of the AMD emulator, against the formats' own definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from amdgpu_emulator import narrow

LAYOUTS = (narrow.E4M3, narrow.E5M2, narrow.E4M3_FNUZ, narrow.E5M2_FNUZ)
# Largest, smallest normal and smallest value of each, from the OCP specification and the FNUZ
# paper's tables.
LIMITS = {
    "e4m3": (448.0, 2.0**-6, 2.0**-9),
    "e5m2": (57344.0, 2.0**-14, 2.0**-16),
    "e4m3fnuz": (240.0, 2.0**-7, 2.0**-10),
    "e5m2fnuz": (57344.0, 2.0**-15, 2.0**-17),
}


def nearest(value: float, layout: narrow.Float8) -> float:
    """The representable value nearest to a finite one, ties to the even code; unbounded above."""
    bias, bits = layout.bias, layout.mantissa
    exponent = max(math.frexp(value)[1] - 1, 1 - bias) if value else 1 - bias
    step = Fraction(2) ** (exponent - bits)
    return float(round(Fraction(value) / step) * step)  # round() takes ties to even


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_limits(layout: narrow.Float8) -> None:
    value = narrow.values(layout)
    finite = np.sort(value[np.isfinite(value) & (value > 0)])
    largest, normal, smallest = LIMITS[layout.name]
    assert finite[-1] == largest
    assert finite[0] == smallest
    assert finite[(1 << layout.mantissa) - 1] == normal
    assert np.isnan(value).sum() == {"fn": 2, "ieee": 6, "fnuz": 1}[layout.style]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_code_survives(layout: narrow.Float8) -> None:
    value = narrow.values(layout)
    back = narrow.encode8(value, layout, saturate=False)
    numbers = ~np.isnan(value)
    np.testing.assert_array_equal(back[numbers], np.arange(256)[numbers])
    assert np.isnan(narrow.decode8(back[~numbers], layout)).all()


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_rounds_to_nearest_even(layout: narrow.Float8) -> None:
    largest = LIMITS[layout.name][0]
    steps = narrow.values(layout)[:128].astype(np.float64)
    steps = steps[np.isfinite(steps)]
    middles = (steps[1:] + steps[:-1]) / 2
    rng = np.random.default_rng(3)
    given = np.concatenate([middles, np.nextafter(middles.astype(np.float32), 0), steps])
    given = np.concatenate([given, rng.uniform(0, largest, 300), 2.0 ** rng.uniform(-20, 7.8, 300)])
    given = np.concatenate([given, -given]).astype(np.float32)
    got = narrow.decode8(narrow.encode8(given, layout, saturate=False), layout)
    wanted = [nearest(float(v), layout) for v in given]
    np.testing.assert_array_equal(got, np.array(wanted, np.float32))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_overflow(layout: narrow.Float8) -> None:
    largest = LIMITS[layout.name][0]
    given = np.array([largest * 2, -largest * 2, np.inf, -np.inf], np.float32)
    wrapped = narrow.decode8(narrow.encode8(given, layout, saturate=False), layout)
    clamped = narrow.decode8(narrow.encode8(given[:2], layout, saturate=True), layout)
    if layout.style == "ieee":
        np.testing.assert_array_equal(wrapped, [np.inf, -np.inf, np.inf, -np.inf])
    else:
        assert np.isnan(wrapped).all()
    np.testing.assert_array_equal(clamped, [largest, -largest])


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_halfway_beyond_the_largest_value(layout: narrow.Float8) -> None:
    """A tie between the largest value and what would follow it goes to the even code."""
    tie = {"e4m3": 464.0, "e5m2": 61440.0, "e4m3fnuz": 248.0, "e5m2fnuz": 61440.0}[layout.name]
    below = np.nextafter(np.float32(tie), np.float32(0))
    at, under = narrow.decode8(
        narrow.encode8(np.array([tie, below]), layout, saturate=False), layout
    )
    largest = LIMITS[layout.name][0]
    assert under == largest
    assert (at == largest) == (layout.name == "e4m3")  # the one whose last code is even


def test_bf16_rounds_to_nearest_even() -> None:
    exact = np.array([1.0, -2.5, np.inf, -np.inf, 0.0, -0.0, 1e-40], np.float32)
    np.testing.assert_array_equal(narrow.from_bf16(narrow.to_bf16(exact))[:6], exact[:6])
    step = 2.0**-7
    given = np.array([1 + step / 2, 1 + 1.5 * step, 1 + step / 2 + 2**-20], np.float32)
    wanted = np.array([1.0, 1 + 2 * step, 1 + step], np.float32)
    np.testing.assert_array_equal(narrow.from_bf16(narrow.to_bf16(given)), wanted)
    odd_nan = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(narrow.from_bf16(narrow.to_bf16(odd_nan))).all()
