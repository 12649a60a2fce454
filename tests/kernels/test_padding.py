"""Padding by what an array holds: numpy's answers, and what is a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.kernels.padding import MODES, pad_edges
from kernel_launch import launch


def padded(x: np.ndarray, y: np.ndarray, *sizes: int, mode: Any) -> list[str]:
    """The messages of the asserts that failed."""
    return launch(pad_edges, x, y, *sizes, MODE=mode)


@pytest.mark.parametrize("mode", MODES)
def test_it_is_what_numpy_makes_of_it(mode: Any) -> None:
    x = np.arange(3 * 4 * 5, dtype=np.uint32).reshape(1, 3, 4, 5)
    wanted = np.pad(x, ((0, 0), (2, 1), (3, 2), (4, 4)), mode)
    y = np.zeros_like(wanted)
    assert padded(x, y, *y.shape, *x.shape, 0, 2, 3, 4, mode=mode) == []
    np.testing.assert_array_equal(y, wanted)


ANSWERS = {
    "edge": [1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3],
    "wrap": [3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1],
    "reflect": [1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3],
}


@pytest.mark.parametrize("mode", MODES)
def test_it_goes_on_further_than_the_array_is_long(mode: str) -> None:
    x, y = np.array([1, 2, 3], np.uint32), np.zeros(11, np.uint32)
    assert padded(x, y, 1, 1, 1, 11, 1, 1, 1, 3, 0, 0, 0, 4, mode=mode) == []
    assert y.tolist() == ANSWERS[mode]
    assert padded(x, y, 1, 1, 11, 1, 1, 1, 3, 1, 0, 0, 4, 0, mode=mode) == []
    assert y.tolist() == ANSWERS[mode]


@pytest.mark.parametrize("mode", MODES)
def test_an_axis_of_nothing_is_a_fault(mode: str) -> None:
    y = np.full(3, 7, np.uint32)
    found = padded(np.zeros(0, np.uint32), y, 1, 1, 1, 3, 1, 1, 1, 0, 0, 0, 0, 1, mode=mode)
    assert found == ["pad_edges: an axis of nothing to repeat"]
    assert (y == 7).all()


@pytest.mark.parametrize("sizes", [(1, 1, 1, 4, 1, 1, 1, 2), (1, 1, 1, 3, 1, 1, 1, 3),
                                   (1, -1, -1, 3, 1, 1, 1, 2),
                                   (1, 1, 1, 3, 1, 3, 1, 1431655766)])  # fmt: skip
def test_sizes_that_do_not_fit_are_a_fault_and_nothing_is_touched(sizes: tuple[int, ...]) -> None:
    x, y = np.ones(2, np.uint32), np.full(3, 7, np.uint32)
    found = padded(x, y, *sizes, 0, 0, 0, 1, mode="edge")
    assert found == ["pad_edges: x or y of another size than its shape"]
    assert (y == 7).all()
