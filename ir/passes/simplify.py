"""Fold, identities, control flow and merging in one walk: the workhorse of the pipelines."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel
from .identities import RULES
from .rewrite import Rewriter
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
        rules = _STRONG if self.strength else RULES
        walk = Rewriter(
            kernel, rules, fold=True, merge=True, flow=True, convert_ifs=self.convert_ifs
        )
        return walk.run()


_STRONG = joined(RULES, STRENGTH)
