"""Subgroup ops on subgroups of several sizes, scalars and vectors."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

from gristmill.ir.interp import InterpOptions, run
from gristmill.ir.text import parse_kernel

WORKGROUP = 64


def run_op(line: str, x: np.ndarray, subgroup: int, t: str = "i32", result: str = "") -> np.ndarray:
    """Apply `line`, which computes %9 from %5 (one element each), over two workgroups."""
    result = result or t
    text = (
        f"kernel k test\nparam x: {t} buffer read\nparam y: {result} buffer write\n"
        f"workgroup {WORKGROUP} 1 1\nindex i32\nsubgroup {subgroup}\n"
        f"body(%0: buffer<{t},read>, %1: buffer<{result},write>) {{\n"
        "  %4 = global_id {dim=0} : i32\n  %6 = subgroup_lane : i32\n  %7 = const 3 : i32\n"
        f"  %5 = load %0, %4 : {t}\n{line}  store %1, %4, %9\n  return\n}}\n"
    )
    kernel = parse_kernel(text)
    y = np.zeros(len(x), kernel.params[1].dtype.storage)
    report = run(kernel, [x, y], (len(x) // WORKGROUP, 1, 1), options=InterpOptions())
    assert report.problems == ()
    return y


@pytest.fixture(params=[4, 8, 32, 64])
def size(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-(1 << 31), 1 << 31, 2 * WORKGROUP).astype(np.int32)


OPERATORS = {
    "add": operator.add,
    "mul": operator.mul,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
IDENTITY = {"add": 0, "mul": 1, "min": (1 << 31) - 1, "max": -(1 << 31), "and": -1}


def rows(x: np.ndarray, size: int) -> list[list[int]]:
    return x.reshape(-1, size).tolist()


def wrapped(values: list[int]) -> list[int]:
    return [(v + (1 << 31)) % (1 << 32) - (1 << 31) for v in values]


@pytest.mark.parametrize("kind", OPERATORS)
def test_reduction(kind: str, size: int, x: np.ndarray) -> None:
    got = run_op(f'  %9 = subgroup_reduce %5 {{kind="{kind}"}} : i32\n', x, size)
    expected = [functools.reduce(OPERATORS[kind], row) for row in rows(x, size) for _ in row]
    assert got.tolist() == wrapped(expected)


@pytest.mark.parametrize("inclusive", ["true", "false"])
@pytest.mark.parametrize("kind", OPERATORS)
def test_scan(kind: str, inclusive: str, size: int, x: np.ndarray) -> None:
    line = f'  %9 = subgroup_scan %5 {{inclusive={inclusive}, kind="{kind}"}} : i32\n'
    expected = []
    for row in rows(x, size):
        running = IDENTITY.get(kind, 0)
        for value in row:
            before, running = running, OPERATORS[kind](running, value)
            expected.append(running if inclusive == "true" else before)
    assert run_op(line, x, size).tolist() == wrapped(expected)


@pytest.mark.parametrize(
    ("op", "lane"),
    [
        ("subgroup_shuffle", lambda own, size: (own * 3) % size),
        ("subgroup_shuffle_xor", lambda own, size: (own ^ 3) % size),
        ("subgroup_shuffle_up", lambda own, size: own - 3 if own >= 3 else own),
        ("subgroup_shuffle_down", lambda own, size: own + 3 if own + 3 < size else own),
        ("subgroup_broadcast", lambda own, size: 3),
    ],
)
def test_shuffle(op: str, lane, size: int, x: np.ndarray) -> None:
    line = (
        f"  %8 = mul %6, %7 : i32\n  %9 = {op} %5, %{8 if op == 'subgroup_shuffle' else 7} : i32\n"
    )
    expected = [row[lane(own, size)] for row in rows(x, size) for own in range(size)]
    assert run_op(line, x, size).tolist() == expected


def test_ballot_any_all_and_elect(size: int, x: np.ndarray) -> None:
    word = "u64" if size == 64 else "u32"
    vote = "  %8 = const 0 : i32\n  %10 = lt %5, %8 : bool\n"
    got = run_op(vote + f"  %9 = subgroup_ballot %10 : {word}\n", x, size, result=word)
    votes = [[v < 0 for v in row] for row in rows(x, size)]
    ballots = [sum(v << n for n, v in enumerate(row)) for row in votes for _ in row]
    assert got.tolist() == ballots
    for op, fn in (("any", any), ("all", all)):
        line = f"{vote}  %11 = subgroup_{op} %10 : bool\n  %9 = convert %11 : i32\n"
        assert run_op(line, x, size).tolist() == [int(fn(row)) for row in votes for _ in row]
    line = "  %11 = subgroup_elect : bool\n  %9 = convert %11 : i32\n"
    assert run_op(line, x, size).tolist() == ([1] + [0] * (size - 1)) * (len(x) // size)


def test_float_minimum_ignores_nan_and_f16_sums_round_each_step(size: int) -> None:
    x = np.linspace(-4, 4, 128, dtype=np.float32)
    x[::3] = np.nan
    got = run_op('  %9 = subgroup_reduce %5 {kind="min"} : f32\n', x, size, "f32")
    assert got.tolist() == np.repeat(np.nanmin(x.reshape(-1, size), 1), size).tolist()
    h = np.full(128, 2048, np.float16)
    h[1::2] = 1
    got = run_op('  %9 = subgroup_scan %5 {inclusive=true, kind="add"} : f16\n', h[:], size, "f16")
    assert got[:3].tolist() == [2048.0, 2048.0, 4096.0]  # 2049 is no f16


def test_vectors_are_reduced_lane_by_lane(size: int, x: np.ndarray) -> None:
    line = (
        '  %8 = vector %5, %6 : i32x2\n  %10 = subgroup_reduce %8 {kind="max"} : i32x2\n'
        "  %11 = extract %10 {lane=0} : i32\n  %12 = extract %10 {lane=1} : i32\n"
        "  %9 = xor %11, %12 : i32\n"
    )
    expected = [max(row) ^ (size - 1) for row in rows(x, size) for _ in row]
    assert run_op(line, x, size).tolist() == expected


def test_ids_of_subgroups(size: int, x: np.ndarray) -> None:
    line = (
        "  %8 = subgroup_id : i32\n  %10 = num_subgroups : i32\n  %11 = const 100 : i32\n"
        "  %12 = mul %10, %11 : i32\n  %9 = add %12, %8 : i32\n"
    )
    count = WORKGROUP // size
    expected = [count * 100 + n // size for n in range(WORKGROUP)] * 2
    assert run_op(line, x, size).tolist() == expected


def test_subgroup_op_within_a_branch_of_whole_subgroups(size: int, x: np.ndarray) -> None:
    line = (
        "  %8 = subgroup_id : i32\n  %10 = const 0 : i32\n  %11 = eq %8, %10 : bool\n"
        '  %9 = if %11 : i32 {\n    %12 = subgroup_reduce %5 {kind="add"} : i32\n    yield %12\n'
        "  } else {\n    yield %10\n  }\n"
    )
    expected = []
    for n, row in enumerate(rows(x, size)):
        first = n % (WORKGROUP // size) == 0
        expected += [sum(row) if first else 0] * size
    assert run_op(line, x, size).tolist() == wrapped(expected)
