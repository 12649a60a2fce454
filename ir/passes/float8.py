"""8-bit floats as the integers of their bits, which every target has; conversions as arithmetic.

Parameters become u8 as well, which the calling convention passes alike: the types that a caller
sees are those of the kernel before it was lowered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core import Kernel, Op, Value
from ..dtypes import (
    DType,
    MemType,
    Type,
    VectorType,
    element_of,
    f16,
    f32,
    f64,
    lanes_of,
    u8,
    u16,
    u32,
    vector_of,
    with_element,
)
from ..float8 import FORMATS, Format, to_float
from .effects import value_types
from .float8_pairs import apart
from .retype import Retyper
from .rounding import Wide

_EXPONENT, _FRACTION = 127, 23  # bias and bits of f32
_INFINITY, _NAN = 0x7F800000, 0x7FC00000


@dataclass(frozen=True)
class Float8:
    """Hold 8-bit floats as u8. native: convert by the instructions of NVIDIA's sm_89. pairs: make
    vectors of f16 by arithmetic on pairs of them, which the target has."""

    native: bool = False
    pairs: bool = False
    name: str = "float8"

    def __call__(self, kernel: Kernel) -> Kernel:
        if all(element_of(t).computes for t in value_types(kernel)):
            return kernel
        params = [p if p.dtype.computes else replace(p, dtype=u8) for p in kernel.params]
        lowering = _NvLowering(kernel) if self.native else _Lowering(kernel, self.pairs)
        return replace(lowering.run(), params=tuple(params))


class _Lowering(Retyper):
    def __init__(self, kernel: Kernel, by_pairs: bool = False) -> None:
        super().__init__(kernel)
        self.by_pairs = by_pairs
        self.wide = Wide(self.b, half_type=True)

    def types(self, t: Type) -> tuple[Type, ...] | None:
        if element_of(t).computes:
            return None
        if isinstance(t, MemType):
            return (MemType(t.space, u8, t.count, t.access),)
        return (with_element(t, u8),)

    def translate(self, op: Op) -> None:
        if op.name == "convert":
            self.convert(op)
        elif op.name == "bitcast":
            target = (self.types(op.result.type) or (op.result.type,))[0]
            value = self.value(op.operands[0])
            same = value.type == target
            self.set(op.result, value if same else self.b.emit("bitcast", value, type=target))
        else:
            operands = tuple([self.value(v) for v in op.operands])
            self.b.append(Op(op.name, operands, self.define(op.results), op.attrs, (), op.loc))

    def convert(self, op: Op) -> None:
        source, target = (element_of(v.type) for v in (op.operands[0], op.result))
        value = self.value(op.operands[0])
        if not source.computes and self.by_pairs and target == f16 and lanes_of(value.type) != 2:
            value = self.paired(value, source)
        elif not source.computes:
            value = self.widened(value, FORMATS[source.name])
            if target not in (f16, f32) and target.computes:
                value = self.wide.cast(value, f32)
        if not target.computes:
            self.set(op.result, self.narrowed(value, FORMATS[target.name]))
        else:
            self.set(op.result, self.wide.cast(value, target))

    def widened(self, value: Value, f: Format) -> Value:
        """The f32 with the value of a pattern in u8."""
        w = self.wide
        word = w.cast(value, u32)
        size = w.e("and", word, w.k(0x7F, word))
        moved = w.e("shl", size, w.k(_FRACTION - f.fraction, word))
        normal = w.e("add", moved, w.k((_EXPONENT - f.bias) << _FRACTION, word))
        special = w.e("gt", size, w.k(f.greatest, word))
        infinite = f.overflow != f.nan
        other = w.e("or", moved, w.k(_INFINITY, word)) if infinite else w.k(_NAN, word)
        number = w.cast(size, f32)
        unit = 2.0 ** (1 - f.bias - f.fraction)
        tiny = w.bits(w.e("mul", number, w.k(unit, number)), u32)
        small = w.e("lt", size, w.k(1 << f.fraction, word))
        magnitude = w.select(small, tiny, w.select(special, other, normal))
        sign = w.e("shl", w.e("and", word, w.k(0x80, word)), w.k(24, word))
        return w.bits(w.e("or", magnitude, sign), f32)

    def paired(self, value: Value, t: DType) -> Value:
        """The f16 with the values of patterns in u8."""
        count = lanes_of(value.type)
        if count == 1:
            even, _ = apart(self.b, self.wide.cast(value, u32), t)
            pair = self.b.emit("bitcast", even, type=VectorType(f16, 2))
            return self.b.emit("extract", pair, lane=0)
        kind = VectorType(u32, count // 4) if count > 4 else u32
        found = apart(self.b, self.b.emit("bitcast", value, type=kind), t)
        even, odd = (self.b.emit("bitcast", w, type=VectorType(f16, count // 2)) for w in found)
        lanes = tuple([n // 2 + n % 2 * (count // 2) for n in range(count)])
        return self.b.emit("shuffle", even, odd, lanes=lanes)

    def single(self, value: Value) -> Value:
        """Any number as the f32 that rounds as it does."""
        wide = element_of(value.type) == f64
        return self.wide.odd_single(value) if wide else self.wide.cast(value, f32)

    def narrowed(self, value: Value, f: Format) -> Value:
        """Any number rounded to nearest even, as its pattern in u8.

        An integer that f32 does not hold exactly lies beyond the greatest value either way.
        """
        w = self.wide
        value = self.single(value)
        word = w.bits(value, u32)
        size = w.e("and", word, w.k(0x7FFFFFFF, word))
        cut = _FRACTION - f.fraction
        odd = w.e("and", w.e("shr", size, w.k(cut, word)), w.k(1, word))
        # The exponent moves to the narrow bias; the carry of the rounding runs into it.
        away = ((_EXPONENT - f.bias) << _FRACTION) - ((1 << (cut - 1)) - 1)
        moved = w.e("add", w.e("sub", size, w.k(away, word)), odd)
        normal = w.e("min", w.e("shr", moved, w.k(cut, word)), w.k(f.overflow, word))
        # Below the normal numbers: the sum with a number whose last bit is the least value.
        least = 1 - f.bias - f.fraction
        magic = w.k(2.0 ** (_FRACTION + least), value)
        fixed = w.bits(w.e("add", w.bits(size, f32), magic), u32)
        small = w.e("sub", fixed, w.bits(magic, u32))
        first = (_EXPONENT + 1 - f.bias) << _FRACTION
        result = w.select(w.e("lt", size, w.k(first, word)), small, normal)
        if f.nan != f.overflow:
            nan = w.e("gt", size, w.k(_INFINITY, word))
            result = w.select(nan, w.k(f.nan, word), result)
        sign = w.e("and", w.e("shr", word, w.k(24, word)), w.k(0x80, word))
        return w.cast(w.e("or", result, sign), u8)


class _NvLowering(_Lowering):
    """Two values at a time, by `nv_unpack_f8` and `nv_pack_f8`."""

    def widened(self, value: Value, f: Format) -> Value:
        """As f16, which holds every value."""
        count = lanes_of(value.type)
        halves = []
        for pair in self.pairs(value):
            word = self.b.emit("nv_unpack_f8", pair, element=f.name)
            both = self.b.emit("bitcast", word, type=vector_of(f16, 2))
            halves += [self.b.emit("extract", both, lane=n) for n in range(min(count, 2))]
        return self.joined(halves)

    def narrowed(self, value: Value, f: Format) -> Value:
        """The instruction saturates: what is beyond the greatest value is put right."""
        w, value = self.wide, self.single(value)
        parts = self.lanes(value)
        if len(parts) == 1:
            parts.append(self.b.const(0.0, f32))
        packed = [
            self.b.emit("nv_pack_f8", *parts[n : n + 2], element=f.name)
            for n in range(0, len(parts), 2)
        ]
        target = with_element(value.type, u8)
        if isinstance(target, VectorType):
            result = self.b.emit("bitcast", self.joined(packed), type=target)
        else:
            result = w.cast(packed[0], u8)
        # Half a step beyond the greatest value, ties go to the even pattern.
        even = f.greatest % 2 == 0
        middle = f.limit + (f.limit - to_float(f.greatest - 1, f.name)) / 2
        beyond = w.e("gt" if even else "ge", w.e("abs", value), w.k(middle, value))
        sign = w.e("and", result, w.k(0x80, result))
        return w.select(beyond, w.e("or", sign, w.k(f.overflow, result)), result)

    def pairs(self, value: Value) -> list[Value]:
        """Patterns in u8, two in each u16; a single one with nothing above it."""
        count = lanes_of(value.type)
        if count == 1:
            return [self.wide.cast(value, u16)]
        target = u16 if count == 2 else vector_of(u16, count // 2)
        return self.lanes(self.b.emit("bitcast", value, type=target))

    def lanes(self, value: Value) -> list[Value]:
        count = lanes_of(value.type)
        if count == 1:
            return [value]
        return [self.b.emit("extract", value, lane=n) for n in range(count)]

    def joined(self, values: list[Value]) -> Value:
        return values[0] if len(values) == 1 else self.b.emit("vector", *values)
