"""Building kernel IR op by op: what the tracer, the passes and `ir.maths` use.

A `Builder` hands out value numbers, infers result types from the op table and keeps a stack of
open op lists, so that a region is built inside `with builder.region(...)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .core import Attr, Loc, Op, Region, Value, const_bits, types_of
from .dtypes import FragmentType, MemType, Type, VectorType
from .ops import infer_op

__all__ = ["Builder", "RegionBuilder", "const_bits"]


class RegionBuilder:
    """A region under construction: its arguments and, once closed, the region itself."""

    def __init__(self, args: tuple[Value, ...]) -> None:
        self.args = args
        self.region = Region(args)


class Builder:
    """Appends ops to the innermost open region. `loc` is stamped on every op emitted."""

    def __init__(self, first_id: int = 0) -> None:
        self._next = first_id
        self._stack: list[list[Op]] = [[]]
        self.loc: Loc | None = None

    @property
    def ops(self) -> list[Op]:
        """The op list that is open now."""
        return self._stack[-1]

    def value(self, type_: Type, hint: str = "") -> Value:
        """A fresh value."""
        self._next += 1
        return Value(self._next - 1, type_, hint)

    def emit(
        self,
        name: str,
        *operands: Value,
        type: Type | None = None,
        hint: str = "",
        **attrs: Attr,
    ) -> Value:
        """Append an op with exactly one result; OpTypeError where the operands do not fit."""
        op = self.op(name, operands, attrs, None if type is None else (type,), hint=hint)
        (value,) = op.results
        return value

    def do(self, name: str, *operands: Value, **attrs: Attr) -> Op:
        """Append an op without results."""
        return self.op(name, operands, attrs)

    def op(
        self,
        name: str,
        operands: Sequence[Value] = (),
        attrs: Mapping[str, Any] | None = None,
        types: tuple[Type, ...] | None = None,
        regions: tuple[Region, ...] = (),
        hint: str = "",
    ) -> Op:
        """Append any op. Ops that own regions state their result types."""
        known = tuple(sorted(attrs.items())) if attrs else ()
        results = types or () if regions else infer_op(name, types_of(operands), known, types)
        first = self._next
        if len(results) == 1:  # the usual case
            made: tuple[Value, ...] = (Value(first, results[0], hint),)
        else:
            made = tuple([Value(n, type_, hint) for n, type_ in enumerate(results, first)])
        self._next = first + len(results)
        op = Op(name, tuple(operands), made, known, regions, self.loc)
        self._stack[-1].append(op)
        return op

    def append(self, op: Op) -> None:
        """Append a finished op as it is."""
        self.ops.append(op)

    @contextmanager
    def region(self, *arg_types: Type, hints: Sequence[str] = ()) -> Iterator[RegionBuilder]:
        """Open a region; on leaving the block its ops are in `.region` of the yielded object."""
        names = list(hints) + [""] * len(arg_types)
        built = RegionBuilder(
            tuple(self.value(t, n) for t, n in zip(arg_types, names, strict=False))
        )
        self._stack.append([])
        try:
            yield built
        finally:
            built.region = Region(built.args, tuple(self._stack.pop()))

    def const(self, value: float, type_: Type) -> Value:
        """A constant scalar, or a vector or fragment full of it; integers wrap."""
        if isinstance(type_, (VectorType, FragmentType)):
            return self.emit("splat", self.const(value, type_.element), type=type_)
        if isinstance(type_, MemType):
            raise TypeError(f"no constant of type {type_}")
        made = self.value(type_)  # its type is not inferred
        bits = (("bits", const_bits(value, type_)),)
        self._stack[-1].append(Op("const", (), (made,), bits, (), self.loc))
        return made
