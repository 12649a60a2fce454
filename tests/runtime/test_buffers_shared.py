"""Buffers of one launch that are one memory, or share a part of it."""

import numpy as np
import pytest

from gristmill import runtime


def test_may_alias_lets_one_buffer_be_input_and_output(computing, bundle):
    kernel = computing.load(bundle, "shift", "i32")
    y = np.arange(100, dtype=np.int32)
    if not computing.capabilities.shared_arena:
        buffer = computing.upload(y)
        for launch in (lambda: kernel(y, y), lambda: computing.launch(kernel, buffer, buffer)):
            with pytest.raises(runtime.ArgumentError, match="x and y lie in one allocation"):
                launch()
        return
    kernel(y, y)
    assert np.array_equal(y, np.arange(1, 101))
    buffer = computing.upload(y)
    computing.launch(kernel, buffer, buffer)
    assert np.array_equal(buffer.numpy(), np.arange(2, 102))


def test_shifted_views_of_one_buffer_are_refused_though_both_may_alias(computing, bundle):
    """One invocation would read what another has written, in whichever order."""
    kernel = computing.load(bundle, "shift", "i32")
    y = np.arange(300, dtype=np.int32)
    step = max(computing.capabilities.offset_alignment // 4, 1)
    match = "overlap|lie in one allocation"
    buffer = computing.upload(y)
    pairs = {
        "shifted": ((0, 100), (step, 100)),
        "shorter": ((0, 100), (0, 90)),
        "within": ((0, 200), (step, 100)),
    }
    for a, b in [*pairs.values(), *(pair[::-1] for pair in pairs.values())]:
        views = [buffer.view(*a), buffer.view(*b)]
        arrays = [y[at : at + n] for at, n in (a, b)]
        for _ in range(2):  # the second time they have been bound before
            with pytest.raises(runtime.ArgumentError, match=match):
                computing.launch(kernel, *views)
        with pytest.raises(runtime.ArgumentError, match=match), computing.record() as recording:
            recording.launch(kernel, *views)
        if computing.capabilities.shared_arena:
            with pytest.raises(runtime.ArgumentError, match="overlap in part"):
                kernel(*arrays)
            for view in views:  # bound alone, so that nothing but the quick way compares them
                computing.launch(kernel, view, view)
            with pytest.raises(runtime.ArgumentError, match="overlap in part"):
                computing.launch(kernel, *views)
            buffer.write(y)
    assert np.array_equal(buffer.numpy(), y)
