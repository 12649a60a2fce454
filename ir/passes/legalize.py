"""Legalization: a kernel in terms of what a target has.

Three steps, each of which leaves a kernel alone that needs nothing of it: ops that the target
lacks become ops that it has (`expand`), long vectors are split (`split`), values of types that it
lacks are held in wider ones (`narrow`). Every step is exact per `ir.ops.meaning`, but for the ops
whose rows give a bound. i64 and f64 are not emulated: an emitter refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel
from .effects import value_types
from .expand import Expand
from .narrow import Narrow
from .split import Split
from .support import Support
from .template import Settled


@dataclass(frozen=True)
class Legalize:
    """Rewrite for a target with this support."""

    support: Support
    name: str = "legalize"

    def __call__(self, kernel: Kernel) -> Kernel:
        return self.settling(kernel)[0]

    def settling(self, kernel: Kernel) -> tuple[Kernel, Settled]:
        """The same, and what needs no simplification (as far as it is in it still)."""
        kernel, settled = Expand(self.support).settling(kernel)
        types = value_types(kernel)  # splitting does not change which element types there are
        kernel = Split(self.support.max_lanes).where(kernel, types)
        return Narrow(self.support).where(kernel, types), settled
