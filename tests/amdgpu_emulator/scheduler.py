"""Which waves execute next.

The waves of a block stand in shuffled order in two *parts*, each a contiguous run of slots, so that
the usual group of a part is a slice and its registers are views. One part runs until all of its
waves wait or have ended, then the other: a wave thus meets what others have not done yet, and a
missing barrier shows. Within a part the waves at the lowest PC go first, so that paths join again.
Since waves may wait for each other through memory, both have bounds: after PATIENCE the other part
has its turn, and after TURN waves at a PC chosen at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .code import Program
from .errors import Deadlock, EmulationError, RunawayError
from .registry import STOP
from .state import ENDED, RUNNING, WAITING, Machine

PATIENCE = 20_000  # instructions of a part before the other gets its turn
TURN = 4_000  # instructions of a group that may be waiting for waves elsewhere in its part
HIGHEST = 1 << 62


@dataclass
class Budget:
    """Counts wave-instructions; `limit` is in steps of a group."""

    limit: int
    steps: int = 0
    instructions: int = 0


def run(m: Machine, program: Program, parts: list[slice], budget: Budget, kernel: str) -> None:
    """Execute until every wave has ended."""
    try:
        while not (m.status == ENDED).all():
            ran = False
            for index in m.rng.permutation(len(parts)):
                part = parts[index]
                if (m.status[part] == RUNNING).any():
                    ran = True
                    _run_part(m, program, part, budget)
            if not ran:
                release(m, program)
    except EmulationError as error:
        if not error.where or not error.kernel:
            error.place(kernel, error.where or program.where(m.at))
        raise


def _run_part(m: Machine, program: Program, part: slice, budget: Budget) -> None:
    stop_at = budget.steps + PATIENCE
    m.yielded = tired = False
    while budget.steps < stop_at and not m.yielded:
        running = m.status[part] == RUNNING
        if not running.any():
            return
        pcs = np.where(running, m.pc[part], HIGHEST)
        pc = int(m.rng.choice(pcs[running]) if tired else pcs.min())
        here = pcs == pc
        count = int(here.sum())
        if count == len(here):
            m.select(part, count)
            others = HIGHEST
        else:
            m.select(part.start + np.nonzero(here)[0], count)
            above = pcs[pcs > pc]
            others = int(above.min()) if len(above) else HIGHEST
        most = min(stop_at, budget.steps + TURN) if count < len(here) else stop_at
        _run_group(m, program, pc, others, budget, most)
        tired = budget.steps >= most
    if budget.steps > budget.limit:
        raise RunawayError(f"more than {budget.limit} steps: a loop that does not end?")


def _run_group(
    m: Machine, program: Program, pc: int, others: int, budget: Budget, stop_at: int
) -> None:
    """Run the selected waves until they part, stop, or reach a PC where others stand."""
    steps, count = program.steps, m.count
    done = 0
    while True:
        m.at = pc
        made = steps.get(pc)
        step, following = program.step(pc) if made is None else made
        jump = step(m)
        done += 1
        if jump is None:
            pc = following
        elif isinstance(jump, int):
            if jump == STOP:
                break
            pc = jump
        else:
            m.pc[m.g] = jump
            break
        if pc >= others or done + budget.steps >= stop_at or m.yielded:
            m.pc[m.g] = pc
            break
    budget.steps += done
    budget.instructions += done * count


def release(m: Machine, program: Program) -> None:
    """Let the waves go on whose workgroup has wholly reached its barrier."""
    status = m.status[m.members]
    waiting = status == WAITING
    reached = m.signals[m.members].min(axis=1)
    free = waiting & (m.waits[m.members] <= reached[:, None])
    slots = m.members[free]
    if not len(slots):
        _report_deadlock(m, program, status)
    pcs = np.where(waiting, m.pc[m.members], m.pc[m.members].max())
    apart = waiting & (pcs != np.where(waiting, pcs, HIGHEST).min(axis=1)[:, None])
    if apart.any():
        group = int(np.nonzero(apart.any(axis=1))[0][0])
        at = sorted({int(p) for p in m.pc[m.members[group]]})
        m.at = at[0]
        raise Deadlock(
            "waves of one workgroup wait at different barriers: before "
            + " and before ".join(program.where(p) for p in at)
        )
    m.status[slots] = RUNNING


def _report_deadlock(m: Machine, program: Program, status: np.ndarray) -> None:
    group = int(np.nonzero((status == WAITING).any(axis=1))[0][0])
    slots = m.members[group]
    waiting = slots[status[group] == WAITING]
    m.at = int(m.pc[waiting[0]])
    ended = int((status[group] == ENDED).sum())
    others = f"the other {ended} ended without reaching"
    if not ended:
        short = slots[m.signals[slots] < m.waits[waiting[0]]]
        others = f"{len(short)} of them have not signalled"
    raise Deadlock(
        f"{len(waiting)} of {len(slots)} waves of a workgroup wait at a barrier that {others};"
        " they would go on here"
    )


def wait_at_barrier(m: Machine, following: int) -> int:
    """The group waits for as many signals as it has waited for so far, and one more."""
    m.waits[m.g] += 1
    m.status[m.g] = WAITING
    m.pc[m.g] = following
    return STOP


def end(m: Machine) -> int:
    m.status[m.g] = ENDED
    return STOP
