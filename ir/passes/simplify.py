"""Fold, identities, control flow and merging in one walk: the workhorse of the pipelines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..core import Kernel, Region
from .effects import BLOCKS, SYNCS, WRITERS
from .identities import RULES, SIMPLE, rule_set
from .rewrite import Rewriter, RuleSet
from .strength import RULES as STRENGTH
from .strength import joined
from .template import Settled

NOTHING = Settled()


@dataclass(frozen=True)
class Simplify:
    """One walk of everything local. strength: also replace costly integer ops by shifts.
    convert_ifs: turn an `if` into selects where both arms hold at most this many cheap ops."""

    strength: bool = False
    convert_ifs: int = 4
    name: str = "simplify"

    def __call__(self, kernel: Kernel) -> Kernel:
        return self._walk(kernel)

    def again(self, kernel: Kernel, before: Kernel, copied: Settled = NOTHING) -> Kernel:
        """The same where `kernel` came from `before`, which this pass (without strength) gave:
        rules are tried on what is new only, and is not of `copied`."""
        known = [*copied.ops]
        for region in _regions(before):
            known += region.ops
        idle = set(map(id, copied.apart))
        settled = idle.union(map(id, known))
        # What settled ops may be merged with: new ones, and what strength reduction makes.
        awaited = {"splat", "shl", "shr", "and"}
        if kernel is not before:
            for region in _regions(kernel):
                for op in region.ops:
                    if id(op) not in settled:
                        awaited.add(op.name)
            if "load" in awaited:
                awaited |= WRITERS | SYNCS
        busy = awaited | BLOCKS | _rules(self.strength).late.keys()
        for op in known:
            if op.name not in busy:
                idle.add(id(op))
        return self._walk(kernel, settled, idle)

    def _walk(
        self, kernel: Kernel, settled: Collection[int] = (), idle: Collection[int] = ()
    ) -> Kernel:
        return Rewriter(
            kernel,
            _rules(self.strength),
            merge=True,
            flow=True,
            convert_ifs=self.convert_ifs,
            settled=settled,
            idle=idle,
        ).run()


def _rules(strength: bool) -> RuleSet:
    return _STRONG if strength else SIMPLE


def _regions(kernel: Kernel) -> list[Region]:
    """All regions of a kernel."""
    found = [kernel.body]
    for region in found:
        for op in region.ops:
            if op.regions:
                found += op.regions
    return found


_STRONG = rule_set(joined(RULES, STRENGTH), STRENGTH)
