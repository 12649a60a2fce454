"""Fold, identities, control flow and merging in one walk: the workhorse of the pipelines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..core import Kernel, Region
from .effects import SYNCS, WRITERS
from .identities import NEED_CONSTANT, PLAIN, RULES, SIMPLE, folding
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
        settled = {id(op) for region in _regions(before) for op in region.ops}
        settled.update(map(id, copied.ops))
        apart = frozenset(map(id, copied.apart))
        # What settled ops may be merged with: new ones, and what strength reduction makes.
        awaited = {"splat", "shl", "shr", "and"}
        if kernel is not before:
            ops = (op for region in _regions(kernel) for op in region.ops)
            awaited.update([op.name for op in ops if not (id(op) in settled or id(op) in apart)])
            if "load" in awaited:
                awaited |= WRITERS | SYNCS
        return self._walk(kernel, settled, awaited, apart)

    def _walk(
        self,
        kernel: Kernel,
        settled: Collection[int] = (),
        awaited: Collection[str] = (),
        apart: Collection[int] = (),
    ) -> Kernel:
        rules = _STRONG if self.strength else SIMPLE
        return Rewriter(
            kernel,
            rules,
            merge=True,
            flow=True,
            convert_ifs=self.convert_ifs,
            settled=settled,
            awaited=awaited,
            apart=apart,
        ).run()


def _regions(kernel: Kernel) -> list[Region]:
    """All regions of a kernel."""
    found = [kernel.body]
    for region in found:
        for op in region.ops:
            if op.regions:
                found += op.regions
    return found


_STRONG = RuleSet.of(
    folding(joined(RULES, STRENGTH)),
    NEED_CONSTANT | {rule for rules in STRENGTH.values() for rule in rules},
    PLAIN,
    STRENGTH,
)
