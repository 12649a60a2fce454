"""PTX for every architecture is taken by NVIDIA's assembler: shipped kernels, every op, random
programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gristmill.fuzz.generate import EVERYTHING, Features, random_kernel
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.ops import ROWS
from ptx_tools import assembled, ptx, shipped, usual
from test_cpu_every_op import cases, kernel_of

CASES = {
    "integers": Features(f32=False, i8=True, i16=True, i64=True, statements=8),
    "floats": Features(f16=True, bf16=True, f64=True, statements=8),
    "subgroups": Features(subgroup=32, statements=8, faults=True),
    "control flow": Features(lanes=(), workgroup=False, statements=14),
    "wide index": Features(index="i64", i64=True, statements=10),
    "everything": replace(EVERYTHING, subgroup=32),
}


def test_what_a_build_makes_by_itself_is_assembled_every_time() -> None:
    assert usual() == {"sm_80", "sm_90", "sm_90a"}


def test_every_shipped_kernel(arch: str) -> None:
    kernels = list(shipped(f"ptx-{arch}"))
    assert len(kernels) > 80
    for _, kernel in kernels:
        assembled(ptx(kernel, arch), arch)


@pytest.mark.slow
def test_every_shipped_kernel_with_checks(arch: str) -> None:
    for _, kernel in shipped(f"ptx-{arch}"):
        assembled(ptx(kernel, arch, checks=True), arch)


@pytest.mark.parametrize("lanes", [1, 4])
def test_every_op(arch: str, lanes: int) -> None:
    for t in DTYPES.values():
        every = [c for c in cases(t, fused=True) if lanes == 1 or c[0] != "dot4"]
        assembled(ptx(kernel_of(t, every, False, lanes), arch), arch)


@pytest.mark.parametrize("t", ["f32", "f64", "f16", "bf16"])
def test_every_function(arch: str, t: str) -> None:
    names = [n for n, row in ROWS.items() if row.ulp64 is not None or n in ("fmod", "hypot")]
    for name in names:
        arity = ROWS[name].arity
        case = (name, tuple(range(arity)), DTYPES[t])
        assembled(ptx(kernel_of(DTYPES[t], [case], False), arch), arch)


@pytest.mark.parametrize("case", CASES)
def test_random_programs(case: str, arch: str, rng: np.random.Generator) -> None:
    for _ in range(3):
        kernel = random_kernel(rng, CASES[case]).kernel
        assembled(ptx(kernel, arch, checks=bool(rng.integers(2))), arch)
