"""Which barriers order buffers.

A barrier orders workgroup arrays and buffers. Ordering buffers costs what workgroup memory does not
need: stores are waited for, and caches thrown away. So a barrier orders buffers only where one is
written on one side of it and written or read on the other, or where a fence of the device may tell
other workgroups what lies before it: such a fence waits for the stores of its own invocation only,
so the barrier has to wait for those of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from ..ir.core import Kernel, Op, Region
from ..ir.dtypes import MemType, Space
from ..ir.ops import ROWS, Effect

_WRITES = (Effect.WRITE, Effect.ATOMIC)
_NOTED = (*_WRITES, Effect.READ, Effect.SYNC)
_OVERLAPPING = -1  # stands for all buffers that may overlap


class Order:
    """What a walk over a kernel notes, op by op; then the barriers that order buffers.

    What happens in a loop around a barrier happens on both sides of it, so places count by the
    outermost loop around them.
    """

    def __init__(self, kernel: Kernel) -> None:
        pairs = zip(kernel.params, kernel.body.args, strict=True)
        self._names = {
            v.id: _OVERLAPPING if p.may_alias else v.id
            for p, v in pairs
            if isinstance(v.type, MemType) and v.type.space is Space.BUFFER
        }
        self._at = self._depth = self._first = 0
        self._uses: dict[int, list[tuple[int, bool]]] = {}  # by buffer: place, whether it writes
        self._open: list[tuple[int, Op]] = []  # barriers of the loop that is being walked
        self._barriers: list[tuple[int, int, Op]] = []  # first and last place of its loop, barrier
        self._device_fence = False

    def note(self, op: Op) -> None:
        """Note a barrier, a fence or an access to memory."""
        self._at += 1
        if op.name == "barrier":
            self._open.append((self._at, op))
            if not self._depth:
                self._close(self._at)
        elif op.name == "fence":
            self._device_fence |= op.attr("scope") == "device"
        else:
            writes = ROWS[op.name].effect in _WRITES
            for value in op.operands:
                name = self._names.get(value.id)
                if name is not None:
                    self._uses.setdefault(name, []).append((self._at, writes))

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Around the walk over the regions of a loop."""
        if not self._depth:
            self._first = self._at + 1
        self._depth += 1
        yield
        self._depth -= 1
        if not self._depth:
            self._close(self._first)

    def _close(self, first: int) -> None:
        self._barriers += [(first, self._at, op) for _, op in self._open]
        self._open.clear()

    def ordering(self) -> frozenset[int]:
        """`id` of the barriers that order buffers."""
        return frozenset(
            id(op)
            for first, last, op in self._barriers
            if self._device_fence or any(_shared(uses, first, last) for uses in self._uses.values())
        )


def ordering_barriers(kernel: Kernel) -> frozenset[int]:
    """`id` of the barriers of a kernel that order buffers."""
    order = Order(kernel)
    _walk(order, kernel.body)
    return order.ordering()


def _walk(order: Order, region: Region) -> None:
    for op in region.ops:
        if op.regions:
            with order.loop() if op.name in ("for", "while") else nullcontext():
                for inner in op.regions:
                    _walk(order, inner)
        elif ROWS[op.name].effect in _NOTED:
            order.note(op)


def _shared(uses: list[tuple[int, bool]], first: int, last: int) -> bool:
    """Whether uses lie on both sides of a barrier that is repeated from `first` to `last`, one of
    them a write."""
    before = [writes for at, writes in uses if at <= last]
    after = [writes for at, writes in uses if at >= first]
    return bool(before and after) and (any(before) or any(after))
