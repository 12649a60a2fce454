"""Random expressions of floats of any kind, and of ops that are not exact.

A `wild` value may be infinite, a NaN, a negative zero, a denormal or the greatest float. It comes
from inputs that hold such, from constants and from exact ops on other wild values; comparisons,
tests and conversions to integers make tame values of it. The sign of a NaN is never observed, nor
that of a zero from `min` or `max`. Where a target may flush denormals (`flush`), whatever could be
one is replaced by zero in the program itself.

A `near` value is the result of an op with an error bound, applied to exact operands; it is stored
and used for nothing else, so that its bound is that of the op (see `judge`).
"""

from __future__ import annotations

import numpy as np

from ..ir.core import Value
from ..ir.dtypes import DType, Type, VectorType, bool_, element_of, i32, with_element
from .values import COMPARE, Values

WILD_UNARY = ("neg", "abs", "sign", "floor", "ceil", "trunc", "rint")
WILD_BINARY = ("add", "sub", "mul", "min", "max", "fmod")
TESTS = ("isnan", "isinf", "isfinite")
NEAR_UNARY = (
    *(
        "sqrt",
        "rsqrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
    ),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc"),
    *("cbrt", "gamma", "lgamma"),
)
NEAR_BINARY = ("div", "pow", "atan2", "hypot")
NEAR = (*NEAR_UNARY, *NEAR_BINARY, "div", "sqrt", "fma")
CORNERS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.49999997, 127.5, 128.0, -129.0, 255.5, 256.0),
    *(32767.5, 65504.0, 65520.0, 2147483520.0, 2147483648.0, -2147483648.0, 4294967040.0),
    *(4294967296.0, 9.2e18, 9223372036854775808.0, -9223372036854775808.0, 3e38, -3e38, 1e-30),
    *(16777217.0, 0.1, float("inf"), float("-inf"), float("nan")),
)
# bits of fraction, exponent of the least normal, per type
_FORMATS = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}


def wild_data(rng: np.random.Generator, t: DType, count: int, denormals: bool) -> np.ndarray:
    """Elements of a float type in its memory form: corners and random bits."""
    words = rng.integers(0, 256, (count, t.bytes), dtype=np.uint8).view(f"u{t.bytes}")[:, 0].copy()
    if not t.computes:
        return words
    fraction, _ = _FORMATS[t.name]
    for n in range(count):
        if rng.random() < 0.5:
            corner = CORNERS[int(rng.integers(len(CORNERS)))]
            words[n] = _pattern(corner, t)
        elif rng.random() < 0.2:  # a denormal
            words[n] &= (1 << fraction) - 1
    if not denormals:
        magnitude = words & words.dtype.type((1 << (t.bits - 1)) - 1)
        words[magnitude < (1 << fraction)] = 0
    return words.view(t.storage)


def _pattern(value: float, t: DType) -> int:
    from ..ir.interface import float_bits

    return float_bits(value, t)


class Special(Values):
    """Builds wild and near values. `flush`: whether a target may flush denormals.
    `near_ops`: the ops with a bound that a program uses, per type."""

    flush: bool = False
    special: bool = False
    near_ops: dict[str, tuple[str, ...]]

    def floats(self) -> list[DType]:
        return [t for t in self.types if t.is_float]

    def wild_of(self, t: Type) -> Value:
        """A wild value in scope, or a constant."""
        found = [v for v in self.wild if v.type == t]
        if found and self.chance(0.8):
            return self.choose(found)
        if self.chance(0.3):
            return self.leaf(t)
        corners = [c for c in CORNERS if not self.flush or c == 0 or abs(c) > 1e-3 or c != c]
        return self.b.const(self.choose(corners), t)

    def settled(self, value: Value) -> Value:
        """The value, or zero where it is a denormal and those are not kept."""
        if not self.flush:
            return value
        b, t = self.b, value.type
        least = 2.0 ** _FORMATS[element_of(t).name][1]
        tiny = b.emit("le", b.emit("abs", value), b.const(least, t))
        return b.emit("select", tiny, b.const(0, t), value)

    def wild_type(self) -> Type:
        t = self.choose(self.floats())
        return VectorType(t, self.choose(self.lanes)) if self.lanes and self.chance(0.2) else t

    def wild_step(self) -> Value:
        """A new wild value."""
        b, t = self.b, self.wild_type()
        if not self.spend(t, 3):
            return self.wild_of(t)
        kind = self.rng.random()
        if kind < 0.45:
            a, c = self.wild_of(t), self.wild_of(t)
            return self.settled(b.emit(self.choose(WILD_BINARY), a, c))
        if kind < 0.65:
            return b.emit(self.choose(WILD_UNARY), self.wild_of(t))
        if kind < 0.75:
            sign = self.leaf(t)
            zero = b.emit("eq", sign, b.const(0, t))
            return b.emit("copysign", self.wild_of(t), b.emit("select", zero, b.const(1, t), sign))
        if kind < 0.9:
            source = self.choose([d for d in self.types if not d.is_bool])
            s = with_element(t, source)
            value = self.wild_of(s) if source.is_float else self.leaf(s)
            return self.settled(b.emit("convert", value, type=t))
        condition = self.expression(bool_, 1)
        return b.emit("select", condition, self.wild_of(t), self.wild_of(t))

    def observed(self) -> Value:
        """A tame value that a wild one decides."""
        b, t = self.b, self.wild_type()
        kind = self.rng.random()
        if kind < 0.35:
            return b.emit(self.choose(COMPARE), self.wild_of(t), self.wild_of(t))
        if kind < 0.55:
            return b.emit(self.choose(TESTS), self.wild_of(t))
        if kind < 0.9:
            whole = self.choose([d for d in self.types if d.is_int])
            return b.emit("convert", self.wild_of(t), type=with_element(t, whole))
        return b.emit("convert", self.wild_of(t), type=with_element(t, bool_))

    def near(self, t: Type) -> Value:
        """The result of an op with a bound, on exact operands."""
        b = self.b
        name = self.choose(self.near_ops[element_of(t).name])
        x = self.expression(t, 1)
        if name == "fma":  # of products that fit: rounded once or twice, it is the same
            x, y = self.short(x), self.short(self.expression(t, 1))
            return b.emit("fma", x, y, self.expression(t, 1))
        if name == "lgamma":  # its bound below 0 is of another kind
            return b.emit("lgamma", b.emit("abs", x))
        if name in NEAR_BINARY:
            return b.emit(name, x, self.expression(t, 1))
        return b.emit(name, x)

    def short(self, value: Value) -> Value:
        """A tame float of at most 11 bits."""
        low = self.b.emit("max", value, self.b.const(-127, value.type))
        return self.b.emit("min", low, self.b.const(127, value.type))

    def bits_of(self, t: DType) -> Value:
        """The bit pattern of a float that has one: no NaN, no zero of unknown sign."""
        b, whole = self.b, self.choose([d for d in self.types if d.is_int and d.bits == t.bits])
        return b.emit("bitcast", b.emit("abs", self.expression(t, 1)), type=whole)

    def float_of_bits(self, t: DType) -> Value:
        """A wild float of any bits."""
        b, whole = self.b, self.choose([d for d in self.types if d.is_int and d.bits == t.bits])
        value = b.emit("bitcast", self.expression(whole, 1), type=t)
        return self.settled(value)

    def power_of_two(self, t: DType) -> Value:
        """A tame float times a power of two."""
        exponent = self.b.emit("sub", self.bounded(i32, 7), self.b.const(3, i32))
        return self.tame(self.b.emit("ldexp", self.expression(t, 1), exponent))
