"""Finding races: per memory cell, who read, wrote or updated it since its workgroup's last barrier.

An access is stamped with a key: the epoch (a number that is unique for a workgroup between two of
its barriers) and the invocation's number within the workgroup. Two keys of one epoch with
different invocations collide; keys of other epochs, and so of other workgroups, do not.
"""

from __future__ import annotations

import numpy as np

from .frame import Array

LANE_BITS = 20
MANY = (1 << LANE_BITS) - 1  # in the place of an invocation: several have read


def foreign(stamp: Array, key: Array) -> Array:
    """Whether a stamp is of the same epoch, but by another invocation."""
    difference = stamp ^ key
    return np.asarray((difference > 0) & (difference <= MANY))


class RaceTable:
    """The stamps of one memory of `size` cells.

    Every method takes flat cells and keys of one op, stamps the cells and returns
    (mask, stamps of the others) per kind of conflict.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.writes = np.zeros(size, np.int64)
        self.reads: Array | None = None
        self.atomics: Array | None = None

    def read(self, cells: Array, keys: Array) -> tuple[Array, Array]:
        """Conflicts of a load with earlier stores and atomics."""
        other, bad = self._against(self.writes, cells, keys)
        if self.atomics is not None:
            by_atomic, worse = self._against(self.atomics, cells, keys)
            other, bad = np.where(bad, other, by_atomic), bad | worse
        if self.reads is None:
            self.reads = np.zeros(self.size, np.int64)
        self._share(self.reads, cells, keys)
        return bad, other

    def write(self, cells: Array, keys: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Conflicts of a store with (earlier and simultaneous stores and atomics), (loads)."""
        other, bad = self._against(self.writes, cells, keys)
        if self.atomics is not None:
            by_atomic, worse = self._against(self.atomics, cells, keys)
            other, bad = np.where(bad, other, by_atomic), bad | worse
        self.writes[cells] = keys
        last, twice = self._against(self.writes, cells, keys)
        return (bad | twice, np.where(bad, other, last)), self._readers(cells, keys)

    def update(self, cells: Array, keys: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Conflicts of an atomic with (stores), (loads); atomics do not conflict."""
        other, bad = self._against(self.writes, cells, keys)
        if self.atomics is None:
            self.atomics = np.zeros(self.size, np.int64)
        self._share(self.atomics, cells, keys)
        return (bad, other), self._readers(cells, keys)

    def _readers(self, cells: Array, keys: Array) -> tuple[Array, Array]:
        if self.reads is None:
            return np.zeros(len(cells), bool), keys
        other, bad = self._against(self.reads, cells, keys)
        return bad, other

    def _against(self, table: Array, cells: Array, keys: Array) -> tuple[Array, Array]:
        stamps = table[cells]
        return stamps, foreign(stamps, keys)

    def _share(self, table: Array, cells: Array, keys: Array) -> None:
        """Stamp cells that several invocations may touch."""
        stamps = np.where(foreign(table[cells], keys), keys | MANY, keys)
        table[cells] = stamps
        lost = foreign(table[cells], stamps)
        if lost.any():
            table[cells[lost]] |= MANY
