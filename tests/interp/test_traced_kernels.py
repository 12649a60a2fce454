"""Kernels written in the kernel language, from source to result."""

from __future__ import annotations

import numpy as np

from gristmill.ir.interp import ProblemKind, run
from gristmill.ir.lang import *


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK), 1, 1))
def saxpy(x: Read[T], y: ReadWrite[T], a: T, *, T: DType = f32, BLOCK: int = 64):
    i = global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (1, 1, 1))
def total(x: Read[f32], y: Write[f32], *, BLOCK: int = 64):
    tile = workgroup_array(f32, BLOCK)
    i = local_id(0)
    s = f32(0)
    for k in range(i, len(x), BLOCK):
        s += x[k]
    tile[i] = s
    barrier()
    step = BLOCK // 2
    while step > 0:
        if i < step:
            tile[i] = tile[i] + tile[i + step]
        barrier()
        step = step // 2
    if i == 0:
        y[0] = tile[0]


@kernel(workgroup=lambda: (TILE, TILE, 1), grid=lambda: (n // TILE, n // TILE, 1))
def matmul(a: Read[f32], b: Read[f32], c: Write[f32], n: i32, *, TILE: int = 16):
    left = workgroup_array(f32, (TILE, TILE))
    right = workgroup_array(f32, (TILE, TILE))
    col, row = global_id(0), global_id(1)
    x, y = local_id(0), local_id(1)
    s = f32(0)
    for k in range(0, n, TILE):
        left[y, x] = a[row * n + k + x]
        right[y, x] = b[(k + y) * n + col]
        barrier()
        for t in range(TILE):
            s += left[y, t] * right[t, x]
        barrier()
    c[row * n + col] = s


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (1, 1, 1))
def racy(x: Write[i32]):
    tile = workgroup_array(i32, 32)
    i = local_id(0)
    tile[i] = i
    x[i] = tile[31 - i]


def test_saxpy() -> None:
    for name, dtype in (("f32", np.float32), ("f64", np.float64)):
        k = saxpy.trace(name, T=name)
        x, y = np.arange(100, dtype=dtype), np.ones(100, dtype)
        assert run(k, [x, y, 2.0], (2, 1, 1)).problems == ()
        np.testing.assert_array_equal(y, 2 * np.arange(100) + 1)


def test_reduction_of_a_length_that_is_no_multiple_of_the_workgroup() -> None:
    x, y = np.arange(1000, dtype=np.float32), np.zeros(1, np.float32)
    report = run(total.trace("test"), [x, y], (1, 1, 1))
    assert report.problems == ()
    assert y[0] == x.sum()


def test_tiled_matmul(rng: np.random.Generator) -> None:
    n = 48
    a, b = (rng.integers(-8, 9, (n, n)).astype(np.float32) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    report = run(matmul.trace("test"), [a, b, c, n], (n // 16, n // 16, 1))
    assert report.problems == ()
    np.testing.assert_array_equal(c, a @ b)


def test_race_in_a_source_file_is_reported_at_its_line() -> None:
    k = racy.trace("test")
    (problem,) = run(k, [np.zeros(32, np.int32)], (1, 1, 1)).problems
    assert problem.kind is ProblemKind.READ_WRITE_RACE
    assert problem.loc is not None
    assert problem.loc.file.endswith("test_traced_kernels.py")
    with open(__file__) as source:
        line = source.read().split("\n")[problem.loc.line - 1]
    assert "tile[31 - i]" in line
