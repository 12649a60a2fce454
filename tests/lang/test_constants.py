"""Functions of constants have the same bits on every host: no C library is asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from gristmill.ir.lang import constants
from gristmill.ir.text import print_kernel

NAMES = {
    "exp": (-740, 709), "exp2": (-1070, 1023), "expm1": (-40, 709), "sinh": (-700, 700),
    "cosh": (-700, 700), "tanh": (-20, 20), "log": (0, 1e300), "log2": (0, 1e300),
    "log10": (0, 1e300), "log1p": (-1, 1e300), "sin": (-1e22, 1e22), "cos": (-1e22, 1e22),
    "tan": (-1e3, 1e3), "asin": (-1, 1), "acos": (-1, 1), "atan": (-1e9, 1e9),
    "asinh": (-1e9, 1e9), "acosh": (1, 1e9), "atanh": (-1, 1), "cbrt": (-1e9, 1e9),
}  # fmt: skip


def nearest(exact: mpmath.mpf) -> float:
    """Rounded once: mpmath itself rounds a denormal a second time."""
    sign, mantissa, exponent, _ = exact._mpf_
    return float(Fraction(int(mantissa)) * Fraction(2) ** exponent) * (-1 if sign else 1)


def reference(name: str, x: float) -> float:
    if name == "cbrt":
        return math.copysign(nearest(mpmath.cbrt(abs(mpmath.mpf(x)))), x)
    if name in ("exp2", "log2", "log10"):
        base = mpmath.mpf(2 if "2" in name else 10)
        return nearest(base ** mpmath.mpf(x) if name == "exp2" else mpmath.log(mpmath.mpf(x), base))
    return nearest(getattr(mpmath, name)(mpmath.mpf(x)))


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_is_rounded_correctly(name: str, rng: np.random.Generator) -> None:
    low, high = NAMES[name]
    numbers = [
        *rng.uniform(low, high, 40),
        *np.float32(rng.uniform(max(low, -3), min(high, 3), 40)),
    ]
    numbers += [
        s * 10.0**-k for k in (1, 5, 9, 30, 300) for s in (1, -1) if low < s * 10.0**-k < high
    ]
    function = constants.function(name)
    assert function is not None
    with mpmath.workprec(4000):
        for x in map(float, numbers):
            assert function(x) == reference(name, x), x


@pytest.mark.parametrize(
    ("name", "args", "value"),
    [
        ("exp", (0.0,), 1.0),
        ("exp", (1.0,), math.e),
        ("exp", (-2000.0,), 0.0),
        ("exp", (5e-324,), 1.0),
        ("exp2", (-1074.0,), 5e-324),
        ("expm1", (5e-324,), 5e-324),
        ("expm1", (-0.0,), -0.0),
        ("log2", (8.0,), 3.0),
        ("log2", (0.1,), -3.321928094887362),
        ("log10", (1000.0,), 3.0),
        ("log", (8.0, 2.0), 3.0),
        ("log1p", (-0.0,), -0.0),
        ("sin", (math.pi,), 1.2246467991473532e-16),
        ("sin", (-0.0,), -0.0),
        ("cos", (1e300,), float(mpmath.cos(mpmath.mpf(1e300)))),
        ("acos", (1.0,), 0.0),
        ("acos", (-1.0,), math.pi),
        ("asin", (-1.0,), -math.pi / 2),
        ("atan2", (1.0, -1.0), 3 * math.pi / 4),
        ("atan2", (-0.0, -1.0), -math.pi),
        ("atan2", (2.0, 0.0), math.pi / 2),
        ("cbrt", (27.0,), 3.0),
        ("hypot", (3.0, 4.0), 5.0),
        ("hypot", (5e-324, 0.0), 5e-324),
        ("fma", (1 + 2**-52, 1 - 2**-52, -1.0), -(2.0**-104)),
        ("pow", (2.0, 0.5), math.sqrt(2.0)),
        ("pow", (2.0, -1074.0), 5e-324),
        ("pow", (-3.0, 3.0), -27.0),
        ("pow", (-0.5, -1075.0), -math.inf),
        ("pow", (float(208_065**2), 1.5), float(208_065**3)),  # in the middle of two
        ("pow", (float(208_067**2), 1.5), float(208_067**3)),
        ("tanh", (math.inf,), 1.0),
        ("exp", (-math.inf,), 0.0),
    ],
)
def test_a_constant_that_is_known(name: str, args: tuple[float, ...], value: float) -> None:
    function = constants.function(name)
    assert function is not None
    if math.isinf(value):
        with pytest.raises(OverflowError):
            function(*args)
        return
    found = function(*args)
    assert (found, math.copysign(1, found)) == (value, math.copysign(1, value))


@pytest.mark.parametrize(
    ("name", "args"),
    [("exp", (710.0,)), ("log", (0.0,)), ("log1p", (-1.0,)), ("acos", (1.5,)), ("pow", (-8.0, 0.5)),
     ("atanh", (1.0,)), ("acosh", (0.5,)), ("sinh", (-1e9,)), ("pow", (0.0, -1.0))],
)  # fmt: skip
def test_what_math_refuses_is_refused(name: str, args: tuple[float, ...]) -> None:
    function: Callable[..., float] | None = constants.function(name)
    assert function is not None
    with pytest.raises((ValueError, OverflowError)):
        getattr(math, name)(*args)
    with pytest.raises((ValueError, OverflowError)):
        function(*args)


def test_a_traced_constant_does_not_ask_the_c_library(load, monkeypatch) -> None:
    """`exp(2.0)` and its kin on a host whose libm is off by one place."""
    source = """
@kernel(workgroup=lambda: 1)
def k(y: Write[f64]):
    y[0] = exp(2.0)
    y[1] = pow(2.0, 0.3)
    y[2] = tanh(0.1) + log(3.0)
"""
    expected = print_kernel(load(source).k.trace("test"))
    for name in ("exp", "tanh", "log", "pow"):
        real = getattr(math, name)
        monkeypatch.setattr(math, name, lambda *a, real=real: math.nextafter(real(*a), 1e9))
    assert print_kernel(load(source).k.trace("test")) == expected
