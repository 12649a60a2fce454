"""Random structured programs by way of LLVM give what the interpreter gives, or are refused.

Stored seeds in the usual run, fresh ones in the long one. GRISTMILL_PROGRAMS sets how many of
those a driver runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gristmill.fuzz.session import Choice, Tally, session
from need import driver_file

PROGRAMS = int(os.environ.get("GRISTMILL_PROGRAMS", "200"))
STORED, SEED = 24, 5
VALID = 0.9  # the rest: what LLVM does not take, and loops beyond the limit of llvmpipe
DRIVERS = pytest.mark.parametrize("name", ["lavapipe", "swiftshader"])


@pytest.fixture
def judged(
    require: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Callable[[str, int, int], Tally]:
    """`judged(driver, seed, count)`: what so many programs showed, which has to be good."""

    def judge(name: str, seed: int, count: int) -> Tally:
        for thing in ("llc", "vulkan", name):
            require(thing)
        monkeypatch.setenv("VK_DRIVER_FILES", str(driver_file(name)))
        choice = Choice(seed, programs=count, timeout=600, out=tmp_path, shrink_seconds=10)
        (tally,) = session([f"python:fuzz_llc.{name}"], choice, print)
        assert not tally.missing
        agree, refused = tally.outcomes["ok"], tally.outcomes["refused"]
        told = f"llc SPIR-V on {name}: {agree} of {count} random programs agree, {refused} refused"
        record_property("summary", told)
        assert [str(finding.outcome) for finding in tally.findings] == []
        assert agree + refused == count
        assert agree >= VALID * count, tally.refused
        return tally

    return judge


@DRIVERS
def test_stored_random_programs(name: str, judged: Callable[[str, int, int], Tally]) -> None:
    assert judged(name, SEED, STORED).programs


@pytest.mark.slow
@DRIVERS
def test_fresh_random_programs(
    name: str, judged: Callable[[str, int, int], Tally], rng: np.random.Generator
) -> None:
    assert judged(name, int(rng.integers(2**31)), PROGRAMS).programs
