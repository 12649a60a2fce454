"""Fresh random programs give on every target what the oracle gives: a fixed share of time each.

GRISTMILL_FUZZ_SECONDS is that share, or GRISTMILL_FUZZ_PROGRAMS a number of programs in its place;
GRISTMILL_FUZZ_SEED repeats a run. Nothing fails but a finding, which is stored (the message says
where, and how to repeat it) and becomes a file of `cases` once it is mended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz_targets import NEEDS, SPECS, environment
from gristmill.fuzz.session import Choice, session

SECONDS = float(os.environ.get("GRISTMILL_FUZZ_SECONDS", "23"))
PROGRAMS = int(os.environ.get("GRISTMILL_FUZZ_PROGRAMS", "0"))
# How many of the long run, by target.
MODELS = ("chromium", "aarch64", "ptx", "gfx1100", "gfx1201", "gfx942")
LONG = {name: 2_000 if name in MODELS else 10_000 for name in SPECS}
OUT = Path(__file__).parents[2] / "fuzz-findings"


def choice(rng: np.random.Generator) -> Choice:
    # Long waits: a busy machine must not make a finding.
    seed = int(os.environ.get("GRISTMILL_FUZZ_SEED") or rng.integers(1 << 32))
    return Choice(seed, timeout=600, shrink_seconds=60, out=OUT)


def judge(
    target: str, wanted: Choice, monkeypatch: pytest.MonkeyPatch, require: Callable[..., None]
) -> None:
    for need in NEEDS.get(target, ()):
        require(need)
    for name, value in environment(target).items():
        monkeypatch.setenv(name, value)
    told: list[str] = []
    (tally,) = session([SPECS[target]], wanted, told.append)
    assert not tally.missing
    print(f"seed {wanted.seed}: {tally.as_dict()}")
    assert not tally.findings, "\n".join(told)
    assert tally.programs


# Not in the browser, whose SwiftShader is known to compute wrongly with lanes of zeros: the usual
# run has the same programs there each time (`tests/web/test_tint.py`).
@pytest.mark.parametrize("target", [name for name in SPECS if name != "chromium"])
def test_random_programs_agree(
    target: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[..., None],
) -> None:
    share = {"programs": PROGRAMS} if PROGRAMS else {"seconds": SECONDS}
    judge(target, replace(choice(rng), **share), monkeypatch, require)


@pytest.mark.slow
@pytest.mark.parametrize("target", SPECS)
def test_thousands_of_random_programs_agree(
    target: str,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[..., None],
) -> None:
    judge(target, replace(choice(rng), programs=LONG[target]), monkeypatch, require)
