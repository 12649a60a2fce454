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
        a.allocation.serial == b.allocation.serial
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


class Dependencies:
    """Launches in the order recorded, and for each the earlier ones that it must wait for."""

    def __init__(self) -> None:
        self._accesses: dict[int, list[tuple[Binding, int]]] = {}
        self._ahead: list[int] = []  # of each launch: a bit for every launch that it comes after

    def of(self, bindings: Iterable[Binding]) -> list[int]:
        """The launches that the next one, with these bindings, must follow directly.

        What already follows from the others is left out.
        """
        bindings = [b for b in bindings if b.nbytes]
        number = len(self._ahead)
        conflicts = {
            launch
            for new in bindings
            for old, launch in self._accesses.get(new.allocation.serial, ())
            if (new.writes or old.writes) and overlap(new, old)
        }
        for binding in bindings:
            self._note(binding, number)
        ahead, direct = 0, []
        for launch in sorted(conflicts, reverse=True):
            if not ahead >> launch & 1:
                direct.append(launch)
                ahead |= self._ahead[launch] | 1 << launch
        self._ahead.append(ahead)
        return direct

    def _note(self, binding: Binding, number: int) -> None:
        """Remember an access. A write stands for all earlier accesses of the bytes it covers:
        whoever conflicts with them conflicts with it."""
        held = self._accesses.setdefault(binding.allocation.serial, [])
        if binding.writes:
            end = binding.offset + binding.nbytes
            held[:] = [
                (old, launch)
                for old, launch in held
                if old.offset < binding.offset or old.offset + old.nbytes > end
            ]
        held.append((binding, number))
