"""Pooling: answers worked out by hand, shapes, and what is refused or a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.kernels.pooling import arguments, pool2d
from kernel_launch import launch


def pooled(x: np.ndarray, y: np.ndarray, sizes: dict[str, int], op: str) -> list[str]:
    """The messages of the asserts that failed."""
    return launch(pool2d, x, y, *sizes.values(), OP=op, BLOCK=4)


INF, NAN = np.inf, np.nan
# What becomes of 1, 2, ... 5 (a signal): how, the greatest, the mean.
ANSWERS: dict[str, tuple[int, dict[str, Any], list[float], list[float]]] = {
    "plain": (2, {}, [2, 3, 4, 5], [1.5, 2.5, 3.5, 4.5]),
    "strides": (2, {"strides": 2}, [2, 4], [1.5, 3.5]),
    "rounded up": (2, {"strides": 2, "ceil_mode": True}, [2, 4, 5], [1.5, 3.5, 5]),
    "padding left out": (3, {"strides": 2, "pads": (1, 1)}, [2, 4, 5], [1.5, 3, 4.5]),
    "padding counted": (
        3,
        {"strides": 2, "pads": (1, 1), "count_pads": True},
        [2, 4, 5],
        [1, 3, 3],
    ),
    # The last window reaches beyond the padding, where nothing counts.
    "padding counted, rounded up": (
        3,
        {"strides": 3, "pads": (1, 1), "count_pads": True, "ceil_mode": True},
        [2, 5],
        [1, 4],
    ),
    "beyond the padding": (
        4,
        {"strides": 3, "pads": (1, 1), "count_pads": True, "ceil_mode": True},
        [3, 5],
        [1.5, 3],
    ),
    "beyond the end, padded before alone": (
        4,
        {"strides": 3, "pads": (1, 0), "count_pads": True, "ceil_mode": True},
        [3, 5],
        [1.5, 4],
    ),
    "none that begins behind the end": (
        1,
        {"strides": 3, "pads": (0, 1), "ceil_mode": True},
        [1, 4],
        [1, 4],
    ),
    "dilations": (2, {"dilations": 3}, [4, 5], [2.5, 3.5]),
    "nothing but padding": (1, {"strides": 5, "pads": (1, 1)}, [-INF, 5], [NAN, 5]),
    "zeros for padding": (
        1,
        {"strides": 5, "pads": (1, 1), "count_pads": True},
        [-INF, 5],
        [0, 5],
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_windows_give_what_was_worked_out(name: str) -> None:
    length, how, greatest, mean = ANSWERS[name]
    x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
    out, sizes = arguments(x.shape, (length,), **how)
    assert out == (1, 1, len(mean))
    for op, wanted in (("max", greatest), ("mean", mean)):
        y = np.full(out, 7, np.float32)
        assert pooled(x, y, sizes, op) == []
        np.testing.assert_array_equal(y[0, 0], np.array(wanted, np.float32))
        # The same down the rows of an image.
        tall = {**how, **{k: (how[k], 1) for k in ("strides", "dilations") if k in how}}
        if "pads" in how:
            tall["pads"] = (how["pads"][0], 0, how["pads"][1], 0)
        out2, sizes2 = arguments((1, 1, 5, 1), (length, 1), **tall)
        y2 = np.full(out2, 7, np.float32)
        assert pooled(x, y2, sizes2, op) == []
        np.testing.assert_array_equal(y2[0, 0, :, 0], y[0, 0])


def test_a_nan_loses_against_any_other_element() -> None:
    x = np.array([[[NAN, 1, NAN, NAN]]], np.float32)
    out, sizes = arguments(x.shape, (2,))
    y = np.zeros(out, np.float32)
    pooled(x, y, sizes, "max")
    assert y[0, 0, :2].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("window", "how", "words"),
    [
        ((6,), {}, "longer than padded"),
        ((3,), {"dilations": 3}, "longer than padded"),
        ((0,), {}, "a window (0,)"),
        ((2, 2), {}, "a window (2, 2)"),
        ((2,), {"strides": 0}, "strides 0"),
        ((2,), {"pads": (1, -1)}, "pads (1, -1)"),
    ],
)
def test_windows_that_are_none_are_refused(
    window: tuple[int, ...], how: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=r".*") as error:
        arguments((1, 1, 5), window, **how)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": 3}, "pool2d: x or y of another size than its shape"),
        ({"out_w": 3}, "pool2d: x or y of another size than its shape"),
        ({"height": -6, "width": -6}, "pool2d: x or y of another size than its shape"),
        ({"height": 3, "width": 2**30 + 12}, "pool2d: x or y of another size than its shape"),
        ({"kernel_h": -3}, "pool2d: a window, a stride or a dilation that is not positive"),
        ({"kernel_w": 0}, "pool2d: a window, a stride or a dilation that is not positive"),
        ({"stride_w": 0}, "pool2d: a window, a stride or a dilation that is not positive"),
        ({"dilation_h": -1}, "pool2d: a window, a stride or a dilation that is not positive"),
        ({"dilation_w": 0}, "pool2d: a window, a stride or a dilation that is not positive"),
        ({"stride_h": -1}, "pool2d: a window, a stride or a dilation that is not positive"),
    ],
)
@pytest.mark.parametrize("op", ["max", "mean"])
def test_sizes_that_do_not_fit_are_a_fault_and_nothing_is_touched(
    change: dict[str, int], message: str, op: str
) -> None:
    out, sizes = arguments((2, 2, 6, 6), (2, 2))
    x, y = np.ones((2, 2, 6, 6), np.float32), np.full(out, 7, np.float32)
    assert pooled(x, y, sizes | change, op) == [message]
    assert (y == 7).all()
