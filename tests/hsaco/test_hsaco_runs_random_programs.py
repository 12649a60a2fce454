"""Random structured programs give emulated what the interpreter gives, bit for bit.

GRISTMILL_PROGRAMS sets how many programs of each kind run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gristmill.fuzz.generate import EVERYTHING, Features, random_kernel
from gristmill.fuzz.judge import check
from gristmill.ir import interp
from gristmill.ir.text import print_kernel
from hsaco_tools import BASELINES, Emulated, lanes

PROGRAMS = int(os.environ.get("GRISTMILL_PROGRAMS", "3"))
CASES = {
    "integers": Features(f32=False, i8=True, i16=True, i64=True, statements=10),
    "floats": Features(f16=True, bf16=True, f64=True, statements=10),
    "subgroups": Features(subgroup=32, statements=10, faults=True),
    "control flow": Features(lanes=(), workgroup=False, statements=16),
    "wide index": Features(index="i64", i64=True, statements=10),
    "everything": replace(EVERYTHING, subgroup=32),
    "everything alone": replace(EVERYTHING, subgroup=None),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("arch", BASELINES)
def test_random_programs_equal_the_interpreter(
    case: str, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    features = CASES[case]
    if features.subgroup is not None:
        features = replace(features, subgroup=lanes(arch))
    for n in range(PROGRAMS):
        program = random_kernel(rng, features)
        expected, got = program.arguments(), program.arguments()
        report = interp.run(program.kernel, expected, program.grid)
        run = Emulated(program.kernel, arch, checks=n % 3 == 2)
        faults = run.run(got, program.grid, rng)
        check(program, got, expected)
        assert faults == frozenset(report.faults), print_kernel(program.kernel)
