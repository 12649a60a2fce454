"""Timing two or more things in one run, in turns, so that a busy host slows them alike; and work on
a GPU by its own clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

BLOCK = 0.2  # seconds that a runner keeps its turn
PAUSE = 0.1  # seconds before a turn: worker threads of the one before stop spinning


def race(runners: dict[str, Callable[[], object]], seconds: float = 1.5) -> dict[str, float]:
    """The best time of each runner in milliseconds.

    The runners take turns of BLOCK seconds, at least one call a turn, until each had `seconds`.
    """
    best = dict.fromkeys(runners, float("inf"))
    for _ in range(max(2, round(seconds / BLOCK))):
        for name, run in runners.items():
            time.sleep(PAUSE)
            end = time.perf_counter() + BLOCK
            run()  # not measured: caches and threads come back
            while True:
                start = time.perf_counter()
                run()
                now = time.perf_counter()
                best[name] = min(best[name], (now - start) * 1e3)
                if now >= end:
                    break
    return best


def report(title: str, times: dict[str, float], ours: str = "gristmill") -> float:
    """Print one row; gives our time over the best other one."""
    others = {name: t for name, t in times.items() if name != ours}
    ratio = times[ours] / min(others.values()) if others else float("nan")
    cells = "  ".join(f"{name} {t:9.3f} ms" for name, t in times.items())
    print(f"{title:24} {cells}  ratio {ratio:5.2f}", flush=True)
    return ratio


def on_device(torch: Any, run: Callable[[], Any], times: int, warm: float = 0.0) -> float:
    """The best time in seconds, of several tries, of one of `times` pieces of work that `run`
    queues on torch's stream; warm: seconds until the clocks stand."""
    end = time.perf_counter() + warm
    while time.perf_counter() < end:
        run()
        torch.cuda.synchronize()
    best = float("inf")
    for _ in range(5):
        begin, finish = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        finish.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(finish) * 1e-3 / times)
    return best
