"""What ops mean for one invocation, in plain Python: the second opinion on the interpreter.

Integers are Python ints within their type, floats are Python floats that the type can hold,
vectors are tuples. Nothing here uses numpy or `ir.ops.meaning`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ..ir.dtypes import DType

FORMATS = {
    "f8e4m3": (4, -6, 8),
    "f8e5m2": (3, -14, 15),
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
}


def nearest(value: float | Fraction, dtype: DType) -> float:
    """Any number rounded once to a float type, ties to even."""
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value) or value == 0:
            return math.nan if dtype.name == "f8e4m3" and math.isinf(value) else value
        value = Fraction(value)
    if value == 0:
        return 0.0
    assert isinstance(value, Fraction)
    precision, least, most = FORMATS[dtype.name]
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    rounded = round(size / unit) * unit  # round() of a Fraction takes ties to even
    if dtype.name == "f8e4m3" and rounded > 448:
        return math.nan
    if rounded >= Fraction(2) ** (most + 1):
        return math.inf if value > 0 else -math.inf
    return float(rounded) if value > 0 else -float(rounded)


def exact(fn: Callable[[Any, Any], Any], a: float, b: float, dtype: DType) -> float:
    """fn of exact numbers, rounded once (bf16: to f32 first, as its arithmetic is defined)."""
    with_floats = fn(a, b)
    if not (math.isfinite(a) and math.isfinite(b)) or fn(Fraction(a), Fraction(b)) == 0:
        return with_floats  # infinities, NaNs and the sign of zero
    result = fn(Fraction(a), Fraction(b))
    if dtype.name == "bf16":
        return nearest(nearest(result, DType("f32", dtype.kind, 32)), dtype)
    return nearest(result, dtype)


def wrap(value: int, dtype: DType) -> int:
    """The value modulo 2**bits, within an integer type."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value >> (dtype.bits - 1) else value


def _small(bits: int, dtype: DType) -> float:
    """The 8-bit float with those bits, as the formats of OCP say."""
    precision, least, most = FORMATS[dtype.name]
    fraction, exponent = bits & ((1 << (precision - 1)) - 1), (bits & 127) >> (precision - 1)
    if dtype.name == "f8e4m3" and bits & 127 == 127:
        value = math.nan
    elif dtype.name == "f8e5m2" and exponent > most - least + 1:
        value = math.nan if fraction else math.inf
    elif exponent == 0:
        value = math.ldexp(fraction, least - precision + 1)
    else:
        value = math.ldexp(fraction + (1 << (precision - 1)), least + exponent - precision)
    return math.copysign(value, -1.0 if bits & 128 else 1.0)


def _small_bits(value: float, dtype: DType) -> int:
    sign = 128 if math.copysign(1.0, value) < 0 else 0
    for bits in range(128):
        known = _small(bits, dtype)
        if known == abs(value) or (known != known and value != value):
            return bits | sign
    raise ValueError(f"{value} is no {dtype}")


def pattern(value: Any, dtype: DType) -> int:
    """The bits of a scalar."""
    if dtype.is_float and dtype.bits == 8:
        return _small_bits(value, dtype)
    if dtype.name == "bf16":
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    if dtype.is_float:
        letters = {16: "eH", 32: "fI", 64: "dQ"}[dtype.bits]
        return struct.unpack("<" + letters[1], struct.pack("<" + letters[0], value))[0]
    return int(value) & ((1 << dtype.bits) - 1)


def from_pattern(bits: int, dtype: DType) -> Any:
    """The scalar with those bits."""
    if dtype.is_float and dtype.bits == 8:
        return _small(bits, dtype)
    if dtype.name == "bf16":
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    if dtype.is_float:
        letters = {16: "eH", 32: "fI", 64: "dQ"}[dtype.bits]
        return struct.unpack("<" + letters[0], struct.pack("<" + letters[1], bits))[0]
    return bool(bits) if dtype.is_bool else wrap(bits, dtype)


def convert(value: Any, source: DType, target: DType) -> Any:
    if target.is_bool:
        return value != 0
    if target.is_float:
        return nearest(value if source.is_float else Fraction(int(value)), target)
    if not source.is_float:
        return wrap(int(value), target)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return target.max if value > 0 else target.min
    return max(target.min, min(target.max, int(value)))


def _lesser(a: float, b: float) -> float:
    return b if a != a else a if b != b else min(a, b)


def _greater(a: float, b: float) -> float:
    return b if a != a else a if b != b else max(a, b)


def _bits(a: int, t: DType) -> str:
    return format(a & ((1 << t.bits) - 1), f"0{t.bits}b")


def _clz(a: int, t: DType) -> int:
    text = _bits(a, t)
    return len(text) - len(text.lstrip("0"))


def _ctz(a: int, t: DType) -> int:
    text = _bits(a, t)
    return len(text) - len(text.rstrip("0"))


INT: dict[str, Callable[..., int]] = {
    "add": lambda t, a, b: a + b,
    "sub": lambda t, a, b: a - b,
    "mul": lambda t, a, b: a * b,
    "min": lambda t, a, b: min(a, b),
    "max": lambda t, a, b: max(a, b),
    "floordiv": lambda t, a, b: a // b if b else a,
    "mod": lambda t, a, b: a % b if b else 0,
    "and": lambda t, a, b: a & b,
    "or": lambda t, a, b: a | b,
    "xor": lambda t, a, b: a ^ b,
    "shl": lambda t, a, b: a << (b % t.bits),
    "shr": lambda t, a, b: a >> (b % t.bits),
    "mul_high": lambda t, a, b: (a * b) >> t.bits,
    "neg": lambda t, a: -a,
    "abs": lambda t, a: abs(a),
    "sign": lambda t, a: (a > 0) - (a < 0),
    "not": lambda t, a: ~a,
    "popcount": lambda t, a: _bits(a, t).count("1"),
    "clz": lambda t, a: _clz(a, t),
    "ctz": lambda t, a: _ctz(a, t),
    "reverse_bits": lambda t, a: int(_bits(a, t)[::-1], 2),
}


def _remainder(a: float, b: float) -> float:
    return math.nan if math.isinf(a) or b == 0 or a != a else math.fmod(a, b)


def _rounding(fn: Callable[[float], int]) -> Callable[[DType, float], float]:
    def apply(t: DType, a: float) -> float:
        return math.copysign(float(fn(a)), a) if math.isfinite(a) else a

    return apply


FLOAT: dict[str, Callable[..., float]] = {
    "add": lambda t, a, b: exact(lambda x, y: x + y, a, b, t),
    "sub": lambda t, a, b: exact(lambda x, y: x - y, a, b, t),
    "mul": lambda t, a, b: exact(lambda x, y: x * y, a, b, t),
    "min": lambda t, a, b: _lesser(a, b),
    "max": lambda t, a, b: _greater(a, b),
    "neg": lambda t, a: -a,
    "abs": lambda t, a: abs(a),
    "sign": lambda t, a: a if a != a else float((a > 0) - (a < 0)),
    "floor": _rounding(math.floor),
    "ceil": _rounding(math.ceil),
    "trunc": _rounding(math.trunc),
    "rint": _rounding(round),
    "copysign": lambda t, a, b: math.copysign(a, b),
    "fmod": lambda t, a, b: _remainder(a, b),
}

COMPARE: dict[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "isnan": lambda a: a != a,
    "isinf": lambda a: abs(a) == math.inf,
    "isfinite": lambda a: math.isfinite(a),
}

BOOL: dict[str, Callable[..., bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "not": lambda a: not a,
}


def dot4(a: int, a_type: DType, b: int, b_type: DType, total: int, t: DType) -> int:
    for place in (0, 8, 16, 24):
        x, y = (a >> place) & 255, (b >> place) & 255
        x -= 256 if a_type.is_signed and x > 127 else 0
        y -= 256 if b_type.is_signed and y > 127 else 0
        total += x * y
    return wrap(total, t)


def elementwise(name: str, t: DType, *operands: Any) -> Any:
    """An op on scalars of type `t`."""
    if name in COMPARE:
        return COMPARE[name](*operands)
    if t.is_bool:
        return BOOL[name](*operands)
    if t.is_float:
        return FLOAT[name](t, *operands)
    return wrap(INT[name](t, *operands), t)
