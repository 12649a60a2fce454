"""Arguments that do not fit are refused by type; print and breakpoint show one invocation."""

from __future__ import annotations

import re

import numpy as np
import pytest

from gristmill.ir.core import Loc
from gristmill.ir.interp import Bits, InterpOptions, Stop, run
from gristmill.ir.text import parse_kernel

TEXT = """kernel k test
param y: f32 buffer write
param a: f32 scalar
param n: i8 scalar
workgroup 4 2 1
index i32
body(%0: buffer<f32,write>, %1: f32, %2: i8) {
  %3 = global_id {dim=0} : i32
  %4 = splat %3 : i32x2
  print %3, %1, %4 {format="i={} a={} v={}"}
  breakpoint %3, %4 {names=["i", "v"]}
  store %0, %3, %1
  return
}
"""
KERNEL = parse_kernel(TEXT, "k.kir")


def launch(*args, grid=(2, 1, 1), **options):
    quiet = {"printer": lambda text: None, "on_breakpoint": lambda stop: None, "races": False}
    return run(KERNEL, args, grid, options=InterpOptions(**{**quiet, **options}))


def buffer() -> np.ndarray:
    return np.zeros(8, np.float32)


def test_print_shows_the_chosen_invocation_once() -> None:
    said: list[str] = []
    launch(buffer(), 1.5, 0, printer=said.append)
    launch(buffer(), 1.5, 0, printer=said.append, invocation=(6, 1, 0), lanes=1)
    launch(buffer(), 1.5, 0, printer=said.append, invocation=(8, 0, 0))
    assert said == ["i=0 a=1.5 v=[0, 0]", "i=6 a=1.5 v=[6, 6]"]


def test_breakpoint_gives_values_and_buffers_of_the_chosen_invocation() -> None:
    stops: list[Stop] = []
    y = buffer()
    launch(y, 2.0, 0, on_breakpoint=stops.append, invocation=(5, 0, 0))
    (stop,) = stops
    assert stop.values["i"] == 5
    assert stop.values["v"].tolist() == [5, 5]
    assert stop.loc == Loc("k.kir", 11, 1)
    assert stop.buffers["y"].base is y or stop.buffers["y"] is y
    assert stop.invocation == (5, 0, 0)


def test_scalar_may_be_a_number_or_a_bit_pattern() -> None:
    for value in (2.5, np.float32(2.5), Bits(0x40200000)):
        y = buffer()
        launch(y, value, -128)
        assert y.tolist() == [2.5] * 8


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((buffer(), 1.0), TypeError, "takes 3 arguments (y, a, n), got 2"),
        ((np.zeros(8), 1.0, 0), TypeError, "y of kernel k: expected an array of float32"),
        (([0.0], 1.0, 0), TypeError, "expected an array of float32, got list"),
        ((np.zeros(16, np.float32)[::2], 1.0, 0), TypeError, "not contiguous"),
        ((np.broadcast_to(np.float32(0), 8), 1.0, 0), TypeError, "not contiguous"),
        ((buffer(), "1", 0), TypeError, "a of kernel k: expected a number"),
        ((buffer(), 1.0, 1.0), TypeError, "n of kernel k: expected an integer"),
        ((buffer(), 1.0, 128), ValueError, "128 is not within i8 (-128 to 127)"),
    ],
)
def test_argument_that_does_not_fit_is_refused(args, error, message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        launch(*args)


def test_read_only_array_is_refused_for_a_buffer_that_is_written() -> None:
    y = buffer()
    y.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        launch(y, 1.0, 0)


def test_counts_and_grid_are_checked() -> None:
    with pytest.raises(ValueError, match="count 9, but the array has 8"):
        run(KERNEL, (buffer(), 1.0, 0), (1, 1, 1), counts=(9,))
    with pytest.raises(ValueError, match="1 buffers, got 2 counts"):
        run(KERNEL, (buffer(), 1.0, 0), (1, 1, 1), counts=(8, 8))
    with pytest.raises(ValueError, match="grid"):
        launch(buffer(), 1.0, 0, grid=(1, -1, 1))


def test_empty_grid_does_nothing() -> None:
    y = buffer()
    assert launch(y, 1.0, 0, grid=(0, 1, 1)).problems == ()
    assert not y.any()
