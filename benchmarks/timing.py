"""Timing two or more things in one run, in turns, so that a busy host slows them alike."""

from __future__ import annotations

import time
from collections.abc import Callable


def race(runners: dict[str, Callable[[], object]], seconds: float = 1.5) -> dict[str, float]:
    """The best time of each runner in milliseconds.

    The runners take turns for `seconds` each on average, after one unmeasured call.
    """
    best = dict.fromkeys(runners, float("inf"))
    for run in runners.values():
        run()
    end = time.perf_counter() + seconds * len(runners)
    while time.perf_counter() < end:
        for name, run in runners.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def report(title: str, times: dict[str, float], ours: str = "gristmill") -> float:
    """Print one row; gives our time over the best other one."""
    others = {name: t for name, t in times.items() if name != ours}
    ratio = times[ours] / min(others.values()) if others else float("nan")
    cells = "  ".join(f"{name} {t:9.3f} ms" for name, t in times.items())
    print(f"{title:24} {cells}  ratio {ratio:5.2f}", flush=True)
    return ratio
