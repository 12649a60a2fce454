"""Fold, identities, control flow and merging in one walk: the workhorse of the pipelines."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..core import Kernel, Op
from .identities import NEED_CONSTANT, PLAIN, RULES, SIMPLE, folding
from .rewrite import Rewriter, RuleSet
from .strength import RULES as STRENGTH
from .strength import joined


@dataclass(frozen=True)
class Simplify:
    """One walk of everything local. strength: also replace costly integer ops by shifts.
    convert_ifs: turn an `if` into selects where both arms hold at most this many cheap ops."""

    strength: bool = False
    convert_ifs: int = 4
    name: str = "simplify"

    def __call__(self, kernel: Kernel) -> Kernel:
        return self._walk(kernel, ())

    def again(self, kernel: Kernel, before: Kernel, more: Iterable[Op] = ()) -> Kernel:
        """The same where `kernel` came from `before`, which this pass (without strength) gave:
        rules are tried on what is new only, and is not among `more`."""
        regions = [before.body]
        for region in regions:
            for op in region.ops:
                if op.regions:
                    regions += op.regions
        settled = {id(op) for region in regions for op in region.ops}
        settled.update(map(id, more))
        return self._walk(kernel, settled)

    def _walk(self, kernel: Kernel, settled: Collection[int]) -> Kernel:
        rules = _STRONG if self.strength else SIMPLE
        return Rewriter(
            kernel, rules, merge=True, flow=True, convert_ifs=self.convert_ifs, settled=settled
        ).run()


_STRONG = RuleSet.of(
    folding(joined(RULES, STRENGTH)),
    NEED_CONSTANT | {rule for rules in STRENGTH.values() for rule in rules},
    PLAIN,
    STRENGTH,
)
