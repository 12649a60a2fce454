"""Launches, emulated: folded grids, fault sites, big workgroups, barriers, atomics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import DTYPES
from hsaco_tools import BASELINES, Emulated
from kernel_bodies import (
    AFTER_A_BARRIER,
    FAULT_SITES,
    FAULTS,
    MANY_BARRIERS,
    OUTSIDE,
    atomics_of_every_kind,
    count_groups,
)
from kernel_text import kernel
from nv_kernels import grid_sums


@pytest.fixture(autouse=True)
def disassembler(require: Callable[..., None]) -> None:
    require("llvm-objdump")


def agree(
    k: Kernel,
    args: list[np.ndarray],
    grid: tuple[int, int, int],
    arch: str,
    rng: np.random.Generator,
    checks: bool = False,
) -> None:
    """Buffers and fault sites are those of the interpreter."""
    expected, got = [a.copy() for a in args], [a.copy() for a in args]
    report = interp.run(k, expected, grid)
    faults = Emulated(k, arch, checks).run(got, grid, rng)
    for param, a, b in zip(k.params, got, expected, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=param.name)
    assert faults == frozenset(report.faults)


@pytest.mark.parametrize("grid", [(1, 65537, 1), (3, 1, 65536), (7, 5, 3), (66000, 2, 1)])
def test_every_group_of_a_grid_runs_once(
    grid: tuple[int, int, int], rng: np.random.Generator
) -> None:
    """Also where the hardware's limits make the runtime fold it."""
    total = grid[0] * grid[1] * grid[2]
    params = "n: i32 buffer readwrite, row: i32 buffer write"
    n, row = np.zeros(total, np.int32), np.zeros(total, np.int32)
    Emulated(kernel(params, count_groups("i32"), "1 1 1"), "gfx1100").run([n, row], grid, rng)
    assert (n == 1).all()
    assert np.array_equal(row, np.arange(total) // grid[0] % grid[1])


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize("workgroup", ["1 1 1", "3 2 1", "32 4 2"])
def test_surplus_groups_of_a_folded_grid_do_nothing(
    arch: str, workgroup: str, rng: np.random.Generator
) -> None:
    """A fold as a device with lower limits makes it: 40 groups for 35."""
    params = "n: i32 buffer readwrite, row: i32 buffer write"
    n, row = np.zeros(35, np.int32), np.zeros(35, np.int32)
    run = Emulated(kernel(params, count_groups("i32"), workgroup), arch)
    run.run([n, row], (7, 5, 1), rng, launched=(8, 5, 1))
    x, y, z = map(int, workgroup.split())
    assert (n == x * y * z).all()


def test_fault_bits_are_those_of_the_sites_and_begin_at_the_base(rng: np.random.Generator) -> None:
    params = "x: i32 buffer read, y: i32 buffer write"
    k = kernel(params, FAULTS, header=FAULT_SITES)
    zeros, rising = np.zeros(64, np.int32), np.arange(64, dtype=np.int32)
    for arch, x in zip(BASELINES, (zeros, rising, rising - 1), strict=True):
        agree(k, [x, np.zeros(64, np.int32)], (2, 1, 1), arch, rng)
    run = Emulated(k, "gfx1201")
    for base in (0, 30, 31, 61, 95):
        assert run.run([rising, zeros.copy()], (2, 1, 1), rng, fault_base=base) == {0}


@pytest.mark.parametrize("arch", BASELINES)
def test_checks_drop_what_is_out_of_bounds_and_say_so(arch: str, rng: np.random.Generator) -> None:
    k = kernel("x: i32 buffer read, y: i32 buffer readwrite", OUTSIDE)
    run = Emulated(k, arch, checks=True)
    x, y = np.arange(50, dtype=np.int32), np.zeros(40, np.int32)
    hit = {run.manifest.sites[n] for n in run.run([x, y], (1, 1, 1), rng)}
    assert hit == {"index out of bounds: x", "index out of bounds: y"}
    assert y.tolist() == [n + 3 if n % 3 == 0 else 0 for n in range(40)]


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize("workgroup", ["1024 1 1", "8 4 32"])
def test_a_workgroup_of_1024_goes_through_many_barriers(
    workgroup: str, arch: str, rng: np.random.Generator
) -> None:
    k = kernel("x: i32 buffer read, y: i32 buffer write", MANY_BARRIERS, workgroup)
    x = rng.integers(-99, 99, 1024).astype(np.int32)
    for _ in range(3):
        agree(k, [x, np.zeros(1024, np.int32)], (1, 1, 1), arch, rng)


@pytest.mark.parametrize("arch", BASELINES)
def test_what_another_invocation_wrote_to_a_buffer_is_there_after_the_barrier(
    arch: str, rng: np.random.Generator
) -> None:
    """LLVM may not take what it loaded before for what is there."""
    k = kernel("x: i32 buffer readwrite, y: i32 buffer write", AFTER_A_BARRIER, "128 1 1")
    agree(k, [np.full(1, 5, np.int32), np.zeros(128, np.int32)], (1, 1, 1), arch, rng)


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize("where", ["buffer", "workgroup"])
@pytest.mark.parametrize("dtype", ["i32", "u32", "i64", "u64", "f32", "f64"])
def test_atomics_of_every_kind(dtype: str, where: str, arch: str, rng: np.random.Generator) -> None:
    t = DTYPES[dtype]
    params, body = atomics_of_every_kind(t, where)
    k = kernel(params, body, "64 1 1")
    x = rng.integers(0 if t.name[0] == "u" else -50, 50, 64).astype(t.storage)
    y = rng.integers(0, 50, 8).astype(t.storage)
    agree(k, [x, y, x], (1, 1, 1), arch, rng)


@pytest.mark.parametrize("arch", BASELINES)
def test_all_workgroups_of_a_launch_wait_for_each_other(
    arch: str, rng: np.random.Generator
) -> None:
    k = grid_sums.trace("s")
    run = Emulated(k, arch)
    assert run.manifest.requires == ("grid_barrier",)
    counts = [64 * 5 if p.name == "x" else 5 for p in k.params]
    args = [rng.integers(-99, 99, n).astype(np.int32) for n in counts]
    agree(k, args, (5, 1, 1), arch, rng)
