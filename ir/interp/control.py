"""Structured control flow: invocations part, run each way in a frame of their own, and meet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..core import Op, Region
from .frame import Array, Exit, Exits, Frame, pick
from .report import InterpBudgetExceeded, ProblemKind

if TYPE_CHECKING:
    from .machine import Machine


def run_if(machine: Machine, frame: Frame, op: Op, outer: Exits) -> Exit | None:
    condition = frame.get(op.operands[0].id)
    exits = Exits(outer)
    then, other = op.regions
    if condition.all():
        machine.run(frame, then.ops, exits)
    elif not condition.any():
        machine.run(frame, other.ops, exits)
    elif machine.tasks_wait:
        arms = ((np.flatnonzero(condition), then), (np.flatnonzero(~condition), other))
        frames = [(frame.child(lanes), region) for lanes, region in arms]
        machine.tasks.run([partial(machine.run, f, r.ops, exits) for f, r in frames])
    else:
        machine.run(frame.child(np.flatnonzero(condition)), then.ops, exits)
        machine.run(frame.child(np.flatnonzero(~condition)), other.ops, exits)
    return machine.merger.merge(exits.yields) if exits.yields else None


def run_switch(machine: Machine, frame: Frame, op: Op, outer: Exits) -> Exit | None:
    selector = frame.get(op.operands[0].id)
    exits = Exits(outer)
    cases = op.attr("cases")
    assert isinstance(cases, tuple)
    left = np.ones(len(selector), bool)
    for case, region in zip(cases, op.regions, strict=False):
        # A case that the selector's type cannot hold matches nothing.
        match = left & (selector == case)
        left &= ~match
        _run_where(machine, frame, match, region, exits)
    _run_where(machine, frame, left, op.regions[-1], exits)
    return machine.merger.merge(exits.yields) if exits.yields else None


def _run_where(machine: Machine, frame: Frame, mask: Array, region: Region, exits: Exits) -> None:
    if mask.all():
        machine.run(frame, region.ops, exits)
    elif mask.any():
        machine.run(frame.child(np.flatnonzero(mask)), region.ops, exits)


class Loop:
    """A running loop: the invocations still in it, their carried values, those that left.

    `hidden` are values of the invocations that the loop itself needs and that do not leave it.
    """

    def __init__(
        self, machine: Machine, frame: Frame, op: Op, values: list[Array], hidden: list[Array]
    ) -> None:
        self.machine, self.outer, self.op = machine, frame, op
        self.lanes, self.values, self.hidden = frame.lanes, values, hidden
        self.frame = frame
        self.left: list[Exit] = []
        self.pending = 0  # iterations made that are not yet in machine.trips
        self.total = 0

    def _reduce(self, index: Array) -> None:
        """Only the invocations at these positions go on."""
        self.flush()
        self.lanes = self.lanes[index]
        self.values = [pick(v, index) for v in self.values]
        self.hidden = [pick(v, index) for v in self.hidden]

    def restrict(self, lanes: Array) -> None:
        """Only these invocations go on; the others returned."""
        if len(lanes) != len(self.lanes):
            self._reduce(self.machine.merger.positions(lanes, self.lanes))

    def keep(self, going: Array) -> bool:
        """Let the invocations leave for which `going` ([n] or [1]) is false; whether any stay."""
        if going.all():
            return True
        self.flush()
        if not going.any():
            self.machine.trips[self.lanes] += 1  # the pass that leaves is a turn, too
            self.left.append(Exit(self.lanes, self.values))
            return False
        leaving = np.flatnonzero(~going)
        self.machine.trips[self.lanes[leaving]] += 1
        self.left.append(Exit(self.lanes[leaving], [pick(v, leaving) for v in self.values]))
        self._reduce(np.flatnonzero(going))
        return True

    def enter(self, region: Region) -> Frame:
        """The frame of the invocations in the loop, with the carried values as the last arguments
        of `region`."""
        if len(self.lanes) != self.frame.size:
            self.frame = self.machine.enter(self.outer, self.lanes)
        arguments = region.args[len(region.args) - len(self.values) :]
        for argument, value in zip(arguments, self.values, strict=True):
            self.frame.values[argument.id] = value
        return self.frame

    def iterate(self, frame: Frame, region: Region) -> bool:
        """One iteration of the body; whether any invocation goes on to the next."""
        self.pending += 1
        self.total += 1
        budget = self.machine.options.loop_budget
        if self.total > budget:
            raise InterpBudgetExceeded(self.machine.kernel.name, self.op.loc, budget)
        exits = Exits()
        self.machine.run(frame, region.ops, exits)
        self.left.extend(exits.breaks)
        if not exits.continues:
            self.flush()
            return False
        going = self.machine.merger.merge(exits.continues)
        self.restrict(going.lanes)
        self.values = going.values
        return True

    def flush(self) -> None:
        """Count the turns of the invocations in the loop, before any of them leaves."""
        if not self.pending:
            return
        machine, lanes = self.machine, self.lanes
        machine.trips[lanes] += self.pending
        self.pending = 0
        limit = machine.options.loop_limit
        if limit is None:
            return
        over = machine.trips[lanes] > limit
        if over.any():
            most = int(machine.trips[lanes].max())
            machine.recorder.add(
                ProblemKind.LOOP_LIMIT,
                self.op,
                int(np.count_nonzero(over)),
                lambda: f"{most} loop turns in one invocation; the target stops at {limit}",
            )

    def finish(self) -> Exit | None:
        """All invocations that left the loop other than by `return`."""
        return self.machine.merger.merge(self.left) if self.left else None


def run_for(machine: Machine, frame: Frame, op: Op, outer: Exits) -> Exit | None:
    low, high, *carried = (frame.get(v.id) for v in op.operands)
    (body,) = op.regions
    one = low.dtype.type(1)
    loop = Loop(machine, frame, op, carried, [low, high])
    while loop.keep(loop.hidden[0] < loop.hidden[1]):
        inner = loop.enter(body)
        inner.values[body.args[0].id] = loop.hidden[0]
        if not loop.iterate(inner, body):
            break
        loop.hidden[0] = loop.hidden[0] + one
    return loop.finish()


def run_while(machine: Machine, frame: Frame, op: Op, outer: Exits) -> Exit | None:
    condition, body = op.regions
    loop = Loop(machine, frame, op, [frame.get(v.id) for v in op.operands], [])
    while True:
        exits = Exits()
        machine.run(loop.enter(condition), condition.ops, exits)
        if not exits.conditions:
            loop.flush()
            break
        ((lanes, going),) = exits.conditions
        loop.restrict(lanes)
        if not loop.keep(going) or not loop.iterate(loop.enter(body), body):
            break
    return loop.finish()


STRUCTURES: dict[str, Callable[[Machine, Frame, Op, Exits], Exit | None]] = {
    "if": run_if,
    "switch": run_switch,
    "for": run_for,
    "while": run_while,
}


def _leave(frame: Frame, op: Op) -> Exit:
    return Exit(frame.lanes, [frame.get(v.id) for v in op.operands])


def _yield(frame: Frame, op: Op, exits: Exits) -> None:
    exits.yields.append(_leave(frame, op))


def _break(frame: Frame, op: Op, exits: Exits) -> None:
    exits.breaks.append(_leave(frame, op))


def _continue(frame: Frame, op: Op, exits: Exits) -> None:
    exits.continues.append(_leave(frame, op))


def _condition(frame: Frame, op: Op, exits: Exits) -> None:
    exits.conditions.append((frame.lanes, frame.get(op.operands[0].id)))


def _return(frame: Frame, op: Op, exits: Exits) -> None:
    """Nothing is collected: the invocations have ended."""


TERMINATORS: dict[str, Callable[[Frame, Op, Exits], None]] = {
    "yield": _yield,
    "break": _break,
    "continue": _continue,
    "condition": _condition,
    "return": _return,
}
