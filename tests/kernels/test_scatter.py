"""Scatter in order: what stays where indexes repeat, and what is a fault; several axes in one."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.kernels.indexing import take
from gristmill.kernels.scatter import OUTSIDE, flatten_nd, scatter_reduce
from kernel_launch import launch

UPDATES = np.array([5, -3, 0.5, 2, -7], np.float32)  # to 1, 3, 1, 1, -1
ANSWERS = {
    "set": [1, 2, 1, -7],
    "add": [1, 9.5, 1, -9],
    "mul": [1, 10, 1, 21],
    "min": [1, 0.5, 1, -7],
    "max": [1, 5, 1, 1],
}


@pytest.mark.parametrize("op", ANSWERS)
@pytest.mark.parametrize("each", [False, True])
def test_picks_are_joined_one_after_another(op: str, each: bool) -> None:
    y = np.array([1, 2, 1, 1], np.float32)
    at = np.array([1, 3, 1, 1, -1], np.int32)
    assert launch(scatter_reduce, UPDATES, at, y, 4, 5, 1, OP=op, EACH=each) == []
    assert y.tolist() == ANSWERS[op]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("bad", [4, -5, 2**31 - 1, -(2**31)])
def test_an_index_outside_the_axis_is_a_fault_and_does_nothing(bad: int, each: bool) -> None:
    y = np.array([1, 2, 1, 1], np.float32)
    at = np.array([1, bad, 1, 1, -1], np.int32)
    found = launch(scatter_reduce, UPDATES, at, y, 4, 5, 1, EACH=each)
    assert found == ["scatter_reduce: index outside the axis"]
    assert y.tolist() == [1, 9.5, 1, -6]


@pytest.mark.parametrize(
    ("n", "picks", "inner", "count"),  # count: of indices; fewer than 30 are of rows
    [
        (4, 4, 3, 24),
        (4, 6, 3, 5),
        (4, 4, 3, 4),
        (5, 5, 3, 30),
        (7, 10, 3, 30),
        (4, 5, 4, 30),
        (4, 5, 0, 30),
        (4, 5, -3, 30),
        (4, 5, 3, 29),
        (4, 5 - 2**31, 3, 30),
    ],
)
def test_sizes_that_do_not_fit_are_a_fault_and_nothing_is_touched(
    n: int, picks: int, inner: int, count: int
) -> None:
    updates, y = np.ones((2, 5, 3), np.float32), np.full((2, 4, 3), 7, np.float32)
    at = np.zeros(count, np.int32)
    message = "scatter_reduce: updates or indices of another size than picks of y's columns"
    found = launch(scatter_reduce, updates, at, y, n, picks, inner, EACH=count > 6)
    assert found == [message]
    assert (y == 7).all()


def test_every_element_has_an_index_of_its_own() -> None:
    y, updates = np.zeros((3, 2), np.float32), np.arange(1, 9, dtype=np.float32)
    at = np.array([[0, 1], [2, 1], [0, 2], [1, 1]], np.int32)
    assert launch(scatter_reduce, updates, at, y, 3, 4, 2) == []
    assert y.tolist() == [[6, 0], [7, 14], [3, 6]]


def test_rows_of_several_axes_are_gathered() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 2**32, (2, 3, 4, 5), dtype=np.uint32)
    at = np.stack([rng.integers(-3, 3, (2, 6)), rng.integers(-4, 4, (2, 6))], -1).astype(np.int32)
    rows, y = np.zeros(12, np.int32), np.zeros((2, 6, 5), np.uint32)
    assert launch(flatten_nd, at, np.array([3, 4], np.int32), rows, 6) == []
    assert launch(take, x, rows, y, 2 * 3 * 4, 5) == []
    batch = np.arange(2)[:, None]
    np.testing.assert_array_equal(y, x[batch, at[..., 0], at[..., 1]])


@pytest.mark.parametrize("bad", [(3, 0), (0, 4), (-4, 0), (0, -5), (2**31 - 1, 2**31 - 1)])
def test_an_index_outside_of_any_axis_is_a_row_of_nothing(bad: tuple[int, int]) -> None:
    at, rows = np.array([(1, 2), bad, (-1, -1)], np.int32), np.zeros(3, np.int32)
    found = launch(flatten_nd, at, np.array([3, 4], np.int32), rows, 3)
    assert found == ["flatten_nd: index outside its axis"]
    assert rows.tolist() == [6, OUTSIDE, 11]
    x, y = np.arange(1, 13, dtype=np.uint32), np.full(3, 7, np.uint32)
    assert launch(take, x, rows, y, 12, 1) == ["take: index outside the axis"]
    assert y.tolist() == [7, 0, 12]


def test_indexes_of_too_few_axes_are_a_fault() -> None:
    rows = np.zeros(3, np.int32)
    at = np.zeros((3, 1), np.int32)
    found = launch(flatten_nd, at, np.array([3, 4], np.int32), rows, 3)
    assert found == ["flatten_nd: indices that are not one for each axis of each row"]
    assert (rows == OUTSIDE).all()
