"""Compiling a kernel to SPIR-V takes milliseconds, for every kernel that ships.

What is measured is the number of calls that Python makes, which no other process changes; time is
only held to what no machine that works takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gristmill.ir.core import walk
from modules import load_module

ROOT = Path(__file__).resolve().parents[2]
TARGET = "spirv-vulkan1.1"
# Their authors unroll these over a tile of fragments, each of which is many ops where the device
# has no matrices: they take time by their size.
OF_FRAGMENTS = ("matmul_fragments",)
# Ops as traced and as lowered, at most; of some kernels more: rows of a cache in registers, written
# out (the fewer lanes hold one, the more ops), functions in a row that expand, and shapes that are
# held against sizes factor by factor.
MOST = (600, 750)
MORE = {
    "conv2d": (700, 750),
    "attention_decode": (1200, 1300),
    "random_fill/normal": (200, 950),
    "sample_token": (560, 820),
}
# Calls of a kernel: so many at most, and so many for each op as traced and as lowered.
FIXED, EACH = 1500, 60


class Row(NamedTuple):
    """A kernel: its path, ops as traced and as lowered, calls, CPU seconds."""

    path: str
    traced: int
    lowered: int
    calls: int
    seconds: float


def counted(work: Callable[[], Any]) -> tuple[Any, int]:
    """A result, and the calls of Python functions that it took."""
    calls = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        return work(), calls
    finally:
        sys.setprofile(None)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    path = ROOT / "benchmarks" / "compile_time.py"
    benchmark = load_module(path, "compile_time")
    prepare, finish = benchmark.stages(TARGET)
    found, warm = [], False
    for name, kernel in benchmark.kernels(TARGET):
        if not warm:  # what is made once and kept
            finish(prepare(kernel))
            warm = True
        start = time.process_time()
        lowered, passes = counted(lambda kernel=kernel: prepare(kernel))
        ops = [sum(1 for _ in walk(k.body)) for k in (kernel, lowered)]
        _, emission = counted(lambda lowered=lowered: finish(lowered))
        found.append(Row(name, *ops, passes + emission, time.process_time() - start))
    return found


def test_kernels_compile_in_few_calls(rows: list[Row]) -> None:
    assert len(rows) > 100
    assert [row for row in rows if row.calls > FIXED + EACH * (row.traced + row.lowered)] == []


def test_no_kernel_grows_beyond_what_compiles_in_that_time(rows: list[Row]) -> None:
    """Time follows the number of ops."""
    for row in rows:
        if not row.path.startswith(OF_FRAGMENTS):
            found = [most for name, most in MORE.items() if row.path.startswith(name)]
            traced, lowered = found[0] if found else MOST
            assert row.traced <= traced, row
            assert row.lowered <= lowered, row


def test_time_follows_calls(rows: list[Row]) -> None:
    """Thirty times what a call takes on a quiet machine: loops within calls would show."""
    assert sum(row.seconds for row in rows) < 30e-6 * sum(row.calls for row in rows)
