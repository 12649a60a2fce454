"""Making a failing program small: a variant is kept where the same sort of failure persists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..ir import interp
from ..ir.core import Kernel, walk
from ..ir.text import ParseError, parse_kernel, print_kernel
from ..ir.verify import VerifyError, verify
from . import reduce, source
from .outcome import Outcome
from .program import Program

ENDING = interp.InterpOptions(loop_budget=2000)  # a loop whose end was taken out is no program


def size(kernel: Kernel) -> int:
    """Ops of a kernel, but for constants and terminators."""
    return sum(op.name not in ("const", "return", "yield", "continue") for op in walk(kernel.body))


def sound(program: Program) -> bool:
    """Whether a variant is a program: verified, read back from its text, nothing to complain of."""
    try:
        verify(program.kernel)
        if parse_kernel(print_kernel(program.kernel)) != program.kernel:
            return False
        report = interp.run(program.kernel, program.arguments(), program.grid, options=ENDING)
    except (VerifyError, ParseError, TypeError, ValueError, interp.InterpBudgetExceeded):
        return False
    return not report.problems


class _Search:
    """The smallest program so far, and what is left of time and tries."""

    def __init__(
        self, program: Program, outcome: Outcome, run: Callable[[Program], Outcome], seconds: float
    ) -> None:
        self.best, self.outcome, self.run = program, outcome, run
        self.deadline, self.tried = time.monotonic() + seconds, set[str]()

    @property
    def over(self) -> bool:
        return time.monotonic() > self.deadline

    def take(self, candidate: Program) -> bool:
        """Whether a candidate fails in the same way; it is the best one then."""
        inputs = hash(tuple(getattr(v, "tobytes", lambda v=v: v)() for v in candidate.inputs))
        key = f"{print_kernel(candidate.kernel)}{candidate.grid}{inputs}"
        if self.over or key in self.tried:
            return False
        self.tried.add(key)
        if not sound(candidate):
            return False
        found = self.run(candidate)
        if found.sort != self.outcome.sort:
            return False
        self.best, self.outcome = candidate, found
        return True

    def remove(self) -> bool:
        """Take out runs of ops, long ones first; whether any went."""
        size, any_went = len(reduce.removable(self.best)), False
        while size:
            first = 0
            while first < len(reduce.removable(self.best)) and not self.over:
                if self.take(reduce.without_ops(self.best, first, size)):
                    any_went = True
                else:
                    first += size
            size //= 2
        return any_went

    def simplify(self, variants: Callable[[Program], Iterator[Program]]) -> bool:
        """Take variants of one kind as long as there are any that fail; whether any did."""
        any_did = False
        while any(self.take(candidate) for candidate in variants(self.best)):
            any_did = True
        return any_did


def shrink(
    program: Program, outcome: Outcome, run: Callable[[Program], Outcome], seconds: float = 60.0
) -> tuple[Program, Outcome]:
    """The smallest program found in the time with an outcome of the same sort, and that outcome.

    run: the outcome of a program on the target.
    """
    search = _Search(program, outcome, run, seconds)
    progress = True
    while progress and not search.over:
        progress = search.simplify(reduce.launches)
        progress |= search.remove()
        for variants in reduce.SIMPLER:
            progress |= search.simplify(variants)
    return search.best, search.outcome


def shrink_source(
    text: str, outcome: Outcome, run: Callable[[str], Outcome], seconds: float = 60.0
) -> tuple[str, Outcome]:
    """The same for a program in Python."""
    deadline = time.monotonic() + seconds
    best, tried, progress = (text, outcome), set[str](), True
    while progress:
        progress = False
        for candidate in source.variants(best[0]):
            if time.monotonic() > deadline:
                return best
            if candidate in tried or len(candidate) >= len(best[0]):
                continue
            tried.add(candidate)
            found = run(candidate)
            if found.sort == outcome.sort:
                best, progress = (candidate, found), True
                break
    return best
