"""Random structured programs give on the model what the interpreter gives, bit for bit.

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
from ptx_model.host import Model

PROGRAMS = int(os.environ.get("GRISTMILL_PROGRAMS", "6"))
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
@pytest.mark.parametrize("checks", [False, True], ids=["plain", "checked"])
def test_random_programs_equal_the_interpreter(
    case: str, checks: bool, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    for n in range(PROGRAMS // (2 if checks else 1)):
        program = random_kernel(rng, CASES[case])
        expected, got = program.arguments(), program.arguments()
        report = interp.run(program.kernel, expected, program.grid)
        model = Model(program.kernel, ("sm_80", "sm_75")[n % 2], checks)
        faults = model.run(got, program.grid, seed=int(rng.integers(1 << 32)))
        check(program, got, expected)
        assert faults == frozenset(report.faults), print_kernel(program.kernel)
