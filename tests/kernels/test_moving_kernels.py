"""Moving elements: what numpy does with the same views and indexes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.ir.interp import run
from gristmill.kernels.indexing import index_add, scatter_last, scatter_rows, take, take_along
from gristmill.kernels.movement import copy_strided, strided
from kernel_launch import launch

VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "whole": lambda x: x,
    "steps": lambda x: x[::2, 1::3, 3:13:4],
    "reversed": lambda x: x[::-1, :, ::-1],
    "off a vector": lambda x: x[:, 1:, 3:11],
    "half a vector left": lambda x: x[:, 1:, 4:10],
    "permuted": lambda x: x.transpose(2, 0, 1),
    "one row": lambda x: x[3, 2],
    "a corner": lambda x: x[5:, 7:, 15:],
    "expanded": lambda x: np.broadcast_to(x[:, :, None], (6, 8, 5, 16)),
    "tiled": lambda x: np.broadcast_to(x[None, :, None, :, None, :], (2, 6, 2, 8, 3, 16)),
    "nothing": lambda x: x[:, 3:3],
}


@pytest.mark.parametrize("vec", [1, 4])
@pytest.mark.parametrize("name", VIEWS)
def test_a_copy_is_what_numpy_makes_of_the_views(name: str, vec: int) -> None:
    x = np.arange(6 * 8 * 16, dtype=np.uint32).reshape(6, 8, 16)
    source = VIEWS[name](x)
    y = np.full((2, *source.shape[:-1], 32), 7, np.uint32)
    place = (1, ..., slice(8, 8 + source.shape[-1]))  # a part of a concatenation, twice
    target, wanted = y[place], y.copy()
    wanted[place] = source
    scalars = strided(source, target, x, y)
    if source.size:
        launch(copy_strided, x, y, *scalars.values(), VEC=vec)
    else:
        assert set(scalars.values()) == {0}
    np.testing.assert_array_equal(y, wanted)


def test_axes_that_lie_on_one_another_become_one() -> None:
    x, y = np.zeros((4, 6, 8, 2)), np.zeros((4, 6, 8, 2))
    assert strided(x, y, x, y)["n5"] == x.size
    found = strided(x[:, 1:3], y[:, 1:3], x, y)
    assert [found[f"n{axis}"] for axis in range(6)] == [1, 1, 1, 1, 4, 32]


def test_a_copy_that_is_not_one_of_elements_is_refused() -> None:
    x, y = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    twice = np.lib.stride_tricks.as_strided(y, (4, 3), (4, 4))
    wide = np.broadcast_to(x[:2].reshape(2, 1, 1, 1), (2, 3, 2, 3))
    many = np.zeros(3**7, np.uint32)
    odd = np.lib.stride_tricks.as_strided(many, (2,) * 7, tuple(4 * 3**k for k in range(7)))
    with pytest.raises(ValueError, match="shapes differ"):
        strided(x[:5], y[:6], x, y)
    with pytest.raises(ValueError, match="an element twice"):
        strided(x[:12].reshape(4, 3), twice, x, y)
    with pytest.raises(ValueError, match="an element twice"):
        strided(wide, np.broadcast_to(y[:2].reshape(2, 1, 1, 1), wide.shape), x, y)
    with pytest.raises(ValueError, match="at most 6"):
        strided(np.broadcast_to(x[:1], odd.shape), odd, x, many)
    with pytest.raises(ValueError, match="the view of x is not one"):
        strided(y[:5], y[:5], x, y)
    with pytest.raises(ValueError, match="the view of y is not one"):
        strided(x[:5], y[:5], x, y[2:])
    with pytest.raises(ValueError, match="the view of x is not one"):
        strided(x[:4], y[:4], x[::2], y)


@pytest.mark.parametrize("vec", [1, 4])
def test_of_rows_that_are_written_twice_the_last_one_stays(vec: int) -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(-9, 9, 40).astype(np.int32)
    updates = rng.integers(0, 2**32, (2, 40, 12), dtype=np.uint32)
    y = np.zeros((2, 9, 12), np.uint32)
    last = np.full(9, -1, np.int32)
    assert not launch(scatter_last, rows, last)
    launch(scatter_rows, updates, rows, last, y, 12, VEC=vec)
    wanted = np.zeros_like(y)
    for r, row in enumerate(rows):
        wanted[:, row] = updates[:, r]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("bad", [5, -6, 2**31 - 1, -(2**31)])
def test_an_index_outside_the_axis_is_a_fault_and_touches_nothing(bad: int) -> None:
    rows = np.array([1, bad, -5, 4], np.int32)
    x = np.arange(2, 12, dtype=np.uint32).reshape(5, 2)
    y = np.full((4, 2), 7, np.uint32)
    assert launch(take, x, rows, y, 5, 2) == ["take: index outside the axis"]
    np.testing.assert_array_equal(y, np.where(rows[:, None] == bad, 0, x[[1, 0, 0, 4]]))

    y = np.full((4, 1), 7, np.uint32)
    column = x[:, :1].copy()
    message = "take_along: index outside the axis"
    assert launch(take_along, column, rows[:, None], y, 5, 4, 1) == [message]
    np.testing.assert_array_equal(y[:, 0], np.where(rows == bad, 0, x[[1, 0, 0, 4], 0]))

    last = np.full(5, -1, np.int32)
    assert launch(scatter_last, rows, last) == ["scatter_last: index outside the axis"]
    assert last.tolist() == [2, 0, -1, -1, 3]
    y = np.full((5, 2), 7, np.uint32)
    launch(scatter_rows, x[:4].copy(), rows, last, y, 2)
    np.testing.assert_array_equal(y, [x[2], x[0], [7, 7], [7, 7], x[3]])

    sums = np.zeros((5, 2), np.int32)
    message = "index_add: index outside the axis"
    assert launch(index_add, x[:4].astype(np.int32), rows, sums, 5, 2, T="i32") == [message]
    np.testing.assert_array_equal(sums, [x[2], x[0], [0, 0], [0, 0], x[3]])


@pytest.mark.parametrize("vec", [1, 4])
def test_an_axis_of_nothing_is_neither_read_nor_written(vec: int) -> None:
    updates, y = np.ones((3, 4), np.uint32), np.zeros((0, 4), np.uint32)
    launch(scatter_rows, updates, np.zeros(3, np.int32), np.zeros(0, np.int32), y, 4, VEC=vec)


@pytest.mark.parametrize("sizes", [(-2, -3, 1), (-1, 1, -6), (-2, -1, -3)])
@pytest.mark.parametrize("vec", [1, 4])
def test_negative_sizes_of_a_copy_are_a_fault_though_their_product_is_not(
    sizes: tuple[int, ...], vec: int
) -> None:
    x, y = np.arange(24, dtype=np.uint32), np.full(24, 7, np.uint32)
    scalars = [1, 1, 1, *sizes, *(0, 0, 0, 4, 2, 1), *(0, 0, 0, 4, 2, 1), 0, 0]
    kernel = copy_strided.trace("test", VEC=vec)
    report = run(kernel, [x, y, *scalars], (1, 1, 1))
    assert not report.problems
    assert [kernel.sites[n] for n in report.faults] == [
        "copy_strided: a negative number of elements"
    ]
    assert (y == 7).all()
