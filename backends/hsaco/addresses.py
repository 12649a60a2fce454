"""Addresses of elements where LLVM does not optimise.

In LDS neighbours share an address, and what lies between them is in the access (`simt.addresses`).
Sums with a constant that are indexes there and nothing else are not computed, then: the shared
address is that of the other summand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir.core import Kernel, Value, const_value, walk
from ...ir.dtypes import MemType, Space, i32
from ..llvm.types import memory_type
from ..simt.memory import plain_address
from .lowering import SHARED, Lowering, Memory

_MOST = 1 << 20  # of such a constant: more elements than LDS has bytes
_ACCESSES = frozenset(("load", "store", "atomic", "compare_exchange"))


def sums(kernel: Kernel) -> dict[int, Value]:
    """By the numbers of the sums that are not computed: the other summand."""
    small: set[int] = set()
    found: dict[int, Value] = {}
    used: set[int] = set()
    for op in walk(kernel.body):
        operands = op.operands
        if op.name == "const":
            if op.results[0].type == i32 and 0 <= int(const_value(op)) < _MOST:
                small.add(op.results[0].id)
            continue
        if op.name == "add" and operands[1].id in small:
            found[op.results[0].id] = operands[0]
        elif op.name in _ACCESSES and _in_lds(operands[0]):
            operands = operands[2:]
        used.update([v.id for v in operands])
    return {number: v for number, v in found.items() if number not in used}


def _in_lds(memory: Value) -> bool:
    return isinstance(memory.type, MemType) and memory.type.space is Space.WORKGROUP


def address(
    x: Lowering, skipped: Mapping[int, Value], memory: Memory, index: Value, count: int
) -> str:
    """The address of memory[index * count], where an access follows. skipped: what `sums` found."""
    size = memory.type.element.bytes * count
    base = index
    while base.id in skipped:
        base = skipped[base.id]
    if base is not index and not x.addresses.knows(memory, index, size):
        x.addresses.reach(memory, base, size, _made(x, memory, base, count, ""))
    return x.addresses.reach(memory, index, size, _made(x, memory, index, count, "inbounds "))


def _made(x: Lowering, memory: Memory, index: Value, count: int, known: str) -> Callable[[], str]:
    """Computes an address from nothing. known: what is known of it."""
    if memory.space != SHARED or index.type != i32:
        return lambda: plain_address(x, memory, index, count)
    kind = memory_type(memory.type.element)
    if count > 1:
        kind = f"<{count} x {kind}>"
    place = f"getelementptr {known}{kind}, {SHARED} {memory.pointer}"
    return lambda: x.f.value(f"{place}, i32 {x.scalar(index)}")
