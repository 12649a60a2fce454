"""Values of types that a target lacks, held in wider ones; second half of legalization.

After this pass values have types of `Support.arithmetic` only; a type that is just in
`Support.storage` appears between a load and the `convert` or `bitcast` behind it, or before a
store. `Kernel.params` keeps the types that the caller sees, `body.args` may differ from it:

    scalar of a type without arithmetic   u32: its bit pattern, zero-extended, as the ABI passes it
    buffer of bf16                        buffer of u16
    buffer of bool                        buffer of u8
    buffer of a type without storage      buffer of u32 words, `readwrite` where it is written;
                                          `count` still gives elements of the parameter's type
    private and workgroup arrays          one wide element per narrow one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..core import Kernel, Op, Value, const_value
from ..dtypes import (
    DTYPES,
    DType,
    MemType,
    Space,
    Type,
    element_of,
    f32,
    u32,
    with_element,
)
from . import narrow_memory as memory
from .effects import names, value_types
from .retype import Retyper
from .rounding import Wide
from .support import Support

# Ops whose result, computed on held values, is a value of the narrow type already.
_CLOSED_INT = frozenset({"and", "or", "xor", "min", "max", "mod", "shr", "select"})
_CLOSED_FLOAT = frozenset(
    {"neg", "abs", "min", "max", "floor", "ceil", "trunc", "rint", "copysign", "select", "sign"}
)
_MOVES = names(
    "vector splat extract insert shuffle subgroup_shuffle subgroup_shuffle_xor"
    " subgroup_shuffle_up subgroup_shuffle_down subgroup_broadcast"
)


@dataclass(frozen=True)
class Narrow:
    """Hold values in types that `support` has."""

    support: Support
    name: str = "narrow"

    def __call__(self, kernel: Kernel) -> Kernel:
        return self.where(kernel, value_types(kernel))

    def where(self, kernel: Kernel, types: Sequence[Type]) -> Kernel:
        """The same, given the types of the kernel's values."""
        held, cells = _replaced(self.support)
        for t in types:
            buffer = isinstance(t, MemType) and t.space is Space.BUFFER
            if element_of(t).name in (cells if buffer else held):
                return _Narrower(kernel, self.support).run()
        return kernel


@lru_cache(64)
def _replaced(support: Support) -> tuple[dict[str, DType], dict[str, DType]]:
    """What values, and elements of buffers, of each type without support are held in."""
    held = {name: support.register(t) for name, t in DTYPES.items()}
    cells = {name: memory.cell(t, support) for name, t in DTYPES.items()}
    return (
        {name: t for name, t in held.items() if t.name != name},
        {name: t for name, t in cells.items() if t.name != name},
    )


class _Narrower(Retyper):
    def __init__(self, kernel: Kernel, support: Support) -> None:
        super().__init__(kernel)
        self.support = support
        half = bool({"f16"} & (support.arithmetic | support.storage))
        self.wide = Wide(self.b, half)
        self.held, self.cells = _replaced(support)
        self.memories: dict[int, memory.Place] = {}

    def types(self, t: Type) -> tuple[Type, ...] | None:
        if isinstance(t, MemType):
            if t.space is Space.BUFFER:
                cell = self.cells.get(t.element.name)
                return None if cell is None else (memory.buffer_type(t, cell),)
            wide = self.held.get(t.element.name)
            return None if wide is None else (MemType(t.space, wide, t.count, t.access),)
        wide = self.held.get(element_of(t).name)
        return None if wide is None else (with_element(t, wide),)

    def arguments(self, args: tuple[Value, ...]) -> tuple[Value, ...]:
        new = []
        for v in args:
            types = self.types(v.type)
            if types is None:
                new.append(v)
            elif isinstance(v.type, MemType):
                (arg,) = self.define((v,))
                self.memories[v.id] = memory.Place(arg, v.type.element)
                new.append(arg)
            else:
                word = self.b.value(u32, v.hint)
                assert isinstance(v.type, DType)
                self.set(v, self.wide.unpattern(word, v.type))
                new.append(word)
        return tuple(new)

    # ops

    def translate(self, op: Op) -> None:
        name = op.name
        special = _SPECIAL.get(name)
        if special is not None:
            special(self, op)
            return
        operands = [self.value(v) for v in op.operands]
        if not op.results:  # assert, debug ops
            self.b.append(Op(name, tuple(operands), (), op.attrs, (), op.loc))
            return
        result = op.results[0]
        narrow = element_of(result.type)
        if self.types(result.type) is None:  # comparisons and tests
            self.b.append(Op(name, tuple(operands), op.results, op.attrs, (), op.loc))
            return
        if name in ("shl", "shr"):
            operands[1] = self.wide.e("and", operands[1], self.wide.k(narrow.bits - 1, operands[1]))
        wide = with_element(result.type, self.held[narrow.name])
        value = self.b.op(name, operands, dict(op.attrs), (wide,)).result
        closed = _CLOSED_FLOAT if narrow.is_float else _CLOSED_INT
        if name not in closed and name not in _MOVES:
            value = self.fit(value, narrow)
        self.set(result, value)

    def fit(self, value: Value, narrow: DType) -> Value:
        """A wide result as a value of the narrow type."""
        if narrow.is_float:
            return self.wide.round(value, narrow)
        return self.wide.wrap(value, narrow)

    def _const(self, op: Op) -> None:
        narrow = element_of(op.result.type)
        self.set(op.result, self.b.const(const_value(op), self.held[narrow.name]))

    def _not(self, op: Op) -> None:
        value = self.b.emit("not", self.value(op.operands[0]))
        self.set(op.result, self.fit(value, element_of(op.result.type)))

    def _convert(self, op: Op) -> None:
        a = op.operands[0]
        source, target = element_of(a.type), element_of(op.result.type)
        value = self.value(a)
        wide = self.held.get(target.name)
        if wide is None:  # the held value is the value
            if element_of(value.type) == target:
                self.set(op.result, value)
            else:
                self.b.append(Op("convert", (value,), op.results, op.attrs, (), op.loc))
        elif target.is_float:
            if source.is_float and source.bits == 16 and source != target:
                self.set(op.result, self.wide.round(self.wide.cast(value, f32), target))
            else:
                small = source.bits < 32
                self.set(op.result, self.wide.to_float(value, target, small))
        elif source.is_float:  # saturates: first in 32 bits, then in the narrow range
            value = self.wide.cast(value, wide)
            value = self.wide.e("min", value, self.wide.k(target.max, value))
            if target.is_signed:
                value = self.wide.e("max", value, self.wide.k(target.min, value))
            self.set(op.result, value)
        else:
            value = self.wide.cast(value, wide)
            self.set(op.result, value if source.is_bool else self.fit(value, target))

    def _bitcast(self, op: Op) -> None:
        source, target = op.operands[0].type, op.result.type
        a, b = element_of(source), element_of(target)
        value = self.value(op.operands[0])
        if a.bits == b.bits:
            held = self.held
            word = self.wide.pattern(value, a) if a.name in held else self._raw(value, a)
            done = self.wide.unpattern(word, b) if b.name in held else self._unraw(word, b)
            self.set(op.result, done)
            return
        memory.repack(self, op.result, value, a, b)

    def _raw(self, value: Value, t: DType) -> Value:
        """The bits of a native 16-bit or 8-bit value in u32."""
        return self.wide.cast(self.wide.bits(value, DTYPES[f"u{t.bits}"]), u32)

    def _unraw(self, word: Value, t: DType) -> Value:
        return self.wide.bits(self.wide.cast(word, DTYPES[f"u{t.bits}"]), t)

    def _alloc(self, op: Op) -> None:
        (arg,) = self.define(op.results)
        self.b.append(Op("alloc", (), (arg,), op.attrs, (), op.loc))

    def _count(self, op: Op) -> None:
        self.keep(op)

    def _load(self, op: Op) -> None:
        memory.load(self, op)

    def _store(self, op: Op) -> None:
        memory.store(self, op)

    def _reduction(self, op: Op) -> None:
        narrow = element_of(op.result.type)
        (wide,) = self.types(op.result.type) or (op.result.type,)
        operands = [self.value(v) for v in op.operands]
        value = self.b.op(op.name, operands, dict(op.attrs), (wide,)).result
        kind = op.attr("kind")
        first = op.name == "subgroup_scan" and not op.attr("inclusive")
        if kind in ("min", "max") and not narrow.is_float:
            if first:  # the identity of the wide type is outside the narrow one
                limit = narrow.max if kind == "min" else narrow.min
                value = self.wide.e(str(kind), value, self.wide.k(limit, value))
        elif kind not in ("min", "max"):
            value = self.fit(value, narrow)
        self.set(op.result, value)


_SPECIAL = {
    "const": _Narrower._const,
    "not": _Narrower._not,
    "convert": _Narrower._convert,
    "bitcast": _Narrower._bitcast,
    "alloc": _Narrower._alloc,
    "count": _Narrower._count,
    "load": _Narrower._load,
    "store": _Narrower._store,
    "subgroup_reduce": _Narrower._reduction,
    "subgroup_scan": _Narrower._reduction,
}
