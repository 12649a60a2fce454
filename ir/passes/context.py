"""What a lowering writes with: a `Builder`, shorthands, and facts about target and kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..builder import Builder
from ..core import Attr, Value
from ..dtypes import DType, Type, VectorType, element_of, f32, with_element
from .support import Support


@dataclass(frozen=True)
class Context:
    """Where a lowering writes: shorthands over a `Builder`."""

    b: Builder
    support: Support
    attrs: Mapping[str, Attr]
    subgroup: int | None
    index: DType

    def e(self, name: str, *operands: Value, type: Type | None = None, **attrs: Attr) -> Value:
        return self.b.op(name, operands, attrs, None if type is None else (type,)).result

    def k(self, number: float, like: Value) -> Value:
        """A constant of the type of `like`."""
        return self.b.const(number, like.type)

    def cast(self, v: Value, element: DType) -> Value:
        """Convert to another element type."""
        t = with_element(v.type, element)
        return v if t == v.type else self.e("convert", v, type=t)

    def bits(self, v: Value, element: DType) -> Value:
        """Bitcast to another element type of the same width."""
        t = with_element(v.type, element)
        return v if t == v.type else self.e("bitcast", v, type=t)

    def widen(self, v: Value) -> Value:
        """A 16-bit float as f32; anything else as it is."""
        t = element_of(v.type)
        return self.cast(v, f32) if t.is_float and t.bits == 16 else v

    def lanes(self, name: str, args: tuple[Value, ...], t: VectorType) -> Value:
        """The op on each lane of a vector."""
        done = []
        for n in range(t.lanes):
            lane = self.e("extract", args[0], lane=n)
            op = self.b.op(name, (lane, *args[1:]), dict(self.attrs), None)
            done.append(op.result)
        return self.e("vector", *done)


Lowering = Callable[..., Value]
