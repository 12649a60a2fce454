"""Vector float arithmetic, min and max, rounding, conversions, division steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import approximate
from .decode import Instruction
from .exact import fma
from .operands import F16, F32, F64, OUTPUT_MODIFIERS, Kind, flush, source, target
from .registry import Build, Step, register
from .state import Arch
from .valu import clears_upper, vector

Array = np.ndarray[Any, Any]


def minimum_number(x: Array, y: Array) -> Array:
    """The smaller; a number rather than a NaN; -0 below +0."""
    out = np.fmin(x, y)
    return np.where((x == y) & np.signbit(x), x, np.where((x == y), y, out))


def maximum_number(x: Array, y: Array) -> Array:
    out = np.fmax(x, y)
    return np.where((x == y) & ~np.signbit(x), x, np.where((x == y), y, out))


def minimum_ieee(x: Array, y: Array) -> Array:
    """NaN if either is one."""
    return np.where((x != x) | (y != y), x + y, minimum_number(x, y))


def maximum_ieee(x: Array, y: Array) -> Array:
    return np.where((x != x) | (y != y), x + y, maximum_number(x, y))


def median(x: Array, y: Array, z: Array) -> Array:
    """The middle one; the smallest number if any is NaN."""
    nan = (x != x) | (y != y) | (z != z)
    low = minimum_number(minimum_number(x, y), z)
    middle = maximum_number(minimum_number(x, y), minimum_number(maximum_number(x, y), z))
    return np.where(nan, low, middle)


def fraction(x: Array) -> Array:
    """x - floor(x), below one."""
    below_one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.where(np.isinf(x), x.dtype.type(np.nan), np.minimum(x - np.floor(x), below_one))


def ldexp(x: Array, n: Array) -> Array:
    """x * 2^n, rounded once; of f16 through f64, where nothing rounds before."""
    if x.dtype == np.float16:
        return np.ldexp(x.astype(np.float64), n.astype(np.int32)).astype(np.float16)
    if x.dtype == np.float32:
        return np.ldexp(x.astype(np.float64), np.clip(n, -500, 500)).astype(np.float32)
    return np.ldexp(x, np.clip(n, -5000, 5000))


def frexp_mantissa(x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[0], x)


def frexp_exponent(x: Array) -> Array:
    """int32; 0 for infinities and NaN."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


def legacy_multiply(x: Array, y: Array) -> Array:
    """0 times anything is 0."""
    return np.where((x == 0) | (y == 0), x.dtype.type(0), x * y)


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Rounded after the product and after the sum; v_mad_f32 and its kin have no denormals,
    whatever MODE says."""
    if x.dtype.kind == "f" and x.dtype.itemsize == 4:
        return flush(flush(flush(x) * flush(y)) + flush(z))
    return x * y + z


BINARY: dict[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "subrev": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "min": minimum_number,
    "max": maximum_number,
    "min_num": minimum_number,
    "max_num": maximum_number,
    "minimum": minimum_ieee,
    "maximum": maximum_ieee,
}
UNARY: dict[str, Callable[..., Array]] = {
    "trunc": np.trunc,
    "ceil": np.ceil,
    "floor": np.floor,
    "rndne": np.rint,
    "fract": fraction,
    "frexp_mant": frexp_mantissa,
}
TERNARY: dict[str, Callable[..., Array]] = {
    "fma": fma,
    "mad": multiply_add,
    "min3": lambda x, y, z: minimum_number(minimum_number(x, y), z),
    "max3": lambda x, y, z: maximum_number(maximum_number(x, y), z),
    "min3_num": lambda x, y, z: minimum_number(minimum_number(x, y), z),
    "max3_num": lambda x, y, z: maximum_number(maximum_number(x, y), z),
    "minimum3": lambda x, y, z: minimum_ieee(minimum_ieee(x, y), z),
    "maximum3": lambda x, y, z: maximum_ieee(maximum_ieee(x, y), z),
    "med3": median,
    "med3_num": median,
    "minmax": lambda x, y, z: maximum_number(minimum_number(x, y), z),
    "maxmin": lambda x, y, z: minimum_number(maximum_number(x, y), z),
    "minmax_num": lambda x, y, z: maximum_number(minimum_number(x, y), z),
    "maxmin_num": lambda x, y, z: minimum_number(maximum_number(x, y), z),
    "minimummaximum": lambda x, y, z: maximum_ieee(minimum_ieee(x, y), z),
    "maximumminimum": lambda x, y, z: minimum_ieee(maximum_ieee(x, y), z),
}
for _kind in ("F16", "F32", "F64"):
    _k = _kind.lower()
    for _name, _f in UNARY.items():
        vector(f"v_{_name}_{_k}", f"{_kind} {_kind}", _f)
    for _name, _f in BINARY.items():
        vector(f"v_{_name}_{_k}", f"{_kind} {_kind} {_kind}", _f)
    for _name, _f in TERNARY.items():
        vector(f"v_{_name}_{_k}", f"{_kind} {_kind} {_kind} {_kind}", _f)
vector("v_mul_legacy_f32 v_mul_dx9_zero_f32", "F32 F32 F32", legacy_multiply)
vector("v_ldexp_f32", "F32 F32 I32", ldexp)
vector("v_ldexp_f64", "F64 F64 I32", ldexp)
vector("v_ldexp_f16", "F16 F16 I16", ldexp)
vector("v_frexp_exp_i32_f32", "I32 F32", frexp_exponent)
vector("v_frexp_exp_i32_f64", "I32 F64", frexp_exponent)
vector("v_frexp_exp_i16_f16", "I16 F16", lambda x: frexp_exponent(x).astype(np.int16))


# Multiply-add into the destination, or with a constant in the encoding.


def _accumulate(kind: Kind) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        x, y, z = source(i, 1, kind), source(i, 2, kind), source(i, 0, kind)
        write = target(i, kind, clears_upper(i, arch, kind))
        return lambda m: write(m, fma(x(m), y(m), z(m)))

    return build


for _kind_value in (F16, F32, F64):
    register(f"v_fmac_{_kind_value.name.lower()}", _accumulate(_kind_value), OUTPUT_MODIFIERS)
for _kind in ("F16", "F32", "F64"):
    _k = _kind.lower()
    # v_fmaak: x * y + constant; v_fmamk: x * constant + y, the operands stand in that order
    vector(f"v_fmaak_{_k} v_fmamk_{_k}", f"{_kind} {_kind} {_kind} {_kind}", fma)


def _mac(kind: Kind) -> Build:
    """gfx9: multiplied and added with two roundings."""

    def build(i: Instruction, arch: Arch) -> Step:
        x, y, z, write = source(i, 1, kind), source(i, 2, kind), source(i, 0, kind), target(i, kind)
        return lambda m: write(m, multiply_add(x(m), y(m), z(m)))

    return build


register("v_mac_f32", _mac(F32), OUTPUT_MODIFIERS)


# Approximations


def approximation(name: str, kind: Kind) -> Callable[[Array, np.uint64], Array]:
    """The function `name` of contiguous arrays, perturbed within its bound."""
    f = approximate.FUNCTIONS[name]

    def value(x: Array, salt: np.uint64) -> Array:
        if kind is F64:
            out = approximate.loose(f(x), salt)
        elif kind is F16:
            return approximate.enclosing(f(x.astype(np.float64)), np.float16, salt, 0.51)
        else:  # denormals are zeros here in every mode
            x = flush(x)
            out = flush(approximate.enclosing(f(x.astype(np.float64)), np.float32, salt))
        if f is np.reciprocal:
            return np.where(approximate.all_ones(x), f(x), out)
        return out

    return value


def _approximation(name: str, kind: Kind) -> Build:
    f = approximation(name, kind)

    def build(i: Instruction, arch: Arch) -> Step:
        x = source(i, 1, kind)
        write = target(i, kind, clears_upper(i, arch, kind))
        return lambda m: write(m, f(np.ascontiguousarray(x(m)), m.salt))

    return build


for _name in approximate.FUNCTIONS:
    register(f"v_{_name}_f32", _approximation(_name, F32), OUTPUT_MODIFIERS)
    if _name != "rcp_iflag":
        register(f"v_{_name}_f16", _approximation(_name, F16), OUTPUT_MODIFIERS)
for _name in ("rcp", "rsq", "sqrt"):
    register(f"v_{_name}_f64", _approximation(_name, F64), OUTPUT_MODIFIERS)
