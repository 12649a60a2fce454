"""The k greatest of long rows: ties, what is left out, chunks, and what is a fault."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.dtypes import DTYPES
from gristmill.ir.interp import run
from gristmill.kernels.family import decode, encode
from gristmill.kernels.topk_long import topk_long

NONE = np.zeros(0, np.int32)
MOST, BLOCK = 16, 16


def greatest(
    x: np.ndarray, k: int, columns: np.ndarray = NONE, ran: int = 1, chunk: int = 1, cols: int = 0
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Values, indices and the messages of failed asserts, of the oracle."""
    kernel = topk_long.trace("test", MOST=MOST, BLOCK=BLOCK)
    values, indices = np.full((len(x), k), 7, np.float32), np.full((len(x), k), 7, np.int32)
    args = [x, columns, values, indices, cols or x.shape[1], k, ran, chunk]
    report = run(kernel, args, (len(x), 1, 1))
    assert not report.problems
    return values, indices, [kernel.sites[n] for n in sorted(report.faults)]


def wanted(x: np.ndarray, k: int) -> np.ndarray:
    order = [[n for n in np.argsort(-r, kind="stable") if r[n] == r[n]][:k] for r in x]
    return np.array([o + [-1] * (k - len(o)) for o in order])


@pytest.mark.parametrize("bits", [0, 8, 16, 24, 31])
def test_elements_that_differ_in_any_bits_are_told_apart(bits: int) -> None:
    """All that lie close together, so that every step of the selection has something to do."""
    rng = np.random.default_rng(bits)
    words = rng.integers(0, 2**32, (2, 200), dtype=np.uint32) >> np.uint32(bits)
    sign = rng.integers(0, 2, (2, 200)).astype(np.uint32) << np.uint32(31)
    x = (words & np.uint32(2**31 - 1) | sign).view(np.float32)
    for k in (1, 5, MOST):
        values, indices, faults = greatest(x, k)
        assert faults == []
        np.testing.assert_array_equal(indices, wanted(x, k))
        np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))


@pytest.mark.parametrize("cols", [200, 300, 70000])
def test_elements_of_16_bits_that_are_equal_are_told_apart_by_their_columns(cols: int) -> None:
    """The greatest below zero, too, whose keys end in ones."""
    t = DTYPES["bf16"]
    kernel = topk_long.trace("test", T=t, MOST=MOST, BLOCK=256)
    for values, first in (
        ([1.0, 2.0], 0),
        ([-1.0, -2.0, -1.0078125], 0),
        ([0.0, -0.0], cols - 40),
        ([-np.inf, np.nan], 0),
    ):
        x = np.resize(np.array(values), (1, cols))
        x[:, :first] = np.nan
        found = np.full((1, MOST), 7, np.uint16)
        indices = np.full((1, MOST), 7, np.int32)
        run(kernel, [encode(x, t), NONE, found, indices, cols, MOST, 1, 1], (1, 1, 1))
        np.testing.assert_array_equal(indices, wanted(x, MOST))
        np.testing.assert_array_equal(decode(found, t), np.take_along_axis(x, indices, 1))


@pytest.mark.parametrize("value", [2.5, 0.0, -np.inf, np.inf])
def test_of_equal_elements_the_first_ones_are_taken(value: float) -> None:
    x = np.full((1, 700), value, np.float32)
    x[0, 300] = 3 if value < 3 else np.nan
    first = [300] if value < 3 else []
    assert greatest(x, 9)[1].tolist() == [(first + list(range(9)))[:9]]
    x[0, :295] = np.nan
    assert greatest(x, 9)[1].tolist() == [[*first, *(n for n in range(295, 305) if n != 300)][:9]]


def test_zeros_are_equal_and_places_that_stay_empty_hold_nothing() -> None:
    x = np.array([[-0.0, 0.0, np.nan, -np.inf, -np.nan]], np.float32)
    values, indices, _ = greatest(x, 6)
    assert indices.tolist() == [[0, 1, 3, -1, -1, -1]]
    assert values.tolist() == [[0, 0, -np.inf, 0, 0, 0]]


@pytest.mark.parametrize("k", [3, MOST])
def test_chunks_that_are_rows_give_the_same_in_two_launches(k: int) -> None:
    rng = np.random.default_rng(k)
    x = rng.integers(-9, 9, (2, 120)).astype(np.float32)
    x[0] -= 20  # less than what stays in empty places
    x[0, :40] = np.nan
    values, indices, _ = greatest(x.reshape(10, 24), k)
    columns = indices.reshape(2, 5 * k)
    found, at, faults = greatest(values.reshape(2, 5 * k), k, columns, k, 24)
    assert faults == []
    np.testing.assert_array_equal(at, wanted(x, k))
    np.testing.assert_array_equal(found, np.take_along_axis(x, at, 1))


def test_more_than_there_is_room_for_is_a_fault() -> None:
    values, _, faults = greatest(np.ones((1, 40), np.float32), MOST + 1)
    assert faults == ["topk_long: k greater than MOST, or x shorter than its rows"]
    assert (values == 7).all()


def test_rows_beyond_the_array_are_a_fault_and_not_read() -> None:
    values, indices, faults = greatest(np.ones((2, 5), np.float32), 2, cols=6)
    assert faults == ["topk_long: k greater than MOST, or x shorter than its rows"]
    assert indices.tolist() == [[0, 1], [7, 7]]
    assert (values[1] == 7).all()


@pytest.mark.parametrize("cols", [2**30, 2**31 - 1, -1])
def test_rows_of_more_columns_than_there_are_elements_are_a_fault(cols: int) -> None:
    values, _, faults = greatest(np.ones((4, 5), np.float32), 2, cols=cols)
    assert faults == ["topk_long: k greater than MOST, or x shorter than its rows"]
    assert (values == 7).all()


@pytest.mark.parametrize(("count", "ran"), [(4, 1), (6, 1), (5, 0), (5, -1)])
def test_columns_that_do_not_fit_are_a_fault(count: int, ran: int) -> None:
    x = np.ones((1, 5), np.float32)
    values, _, faults = greatest(x, 2, np.zeros(count, np.int32), ran)
    assert faults == ["topk_long: columns that are not one for each element"]
    assert (values == 7).all()


@pytest.mark.parametrize("count", [0, 5, 7])
def test_values_and_indices_of_different_lengths_are_a_fault(count: int) -> None:
    kernel = topk_long.trace("test", MOST=MOST, BLOCK=BLOCK)
    values, indices = np.full(6, 7, np.float32), np.full(count, 7, np.int32)
    report = run(kernel, [np.ones(8, np.float32), NONE, values, indices, 4, 3, 1, 1], (2, 1, 1))
    assert not report.problems
    faults = [kernel.sites[n] for n in report.faults]
    assert faults == ["topk_long: values and indices differ in length"]
    assert (values == 7).all()
    assert (indices == 7).all()
