"""Addresses of elements where LLVM does not optimise.

An element whose index differs by a constant from one before is reached from there, since an access
has room for a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from ...ir.core import Op, Value
from ...ir.dtypes import i32
from ...ir.passes.affine import SUMS, AffineForms, Terms
from ..llvm.text import Function
from .lowering import Memory

# Pointer to a memory, terms of an index, bytes of an element.
Place = tuple[str, Terms, int]


class Addresses:
    """The addresses at hand, each with the constant of its index. defs: the ops by their results'
    numbers. loose: spaces where an address may be at hand that lies outside of its memory."""

    def __init__(self, f: Function, defs: Mapping[int, Op], loose: Collection[str] = ()) -> None:
        self.f, self.loose = f, loose
        self.known: dict[Place, tuple[str, int]] = {}
        self.sums = AffineForms()
        for op in defs.values():
            if op.name in SUMS:
                self.sums.define(op)

    def reach(self, memory: Memory, index: Value, size: int, make: Callable[[], str]) -> str:
        """The address of memory[index], of `size` bytes, where an access follows. make: computes
        it from nothing."""
        if index.type != i32:
            return make()
        form = self.sums.of(index)
        place = memory.pointer, form.terms, size
        if place not in self.known:
            self.known[place] = make(), form.constant
        first, constant = self.known[place]
        # Both are indexes of elements, from 0 to 2**31 - 1: they lie as far apart as their sums do.
        apart = (form.constant - constant + (1 << 31)) % (1 << 32) - (1 << 31)
        if not apart:
            return first
        return plus(self.f, memory, first, apart * size, memory.space not in self.loose)

    def knows(self, memory: Memory, index: Value, size: int) -> bool:
        """Whether the address of memory[index] can be reached from one before."""
        return index.type == i32 and (memory.pointer, self.sums.of(index).terms, size) in self.known

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Addresses from within a region are not at hand behind it."""
        outside = dict(self.known)
        yield
        self.known = outside


def plus(f: Function, memory: Memory, pointer: str, offset: int | str, inside: bool = True) -> str:
    """The address so many bytes on. inside: both lie within the memory."""
    word = "inbounds " if inside else ""
    return f.value(f"getelementptr {word}i8, {memory.space} {pointer}, i64 {offset}")
