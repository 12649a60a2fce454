"""Terms: kernel IR written as arithmetic, for floats of either width, scalar or vector.

A `Term` is an IR value together with the builder that appends what is computed from it. Python
numbers take the type of the term that they meet. `a.fma(b, c)` is a * b + c rounded once or twice,
as the target has it: nothing in `ir.maths` may depend on which. Products of which the exact value
matters are made exact by short factors, so that they survive a contraction to fma as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..builder import Builder
from ..core import Value
from ..dtypes import (
    DType,
    Type,
    bool_,
    element_of,
    f32,
    f64,
    i32,
    i64,
    lanes_of,
    u32,
    u64,
    with_element,
)


@dataclass(frozen=True, slots=True)
class Format:
    """A binary float format: its types, stored mantissa bits and exponent bias."""

    dtype: DType
    uint: DType
    sint: DType
    mantissa: int
    bias: int

    @property
    def precision(self) -> int:
        """Significant bits."""
        return self.mantissa + 1

    @property
    def exponent_mask(self) -> int:
        return (2 * self.bias + 1) << self.mantissa

    @property
    def mantissa_mask(self) -> int:
        return (1 << self.mantissa) - 1

    @property
    def sign_mask(self) -> int:
        return 1 << (self.dtype.bits - 1)

    @property
    def one(self) -> int:
        """The bit pattern of 1.0."""
        return self.bias << self.mantissa

    @property
    def min_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def rounder(self) -> float:
        """1.5 * 2**mantissa: adding it rounds to an integer, which the low bits then hold."""
        return 1.5 * 2.0**self.mantissa

    def pick(self, single: float, double: float) -> float:
        """The one of two numbers that belongs to this format."""
        return single if self.dtype == f32 else double


F32 = Format(f32, u32, i32, 23, 127)
F64 = Format(f64, u64, i64, 52, 1023)

Number = float | int


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An IR value and the builder of what is computed from it; `fused`: emit `fma` ops."""

    builder: Builder
    value: Value
    fused: bool = True

    @property
    def type(self) -> Type:
        return self.value.type

    @property
    def format(self) -> Format:
        return F32 if element_of(self.type).bits == 32 else F64

    def lift(self, other: Term | Number) -> Term:
        """`other` as a term of this type."""
        return other if isinstance(other, Term) else self.make(self.builder.const(other, self.type))

    def make(self, value: Value) -> Term:
        return Term(self.builder, value, self.fused)

    def op(self, name: str, *others: Term | Number) -> Term:
        """The op `name` of this term and others of its type."""
        values = [self.lift(other).value for other in others]
        return self.make(self.builder.emit(name, self.value, *values))

    def __add__(self, other: Term | Number) -> Term:
        return self.op("add", other)

    def __sub__(self, other: Term | Number) -> Term:
        return self.op("sub", other)

    def __mul__(self, other: Term | Number) -> Term:
        return self.op("mul", other)

    def __truediv__(self, other: Term | Number) -> Term:
        return self.op("div", other)

    def __radd__(self, other: Number) -> Term:
        return self.op("add", other)

    def __rmul__(self, other: Number) -> Term:
        return self.op("mul", other)

    def __rsub__(self, other: Number) -> Term:
        return self.lift(other) - self

    def __rtruediv__(self, other: Number) -> Term:
        return self.lift(other) / self

    def __neg__(self) -> Term:
        return self.op("neg")

    def __abs__(self) -> Term:
        return self.op("abs")

    def __and__(self, other: Term | int) -> Term:
        return self.op("and", other)

    def __or__(self, other: Term | int) -> Term:
        return self.op("or", other)

    def __xor__(self, other: Term | int) -> Term:
        return self.op("xor", other)

    def __invert__(self) -> Term:
        return self.op("not")

    def __lshift__(self, count: Term | int) -> Term:
        return self.op("shl", count)

    def __rshift__(self, count: Term | int) -> Term:
        return self.op("shr", count)

    def __lt__(self, other: Term | Number) -> Term:
        return self.op("lt", other)

    def __le__(self, other: Term | Number) -> Term:
        return self.op("le", other)

    def __gt__(self, other: Term | Number) -> Term:
        return self.op("gt", other)

    def __ge__(self, other: Term | Number) -> Term:
        return self.op("ge", other)

    def eq(self, other: Term | Number) -> Term:
        return self.op("eq", other)

    def ne(self, other: Term | Number) -> Term:
        return self.op("ne", other)

    def fma(self, factor: Term | Number, summand: Term | Number) -> Term:
        """self * factor + summand, with one rounding or two."""
        if not self.fused:
            return self * factor + summand
        return self.op("fma", factor, summand)

    def convert(self, dtype: DType) -> Term:
        return self.make(
            self.builder.emit("convert", self.value, type=with_element(self.type, dtype))
        )

    def bitcast(self, dtype: DType) -> Term:
        return self.make(
            self.builder.emit("bitcast", self.value, type=with_element(self.type, dtype))
        )

    def bits(self) -> Term:
        """The bit pattern of a float."""
        return self.bitcast(self.format.uint)

    def signed_bits(self) -> Term:
        """The bit pattern of a float, as a signed integer."""
        return self.bitcast(self.format.sint)

    def real(self) -> Term:
        """The float with this bit pattern."""
        return self.bitcast(self.format.dtype)

    def with_sign(self, bits: Term) -> Term:
        """This float with its sign bit flipped where the sign bit of `bits` (unsigned) is set."""
        return (self.bits() ^ bits).real()

    def sign_bit(self) -> Term:
        """The bit pattern of a float, all but its sign cleared."""
        return self.bits() & self.format.sign_mask

    def copysign(self, sign: Term) -> Term:
        """The magnitude of this term with the sign of another."""
        return self.op("copysign", sign)


def where(condition: Term, yes: Term | Number, no: Term | Number) -> Term:
    """`yes` where the condition holds, else `no`; at least one of them is a term."""
    model = yes if isinstance(yes, Term) else no
    if not isinstance(model, Term):
        raise TypeError("a select between two numbers has no type: make one of them a Term")
    values = model.lift(yes).value, model.lift(no).value
    return model.make(model.builder.emit("select", condition.value, *values))


def polynomial(x: Term, coefficients: Sequence[Number]) -> Term:
    """Sum of coefficients[k] * x**k by Horner's rule."""
    total: Term | Number = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = x.fma(total, coefficient)
    return x.lift(total)


def anywhere(condition: Term) -> Term:
    """One bool: whether the condition holds in any lane."""
    lanes = lanes_of(condition.type)
    if lanes == 1:
        return condition
    emit = condition.builder.emit
    total = emit("extract", condition.value, lane=0)
    for lane in range(1, lanes):
        total = emit("or", total, emit("extract", condition.value, lane=lane))
    return condition.make(total)


def when(
    condition: Term, then: Callable[[], tuple[Term, ...]], other: tuple[Term, ...]
) -> tuple[Term, ...]:
    """What `then` computes where the one bool `condition` holds, else `other`."""
    if condition.type != bool_:
        raise TypeError(f"a branch needs one bool, not {condition.type}")
    builder = condition.builder
    with builder.region() as yes:
        builder.do("yield", *(t.value for t in then()))
    with builder.region() as no:
        builder.do("yield", *(t.value for t in other))
    types = tuple(t.type for t in other)
    op = builder.op("if", (condition.value,), types=types, regions=(yes.region, no.region))
    return tuple(condition.make(value) for value in op.results)
