"""What the maths ops should give: references, arguments worth trying, and errors in ulp.

f32 is compared with float64 functions of numpy and Python, f64 with mpmath. A reference is a pair
of float64 arrays whose sum is the value, so that f64 results are measured to a fraction of an ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np

from gristmill.ir.ops import ROWS

Array = np.ndarray

UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt", "gamma",
    "lgamma", "rsqrt",
)  # fmt: skip
BINARY = ("pow", "atan2", "hypot")


class Reference(NamedTuple):
    """The value is high + rest ulp (of f64 at high); errors count relative to at least `scale`."""

    high: Array
    rest: Array
    scale: Array | None = None


def bound(op: str, kind: type) -> float:
    """The bound in ulp that the op table states."""
    row = ROWS[op]
    stated = row.ulp if kind is np.float32 else row.ulp64
    assert stated is not None, f"op {op} states no bound for {kind.__name__}"
    return stated


# f32 ---------------------------------------------------------------------------------------------


def _each(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    def safe(x: float) -> float:
        try:
            return fn(x)
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf

    return np.vectorize(safe, otypes=[np.float64])


def _gamma(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


def _lgamma(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


_WIDE: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "cbrt": np.cbrt, "rsqrt": lambda x: 1 / np.sqrt(x), "erf": _each(math.erf),
    "erfc": _each(math.erfc), "gamma": _each(_gamma), "lgamma": _each(_lgamma), "pow": np.power,
    "atan2": np.arctan2, "hypot": np.hypot,
}  # fmt: skip


def single_reference(op: str, *args: Array) -> Reference:
    """The reference of f32 arguments."""
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64) for a in args]
        value = np.asarray(_WIDE[op](*wide), np.float64)
        return Reference(value, np.zeros_like(value), _scale(op, wide[0], np.abs))


# f64 ---------------------------------------------------------------------------------------------

_EXACT: dict[str, Callable[..., mpmath.mpf]] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "expm1": mpmath.expm1,
    "log": mpmath.log, "log2": lambda x: mpmath.log(x) / mpmath.ln2, "log10": mpmath.log10,
    "log1p": mpmath.log1p, "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan,
    "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan, "sinh": mpmath.sinh,
    "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asinh": mpmath.asinh, "acosh": mpmath.acosh,
    "atanh": mpmath.atanh, "erf": mpmath.erf, "erfc": mpmath.erfc, "gamma": mpmath.gamma,
    "lgamma": lambda x: mpmath.re(mpmath.loggamma(x)), "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "pow": mpmath.power,
    "atan2": mpmath.atan2, "hypot": mpmath.hypot,
}  # fmt: skip

# Arguments beyond which a result only overflows or underflows: mpmath would build huge numbers.
_REACH = {"exp": 760.0, "exp2": 1100.0, "expm1": 760.0, "sinh": 760.0, "cosh": 760.0, "erfc": 30.0,
          "gamma": 200.0}  # fmt: skip


def inside(op: str, x: Array) -> Array:
    """Which finite arguments have a finite real value that mpmath can give."""
    keep = np.isfinite(x)
    if op in _REACH:
        keep &= np.abs(x) < _REACH[op]
    if op in ("log", "log2", "log10", "rsqrt"):
        keep &= x > 0
    if op == "log1p":
        keep &= x > -1
    if op in ("asin", "acos", "atanh"):
        keep &= np.abs(x) <= (1 if op != "atanh" else np.nextafter(1, 0))
    if op == "acosh":
        keep &= x >= 1
    if op in ("gamma", "lgamma"):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            keep &= (x > 0) | (np.trunc(x) != x)
    return keep


def double_reference(op: str, *args: Array) -> Reference:
    """The reference of f64 arguments that are `inside`."""
    high, rest = np.empty(len(args[0])), np.empty(len(args[0]))
    with mpmath.workprec(140 if op not in ("log1p", "expm1", "asinh", "atanh", "erf") else 240):
        for k, values in enumerate(zip(*args, strict=True)):
            exact = mpmath.re(_EXACT[op](*(mpmath.mpf(float(v)) for v in values)))
            high[k] = float(exact)
            if values[0] == 0 == high[k]:  # an odd function; mpmath has no -0
                high[k] = values[0]
            unit = 2 ** mpmath.mpf(int(_ulp_exponent(high[k], np.float64)))
            rest[k] = float((exact - high[k]) / unit) if math.isfinite(high[k]) else 0.0
    with np.errstate(all="ignore"):
        return Reference(high, rest, _scale(op, args[0], np.abs))


def _scale(op: str, x: Array, size: Callable[[Array], Array]) -> Array | None:
    """Below 0 lgamma is a difference: its error is relative to the terms, at least 1."""
    if op != "lgamma":
        return None
    log_gamma = _each(_lgamma)(np.minimum(size(x), 1e300))
    return np.where(x < 0, np.maximum(1, log_gamma), 0)


# errors ------------------------------------------------------------------------------------------

_FORMAT = {np.float32: (24, -126), np.float64: (53, -1022)}


def _ulp_exponent(value: Array, kind: type) -> Array:
    precision, least = _FORMAT[kind]
    return np.maximum(np.frexp(np.abs(value))[1] - 1, least) - (precision - 1)


def ulp_error(got: Array, reference: Reference, kind: type) -> Array:
    """|got - reference| in ulp of the format at the reference; inf where a special value differs.

    Rounding to infinity too early or too late by one place counts as 1 ulp.
    """
    value, scale = reference.high, reference.scale
    with np.errstate(all="ignore"):
        size = np.abs(value) if scale is None else np.maximum(np.abs(value), scale)
        unit = _ulp_exponent(size, kind)
        wide = got.astype(np.float64)
        rest = np.ldexp(reference.rest, _ulp_exponent(value, np.float64) - unit)
        error = np.abs(np.ldexp(wide - value, -unit) - rest)
        rounded = value.astype(kind)
        edge = np.finfo(kind).max
        same_side = np.sign(wide) == np.sign(value)
        early = np.isinf(wide) & np.isfinite(rounded) & same_side
        late = np.isfinite(wide) & np.isinf(rounded)
        error = np.where(early, np.where(np.abs(rounded) == edge, 1.0, np.inf), error)
        error = np.where(late, np.where(same_side & (np.abs(got) == edge), 1.0, np.inf), error)
        error = np.where(np.isinf(rounded) & (got == rounded), 0.0, error)
        nan = np.isnan(wide) | np.isnan(value)
        error = np.where(nan, np.where(np.isnan(wide) & np.isnan(value), 0.0, np.inf), error)
        zero = (wide == 0) & (value == 0) & (reference.rest == 0) & (scale is None)
        return np.where(zero & (np.signbit(wide) != np.signbit(value)), np.inf, error)


# arguments ---------------------------------------------------------------------------------------

_POINTS = (
    0.0, 1.0, 2.0, 3.0, 4.0, 8.0, 0.5, 0.25, 1.5, 2.5, 0.625, 0.70710678118654752,
    1.41421356237309505, 0.34657359027997265, 1.0397207708399179, 17.0, 38.0, 88.722839, 87.336544,
    103.278929, 103.972076, 709.782712893384, 708.396418532264, 745.133219101941,
    744.440071921381, 126.0, 127.0, 128.0, 149.0, 150.0, 1022.0, 1023.0, 1024.0,
    1074.0, 1075.0, 9.010913, 9.02, 19.06, 3.93, 5.9, 10.05, 26.54,
    27.2, 35.04, 34.9, 171.62, 170.5, 89.415985, 710.4758600739439, 0.4142135623730951,
    2.414213562373095, 1606.9, 1608.4, 1646973.0, 2.0**13, 2.0**28, 2.0**24, 2.0**53, 2.0**-12,
    2.0**-13, 2.0**-24, 2.0**-25, 2.0**-27, 2.0**-53, 2.0**-54, 2.0**-56, 2.0**40, 2.0**-40,
    6381956970095103.0 * 2.0**797, 16367173.0 * 2.0**72,
)  # fmt: skip


def special_arguments(kind: type, around: int = 6) -> Array:
    """Zeros, denormals, infinities, NaN, thresholds and their neighbours, of both signs."""
    info = np.finfo(kind)
    points = [p for p in _POINTS if p <= float(info.max)]
    points += [
        float(info.tiny),
        float(info.smallest_subnormal),
        float(info.max),
        math.inf,
        math.nan,
    ]
    quarters = np.arange(1, 2100) * (math.pi / 2)
    with np.errstate(all="ignore"):
        base = np.concatenate([np.asarray(points), quarters, 2.0 ** np.arange(-149, 128)]).astype(
            kind
        )
    words = base.view(f"i{base.itemsize}")
    near = np.concatenate([words[: len(points)] + k for k in range(-around, around + 1)] + [words])
    values = near.astype(words.dtype).view(kind)
    return np.concatenate([values, -values])


def swept_arguments(kind: type, count: int, rng: np.random.Generator) -> Array:
    """About `count` arguments at one stride over all bit patterns, and as many of moderate size."""
    width = 8 * np.dtype(kind).itemsize
    stride = ((1 << width) // count) | 1
    start = int(rng.integers(0, stride))
    words = (np.arange(count, dtype=np.uint64) * np.uint64(stride) + np.uint64(start)).astype(
        f"u{width // 8}"
    )
    moderate = np.exp2(rng.uniform(-14, 11, count)) * rng.choice([-1.0, 1.0], count)
    return np.concatenate([words.view(kind), moderate.astype(kind)])
