"""Buffers of other sizes than the rows that they are about: a fault, and nothing is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir.interp import run
from gristmill.ir.lang import KernelFunction
from gristmill.kernels.log_softmax import log_softmax, logsumexp_rows
from gristmill.kernels.penalize import penalize
from gristmill.kernels.sampling import sample_threshold, sample_token

ROWS, COLS = 2, 8
LOGITS = np.linspace(-1, 1, ROWS * COLS, dtype=np.float32)
SETTINGS = np.float32([[1, 0, 1, 0]] * ROWS).reshape(-1)
BLOCK = {"BLOCK": 4}


def launched(function: KernelFunction, args: list[Any], groups: int, **more: Any) -> list[str]:
    """The messages of the faults."""
    kernel = function.trace("test", **BLOCK, **more)
    report = run(kernel, args, (groups, 1, 1))
    assert not report.problems
    return [kernel.sites[n] for n in sorted(report.faults)]


def resized(arrays: dict[str, np.ndarray], changed: dict[str, int]) -> dict[str, np.ndarray]:
    """The arrays, of which some have so many elements."""
    return {name: np.resize(x, changed.get(name, x.size)).copy() for name, x in arrays.items()}


@pytest.mark.parametrize("vec", [1, 4])
@pytest.mark.parametrize("changed", [
    {}, {"counts": 15}, {"counts": 0}, {"bias": 7}, {"bias": 9}, {"penalties": 5}, {"penalties": 0}
], ids=str)  # fmt: skip
def test_penalties_of_other_sizes_are_a_fault(changed: dict[str, int], vec: int) -> None:
    arrays = {
        "logits": LOGITS,
        "counts": np.ones(ROWS * COLS, np.int32),
        "bias": np.zeros(COLS, np.float32),
        "penalties": np.full(3 * ROWS, 2, np.float32),
    }
    args = resized(arrays, changed)
    faults = launched(penalize, [*args.values(), COLS], 4 // vec, VEC=vec)
    if not changed:
        assert not faults
        assert (args["logits"] != LOGITS).all()
    elif "penalties" in changed:
        assert faults == ["penalize: not three penalties for each row"]
        assert (args["logits"][COLS:] == LOGITS[COLS:]).all()
    else:
        assert len(faults) == 1
        assert (args["logits"] == LOGITS).all()


@pytest.mark.parametrize("changed", [{"logits": 15}, {"logits": 0}, {"settings": 7}, {"cols": 0},
                                     {"cols": -8}, {"cols": 2**30}, {}], ids=str)  # fmt: skip
def test_thresholds_of_other_sizes_are_a_fault(changed: dict[str, int]) -> None:
    args = resized({"logits": LOGITS, "settings": SETTINGS}, changed)
    threshold = np.full(ROWS, 7, np.float32)
    cols = changed.get("cols", COLS)
    faults = launched(sample_threshold, [*args.values(), threshold, cols], ROWS)
    assert len(faults) == bool(changed)
    assert (threshold == 7).all() == bool(changed)


@pytest.mark.parametrize("changed", [
    {"logits": 15}, {"settings": 4}, {"threshold": 1}, {"state": 3}, {"flags": 1}, {"cols": 0}, {}
], ids=str)  # fmt: skip
def test_draws_of_other_sizes_are_a_fault(changed: dict[str, int]) -> None:
    arrays = {
        "logits": LOGITS,
        "settings": SETTINGS,
        "threshold": np.full(ROWS, -9, np.float32),
        "state": np.arange(4, dtype=np.uint32),
        "tokens": np.full(ROWS, 70, np.int32),
        "flags": np.full(ROWS, 70, np.int32),
    }
    args = resized(arrays, changed)
    faults = launched(sample_token, [*args.values(), changed.get("cols", COLS)], ROWS)
    assert len(faults) == bool(changed)
    assert (args["tokens"] == 70).all() == bool(changed)
    assert (args["flags"] == 70).all() == bool(changed)


@pytest.mark.parametrize(("x", "cols"), [(15, 8), (0, 8), (16, 0), (16, -8), (16, 8)])
@pytest.mark.parametrize("way", [{}, {"VEC": 4, "KEEP": 2}], ids=str)
def test_rows_of_another_size_are_a_fault_of_the_softmax(
    x: int, cols: int, way: dict[str, int]
) -> None:
    right = (x, cols) == (16, 8)
    y = np.full(16, 7, np.float32)
    faults = launched(log_softmax, [LOGITS[:x].copy(), y, cols], ROWS, **way)
    assert len(faults) == (not right)
    assert (y == 7).all() != right
    if not way:
        y = np.full(ROWS, 7, np.float32)
        faults = launched(logsumexp_rows, [LOGITS[:x].copy(), y, cols], ROWS)
        assert len(faults) == (not right)
        assert (y == 7).all() != right
