"""The standard pipeline: what an emitter runs before it emits."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel
from . import Pass
from .checks import Checks
from .contract import Contract
from .dce import Dce
from .debug import DropDebug
from .legalize import Legalize
from .licm import Licm
from .number import Renumber
from .simplify import Simplify
from .support import Support
from .unroll import Unroll
from .vectorize import Vectorize


@dataclass(frozen=True)
class Then:
    """`first`, and `after` on its result where it changed something."""

    first: Pass
    after: tuple[Pass, ...]

    @property
    def name(self) -> str:
        return self.first.name

    def __call__(self, kernel: Kernel) -> Kernel:
        changed = self.first(kernel)
        if changed is not kernel:
            for step in self.after:
                changed = step(changed)
        return changed


def standard(
    support: Support,
    *,
    checks: bool = False,
    unroll: Unroll | None = Unroll(),  # noqa: B008 - frozen
    vectorize: Vectorize | None = Vectorize(),  # noqa: B008 - frozen
) -> tuple[Pass, ...]:
    """The passes for a target: drop debug ops, check bounds on demand, optimise, legalize, clean.

    unroll, vectorize: None leaves the pass out; the target's compiler may do better.
    """
    tidy = Simplify()
    steps: list[Pass] = [DropDebug()]
    if checks:
        steps.append(Checks())
    steps.append(tidy)
    if unroll is not None:
        steps.append(Then(unroll, (tidy,)))
    steps.append(Contract())
    if vectorize is not None:
        steps.append(Then(vectorize, (tidy,)))
    steps.append(Legalize(support))
    steps += [Simplify(strength=True), Licm(), Dce(), Renumber()]
    return tuple(steps)
