"""Timing work that takes turns, so that what else the machine does meets all of it alike."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import runtime

SAMPLE = 0.02  # seconds that one sample lasts at least
WARM = 0.1  # seconds of work before anything is measured
FIRST = 3  # rounds after which what is slow is left out
SLOW = 1.5  # times the best
LIKELY = 0.05  # of a difference by chance, which is none
FEWEST = 5  # rounds: of less, none would be unlikely
CLOSE = 1.05  # times the least: as good as equal, by minima
NEAR = 1.02  # times the best: as good as equal
_MOST = 512  # launches of a sample


class Runner(NamedTuple):
    """Work that can be sampled: run does `times` of it and waits for them."""

    run: Callable[[], Any]
    times: int

    def sample(self) -> float:
        """Seconds of one of the pieces of work."""
        begin = time.perf_counter()
        self.run()
        return (time.perf_counter() - begin) / self.times


class Times(NamedTuple):
    """Seconds of each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.rounds))

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def spread(self) -> float:
        """Half of what lies between the quartiles, relative to the median."""
        low, high = np.quantile(self.rounds, (0.25, 0.75))
        return float((high - low) / 2 / self.median)


def recorded(
    device: runtime.Device,
    *turns: Sequence[tuple[runtime.LoadedKernel, Sequence[Any]]],
) -> Runner:
    """Launches one after the other, as often as a sample needs, out of a recording. turns: the same
    launches with other arguments, which take turns."""

    def prepared(times: int) -> Runner:
        with device.record() as recording:
            for number in range(times):
                for kernel, args in turns[number % len(turns)]:
                    recording.launch(kernel, *args)

        def run() -> None:
            recording.replay()
            device.synchronize()

        return Runner(run, times)

    return long_enough(prepared)


def repeated(work: Callable[[], Any]) -> Runner:
    """Work of the host, as often as a sample needs."""

    def prepared(times: int) -> Runner:
        def run() -> None:
            for _ in range(times):
                work()

        return Runner(run, times)

    return long_enough(prepared)


def long_enough(prepared: Callable[[int], Runner]) -> Runner:
    """What is prepared for as many times as a sample needs, warmed up."""
    runner = prepared(1)
    runner.run()
    once = max(min(runner.sample() for _ in range(2)), 1e-7)
    times = min(_MOST, math.ceil(SAMPLE / once))
    if times > 1:
        runner = prepared(times)
    end = time.perf_counter() + WARM
    while True:
        runner.run()
        if time.perf_counter() >= end:
            return runner


def race(runners: Mapping[str, Runner], rounds: int) -> dict[str, Times]:
    """The times of all runners, which take turns; those over SLOW times the best, by their best of
    FIRST rounds, have those rounds alone."""
    found: dict[str, list[float]] = {name: [] for name in runners}
    names = list(runners)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            found[name].append(runners[name].sample())
        if number + 1 == FIRST:
            least = min(map(min, found.values()))
            names = [name for name in names if min(found[name]) <= SLOW * least]
    return {name: Times(tuple(times)) for name, times in found.items()}


def scores(times: Mapping[str, Times], by: str = "median") -> dict[str, float]:
    """How slow each runner is, relative to the fastest: by the median over its rounds of its time
    over the mean time of those that were in all rounds; or by its least time (`minimum`), which is
    what a busy machine leaves to compare."""
    full = max(len(t.rounds) for t in times.values())
    whole = [t.rounds for t in times.values() if len(t.rounds) == full]
    means = np.exp(np.mean(np.log(whole), axis=0))
    found = {
        name: t.best if by == "minimum" else float(np.median(t.rounds / means[: len(t.rounds)]))
        for name, t in times.items()
    }
    least = min(score for name, score in found.items() if len(times[name].rounds) == full)
    return {name: score / least for name, score in found.items()}


def ties(times: Mapping[str, Times], by: str = "median") -> list[str]:
    """The fastest, and those that are not apart from it: a sign test over the rounds, in which both
    met the same machine, finds the difference likely by chance, or it is small. By minima: those
    whose least time is at most CLOSE times the least of all. None that left early."""
    full = max(len(t.rounds) for t in times.values())
    score = {n: s for n, s in scores(times, by).items() if len(times[n].rounds) == full}
    if by == "minimum":
        return [name for name, value in score.items() if value <= CLOSE]
    best = times[min(score, key=lambda name: score[name])].rounds
    return [name for name in score if not apart(times[name].rounds, best)]


def apart(slower: Sequence[float], faster: Sequence[float]) -> bool:
    """Whether one is slower than the other beyond chance, and by enough to matter."""
    ratios = [a / b for a, b in zip(slower, faster, strict=True)]
    if float(np.median(ratios)) < NEAR:
        return False
    more, n = sum(r > 1 for r in ratios), len(ratios)
    chance = sum(math.comb(n, k) for k in range(more, n + 1)) / 2**n
    return chance <= LIKELY
