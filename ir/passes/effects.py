"""What an op with regions may do, summed over everything inside it.

Passes ask before they move or merge anything across such an op: which memory it writes, whether
it synchronises, and whether control may leave by a jump instead of falling through.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from ..core import Kernel, Op, Region, ops_by_name
from ..dtypes import Type
from ..ops import ROWS, Effect

# Ops without regions that DCE, CSE and motion may treat as plain values.
PURE = frozenset(n for n, r in ROWS.items() if r.effect is Effect.PURE)
IDS = frozenset(n for n, r in ROWS.items() if r.effect is Effect.ID)
MERGEABLE = PURE | IDS
CONVERGENT = frozenset(n for n, r in ROWS.items() if r.effect is Effect.CONVERGENT)
WRITERS = frozenset({"store", "atomic", "compare_exchange", "fragment_store", "copy_async"})
READERS = frozenset({"load", "fragment_load", "nv_ldmatrix"})  # and nothing else
SYNCS = frozenset(n for n, r in ROWS.items() if r.effect is Effect.SYNC)
LOOPS = frozenset({"for", "while"})
TERMINATORS = frozenset({"yield", "continue", "break", "condition", "return"})
# What a walk over regions acts on by itself: constants, which have their own place, and control.
BLOCKS = LOOPS | TERMINATORS | {"if", "switch", "const"}


def names(text: str) -> frozenset[str]:
    """A set of op names written as one string."""
    return frozenset(text.split())


_Answer = TypeVar("_Answer")


def kept(question: Callable[[Kernel], _Answer]) -> Callable[[Kernel], _Answer]:
    """A question about a kernel's body that is not answered twice in a row: most steps of a compile
    change nothing. Nobody changes the answer."""
    last: list[tuple[Region, _Answer]] = []

    @wraps(question)
    def ask(kernel: Kernel) -> _Answer:
        for body, found in last:
            if body is kernel.body:
                return found
        answer = question(kernel)
        last[:] = [(kernel.body, answer)]
        return answer

    return ask


@kept
def free_number(kernel: Kernel) -> int:
    """A number above those of all values (`core.max_id` without its generators)."""
    most = -1
    regions = [kernel.body]
    for region in regions:
        for v in region.args:
            if v.id > most:
                most = v.id
        for op in region.ops:
            for v in op.results:
                if v.id > most:
                    most = v.id
            if op.regions:
                regions += op.regions
    return most + 1


@kept
def value_types(kernel: Kernel) -> list[Type]:
    """The types of a kernel's values, each at least once."""
    types: dict[int, Type] = {id(v.type): v.type for v in kernel.body.args}
    regions = [kernel.body]
    for region in regions:
        for op in region.ops:
            for v in op.results:
                types[id(v.type)] = v.type
            if op.regions:
                regions += op.regions
    return list(types.values())


def op_names(kernel: Kernel) -> KeysView[str]:
    """The names of the ops of a kernel."""
    return ops_by_name(kernel.body).keys()


@dataclass(frozen=True, slots=True)
class Summary:
    """Effects of one op and its regions.

    writes, reads: numbers of the memory values stored to and loaded from (an atomic does both).
    sync: a barrier or fence inside. escapes: a `break` or `continue` of a loop around the op.
    returns: a `return` inside. convergent: a subgroup op inside. notes: an assert or debug op.
    loops: a loop inside.
    """

    writes: frozenset[int] = frozenset()
    reads: frozenset[int] = frozenset()
    sync: bool = False
    escapes: bool = False
    returns: bool = False
    convergent: bool = False
    notes: bool = False
    loops: bool = False

    @property
    def jumps(self) -> bool:
        """Whether control may not reach the op behind."""
        return self.escapes or self.returns

    @property
    def pure(self) -> bool:
        """Whether nothing outside can tell that the op ran (reads do not count)."""
        return not (self.writes or self.sync or self.jumps or self.notes)


NOTHING = Summary()


@kept
def summarize(kernel: Kernel) -> dict[int, Summary]:
    """The summary of every op with regions, by `id(op.regions)`, and of the body, by its `id`;
    valid while `kernel` is alive.

    The regions tuple is the key because an op keeps it while a pass replaces its operands.
    """
    table: dict[int, Summary] = {}
    table[id(kernel.body)] = _region(kernel.body, table)
    return table


def _region(region: Region, table: dict[int, Summary]) -> Summary:
    writes: set[int] = set()
    reads: set[int] = set()
    sync = escapes = returns = convergent = notes = loops = False
    for op in region.ops:
        name = op.name
        if name in MERGEABLE:
            continue
        if op.regions:
            inner = _op(op, table)
            if name in LOOPS:
                loops = True
            if inner is NOTHING:
                continue
            writes |= inner.writes
            reads |= inner.reads
            sync |= inner.sync
            escapes |= inner.escapes
            returns |= inner.returns
            convergent |= inner.convergent
            notes |= inner.notes
            loops |= inner.loops
        elif name in READERS:
            reads.add(op.operands[0].id)
            convergent |= name != "load"
        elif name in WRITERS:
            writes.add(op.operands[0].id)
            if name == "fragment_store":
                convergent = True
            elif name == "copy_async":
                reads.add(op.operands[2].id)
            elif name != "store":
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
    if not (writes or reads or sync or escapes or returns or convergent or notes or loops):
        return NOTHING
    return Summary(
        frozenset(writes), frozenset(reads), sync, escapes, returns, convergent, notes, loops
    )


def _op(op: Op, table: dict[int, Summary]) -> Summary:
    total = NOTHING
    for region in op.regions:
        part = _region(region, table)
        if total is NOTHING:
            total = part
        elif part is not NOTHING:
            total = _both(total, part)
    if total.escapes and op.name in LOOPS:
        total = Summary(
            total.writes,
            total.reads,
            total.sync,
            False,
            total.returns,
            total.convergent,
            total.notes,
            total.loops,
        )
    table[id(op.regions)] = total
    return total


def _both(a: Summary, b: Summary) -> Summary:
    return Summary(
        a.writes | b.writes,
        a.reads | b.reads,
        a.sync or b.sync,
        a.escapes or b.escapes,
        a.returns or b.returns,
        a.convergent or b.convergent,
        a.notes or b.notes,
        a.loops or b.loops,
    )


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
