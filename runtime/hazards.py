"""Which launches must wait for which: conflicts of (allocation, byte range, access)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .memory import Allocation


class Binding(NamedTuple):
    """A buffer argument of one launch: bytes of an allocation and how they are accessed.

    elements: how many the kernel sees; nbytes is 0 where there are none.
    """

    allocation: Allocation
    offset: int
    nbytes: int
    elements: int
    reads: bool
    writes: bool


def overlap(a: Binding, b: Binding) -> bool:
    """Whether two bindings share a byte."""
    return (
        a.allocation is b.allocation
        and a.offset < b.offset + b.nbytes
        and b.offset < a.offset + a.nbytes
    )


class HazardTracker:
    """What was accessed since the last barrier; says when the next one is needed."""

    def __init__(self) -> None:
        self._since: dict[int, list[Binding]] = {}

    def barrier_before(self, bindings: Iterable[Binding]) -> bool:
        """Whether a launch with these bindings must wait; notes them either way.

        True means that a barrier is put before the launch, so that what came earlier is settled.
        """
        bindings = [b for b in bindings if b.nbytes]
        needed = any(
            (new.writes or old.writes) and overlap(new, old)
            for new in bindings
            for old in self._since.get(new.allocation.serial, ())
        )
        if needed:
            self._since.clear()
        for binding in bindings:
            self._since.setdefault(binding.allocation.serial, []).append(binding)
        return needed
