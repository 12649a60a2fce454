"""What a kernel brings with it: inputs to try and the answer to expect.

A `Family` is the second oracle beside the interpreter: its reference computes in float64 with
numpy and states, element by element, how far a right answer may be from it. Tolerances follow
from counting roundings: `u(dtype)` is the unit roundoff, and a sum of n terms done in any order
errs by at most gamma(n) times the sum of the magnitudes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.dtypes import DTYPES, DType
from ..ir.float8 import FORMATS, rounded
from ..ir.float8 import decode as decode8
from ..ir.lang import KernelFunction
from ..ir.ops.meaning import round_bf16

Args = dict[str, Any]
Constexprs = Mapping[str, Any]

_SIGNIFICAND = {"f8e4m3": 4, "f8e5m2": 3, "f16": 11, "bf16": 8, "f32": 24, "f64": 53}
_LEAST = {"f8e4m3": 2.0**-9, "f8e5m2": 2.0**-16, "f16": 2.0**-24, "bf16": 2.0**-133}
_LEAST |= {"f32": 2.0**-149, "f64": 2.0**-1074}


@dataclass(frozen=True, slots=True)
class Expected:
    """An output: its value in float64 (or exact integers) and the absolute error allowed."""

    value: np.ndarray
    tolerance: np.ndarray | float = 0.0


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a right answer may be from the exact one, as a formula: references evaluate it and
    docs/NUMERICS.md prints it, so that there is one of it.

    formula: an absolute error, an expression of Python in the terms, in u, gamma, least and
    rounding of this module, in abs, max, log and sqrt of arrays, and in f16, f32 and f64.
    terms: what each name stands for.
    """

    formula: str
    terms: Mapping[str, str]

    def __call__(self, **values: Any) -> np.ndarray:
        """The errors allowed. TypeError unless the values are those of the terms."""
        if values.keys() != self.terms.keys():
            raise TypeError(f"values of {sorted(values)}, expected {sorted(self.terms)}")
        with np.errstate(all="ignore"):
            return np.asarray(eval(self.formula, {"__builtins__": {}}, {**_IN_BOUNDS, **values}))


def bound(formula: str, **terms: str) -> Bound:
    """A formula, and what its terms stand for; a result of the type T is called `value`, unless
    they say otherwise."""
    usual = {"value": "the exact result", "T": "the type of the result"}
    used = {name.id for name in ast.walk(ast.parse(formula)) if isinstance(name, ast.Name)}
    return Bound(formula, {**{n: usual[n] for n in usual if n in used}, **terms})


@dataclass(frozen=True, slots=True)
class Family:
    """A kernel with its input generator and reference.

    inputs(rng, constexprs) yields argument sets: parameter name -> array (in storage dtype) or
    scalar, in parameter order, outputs included. reference(args, constexprs) gives what the
    outputs must hold after a launch on those arguments. numerics says in words what is promised,
    special what becomes of NaNs and infinities where arithmetic alone does not say it. bounds are
    what the reference takes its tolerances from, by the case that each is for; all others are 0.
    """

    kernel: KernelFunction
    inputs: Callable[[np.random.Generator, Constexprs], Iterator[Args]]
    reference: Callable[[Args, Constexprs], dict[str, Expected]]
    numerics: str
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    special: str = ""

    @property
    def name(self) -> str:
        return self.kernel.name


def dtype(constexprs: Constexprs, name: str = "T") -> DType:
    """The dtype constexpr `name`, given as a DType or by its name."""
    value = constexprs[name]
    return value if isinstance(value, DType) else DTYPES[value]


def u(t: DType) -> float:
    """Unit roundoff: half the distance from 1 to the next value."""
    return 2.0 ** -_SIGNIFICAND[t.name]


def least(t: DType) -> float:
    """The least positive denormal."""
    return _LEAST[t.name]


def gamma(n: float, t: DType) -> float:
    """The relative error bound of n roundings: n u / (1 - n u)."""
    return n * u(t) / (1 - n * u(t))


def encode(values: np.ndarray, t: DType) -> np.ndarray:
    """Values in the storage form of `t`, rounded to nearest (bf16 as its uint16 patterns, 8-bit
    floats as their uint8 ones)."""
    if not t.computes:
        return rounded(values, t.name)
    if t.name == "bf16":
        words = np.ascontiguousarray(round_bf16(np.asarray(values, np.float64))).view(np.uint32)
        return (words >> np.uint32(16)).astype(np.uint16)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values).astype(t.storage)


def decode(array: np.ndarray, t: DType) -> np.ndarray:
    """Stored values as float64 (integers and bools as they are)."""
    if not t.computes:
        return decode8(array, t.name).astype(np.float64)
    if t.name == "bf16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return array.astype(np.float64) if t.is_float else array


def normal(rng: np.random.Generator, shape: Any, t: DType, scale: float = 1.0) -> np.ndarray:
    """Normally distributed values for a float type, uniform ones over the range of an integer."""
    if t.is_float:
        return encode(rng.standard_normal(shape) * scale, t)
    if t.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(t.min, t.max, shape, dtype=t.storage, endpoint=True)


def special_rows(rng: np.random.Generator, cols: int, t: DType) -> np.ndarray:
    """Seven rows: a NaN last, in the middle, first; +inf; -inf; both of them; nothing but -inf."""
    x = rng.standard_normal((7, cols))
    x[0, -1] = x[1, cols // 2] = x[2, 0] = np.nan
    x[3, cols // 3] = np.inf
    x[4, cols // 2] = -np.inf
    x[5, [0, -1]] = np.inf, -np.inf
    x[6] = -np.inf
    return encode(x, t)


def empty(shape: Any, t: DType) -> np.ndarray:
    """An output filled with a pattern that no right result leaves behind by chance."""
    array = np.zeros(shape, t.storage)
    array.view(np.uint8)[...] = 0xA5 if not t.is_bool else 1
    return array


def rounding(value: np.ndarray, t: DType) -> np.ndarray:
    """The error of rounding `value` to `t` once, denormal and overflow ranges included."""
    with np.errstate(all="ignore"):
        return np.abs(value) * u(t) + least(t)


_IN_BOUNDS = {
    **{f.__name__: f for f in (u, gamma, least, rounding)},
    **{"abs": np.abs, "max": np.maximum, "log": np.log, "sqrt": np.sqrt},
    **{name: DTYPES[name] for name in ("f16", "f32", "f64")},
}


def _greatest(t: DType) -> float:
    """The greatest finite value, or a bound below infinity."""
    if not t.computes:
        return FORMATS[t.name].limit
    return float(np.finfo(np.float32 if t.name == "bf16" else t.storage).max)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How an output compares with its expectation: the greatest error, the bound that it met or
    broke at that element, and the place of the first element out of bounds (None: all right)."""

    error: float
    bound: float
    first_wrong: int | None

    @property
    def ok(self) -> bool:
        return self.first_wrong is None


def compare(actual: np.ndarray, expected: Expected, t: DType) -> Comparison:
    """Judge an output array (in storage dtype of `t`) against its expectation.

    NaN equals NaN. A value whose magnitude reaches past the greatest finite one of `t`, less its
    tolerance, may come out as that infinity.
    """
    got = decode(actual, t).reshape(-1)
    want = np.asarray(expected.value).reshape(-1)
    if not t.is_float:
        wrong = got != want
        return Comparison(float(wrong.any()), 0.0, int(np.argmax(wrong)) if wrong.any() else None)
    bound = np.broadcast_to(np.asarray(expected.tolerance, np.float64), expected.value.shape)
    bound = np.nan_to_num(bound.reshape(-1), nan=0.0, posinf=np.inf)
    with np.errstate(all="ignore"):
        limit = decode(encode(np.array([np.inf]), t), t)[0]
        greatest = _greatest(t)
        overflow = (got == np.sign(want) * limit) & (np.abs(want) + bound >= greatest)
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | overflow
        error = np.where(same, 0.0, np.abs(got - want))
    error = np.where(np.isnan(error), np.inf, error)
    wrong = error > bound
    worst = int(np.argmax(np.where(wrong, np.inf, error))) if error.size else 0
    return Comparison(
        float(error.max(initial=0.0)),
        float(bound[worst]) if error.size else 0.0,
        int(np.argmax(wrong)) if wrong.any() else None,
    )
