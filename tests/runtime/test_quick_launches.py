"""The quick way from arguments to a command agrees with the full check, or stands aside."""

from __future__ import annotations

import math
import struct
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir.abi import GRID_OPS
from gristmill.runtime.arguments import bind, positional
from gristmill.runtime.binder import OPERATIONS, quick_way
from gristmill.runtime.launch import LoadedKernel

SPECIAL = [
    0.0,
    -0.0,
    1.5,
    1e-45,
    1e-320,
    65504.0,
    65520.0,
    3.4e38,
    1e39,
    math.inf,
    -math.inf,
    1e308,
]
NANS = [math.nan, -math.nan, *struct.unpack("<dd", struct.pack("<QQ", 0x7FF4 << 48, 0x7FFF << 48))]


def load(opened: Any, bundle: runtime.Bundle, name: str, special: str) -> LoadedKernel:
    return opened("null").load(bundle, name, special)


def full(kernel: LoadedKernel, args: tuple[Any, ...], grid: Any = None) -> Any:
    """What the full check says: a command or the type of its error."""
    try:
        return bind(kernel, positional(kernel, args, {}), grid)
    except runtime.GristmillError as error:
        return type(error)


def quick(kernel: LoadedKernel, args: tuple[Any, ...], grid: Any = None) -> Any:
    return quick_way(kernel)(args, grid)


def test_a_second_launch_is_bound_quickly_and_alike(opened, bundle):
    kernel = load(opened, bundle, "saxpy", "f32")
    x, y = (kernel.device.allocate(100, "f32") for _ in range(2))
    assert quick(kernel, (x, y, 2.0)) is None
    expected = full(kernel, (x, y, 2.0))
    assert quick(kernel, (x, y, 2.0)) == expected
    assert type(quick(kernel, (x, y, 2.0))) is type(expected)


@pytest.mark.parametrize("special", ["f16", "f32", "f64", "i8"])
def test_scalars_have_the_same_bits(opened, bundle, special, rng):
    kernel = load(opened, bundle, "saxpy", special)
    x, y = (kernel.device.allocate(4, special) for _ in range(2))
    full(kernel, (x, y, 1))
    numbers = [*SPECIAL, *(rng.standard_normal(50) * 10.0 ** rng.integers(-50, 50, 50)).tolist()]
    whole = [-129, -128, 0, 127, 128, 1 << 24, (1 << 24) + 1, 1 << 70]
    odd = [*NANS, True, None, "1", np.float32(1.5), np.int8(3), 1j]
    accepted = 0
    for value in [*numbers, *whole, *odd]:
        command = quick(kernel, (x, y, value))
        if command is not None:
            accepted += 1
            assert command == full(kernel, (x, y, value)), value
    assert accepted >= 3


def test_every_kind_of_scalar(opened, bundle, rng):
    kernel = load(opened, bundle, "scalars", "i64")
    y = kernel.device.allocate(768, "i64")
    args = (y, -5, 65535, True, 2.75, -(1 << 40))
    expected = full(kernel, args)
    assert quick(kernel, args) == expected
    for at, value in [(1, 128), (2, -1), (3, 1), (4, "x"), (5, 1 << 63), (1, True)]:
        wrong = (*args[:at], value, *args[at + 1 :])
        assert quick(kernel, wrong) is None
        assert full(kernel, wrong) is runtime.ArgumentError


def test_what_is_wrong_with_buffers_is_left_to_the_full_check(opened, bundle):
    kernel = load(opened, bundle, "saxpy", "f32")
    device, other = kernel.device, opened("null")
    x, y = (device.allocate(100, "f32") for _ in range(2))
    foreign, wide = other.allocate(100, "f32"), device.allocate(100, "f64")
    full(kernel, (x, y, 1.0))
    full(kernel, (y, x, 1.0))
    other.load(bundle, "saxpy", "f32")
    bind(other.load(bundle, "saxpy", "f32"), [foreign, other.allocate(100, "f32"), 1.0], None)
    for args in ((x, foreign, 1.0), (x, wide, 1.0), (x, x, 1.0), (x, np.ones(100), 1.0), (x, y)):
        assert quick(kernel, args) is None
    halves = x.view(0, 64), x.view(32, 64)
    bind(kernel, [halves[0], y, 1.0], None)
    bind(kernel, [y, halves[1], 1.0], None)
    assert quick(kernel, (*halves, 1.0)) is None  # they overlap
    apart = x.view(0, 32), x.view(32, 32)
    assert full(kernel, (*apart, 1.0)) == quick(kernel, (*apart, 1.0))


def test_a_freed_buffer_is_not_bound_again(opened, bundle):
    kernel = load(opened, bundle, "saxpy", "f32")
    x, y = (kernel.device.allocate(100, "f32") for _ in range(2))
    kernel.device.launch(kernel, x, y, 1.0)
    held = kernel.device.memory().live
    kernel.device.submitted.clear()
    x.free()
    with pytest.raises(runtime.StateError, match="was freed"):
        kernel.device.launch(kernel, x, y, 1.0)
    assert kernel.device.memory().live < held


@pytest.mark.parametrize(
    "grid", [(3, 1, 1), (0, 5, 5), 7, (7,), [1, 2, 3], (-1, 1, 1), (1, 1, 1.0)]
)
def test_stated_grids(opened, bundle, grid):
    kernel = load(opened, bundle, "group_ids", "i32")
    y, z = (kernel.device.allocate(8, "i32") for _ in range(2))
    bind(kernel, [y, z], (1, 1, 1))
    command = quick(kernel, (y, z), grid)
    assert command is None or command == full(kernel, (y, z), grid)
    assert quick(kernel, (y, z), (3, 1, 1)) is not None
    assert quick(kernel, (y, z), (1 << 20, 1 << 20, 1)) is None
    assert quick(kernel, (y, z)) is None


def test_a_grid_beyond_the_index_is_left_to_the_full_check(opened, bundle):
    kernel = load(opened, bundle, "saxpy", "f32")
    x, y = (kernel.device.allocate(100, "f32") for _ in range(2))
    most = ((1 << 31) - 1) // 64
    assert full(kernel, (x, y, 1.0), (most, 1, 1)) == quick(kernel, (x, y, 1.0), (most, 1, 1))
    assert full(kernel, (x, y, 1.0), (most + 1, 1, 1)) is runtime.LimitExceeded
    assert quick(kernel, (x, y, 1.0), (most + 1, 1, 1)) is None
    assert quick(kernel, (x, y, 1.0), (0, 1, 1 << 31)) is None


def test_a_launch_in_a_child_process_is_refused(opened, bundle):
    import os

    device = runtime.open_device("null")
    kernel = device.load(bundle, "saxpy", "f32")
    x, y = (device.allocate(100, "f32") for _ in range(2))
    device.launch(kernel, x, y, 1.0)
    child = os.fork()
    if not child:
        try:
            device.launch(kernel, x, y, 1.0)
        except runtime.StateError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    device.launch(kernel, x, y, 1.0)
    device.close()


def with_grid(kernel: LoadedKernel, *grid: Any) -> LoadedKernel:
    kernel.manifest = replace(kernel.manifest, grid=grid)
    return kernel


def test_operations_of_grids_mean_what_they_do_elsewhere(opened, bundle):
    kernel = load(opened, bundle, "saxpy", "i8")
    assert OPERATIONS.keys() == GRID_OPS.keys()
    y = kernel.device.allocate(100, "i8")
    accepted = 0
    for name, operation in GRID_OPS.items():
        with_grid(kernel, ("add", (name, ("count", "x"), ("scalar", "a")), 0), ("max", 2, 1), 3)
        for count in (1, 7, 50):
            x = kernel.device.allocate(count, "i8")
            for a in (-3, 0, 1, 3, 60):
                expected = full(kernel, (x, y, a))
                command = quick(kernel, (x, y, a))
                if a == 0 and name in ("floordiv", "ceil_div"):
                    assert (command, expected) == (None, runtime.ArgumentError)
                elif command is not None:
                    accepted += 1
                    assert command == expected
                    assert command.grid == (operation(count, a), 2, 3)
                else:  # below 0
                    assert operation(count, a) < 0
                    assert expected is runtime.ArgumentError
    assert accepted > 50


ODD = [
    ("count",),
    ("count", "z"),
    ("scalar", "a"),
    ("count", "a"),
    ("count", "y", "y"),
    ("exec", 1, 2),
    ("add", 1),
    ("add", 1, 2, 3),
    "print()",
    None,
    1.5,
    True,
    [1],
]


@pytest.mark.parametrize("part", ODD)
def test_a_grid_that_is_odd_is_left_to_the_full_check(opened, bundle, part):
    kernel = load(opened, bundle, "saxpy", "f32")
    x, y = (kernel.device.allocate(100, "f32") for _ in range(2))
    full(kernel, (x, y, 1.0))
    assert quick(kernel, (x, y, 1.0)) is not None
    assert quick(with_grid(kernel, part, 1, 1), (x, y, 1.0)) is None


def test_a_grid_of_any_depth_is_no_reason_to_fail(opened, bundle):
    kernel = load(opened, bundle, "saxpy", "f32")
    x, y = (kernel.device.allocate(100, "f32") for _ in range(2))
    part: Any = ("count", "x")
    for _ in range(300):
        part = ("add", part, 1)
    expected = full(with_grid(kernel, part, 1, 1), (x, y, 1.0))
    assert expected.grid == (400, 1, 1)
    assert quick(kernel, (x, y, 1.0)) in (None, expected)


class Bound:
    """No buffer, but with the attribute that buffers have."""

    def __init__(self, bound: Any) -> None:
        self.bound = bound


@pytest.mark.parametrize("bound", [None, 7, {}, [1]])
def test_objects_with_the_attribute_of_a_buffer_are_refused(opened, bundle, bound):
    kernel = load(opened, bundle, "saxpy", "f32")
    y = kernel.device.allocate(100, "f32")
    with pytest.raises(runtime.ArgumentError, match="wrong type"):
        kernel.device.launch(kernel, Bound(bound), y, 1.0)


def test_a_launch_takes_its_turn(opened, bundle):
    kernel = load(opened, bundle, "saxpy", "f32")
    device = kernel.device
    x, y = (device.allocate(100, "f32") for _ in range(2))
    device.launch(kernel, x, y, 1.0)
    device.submitted.clear()
    thread = threading.Thread(target=device.launch, args=(kernel, x, y, 1.0))
    with device._lock:
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert not device.submitted
    thread.join()
    assert len(device.submitted) == 1
