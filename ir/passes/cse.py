"""Common subexpressions: equal pure ops, and loads that no write separates, become one.

The table is scoped like the regions: what an `if` arm or a loop body computed is forgotten at its
end, so a merged value always dominates its uses. Memory is versioned: a write gives its memory
(and whatever may alias it) a new version, a barrier or fence starts a new epoch for all memory
that other invocations can write, and a load is known by address, version and epoch. A store
leaves its value behind for the loads that follow it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Region, Value
from ..dtypes import MemType, Space, Type, VectorType, lanes_of
from ..ops import ROWS
from .effects import MERGEABLE, NOTHING, SYNCS, WRITERS, Aliasing, Summary, summarize

Key = tuple[object, ...]
State = tuple[dict[int, int], int]

# Ops whose result type does not follow from the operands.
_BY_TYPE = frozenset({"convert", "bitcast", "splat", "count", "subgroup_ballot"})
_SWAPS = frozenset(n for n, r in ROWS.items() if r.commutative)


@dataclass(frozen=True)
class Cse:
    """Merge equal values and redundant loads."""

    name: str = "cse"

    def __call__(self, kernel: Kernel) -> Kernel:
        from .rewrite import Rewriter, RuleSet

        return Rewriter(kernel, RuleSet(), merge=True).run()


class Merger:
    """The table of available values during one walk."""

    def __init__(self, kernel: Kernel) -> None:
        self._table: dict[Key, tuple[Value, ...]] = {}
        self._added: list[Key] = []
        self._versions: dict[int, int] = {}
        self._clock = 0
        self._epoch = 0
        self._aliasing = Aliasing(kernel)
        self._effects: dict[int, Summary] = summarize(kernel)

    def find(self, op: Op) -> tuple[Value, ...] | None:
        """Values that stand for the op's results, if they are available; else note the op."""
        name = op.name
        key: Key
        if name in MERGEABLE:
            operands = op.operands
            if len(operands) == 2:
                a, b = operands[0].id, operands[1].id
                key = (name, b, a) if a > b and name in _SWAPS else (name, a, b)
            else:
                key = (name, *[v.id for v in operands])
            if op.attrs:
                key = (*key, op.attrs)
            if name in _BY_TYPE:
                key = (*key, _type_key(op.results[0].type))
        elif name == "load":
            key = self._load_key(op.operands[0], op.operands[1], lanes_of(op.results[0].type))
        else:
            if name in WRITERS:
                self._write(op)
            elif name in SYNCS:
                self._clock += 1
                self._epoch = self._clock
            return None
        found = self._table.setdefault(key, op.results)
        if found is op.results:
            self._added.append(key)
            return None
        return found

    # scopes

    def enter(self) -> int:
        """Open a region; the mark belongs to `leave`."""
        return len(self._added)

    def leave(self, mark: int) -> None:
        """Forget what was added since `mark`."""
        for key in self._added[mark:]:
            self._table.pop(key, None)
        del self._added[mark:]

    def snapshot(self) -> State:
        """What is known about memory before the arms of an if or switch."""
        return dict(self._versions), self._epoch

    def restore(self, state: State) -> None:
        """The same again, for the next arm."""
        self._versions = dict(state[0])
        self._epoch = state[1]

    def clobber_regions(self, regions: tuple[Region, ...]) -> None:
        """Forget memory that an op with these regions, as the kernel holds them, may change."""
        summary = self._effects.get(id(regions), NOTHING)
        for memory in self._aliasing.written(summary.writes):
            self._clock += 1
            self._versions[memory] = self._clock
        if summary.sync:
            self._clock += 1
            self._epoch = self._clock

    def _load_key(self, memory: Value, index: Value, lanes: int) -> Key:
        if memory.id in self._aliasing.read_only:
            return "load", memory.id, index.id, lanes
        assert isinstance(memory.type, MemType)
        epoch = -1 if memory.type.space is Space.PRIVATE else self._epoch
        return "load", memory.id, index.id, lanes, self._versions.get(memory.id, 0), epoch

    def _write(self, op: Op) -> None:
        memory, index = op.operands[:2]
        for touched in self._aliasing.touched(memory.id):
            self._clock += 1
            self._versions[touched] = self._clock
        if op.name == "store":
            value = op.operands[2]
            key = self._load_key(memory, index, lanes_of(value.type))
            self._table[key] = (value,)
            self._added.append(key)


def _type_key(t: Type) -> object:
    return (t.element.name, t.lanes) if isinstance(t, VectorType) else str(t)
