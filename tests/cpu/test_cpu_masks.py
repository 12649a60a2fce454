"""Lanes that are not active, or that have left, take no part: on every level as interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cpu_runner import Artifact
from gristmill.ir import interp
from gristmill.ir.lang import *

LANES = 64


@kernel(workgroup=lambda: 64)
def atomics_of_some(x: Read[T], y: ReadWrite[T], *, T: DType):
    """Every lane names the same cell and reads nothing back."""
    i = global_id(0)
    if x[i] % T(3) != T(0):
        atomic_add(y, 0, x[i])
        atomic_min(y, 1, x[i])
        atomic_max(y, 2, x[i])
        atomic_and_(y, 3, x[i])
        atomic_or_(y, 4, x[i])
        atomic_xor(y, 5, x[i])


@kernel(workgroup=lambda: 64)
def return_from_an_inner_loop(x: Read[i32], y: ReadWrite[i32], n: i32):
    """The outer loop is the same for all lanes, who leaves the inner one is not."""
    i = global_id(0)
    for turn in range(n):
        k = 0
        while k < x[i]:
            if k * turn == x[i]:
                return
            k += 1
        y[i] += 1


@kernel(workgroup=lambda: 64)
def return_from_the_third_loop(x: Read[i32], y: ReadWrite[i32], n: i32):
    i = global_id(0)
    for turn in range(n):
        for step in range(n):
            for k in range(x[i]):
                if k + step + turn > 9:
                    return
                y[i] += 1
            y[i] += 100
        y[i] += 10000


@kernel(workgroup=lambda: 64)
def count_in_some_lanes(x: Read[i32], y: ReadWrite[i32]):
    """Trip counts differ, and lanes that are not in the loop have great ones."""
    i = global_id(0)
    if x[i] % 2 == 0:
        for k in range(x[i] + 5):
            y[i] += k + 1


def agree(arch: str, traced: Any, *args: Any) -> list[Any]:
    """The arguments after a run; AssertionError where a level and the interpreter differ."""
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    actual = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    interp.run(traced, expected, (1, 1, 1))
    Artifact(traced, arch).run(actual, (1, 1, 1))
    for a, b in zip(actual, expected, strict=True):
        assert np.array_equal(a, b)
    return expected


@pytest.mark.parametrize("dtype", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_inactive_lanes_add_nothing_to_an_atomic_of_one_cell(
    arch: str, dtype: str, sign: int
) -> None:
    """All values on one side of zero: what stands in for an inactive lane must not win."""
    storage = np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    x = (sign * (np.arange(LANES) + 7)).astype(storage)
    taken = np.fmod(x, 3) != 0
    info = np.iinfo(storage)
    y = np.array([0, info.max, info.min, np.array(-1).astype(storage), 0, 0], storage)
    after = agree(arch, atomics_of_some.trace("t", T=dtype), x, y)[1]
    if storage.kind == "i" or sign > 0:
        assert after[1:3].tolist() == [x[taken].min(), x[taken].max()]


@pytest.mark.parametrize("kernel_", [return_from_an_inner_loop, return_from_the_third_loop])
def test_lanes_that_returned_from_an_inner_loop_stay_away(arch: str, kernel_: Any) -> None:
    x = (np.arange(LANES) % 13).astype(np.int32)
    y = agree(arch, kernel_.trace("t"), x, np.zeros(LANES, np.int32), 6)[1]
    assert len(set(y.tolist())) > 2  # some left, at several places


def test_lanes_outside_a_loop_take_no_part_in_turns_that_all_others_take(arch: str) -> None:
    x = np.arange(LANES, dtype=np.int32)
    y = agree(arch, count_in_some_lanes.trace("t"), x, np.zeros(LANES, np.int32))[1]
    assert not y[1::2].any()
    assert y[::2].all()
