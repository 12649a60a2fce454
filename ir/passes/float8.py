"""8-bit floats as the integers of their bits, which every target has; conversions as arithmetic.

Parameters become u8 as well, which the calling convention passes alike: the types that a caller
sees are those of the kernel before it was lowered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core import Kernel, Op, Value
from ..dtypes import MemType, Type, element_of, f32, f64, u8, u32, with_element
from ..float8 import FORMATS, Format
from .effects import value_types
from .retype import Retyper
from .rounding import Wide

_EXPONENT, _FRACTION = 127, 23  # bias and bits of f32
_INFINITY, _NAN = 0x7F800000, 0x7FC00000


@dataclass(frozen=True)
class Float8:
    """Hold 8-bit floats as u8."""

    name: str = "float8"

    def __call__(self, kernel: Kernel) -> Kernel:
        if all(element_of(t).computes for t in value_types(kernel)):
            return kernel
        params = [p if p.dtype.computes else replace(p, dtype=u8) for p in kernel.params]
        return replace(_Lowering(kernel).run(), params=tuple(params))


class _Lowering(Retyper):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
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
        if not source.computes:
            value = self.widened(value, FORMATS[source.name])
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

    def narrowed(self, value: Value, f: Format) -> Value:
        """Any number rounded to nearest even, as its pattern in u8.

        An integer that f32 does not hold exactly lies beyond the greatest value either way.
        """
        w = self.wide
        source = element_of(value.type)
        value = w.odd_single(value) if source == f64 else w.cast(value, f32)
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
