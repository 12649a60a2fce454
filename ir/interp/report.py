"""What a run of the interpreter found out: faults, problems, loop trips."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import Loc, Op


class ProblemKind(enum.StrEnum):
    OUT_OF_BOUNDS = "out-of-bounds"
    UNWRITTEN_READ = "unwritten-read"
    WRITE_WRITE_RACE = "write-write-race"
    READ_WRITE_RACE = "read-write-race"
    BARRIER_DIVERGENCE = "barrier-divergence"
    SUBGROUP_DIVERGENCE = "subgroup-divergence"
    MISALIGNED = "misaligned"
    PENDING_COPY = "pending-copy"
    LOOP_LIMIT = "loop-limit"
    MBARRIER = "mbarrier"
    ENDLESS_WAIT = "endless-wait"


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in the kernel: its kind, what happened first, where in the source, how often.

    `count` is the number of invocations (for a barrier: of workgroups) concerned, added up over
    all executions of the op.
    """

    kind: ProblemKind
    message: str
    loc: Loc | None
    count: int = 1

    def __str__(self) -> str:
        place = f"{self.loc}: " if self.loc else ""
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return f"{place}{self.kind}: {self.message}{more}"


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a run.

    faults: fault sites whose assert failed. problems: in order of first occurrence, one per op and
    kind. max_trips: the most turns, summed over all loops, that an invocation made; a pass that
    leaves a loop at its head is a turn (see `ir.turns`).
    """

    faults: frozenset[int] = frozenset()
    problems: tuple[Problem, ...] = ()
    max_trips: int = 0

    def fault_bitmap(self, base: int = 0) -> np.ndarray:
        """The faults as uint32 words; site s is bit `base + s`."""
        top = max(self.faults, default=-1) + base
        words = np.zeros(top // 32 + 1, np.uint32)
        for site in self.faults:
            words[(base + site) // 32] |= np.uint32(1 << (base + site) % 32)
        return words


class InterpBudgetExceeded(RuntimeError):  # noqa: N818
    """A loop that made more iterations than the interpreter was allowed: kernel, place, budget."""

    def __init__(self, kernel: str, loc: Loc | None, budget: int) -> None:
        place = f"{loc}: " if loc else ""
        super().__init__(
            f"{place}kernel {kernel}: a loop made {budget} iterations without ending; mend the "
            "loop or raise InterpOptions.loop_budget"
        )
        self.kernel, self.loc, self.budget = kernel, loc, budget


@dataclass(frozen=True, slots=True)
class Stop:
    """What a `breakpoint()` shows of the chosen invocation.

    values: numpy scalars, or arrays for vectors, by source name. buffers: the kernel's buffers as
    they are now, by parameter name.
    """

    kernel: str
    loc: Loc | None
    invocation: tuple[int, int, int]
    values: dict[str, Any]
    buffers: dict[str, np.ndarray]


def interact(stop: Stop) -> None:
    """The default breakpoint hook: a Python prompt with the values as names."""
    import code

    banner = f"{stop.kernel} stopped at {stop.loc}, invocation {stop.invocation}; ctrl-D goes on"
    names = {"stop": stop, **stop.buffers, **stop.values}
    code.interact(banner + f"\nnames: {', '.join(names)}", local=names, exitmsg="")


@dataclass(frozen=True, slots=True)
class InterpOptions:
    """How to run.

    races: look for races (costs about half of the speed on workgroup memory). loop_limit: the
    target's limit of turns, summed over all loops of an invocation; None: no limit.
    loop_budget: iterations of one loop after which `InterpBudgetExceeded` is raised. lanes: how
    many invocations are computed at once, rounded down to whole workgroups (at least one).
    memory: bound in bytes of arrays held at once (it lowers `lanes`). subgroup: the subgroup size
    of a kernel that states none. invocation: the global id whose `print` and `breakpoint()` act.
    printer, on_breakpoint: what they call.
    """

    races: bool = True
    loop_limit: int | None = None
    loop_budget: int = 1_000_000
    lanes: int = 1 << 16
    memory: int = 256 << 20
    subgroup: int = 32
    invocation: tuple[int, int, int] = (0, 0, 0)
    printer: Callable[[str], None] = print
    on_breakpoint: Callable[[Stop], None] = interact


@dataclass(slots=True)
class Recorder:
    """Collects faults and problems while a kernel runs; one problem per op and kind."""

    faults: set[int] = field(default_factory=set)
    first: dict[tuple[ProblemKind, int], tuple[str, Op]] = field(default_factory=dict)
    counts: dict[tuple[ProblemKind, int], int] = field(default_factory=dict)
    max_trips: int = 0

    def add(self, kind: ProblemKind, op: Op, count: int, message: Callable[[], str]) -> None:
        """Record `count` occurrences at `op`; `message` is asked for the first one only."""
        key = (kind, id(op))
        if key not in self.first:
            self.first[key] = (message(), op)
        self.counts[key] = self.counts.get(key, 0) + count

    def report(self) -> Report:
        problems = tuple(
            Problem(key[0], message, op.loc, self.counts[key])
            for key, (message, op) in self.first.items()
        )
        return Report(frozenset(self.faults), problems, self.max_trips)
