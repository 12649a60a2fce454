"""Code objects for every processor: shipped kernels, every op, every function, random programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from every_op import cases, kernel_of
from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.fuzz.generate import EVERYTHING, random_kernel
from gristmill.ir.dtypes import COMPUTED, DTYPES
from gristmill.ir.ops import ROWS
from hsaco_tools import BASELINES, compiled, lanes, shipped, usual


@pytest.fixture(
    params=[a if a in BASELINES else pytest.param(a, marks=pytest.mark.slow) for a in PROCESSORS]
)
def arch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_what_a_build_makes_by_itself_is_compiled_every_time() -> None:
    assert usual() == set(BASELINES)


def test_every_shipped_kernel(arch: str) -> None:
    kernels = list(shipped(f"hsaco-{arch}"))
    assert len(kernels) > 80
    for path, kernel in kernels:
        _, manifest = compiled(kernel, arch)
        facts = manifest.facts
        assert not facts["vgpr_spills"] + facts["sgpr_spills"], path


@pytest.mark.slow
def test_every_shipped_kernel_with_checks(arch: str) -> None:
    for _, kernel in shipped(f"hsaco-{arch}"):
        compiled(kernel, arch, checks=True)


@pytest.mark.parametrize("lanes", [1, 4])
def test_every_op(arch: str, lanes: int) -> None:
    for t in DTYPES.values():
        every = [c for c in cases(t, fused=True) if lanes == 1 or c[0] != "dot4"]
        compiled(kernel_of(t, every, False, lanes), arch)


@pytest.mark.parametrize("t", [t for t in COMPUTED.values() if t.is_float], ids=str)
def test_every_function(arch: str, t: object) -> None:
    dtype = DTYPES[str(t)]
    names = [n for n, row in ROWS.items() if row.ulp64 is not None or n in ("fmod", "hypot")]
    wanted = [(name, tuple(range(ROWS[name].arity)), dtype) for name in names]
    for at in range(0, len(wanted), 8):
        compiled(kernel_of(dtype, wanted[at : at + 8], False), arch)


@pytest.mark.parametrize("fast", [False, True])
def test_functions_of_the_hardware(arch: str, fast: bool) -> None:
    f32 = DTYPES["f32"]
    names = ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "rsqrt", "div")
    wanted = [(name, tuple(range(ROWS[name].arity)), f32) for name in names]
    k = kernel_of(f32, wanted, False)
    compiled(replace(k, fast=("approximate",)) if fast else k, arch)


@pytest.mark.parametrize("alone", [False, True])
def test_random_programs(arch: str, alone: bool, rng: np.random.Generator) -> None:
    features = replace(EVERYTHING, subgroup=None if alone else lanes(arch))
    for n in range(4):
        compiled(random_kernel(rng, features).kernel, arch, checks=n % 2 == 1)
