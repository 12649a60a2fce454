"""Random structured programs give through wgpu what the interpreter gives.

GRISTMILL_PROGRAMS sets how many programs a driver runs.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from gristmill.fuzz.generate import Features, random_kernel
from gristmill.fuzz.judge import check
from gristmill.fuzz.program import Program
from gristmill.ir import interp
from wgpu_driver import WgpuDriver

PROGRAMS = int(os.environ.get("GRISTMILL_PROGRAMS", "40"))


def features(driver: WgpuDriver, rng: np.random.Generator) -> Features:
    """What this device can run. Not long chains of f16: each op is rounded in integer code there,
    and Mesa (22.3) takes exponential time to compile a chain of that."""
    wide = "i64" in driver.features
    return Features(
        i8=True,
        i16=True,
        i64=wide,
        f16=False,
        bf16=True,
        f64="f64" in driver.features,
        atomics64="atomic_i64" in driver.features,
        subgroup=driver.subgroup if rng.random() < 0.5 else None,
        faults=True,
        index="i64" if wide and rng.random() < 0.3 else "i32",
        lanes=(2, 4, 8),
    )


def judge(driver: WgpuDriver, program: Program) -> bool:
    """Compare with the interpreter; False where the device lacks what the program needs."""
    emitted = emit(program.kernel, "webgpu", Options())
    if driver.lacks(emitted):
        return False
    expected, actual = program.arguments(), program.arguments()
    report = interp.run(program.kernel, expected, program.grid)
    faults = driver.launch(program.kernel, emitted, actual, program.grid)
    check(program, actual, expected)
    sites = {n for n in range(len(emitted.sites)) if faults[n // 32] >> (n % 32) & 1}
    assert sites == set(report.faults)
    return True


@pytest.mark.slow
def test_random_programs_through_wgpu(wgpu_driver: WgpuDriver, rng: np.random.Generator) -> None:
    ran = 0
    while ran < PROGRAMS:
        ran += judge(wgpu_driver, random_kernel(rng, features(wgpu_driver, rng)))
