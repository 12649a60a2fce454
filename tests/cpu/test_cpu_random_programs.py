"""Random structured programs give on every cpu level what the interpreter gives, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cpu_runner import Artifact
from gristmill.fuzz.generate import EVERYTHING, Features, random_kernel
from gristmill.fuzz.judge import check
from gristmill.ir import interp
from gristmill.ir.text import print_kernel

CASES = {
    "integers": Features(f32=False, i8=True, i16=True, i64=True, statements=8),
    "floats": Features(f16=True, bf16=True, f64=True, statements=8),
    "subgroups": Features(subgroup=8, statements=8, faults=True),
    "control flow": Features(lanes=(), workgroup=False, statements=14),
    "wide index": Features(index="i64", i64=True, statements=10),
    "everything": EVERYTHING,
}


@pytest.mark.parametrize("case", CASES)
def test_random_program_equals_the_interpreter(
    case: str, arch: str, rng: np.random.Generator
) -> None:
    for _ in range(1 if arch == "aarch64" else 3):
        program = random_kernel(rng, CASES[case])
        expected, got = program.arguments(), program.arguments()
        report = interp.run(program.kernel, expected, program.grid)
        kernel = program.kernel
        if kernel.subgroup is None:  # no subgroup op: any size gives the same
            kernel = replace(kernel, subgroup=[None, None, 2, 8, 32][int(rng.integers(5))])
        faults = Artifact(kernel, arch).run(got, program.grid)
        check(program, got, expected)
        assert faults == frozenset(report.faults), print_kernel(kernel)


@pytest.mark.parametrize("case", ["control flow", "everything"])
def test_bounds_checks_change_nothing_in_bounds(
    case: str, x86: str, rng: np.random.Generator
) -> None:
    program = random_kernel(rng, CASES[case])
    expected, got = program.arguments(), program.arguments()
    interp.run(program.kernel, expected, program.grid)
    Artifact(program.kernel, x86, checks=True).run(got, program.grid)
    check(program, got, expected)
