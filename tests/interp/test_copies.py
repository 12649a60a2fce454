"""Asynchronous copies on the oracle: what they bring, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest

from copy_kernels import COPIES, case
from gristmill.ir.interp import ProblemKind, run
from gristmill.ir.text import parse_kernel, print_kernel


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize(("t", "count"), COPIES)
def test_copies(t: str, count: int, fill: bool, rng: np.random.Generator) -> None:
    kernel, args, expected = case(rng, t, count, fill)
    assert parse_kernel(print_kernel(kernel)) == kernel
    report = run(kernel, args, (1, 1, 1))
    assert report.problems == ()
    assert (args[1] == expected).all()


HEAD = (
    "kernel k test\nparam x: f32 buffer read\nparam y: f32 buffer write\nworkgroup 8 1 1\n"
    "index i32\nbody(%0: buffer<f32,read>, %1: buffer<f32,write>) {\n"
    '  %2 = alloc {name="tile"} : workgroup<f32,64>\n  %3 = local_id {dim=0} : i32\n'
    "  %4 = const 4 : i32\n  %5 = mul %3, %4 : i32\n  %6 = const 1 : i32\n"
)
COPY = "  copy_async %2, %5, %0, %5 {count=4}\n"
DONE = "  copy_commit\n  copy_wait {pending=0}\n"
USE = "  %8 = load %2, %7 : f32\n  store %1, %3, %8\n"
OWN, NEXT = "  %7 = add %5, %6 : i32\n", "  %9 = add %5, %4 : i32\n  %7 = mod %9, %10 : i32\n"
LIMIT = "  %10 = const 32 : i32\n"


def problems(lines: str, elements: int = 64) -> dict[ProblemKind, str]:
    kernel = parse_kernel(HEAD + LIMIT + lines + "  return\n}\n")
    x = np.arange(elements, dtype=np.float32)
    report = run(kernel, [x, np.zeros(8, np.float32)], (1, 1, 1))
    return {p.kind: p.message for p in report.problems}


EARLY = ProblemKind.PENDING_COPY
CASES = {
    COPY + DONE + OWN + USE: set(),
    COPY + DONE + "  barrier\n" + NEXT + USE: set(),
    COPY + DONE + NEXT + USE: {ProblemKind.READ_WRITE_RACE},
    COPY: {EARLY},
    COPY + OWN + USE + DONE: {EARLY, ProblemKind.UNWRITTEN_READ},
    COPY + "  copy_commit\n" + OWN + USE: {EARLY, ProblemKind.UNWRITTEN_READ},
    COPY + "  copy_wait {pending=0}\n" + OWN + USE: {EARLY, ProblemKind.UNWRITTEN_READ},
    COPY + "  copy_commit\n  copy_wait {pending=1}\n" + OWN + USE: {
        EARLY, ProblemKind.UNWRITTEN_READ,
    },
    COPY + "  %20 = const 0.0 : f32\n  store %2, %5, %20\n" + DONE: {EARLY},
    COPY + COPY + DONE: {EARLY},
    "  copy_async %2, %3, %0, %5 {count=1}\n" + DONE: set(),
    "  copy_async %2, %3, %0, %5 {count=4}\n" + DONE: {
        ProblemKind.MISALIGNED,
    },
    "  copy_async %2, %5, %0, %3 {count=4}\n" + DONE: {ProblemKind.MISALIGNED},
    "  %20 = add %5, %10 : i32\n  copy_async %2, %5, %0, %20 {count=4}\n" + DONE: set(),
    "  %20 = shl %5, %6 : i32\n  copy_async %2, %5, %0, %20 {count=4}\n" + DONE: set(),
    "  %20 = mul %5, %4 : i32\n  copy_async %2, %5, %0, %20 {count=4}\n" + DONE: {
        ProblemKind.OUT_OF_BOUNDS,
    },
    "  %20 = mul %5, %4 : i32\n  copy_async %2, %20, %0, %5 {count=4}\n" + DONE: {
        ProblemKind.OUT_OF_BOUNDS,
    },
}  # fmt: skip


@pytest.mark.parametrize("lines", CASES, ids=range(len(CASES)))
def test_reports(lines: str) -> None:
    assert set(problems(lines)) == CASES[lines]


def test_a_report_names_the_cell_and_the_invocation() -> None:
    found = problems(COPY + OWN + USE + DONE)
    assert found[EARLY].startswith("load of tile[1] by invocation (0, 0, 0) of workgroup (0, 0, 0)")


def test_elements_that_are_not_given_are_not_read() -> None:
    given = "  %20 = sub %10, %5 : i32\n  copy_async %2, %5, %0, %5, %20 {count=4}\n"
    assert problems(given + DONE, 32) == {}
    assert set(problems(given + DONE, 31)) == {ProblemKind.OUT_OF_BOUNDS}
