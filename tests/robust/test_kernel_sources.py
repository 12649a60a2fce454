"""No program ends the compiler, holds it up, or gets another answer than a kernel or an error.

Random damage to the source of real kernels (`robust.mutate`), each traced in a worker process with
a deadline (`robust.judge`).
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gristmill.backends.compile import CompileError, CompileLimitError
from gristmill.backends.pool import Pool
from robust.corpus import Subject, subjects
from robust.mutate import mutated

DEADLINE = 300.0  # seconds; the slowest program that a limit ends takes 3 s of a processor
TARGETS = (
    *("interp-kir", "cpu-x86-64-v3", "spirv-vulkan1.1", "wgsl-webgpu", "ptx-sm_80", "ptx-sm_90a"),
    *("hsaco-gfx1100", "hsaco-gfx942"),
)
ODD = (
    *(0, -1, 1, 3, 2**31, 2**63, -(2**70), 10**40, 2**100_000, 0.5, 1e300, True, None, "", "f33"),
    *("f32", "swapped", "a" * 10**5, [], [1, 2], [[1], [2, "x"]], [0] * 10**5, {"a": 1}, b"x"),
)


def test_the_subjects_are_kernels() -> None:
    """What is damaged is right before."""
    with Pool(1, timeout=DEADLINE) as pool:
        for subject in dict.fromkeys((s.module, s.kernel) for s in subjects()):
            first = next(s for s in subjects() if (s.module, s.kernel) == subject)
            assert _judged(pool, first, first.sources, first.constexprs)[0] != "finding"
    zoo = subjects()[0]
    with Pool(1, timeout=DEADLINE) as pool:
        assert _judged(pool, zoo, zoo.sources, {}) == ("ok", "")


def test_damaged_kernels_are_kernels_or_errors_with_a_place() -> None:
    hunt(np.random.default_rng(1), 120)


@pytest.mark.slow
def test_many_damaged_kernels_are_kernels_or_errors_with_a_place(
    rng: np.random.Generator,
) -> None:
    hunt(rng, 6000)


def test_damaged_kernels_that_are_kernels_compile_or_are_refused() -> None:
    hunt(np.random.default_rng(2), 30, TARGETS)


@pytest.mark.slow
def test_many_damaged_kernels_that_are_kernels_compile_or_are_refused(
    rng: np.random.Generator,
) -> None:
    hunt(rng, 3000, TARGETS)


def hunt(rng: np.random.Generator, count: int, targets: tuple[str, ...] = ()) -> Counter[str]:
    """Damage and judge so many programs, each for one of the targets; fails with the first one
    that gets anything but a result or an error of its type."""
    tally: Counter[str] = Counter()
    with Pool(1, timeout=DEADLINE) as pool:
        for _ in range(count):
            seed = int(rng.integers(1 << 62))
            verdict, why, text = judge_seed(pool, seed, targets)
            tally[verdict] += 1
            assert verdict != "finding", f"program {seed}:\n{why}\n{text}"
    assert {"ok", "Diagnostic"} <= tally.keys(), tally
    return tally


def judge_seed(pool: Pool, seed: int, targets: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """The verdict on the program of a seed, why, and its text."""
    own = random.Random(seed)
    subject = own.choice(subjects())
    constexprs = dict(subject.constexprs)
    if constexprs and own.random() < 0.1:
        constexprs[own.choice(list(constexprs))] = own.choice(ODD)
    try:
        text = mutated(subject.sources[subject.path].decode(), own)
    except (SyntaxError, RecursionError, ValueError):  # Python has no such program
        return "no Python", "", ""
    compiled = (own.choice(targets), own.random() < 0.3) if targets else ()
    return (*_judged(pool, subject, subject.changed(text), constexprs, *compiled), text)


def _judged(
    pool: Pool,
    subject: Subject,
    sources: dict[str, bytes],
    constexprs: dict[str, Any],
    *compiled: str | bool,
) -> tuple[str, str]:
    """The verdict on a kernel. compiled: the target, and whether with checks; else it is traced."""
    job = (sources, subject.module, subject.kernel, constexprs, *compiled)
    judge = "judge_compiled" if compiled else "judge_source"
    try:
        verdict, why = pool.run(f"robust.judge:{judge}", *job)
    except CompileLimitError as error:  # LLVM may take minutes over what is large; tracing may not
        return "refused" if compiled else "finding", str(error)
    except CompileError as error:  # the process ended
        return "finding", str(error)
    return verdict, why
