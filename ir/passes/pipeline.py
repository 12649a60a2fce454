"""The standard pipeline: what an emitter runs before it emits."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel
from . import Pass, run, verified
from .checks import Checks
from .contract import Contract
from .copies import PlainCopies
from .dce import Dce
from .debug import DropDebug
from .float8 import Float8
from .fragments import Fragments
from .legalize import Legalize
from .licm import Licm
from .number import Renumber
from .simplify import Simplify
from .strength import Strength
from .support import Support
from .unroll import Unroll
from .vectorize import Vectorize


@dataclass(frozen=True)
class Optimise:
    """Simplify, then `steps`, then legalize; what a step changed is simplified before the next one,
    and strength reduction comes last, so that the steps see products and remainders."""

    steps: tuple[Pass, ...]
    legalize: Legalize
    name: str = "optimise"

    def __call__(self, kernel: Kernel) -> Kernel:
        tidy = Simplify()
        kernel = settled = run(kernel, (tidy,))
        for step in self.steps:
            changed = run(kernel, (step,))
            if changed is not kernel:
                changed = settled = tidy.again(changed, settled)
            kernel = changed
        legal, more = self.legalize.settling(kernel)
        if legal is settled:  # and no product or remainder was anything else
            return run(legal, (Strength(),))
        if legal is not kernel:
            verified(legal, self.legalize.name)
        return Simplify(strength=True).again(legal, settled, more)


def standard(
    support: Support,
    *,
    checks: bool = False,
    unroll: Unroll | None = Unroll(),  # noqa: B008 - frozen
    vectorize: Vectorize | None = Vectorize(),  # noqa: B008 - frozen
    renumber: bool = True,
    fragments: Pass | None = Fragments(),  # noqa: B008 - frozen
    copies: Pass | None = PlainCopies(),  # noqa: B008 - frozen
    float8: Pass = Float8(),  # noqa: B008 - frozen
) -> tuple[Pass, ...]:
    """The passes for a target: drop debug ops, lower fragments, copies and 8-bit floats, check
    bounds on demand, optimise, legalize, clean.

    unroll, vectorize: None leaves the pass out; the target's compiler may do better.
    renumber: give values their canonical numbers, which an emitter does not need.
    fragments, copies: how matrix fragments and asynchronous copies are lowered; None leaves them to
    the emitter. float8: how conversions of 8-bit floats are lowered.
    """
    first: list[Pass] = [DropDebug(), *[step for step in (fragments, copies) if step is not None]]
    first.append(float8)
    if checks:
        first.append(Checks())
    steps = (unroll, Contract(), vectorize)
    main = Optimise(tuple([step for step in steps if step is not None]), Legalize(support))
    return (*first, main, Licm(), Dce(), *((Renumber(),) if renumber else ()))
