"""Changes of a plan that its fixture must tell: a check that nothing can fail checks nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from ...ir.plan import Launch, Plan, Scalar


class Mutation(Protocol):
    """A plan that runs and is wrong, of one that is right."""

    def __call__(self, plan: Plan) -> Plan: ...


@dataclass(frozen=True, slots=True)
class Drop:
    """The last launch of a kernel is left out of an entry; its output is what was there before."""

    kernel: str

    def __call__(self, plan: Plan) -> Plan:
        def without(launches: tuple[Launch, ...]) -> tuple[Launch, ...]:
            places = [n for n, x in enumerate(launches) if x.kernel == self.kernel]
            return launches[: places[-1]] + launches[places[-1] + 1 :] if places else launches

        return _changed(plan, without, self.kernel)


@dataclass(frozen=True, slots=True)
class Swap:
    """Two arguments of all launches of a kernel change places."""

    kernel: str
    first: int
    second: int

    def __call__(self, plan: Plan) -> Plan:
        def swapped(x: Launch) -> Launch:
            args = list(x.args)
            args[self.first], args[self.second] = args[self.second], args[self.first]
            return replace(x, args=tuple(args))

        return _changed(plan, _each(self.kernel, swapped), self.kernel)


@dataclass(frozen=True, slots=True)
class Put:
    """Another scalar in all launches of a kernel. place: counted from the end where it is below
    0."""

    kernel: str
    place: int
    value: Scalar

    def __call__(self, plan: Plan) -> Plan:
        def put(x: Launch) -> Launch:
            args = list(x.args)
            args[self.place] = self.value
            return replace(x, args=tuple(args))

        return _changed(plan, _each(self.kernel, put), self.kernel)


@dataclass(frozen=True, slots=True)
class Respecialize:
    """Another specialization of a kernel in place of one."""

    kernel: str
    old: str
    new: str

    def __call__(self, plan: Plan) -> Plan:
        def other(x: Launch) -> Launch:
            return replace(x, specialization=self.new) if x.specialization == self.old else x

        return _changed(plan, _each(self.kernel, other), f"{self.kernel} {self.old}")


def _each(
    kernel: str, change: Callable[[Launch], Launch]
) -> Callable[[tuple[Launch, ...]], tuple[Launch, ...]]:
    return lambda launches: tuple(change(x) if x.kernel == kernel else x for x in launches)


def _changed(
    plan: Plan, change: Callable[[tuple[Launch, ...]], tuple[Launch, ...]], what: str
) -> Plan:
    """The plan with changed launches. ValueError: there is nothing of the kind."""
    entries = tuple(replace(e, launches=change(e.launches)) for e in plan.entries)
    made = replace(plan, load=change(plan.load), entries=entries)
    if made == plan:
        raise ValueError(f"plan {plan.name} has nothing to change: {what}")
    return made
