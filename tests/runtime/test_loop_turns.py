"""A device that ends long loops silently refuses them, as far as sizes and scalars tell."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill import runtime

FITS = [(0, 0), (32767, 0), (7281, 7), (1, 65533), (-5, 9), (3, -7)]
ENDED = [(65535, 0), (7282, 8), (7000, 8), (1, 65535), (65536, 1)]


def expected(rows: int, columns: int) -> int:
    return max(rows, 0) * (1 + max(columns, 0))


@pytest.mark.parametrize(("rows", "columns"), ENDED)
def test_a_loop_that_llvmpipe_would_end_early_is_refused(opened, bundle, rows, columns):
    """7000 x (1 + 8) turns of bodies are below 65,535: every pass that leaves a loop counts too."""
    device = opened("lavapipe")
    nested = device.load(bundle, "nested")
    y = np.zeros(64, np.uint32)
    with pytest.raises(runtime.LimitExceeded, match="loop turns of an invocation") as refused:
        nested(y, rows, columns)
    assert refused.value.maximum == 65535
    with pytest.raises(runtime.LimitExceeded):
        device.launch(nested, device.upload(y), rows, columns)
    nested(y, 3, 5)  # the device is none the worse
    assert set(y) == {18}


@pytest.mark.parametrize(("rows", "columns"), FITS)
def test_a_loop_within_the_limit_is_right(opened, bundle, rows, columns):
    y = np.full(64, 9, np.uint32)
    opened("lavapipe").load(bundle, "nested")(y, rows, columns)
    assert set(y) == {expected(rows, columns)}


def test_a_recording_refuses_scalars_that_loop_too_long(opened, bundle):
    device = opened("lavapipe")
    nested, y = device.load(bundle, "nested"), device.allocate(64, "u32")
    with device.record() as recording:
        recording.launch(nested, y, 2, 3)
    with pytest.raises(runtime.LimitExceeded, match="loop turns"):
        recording.rewrite(0, rows=70000)
    recording.replay()
    assert set(y.numpy()) == {8}


@pytest.mark.parametrize("name", ["cpu", "swiftshader"])
def test_other_devices_run_any_number_of_turns(opened, bundle, name):
    y = np.zeros(64, np.uint32)
    opened(name).load(bundle, "nested")(y, 7000, 9)
    assert set(y) == {70000}
