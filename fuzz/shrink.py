"""Making a failing program small: a variant is kept where the same sort of failure persists."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..ir import interp
from ..ir.core import Kernel, walk
from ..ir.text import ParseError, parse_kernel, print_kernel
from ..ir.verify import VerifyError, verify
from . import source
from .outcome import Outcome
from .program import Program
from .reduce import variants


def size(kernel: Kernel) -> int:
    """Ops of a kernel, but for constants and terminators."""
    return sum(op.name not in ("const", "return", "yield", "continue") for op in walk(kernel.body))


def sound(program: Program) -> bool:
    """Whether a variant is a program: verified, read back from its text, nothing to complain of."""
    try:
        verify(program.kernel)
        if parse_kernel(print_kernel(program.kernel)) != program.kernel:
            return False
        report = interp.run(program.kernel, program.arguments(), program.grid)
    except (VerifyError, ParseError, TypeError, ValueError, interp.InterpBudgetExceeded):
        return False
    return not report.problems


def shrink(
    program: Program,
    outcome: Outcome,
    run: Callable[[Program], Outcome],
    seconds: float = 60.0,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Program, Outcome]:
    """The smallest program found in the time with an outcome of the same sort, and that outcome.

    run: the outcome of a program on the target. tell: is told how far it is.
    """
    deadline = time.monotonic() + seconds
    best, tried = (program, outcome), set[str]()
    progress = True
    while progress:
        progress = False
        for candidate in variants(best[0]):
            if time.monotonic() > deadline:
                return best
            key = f"{print_kernel(candidate.kernel)}{candidate.grid}{_inputs(candidate)}"
            if key in tried:
                continue
            tried.add(key)
            if not sound(candidate):
                continue
            found = run(candidate)
            if found.sort == outcome.sort:
                best, progress = (candidate, found), True
                tell(f"{size(candidate.kernel)} ops")
                break
    return best


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


def _inputs(program: Program) -> int:
    return hash(tuple(getattr(v, "tobytes", lambda v=v: v)() for v in program.inputs))
