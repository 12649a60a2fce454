"""What an op with regions may do, summed over everything inside it.

Passes ask before they move or merge anything across such an op: which memory it writes, whether
it synchronises, and whether control may leave by a jump instead of falling through.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Region
from ..dtypes import MemType, Space
from ..ops import ROWS, Effect

# Ops without regions that DCE, CSE and motion may treat as plain values.
PURE = frozenset(n for n, r in ROWS.items() if r.effect is Effect.PURE)
IDS = frozenset(n for n, r in ROWS.items() if r.effect is Effect.ID)
MERGEABLE = PURE | IDS
CONVERGENT = frozenset(n for n, r in ROWS.items() if r.effect is Effect.CONVERGENT)
WRITERS = frozenset({"store", "atomic", "compare_exchange"})
SYNCS = frozenset(n for n, r in ROWS.items() if r.effect is Effect.SYNC)
LOOPS = frozenset({"for", "while"})


def names(text: str) -> frozenset[str]:
    """A set of op names written as one string."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Summary:
    """Effects of one op and its regions.

    writes, reads: numbers of the memory values stored to and loaded from (an atomic does both).
    sync: a barrier or fence inside. escapes: a `break` or `continue` of a loop around the op.
    returns: a `return` inside. convergent: a subgroup op inside. notes: an assert or debug op.
    """

    writes: frozenset[int] = frozenset()
    reads: frozenset[int] = frozenset()
    sync: bool = False
    escapes: bool = False
    returns: bool = False
    convergent: bool = False
    notes: bool = False

    @property
    def jumps(self) -> bool:
        """Whether control may not reach the op behind."""
        return self.escapes or self.returns

    @property
    def pure(self) -> bool:
        """Whether nothing outside can tell that the op ran (reads do not count)."""
        return not (self.writes or self.sync or self.jumps or self.notes)


NOTHING = Summary()


def summarize(kernel: Kernel) -> dict[int, Summary]:
    """The summary of every op with regions, by `id(op.regions)`; valid while `kernel` is alive.

    The regions tuple is the key because an op keeps it while a pass replaces its operands.
    """
    table: dict[int, Summary] = {}
    _region(kernel.body, table)
    return table


def _region(region: Region, table: dict[int, Summary]) -> Summary:
    writes: set[int] = set()
    reads: set[int] = set()
    sync = escapes = returns = convergent = notes = False
    for op in region.ops:
        name = op.name
        if op.regions:
            inner = _op(op, table)
            writes |= inner.writes
            reads |= inner.reads
            sync |= inner.sync
            escapes |= inner.escapes
            returns |= inner.returns
            convergent |= inner.convergent
            notes |= inner.notes
        elif name in MERGEABLE:
            continue
        elif name == "load":
            reads.add(op.operands[0].id)
        elif name in WRITERS:
            writes.add(op.operands[0].id)
            if name != "store":
                reads.add(op.operands[0].id)
        elif name in SYNCS:
            sync = True
        elif name in ("break", "continue"):
            escapes = True
        elif name == "return":
            returns = True
        elif name in CONVERGENT:
            convergent = True
        elif name in ("assert", "print", "breakpoint"):
            notes = True
    if not (writes or reads or sync or escapes or returns or convergent or notes):
        return NOTHING
    return Summary(frozenset(writes), frozenset(reads), sync, escapes, returns, convergent, notes)


def _op(op: Op, table: dict[int, Summary]) -> Summary:
    parts = [_region(r, table) for r in op.regions]
    escapes = op.name not in LOOPS and any(p.escapes for p in parts)
    total = Summary(
        frozenset().union(*(p.writes for p in parts)),
        frozenset().union(*(p.reads for p in parts)),
        any(p.sync for p in parts),
        escapes,
        any(p.returns for p in parts),
        any(p.convergent for p in parts),
        any(p.notes for p in parts),
    )
    table[id(op.regions)] = total
    return total


class Aliasing:
    """Which memory values may overlap: only parameters that declare `may_alias`, as one class."""

    def __init__(self, kernel: Kernel) -> None:
        pairs = list(zip(kernel.params, kernel.body.args, strict=True))
        self.shared = frozenset(v.id for p, v in pairs if p.is_memory and p.may_alias)
        self.read_only = frozenset(
            v.id
            for p, v in pairs
            if p.is_memory and not p.may_alias and not (p.kind == "buffer" and p.access.writes)
        )

    def touched(self, memory: int) -> frozenset[int] | tuple[int, ...]:
        """The memory values that a write to `memory` may change."""
        return self.shared if memory in self.shared else (memory,)

    def written(self, writes: frozenset[int]) -> frozenset[int]:
        """The same for a set of written memory values."""
        return writes | self.shared if writes & self.shared else writes


def synced(t: MemType) -> bool:
    """Whether other invocations may have written this memory when a barrier is passed."""
    return t.space is not Space.PRIVATE
