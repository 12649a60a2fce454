"""Random programs that no pass has touched are valid and give what the interpreter gives.

GRISTMILL_PROGRAMS sets how many programs a driver runs.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from gristmill.backends.compile import Emitted
from gristmill.backends.spirv.emit import emit_lowered, validate
from gristmill.fuzz.generate import Features, random_kernel
from gristmill.fuzz.judge import check
from gristmill.fuzz.program import Program
from gristmill.ir import interp
from gristmill.ir.passes.expand import Expand
from gristmill.ir.passes.support import Support
from vulkan_driver import Driver

PROGRAMS = int(os.environ.get("GRISTMILL_PROGRAMS", "40"))
ARCHS = ("vulkan1.1", "vulkan1.3")
DIVIDED = Expand(Support(divides=32))  # the emitter has no division of 64 bits


def features(driver: Driver, rng: np.random.Generator) -> Features:
    """What this device can run, with subgroups and 64-bit indexes now and then."""
    have = driver.features
    wide = "i64" in have
    narrow = {"i8", "i16", "storage8", "storage16"} <= have
    return Features(
        i8=narrow,
        i16=narrow,
        i64=wide,
        f16="f16" in have,
        bf16="storage16" in have,
        f64="f64" in have,
        atomics64="atomic_i64" in have and "atomic_shared_i64" in have,
        subgroup=driver.subgroup if rng.random() < 0.5 else None,
        faults=True,
        index="i64" if wide and rng.random() < 0.3 else "i32",
    )


def judge(driver: Driver, program: Program, emitted: Emitted, arch: str) -> None:
    validate(emitted.blob, arch, program.kernel)
    expected, actual = program.arguments(), program.arguments()
    report = interp.run(program.kernel, expected, program.grid)
    faults = driver.launch(program.kernel, emitted, actual, program.grid)
    check(program, actual, expected)
    sites = {n for n in range(len(emitted.sites)) if faults[n // 32] >> (n % 32) & 1}
    assert sites == set(report.faults)


@pytest.mark.slow
def test_random_programs_without_passes(driver: Driver, rng: np.random.Generator) -> None:
    for n in range(PROGRAMS):
        arch = ARCHS[n % 2]
        program = random_kernel(rng, features(driver, rng))
        judge(driver, program, emit_lowered(DIVIDED(program.kernel), arch), arch)
