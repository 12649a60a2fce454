"""Buffers for the parts of a work that have no room for all of them: a fault, and nothing beside
them is read or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir.interp import run
from gristmill.ir.lang import KernelFunction
from gristmill.kernels.argmax import argmax_merge, argmax_partials
from gristmill.kernels.attention_decode import attention_decode
from gristmill.kernels.attention_merge import attention_merge
from gristmill.kernels.gather import gather
from gristmill.kernels.indexing import scatter_rows, take
from gristmill.kernels.scan import scan_blocks, scan_offsets
from kernel_launch import launch

DIM, PAGE, HEADS, SPLITS, KEYS = 32, 16, 2, 3, 40
SHORT = [{}, {"partial": 1}, {"stats": 1}, {"partial": DIM, "stats": 2}, {"stats": 10**6}]


def launched(
    function: KernelFunction, args: list[Any], grid: tuple[int, int, int], **constexprs: Any
) -> list[str]:
    """The messages of the faults."""
    kernel = function.trace("test", **constexprs)
    report = run(kernel, args, grid)
    assert not report.problems
    return [kernel.sites[n] for n in report.faults]


def parts(short: dict[str, int], fill: float) -> list[np.ndarray]:
    """partial and stats of SPLITS splits of HEADS rows, with so many elements less."""
    sizes = {"partial": HEADS * SPLITS * DIM, "stats": HEADS * SPLITS * 2}
    return [
        np.full(max(size - short.get(name, 0), 0), fill, np.float32) for name, size in sizes.items()
    ]


@pytest.mark.parametrize("short", SHORT)
def test_splits_without_room_are_a_fault_and_write_nothing(short: dict[str, int]) -> None:
    rng = np.random.default_rng(3)
    q, y = rng.standard_normal(HEADS * DIM).astype("f4"), np.full(HEADS * DIM, 7, np.float32)
    k, v = rng.standard_normal((2, 3 * HEADS * PAGE * DIM)).astype("f4")
    held = parts(short, 7)
    buffers = [q, k, v, np.arange(3, dtype=np.int32), np.array([KEYS], np.int32)]
    numbers = [HEADS, HEADS, SPLITS, 1, 0, 1.0, 0.0, 1.0, 1.0]
    small = {"T": "f32", "C": "f32", "HEAD_DIM": DIM, "VEC": 4, "ROW": 8, "BLOCK": 32}
    args = [*buffers, np.zeros(0, np.float32), y, *held, *numbers]
    faults = launched(attention_decode, args, (SPLITS, HEADS, 1), **small)
    if not short:
        assert not faults
        assert all((part != 7).all() for part in held)
    else:
        assert faults == ["attention_decode: partial or stats without room for all splits"]
        assert all((part == 7).all() for part in held)


@pytest.mark.parametrize("short", SHORT)
def test_splits_that_are_not_there_are_a_fault_and_zeros(short: dict[str, int]) -> None:
    y = np.full(HEADS * DIM, 7, np.float32)
    faults = launched(
        attention_merge, [*parts(short, 3), y, SPLITS], (1, 1, 1), T="f32", HEAD_DIM=DIM
    )
    message = "attention_merge: partial or stats without the splits of all rows"
    assert faults == ([message] if short else [])
    assert (y == (0 if short else 1)).all()


@pytest.mark.parametrize("splits", [0, -1])
def test_no_split_at_all_is_a_fault_of_the_merge(splits: int) -> None:
    y = np.full(HEADS * DIM, 7, np.float32)
    args = [*parts({}, 3), y, splits]
    assert len(launched(attention_merge, args, (1, 1, 1), T="f32", HEAD_DIM=DIM)) == 1
    assert not y.any()


@pytest.mark.parametrize(("y", "totals"), [(100, 7), (99, 7), (100, 6), (0, 7), (100, 0)])
def test_runs_without_room_for_their_sums_are_a_fault(y: int, totals: int) -> None:
    x = np.ones(100, np.float32)
    found, ends = np.full(y, 7, np.float32), np.full(totals, 7, np.float32)
    faults = launched(scan_blocks, [x, found, ends], (7, 1, 1), BLOCK=4, ITEMS=4)
    if (y, totals) == (100, 7):
        assert not faults
        assert ends.tolist() == [16.0] * 6 + [4.0]
    else:
        assert faults == ["scan_blocks: y or totals without room for all runs"]
        assert (found == 7).all()
        assert (ends == 7).all()


@pytest.mark.parametrize(("totals", "right"), [(7, True), (6, True), (5, False), (0, False)])
def test_fewer_totals_than_runs_are_a_fault(totals: int, right: bool) -> None:
    y = np.zeros(100, np.float32)
    faults = launched(scan_offsets, [y, np.ones(totals, np.float32)], (25, 1, 1), RUN=16, BLOCK=4)
    assert faults == ([] if right else ["scan_offsets: fewer totals than runs"])
    assert y[16:].all() == right


@pytest.mark.parametrize("values", [0, 2, 4])
def test_values_and_indices_of_different_lengths_are_a_fault(values: int) -> None:
    x, held = np.arange(9, dtype=np.float32), np.full(values, 70, np.float32)
    indices, y = np.full(3, 7, np.int32), np.full(1, 7, np.int32)
    faults = launched(argmax_partials, [x, held, indices], (3, 1, 1), BLOCK=4)
    assert faults == ["argmax_partials: values and indices differ in length"]
    assert (held == 70).all()
    faults = launched(argmax_merge, [held, indices, y], (1, 1, 1), BLOCK=4)
    assert faults == ["argmax_merge: values and indices differ in length"]
    assert y[0] == -1


@pytest.mark.parametrize("size", [2, 6, 9])
@pytest.mark.parametrize("wide", [{"VEC": 4, "EACH": 2}, {"VEC": 1}])
def test_a_result_that_is_no_whole_vectors_is_written_to_its_end(
    size: int, wide: dict[str, int]
) -> None:
    table = np.arange(32, dtype=np.float32)
    rows = np.array([5, 0, 7], np.int32)
    expected = table.reshape(-1, 4)[rows].reshape(-1)[:size]
    y = np.full(size, -7, np.float32)
    assert launch(gather, table, rows, y, 4, T="f32", **wide) == []
    np.testing.assert_array_equal(y, expected)
    words = np.full(size, -7, np.float32)
    assert launch(take, table, rows, words, 8, 4, T="f32", **wide) == []
    np.testing.assert_array_equal(words, expected)


@pytest.mark.parametrize("wide", [4, 1])
def test_updates_that_are_no_whole_vectors_are_written_to_their_end(wide: int) -> None:
    updates = np.arange(6, dtype=np.uint32)
    y = np.full(8, 77, np.uint32)
    rows, last = np.array([1, 0], np.int32), np.array([1, 0], np.int32)
    assert launch(scatter_rows, updates, rows, last, y, 4, T="u32", VEC=wide) == []
    np.testing.assert_array_equal(y, [4, 5, 77, 77, 0, 1, 2, 3])
