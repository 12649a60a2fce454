"""Convolution: any geometry against plain loops, and what is refused or a fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.kernels.convolution import arguments, conv2d
from kernel_launch import launch

FORMS: dict[str, dict[str, Any]] = {
    "tiles": {"TX": 4, "TY": 4, "TM": 2, "TN": 2, "TK": 4, "DEEP": 2},
    "tiles of windows": {"STAGE_A": False, "FLAT": True, "TX": 4, "TY": 4, "TM": 2, "TN": 2},
    "no tiles": {"STAGED": False, "TX": 4, "TY": 2, "TM": 2, "TN": 3},
    "consecutive": {"STAGED": False, "FLAT": True, "TX": 4, "TY": 1, "TM": 1, "TN": 2},
}


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    y: np.ndarray,
    sizes: dict[str, int],
    **form: Any,
) -> list[str]:
    """The messages of the asserts that failed."""
    return launch(conv2d, x, w, bias, y, *sizes.values(), **form)


def looped(x: np.ndarray, w: np.ndarray, bias: np.ndarray, out: tuple[int, ...], how: Any) -> Any:
    """The sum as it is written down, element by element, in f64."""
    y = np.zeros(out)
    each = len(w) // how["groups"]
    for n, f, p, q in np.ndindex(*out):
        y[n, f, p, q] = bias[f] if len(bias) else 0
        for c, r, s in np.ndindex(*w.shape[1:]):
            row = p * how["strides"][0] - how["pads"][0] + r * how["dilations"][0]
            column = q * how["strides"][1] - how["pads"][1] + s * how["dilations"][1]
            if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                channel = f // each * w.shape[1] + c
                y[n, f, p, q] += float(w[f, c, r, s]) * float(x[n, channel, row, column])
    return y


def drawn(rng: np.random.Generator, flat: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Shapes and a geometry; flat: one whose windows begin at consecutive elements."""
    groups = int(rng.choice([1, 2, 3]))
    window, dilations = rng.integers(1, 4, 2), rng.integers(1, 4, 2)
    reach = (window - 1) * dilations
    pads, strides = rng.integers(0, 4, 4), rng.integers(1, 4, 2)
    if flat:
        pads[1] = int(rng.integers(0, reach[1] + 1))
        pads[3], strides[:] = reach[1] - pads[1], 1
    size = rng.integers(1, 9, 2) + np.maximum(reach - pads[:2] - pads[2:], 0)
    x = (int(rng.integers(1, 4)), groups * int(rng.integers(1, 4)), *map(int, size))
    w = (groups * int(rng.integers(1, 4)), x[1] // groups, *map(int, window))
    how = {"groups": groups, "strides": strides.tolist(), "pads": pads.tolist()}
    return x, w, how | {"dilations": dilations.tolist()}


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_any_geometry_is_the_sum_as_it_is_written_down(
    form: str, flat: bool, rng: np.random.Generator
) -> None:
    for _ in range(8):
        shape, weights, how = drawn(rng, flat)
        out, sizes = arguments(shape, weights, **how)
        x = rng.standard_normal(shape).astype(np.float32)
        w = rng.standard_normal(weights).astype(np.float32)
        bias = rng.standard_normal(int(rng.choice([0, len(w)]))).astype(np.float32)
        y = np.full(out, 7, np.float32)
        assert convolve(x, w, bias, y, sizes, **FORMS[form]) == []
        # 27 terms at most, of some 5 each: two roundings a term.
        np.testing.assert_allclose(y, looped(x, w, bias, out, how), rtol=0, atol=60 * 135 * 2**-24)


def test_signals_are_images_of_one_row(rng: np.random.Generator) -> None:
    how: dict[str, Any] = {"strides": [2], "pads": [3, 1], "dilations": [2], "groups": 2}
    out, sizes = arguments((2, 4, 15), (6, 2, 3), **how)
    assert out == (2, 6, 8)
    flat = {"strides": [1, 2], "pads": [0, 3, 0, 1], "dilations": [1, 2], "groups": 2}
    assert arguments((2, 4, 1, 15), (6, 2, 1, 3), **flat) == ((2, 6, 1, 8), sizes)
    assert [sizes[n] for n in ("height", "kernel_h", "out_h", "stride_h", "pad_top")] == [
        1,
        1,
        1,
        1,
        0,
    ]


REFUSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "both are of 3 axes, or of 4": ((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), {}),
    "by (1, 2, 3): both are": ((1, 2, 3, 4), (1, 2, 3), {}),
    "do not share evenly": ((1, 4, 3), (3, 2, 3), {"groups": 2}),
    "1 groups of a convolution": ((1, 4, 3), (2, 2, 3), {}),
    "0 groups": ((1, 0, 3), (2, 2, 3), {"groups": 0}),
    "pads (-1, 0)": ((1, 2, 3), (2, 2, 3), {"pads": (-1, 0)}),
    "two numbers from 0 on for each of 2": ((1, 2, 3, 3), (2, 2, 3, 3), {"pads": (1, 1)}),
    "strides 0": ((1, 2, 3), (2, 2, 3), {"strides": 0}),
    "strides (1,)": ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": (1,)}),
    "dilations [1, 0]": ((1, 2, 3, 3), (2, 2, 3, 3), {"dilations": [1, 0]}),
    "longer than padded (6,)": ((1, 2, 6), (2, 2, 3), {"dilations": 4, "pads": (1, 1)}),
    "a window (3, 0)": ((1, 2, 6, 6), (2, 2, 3, 0), {}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_shapes_that_are_no_convolution_are_refused(words: str) -> None:
    x, w, how = REFUSED[words]
    with pytest.raises(ValueError, match=r".*") as error:
        arguments(x, w, **how)
    assert words in str(error.value)


WRONG: dict[str, tuple[dict[str, int], str]] = {
    "groups": ({"groups": 3}, "conv2d: groups that do not share channels and filters evenly"),
    "no groups": ({"groups": 0}, "conv2d: groups that do not share channels and filters evenly"),
    "channels": ({"channels": 8}, "conv2d: x or y of another size than its shape"),
    "rows": ({"height": 9}, "conv2d: x or y of another size than its shape"),
    "out": ({"out_w": 5}, "conv2d: x or y of another size than its shape"),
    "window": ({"kernel_h": 4}, "conv2d: w or bias of another size than its shape"),
    # 2 * 4 * 3 * (2**29 + 12) is 288 and 3 * 2**32.
    "a product that wraps": (
        {"height": 3, "width": 2**29 + 12},
        "conv2d: x or y of another size than its shape",
    ),
    "stride": ({"stride_w": 0}, "conv2d: a stride or a dilation that is not positive"),
    "dilation": ({"dilation_h": -1}, "conv2d: a stride or a dilation that is not positive"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WRONG)
def test_sizes_that_do_not_fit_are_a_fault_and_nothing_is_touched(name: str, form: str) -> None:
    out, sizes = arguments((2, 4, 6, 6), (4, 2, 3, 3), groups=2)
    x, w = np.ones((2, 4, 6, 6), np.float32), np.ones((4, 2, 3, 3), np.float32)
    y = np.full(out, 7, np.float32)
    change, message = WRONG[name]
    assert message in convolve(x, w, np.ones(4, np.float32), y, sizes | change, **FORMS[form])
    assert (y == 7).all()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_bias_of_another_size_is_a_fault(count: int) -> None:
    out, sizes = arguments((1, 1, 3, 3), (4, 1, 3, 3))
    x, w, bias = (np.ones(shape, np.float32) for shape in ((1, 1, 3, 3), (4, 1, 3, 3), count))
    y = np.full(out, 7, np.float32)
    message = "conv2d: w or bias of another size than its shape"
    assert convolve(x, w, bias, y, sizes, **FORMS["tiles"]) == [message]
    assert (y == 7).all()


@pytest.mark.parametrize("form", FORMS)
def test_what_lies_outside_of_an_image_of_no_rows_counts_as_zero(form: str) -> None:
    out, sizes = arguments((2, 2, 0, 4), (3, 2, 1, 3), pads=(1, 0, 1, 0))
    x, w, y = np.ones((2, 2, 0, 4)), np.ones((3, 2, 1, 3), np.float32), np.full(out, 7, np.float32)
    bias = np.arange(3, dtype=np.float32)
    assert convolve(x.astype(np.float32), w, bias, y, sizes, **FORMS[form]) == []
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None, None], out))
