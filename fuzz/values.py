"""Random expressions of kernel IR whose results are the same on every conforming target.

Only exact ops appear. Floats are kept tame: after every arithmetic step that may grow or shrink
them they are rounded to a small multiple of a power of two and clamped, so that no denormal and no
infinity arises and the fold of a whole program stays exact. The sign of a zero is never observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..ir.builder import Builder
from ..ir.core import Value
from ..ir.dtypes import (
    DType,
    Type,
    VectorType,
    bool_,
    element_of,
    i32,
    lanes_of,
    u32,
    with_element,
)

Item = TypeVar("Item")

# per float type: steps per unit and limit of its tame values (few enough bits to be exact)
TAME = {"f16": (4.0, 256.0), "bf16": (2.0, 64.0), "f32": (8.0, 4096.0), "f64": (8.0, 4096.0)}

INT_BINARY = (
    *("add", "sub", "mul", "min", "max", "floordiv", "mod"),
    *("and", "or", "xor", "shl", "shr", "mul_high"),
)
INT_UNARY = ("neg", "abs", "sign", "not", "popcount", "clz", "ctz", "reverse_bits")
FLOAT_BINARY = ("add", "sub", "mul", "min", "max")
FLOAT_UNARY = ("neg", "abs", "sign", "floor", "ceil", "trunc", "rint")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
EDGES = (0, 1, 2, 3, 5, 7, -1, -2)


class Values:
    """Builds expressions into `b` from the values in scope, at random."""

    def __init__(
        self,
        rng: np.random.Generator,
        builder: Builder,
        types: tuple[DType, ...],
        lanes: tuple[int, ...],
    ) -> None:
        self.rng, self.b = rng, builder
        self.types = types  # scalar types in use, i32 among them
        self.lanes = lanes  # vector widths in use
        self.scope: list[Value] = []
        self.wild: list[Value] = []  # floats of any kind in scope (see `special`)
        self.left: dict[str, int] = {}  # arithmetic still allowed, of types where it is rare

    def mark(self) -> tuple[int, int]:
        """What is in scope now, for `forget`."""
        return len(self.scope), len(self.wild)

    def forget(self, mark: tuple[int, int]) -> None:
        """Leave a region: what came since the mark is no longer in scope."""
        del self.scope[mark[0] :]
        del self.wild[mark[1] :]

    def spend(self, t: Type, ops: int) -> bool:
        """Whether that much more arithmetic on a type is allowed; counts it."""
        name = element_of(t).name
        if name not in self.left:
            return True
        self.left[name] -= ops
        return self.left[name] >= 0

    # choosing

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choose(self, items: Sequence[Item]) -> Item:
        return items[int(self.rng.integers(len(items)))]

    def any_type(self) -> Type:
        """A type in use, sometimes bool or a vector."""
        if self.chance(0.1):
            return bool_
        dtype = self.choose(self.types)
        if self.lanes and self.chance(0.25):
            return VectorType(dtype, self.choose(self.lanes))
        return dtype

    def in_scope(self, t: Type) -> Value | None:
        """A value of that type, later ones more often; None where there is none."""
        found = [v for v in self.scope if v.type == t]
        if not found:
            return None
        return found[-1 - min(int(self.rng.geometric(0.3)) - 1, len(found) - 1)]

    # building

    def constant(self, t: Type) -> Value:
        if isinstance(t, VectorType):
            if self.chance(0.5):
                return self.b.const(self._number(t.element), t)
            parts = [self.constant(t.element) for _ in range(t.lanes)]
            return self.b.emit("vector", *parts)
        return self.b.const(self._number(t), t)

    def _number(self, t: Type) -> float:
        dtype = element_of(t)
        if dtype.is_bool:
            return bool(self.rng.integers(2))
        if dtype.is_float:
            steps, limit = TAME[dtype.name]
            most = int(min(limit, 20) * steps)
            return int(self.rng.integers(-most, most + 1)) / steps
        if self.chance(0.5):
            return self.choose(EDGES)
        if self.chance(0.3):
            return self.choose((dtype.min, dtype.max, dtype.max - 1, 1 << (dtype.bits - 1)))
        return int(self.rng.integers(0, 1 << 62)) * 5

    def tame(self, value: Value) -> Value:
        """A float as a multiple of 1 / steps within the limit."""
        b, t = self.b, value.type
        steps, limit = TAME[element_of(t).name]
        scaled = b.emit("rint", b.emit("mul", value, b.const(steps, t)))
        whole = b.emit("mul", scaled, b.const(1 / steps, t))
        low = b.emit("max", whole, b.const(-limit, t))
        return b.emit("min", low, b.const(limit, t))

    def leaf(self, t: Type) -> Value:
        found = self.in_scope(t) if self.chance(0.8) else None
        return self.constant(t) if found is None else found

    def expression(self, t: Type, depth: int = 3) -> Value:
        """A random expression of type `t`."""
        if depth <= 0 or self.chance(0.15):
            return self.leaf(t)
        if isinstance(t, VectorType) and self.chance(0.35):
            return self._vector(t, depth - 1)
        if isinstance(t, DType) and self.lanes and self.chance(0.1) and not t.is_bool:
            source = self.expression(VectorType(t, self.choose(self.lanes)), depth - 1)
            lane = int(self.rng.integers(lanes_of(source.type)))
            return self.b.emit("extract", source, lane=lane)
        if self.chance(0.12):
            return self._select(t, depth - 1)
        element = element_of(t)
        if element.is_bool:
            return self._bool(t, depth - 1)
        if element.is_float and not self.spend(t, 5):
            return self.leaf(t)
        if self.chance(0.2):
            return self._converted(t, depth - 1)
        return self._float(t, depth - 1) if element.is_float else self._int(t, depth - 1)

    def _int(self, t: Type, depth: int) -> Value:
        if t in (i32, u32) and self.chance(0.05):
            a = self.expression(self.choose((i32, u32) if t == i32 else (u32,)), depth)
            b = self.expression(i32 if t == i32 else u32, depth)
            return self.b.emit("dot4", a, b, self.expression(t, depth))
        if self.chance(0.3):
            return self.b.emit(self.choose(INT_UNARY), self.expression(t, depth))
        name = self.choose(INT_BINARY)
        return self.b.emit(name, self.expression(t, depth), self.expression(t, depth))

    def _float(self, t: Type, depth: int) -> Value:
        if self.chance(0.3):
            return self.b.emit(self.choose(FLOAT_UNARY), self.expression(t, depth))
        name = self.choose(FLOAT_BINARY)
        result = self.b.emit(name, self.expression(t, depth), self.expression(t, depth))
        return self.tame(result) if name in ("add", "sub", "mul") else result

    def _bool(self, t: Type, depth: int) -> Value:
        if self.chance(0.25):
            a, b = self.expression(t, depth), self.expression(t, depth)
            return self.b.emit(self.choose(("and", "or", "xor")), a, b)
        if self.chance(0.1):
            return self.b.emit("not", self.expression(t, depth))
        source = with_element(t, self.choose(self.types))
        name = self.choose(COMPARE)
        return self.b.emit(name, self.expression(source, depth), self.expression(source, depth))

    def _select(self, t: Type, depth: int) -> Value:
        mask = with_element(t, bool_) if self.chance(0.5) else bool_
        condition = self.expression(mask, depth)
        a, b = self.expression(t, depth), self.expression(t, depth)
        return self.b.emit("select", condition, a, b)

    def _converted(self, t: Type, depth: int) -> Value:
        element = element_of(t)
        if element.is_int and self.chance(0.3):
            twins = [d for d in self.types if d.is_int and d.bits == element.bits and d != element]
            if twins:
                source = self.expression(with_element(t, twins[0]), depth)
                return self.b.emit("bitcast", source, type=t)
        source = self.expression(with_element(t, self.choose((*self.types, bool_))), depth)
        result = self.b.emit("convert", source, type=t)
        return self.tame(result) if element.is_float else result

    def _vector(self, t: VectorType, depth: int) -> Value:
        ways: tuple[Callable[[VectorType, int], Value], ...] = (
            self._gathered,
            lambda t, d: self.b.emit("splat", self.expression(t.element, d), type=t),
            self._inserted,
            self._shuffled,
        )
        return self.choose(ways)(t, depth)

    def _gathered(self, t: VectorType, depth: int) -> Value:
        parts = [self.expression(t.element, depth - 1) for _ in range(t.lanes)]
        return self.b.emit("vector", *parts)

    def _inserted(self, t: VectorType, depth: int) -> Value:
        lane = int(self.rng.integers(t.lanes))
        part = self.expression(t.element, depth)
        return self.b.emit("insert", self.expression(t, depth), part, lane=lane)

    def _shuffled(self, t: VectorType, depth: int) -> Value:
        source = VectorType(t.element, self.choose(self.lanes))
        lanes = tuple(int(n) for n in self.rng.integers(0, 2 * source.lanes, t.lanes))
        a, b = self.expression(source, depth), self.expression(source, depth)
        return self.b.emit("shuffle", a, b, lanes=lanes)

    def bounded(self, t: DType, limit: int, depth: int = 2) -> Value:
        """An integer of type `t` within 0 .. limit - 1."""
        return self.b.emit("mod", self.expression(t, depth), self.b.const(limit, t))
