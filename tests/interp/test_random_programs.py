"""Random structured programs give what a scalar evaluator gives, one invocation at a time."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.fuzz import scalar
from gristmill.fuzz.generate import EVERYTHING, Features, random_kernel
from gristmill.fuzz.judge import check
from gristmill.ir.interp import InterpOptions, run
from gristmill.ir.text import parse_kernel, print_kernel

CASES = {
    "integers": Features(f32=False, i8=True, i16=True, i64=True, statements=8),
    "floats": Features(f16=True, bf16=True, f64=True, statements=8),
    "subgroups": Features(subgroup=8, statements=8, faults=True),
    "control flow": Features(lanes=(), workgroup=False, statements=14),
    "everything": EVERYTHING,
}


@pytest.mark.parametrize("case", CASES)
def test_random_program_equals_scalar_evaluation(case: str, rng: np.random.Generator) -> None:
    for _ in range(6):
        program = random_kernel(rng, CASES[case])
        got, expected = program.arguments(), program.arguments()
        faults = scalar.run(program.kernel, expected, program.grid)
        lanes = int(rng.choice([1, 40, 1 << 16]))
        report = run(program.kernel, got, program.grid, options=InterpOptions(lanes=lanes))
        check(program, got, expected)
        assert report.faults == faults
        assert report.problems == (), print_kernel(program.kernel)


def test_random_program_survives_the_text_form(rng: np.random.Generator) -> None:
    for _ in range(20):
        kernel = random_kernel(rng, EVERYTHING).kernel
        assert parse_kernel(print_kernel(kernel)) == kernel
