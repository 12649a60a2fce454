"""Every wrong argument is a typed error that says what was expected and got."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir.dtypes import DTYPES
from gristmill.runtime.devices.null import capabilities
from gristmill.runtime.memory import scalar_value_bits


@pytest.fixture
def saxpy(device, bundle):
    return device.load(bundle, "saxpy", "f32")


def floats(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


@pytest.mark.parametrize(
    ("args", "named", "words"),
    [
        ((), {}, "x is missing, y is missing, a is missing; expected 3 \\(x: f32 buffer read"),
        ((floats(3), floats(3)), {}, "a is missing"),
        ((floats(3), floats(3), 1.0, 2), {}, "4 positional arguments"),
        ((floats(3), floats(3), 1.0), {"b": 1}, "no parameter b"),
        ((floats(3), floats(3), 1.0), {"a": 1}, "a given twice"),
        ((floats(3), np.zeros(3), 1.0), {}, r"argument 2 \(y\): wrong dtype; expected f32"),
        ((floats(3), floats(3), "1"), {}, r"argument 3 \(a\): wrong type; expected a number"),
        ((floats(3), floats(3), True), {}, "expected a number, got bool True"),
        ((floats(3), floats(3), 1e300), {}, "it would become infinite"),
        ((floats(6)[::2], floats(3), 1.0), {}, "not contiguous"),
        (([1.0, 2.0], floats(2), 1.0), {}, "expected a numpy array or a Buffer of f32, got list"),
        ((floats(3).astype(">f4"), floats(3), 1.0), {}, "wrong dtype"),
    ],
)
def test_wrong_arguments(saxpy, args, named, words):
    with pytest.raises(runtime.ArgumentError, match=words):
        saxpy(*args, **named)


def test_read_only_array_may_be_read_not_written(saxpy):
    frozen = floats(3)
    frozen.flags.writeable = False
    saxpy(frozen, floats(3), 1.0)
    with pytest.raises(runtime.ArgumentError, match="read-only"):
        saxpy(floats(3), frozen, 1.0)


def test_overlap_is_refused_unless_both_only_read(device, bundle, saxpy):
    array = floats(100)
    for x, y in ((array, array), (array[:60], array[50:]), (array[50:], array[:51])):
        with pytest.raises(runtime.ArgumentError, match="buffers x and y overlap"):
            saxpy(x, y, 1.0)
    saxpy(array[:48], array[48:96], 1.0)
    buffer = device.upload(floats(1024))
    half = device.capabilities.offset_alignment
    with pytest.raises(runtime.ArgumentError, match="overlap"):
        device.launch(saxpy, buffer, buffer.view(0, 10), 1.0)
    apart = buffer.view(0, 16), buffer.view(half, 16)
    for _ in range(2):  # the second time, both are known
        if device.capabilities.shared_arena:
            device.launch(saxpy, *apart, 1.0)
        else:
            for part in apart:
                device.launch(saxpy, part, device.upload(floats(16)), 1.0)
                device.launch(saxpy, device.upload(floats(16)), part, 1.0)
            with pytest.raises(runtime.ArgumentError, match="x and y lie in one allocation"):
                device.launch(saxpy, *apart, 1.0)
    device.launch(saxpy, buffer.view(0, 0), buffer.view(0, 0), 1.0)
    device.synchronize()


def test_misaligned_view_is_refused(device, saxpy):
    buffer = device.upload(floats(1024))
    with pytest.raises(runtime.ArgumentError, match="misaligned view; expected an offset"):
        device.launch(saxpy, buffer.view(1, 4), device.upload(floats(4)), 1.0)


def test_device_launch_takes_only_its_own_buffers(device, saxpy):
    with pytest.raises(runtime.ArgumentError, match="a Buffer of this device of f32, got ndarray"):
        device.launch(saxpy, floats(3), floats(3), 1.0)
    with runtime.open_device("null") as other:
        foreign = other.upload(floats(3))
        with pytest.raises(runtime.StateError, match="buffer of another device"):
            device.launch(saxpy, foreign, device.upload(floats(3)), 1.0)
        with pytest.raises(runtime.StateError, match="another device"):
            other.launch(saxpy, foreign, foreign, 1.0)
    wrong = device.upload(np.zeros(3, np.int32))
    with pytest.raises(runtime.ArgumentError, match="wrong dtype; expected f32, got i32"):
        device.launch(saxpy, wrong, device.upload(floats(3)), 1.0)


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (1, 128, "expected -128 to 127, got 128"),
        (1, 1.0, "expected an int, got float"),
        (2, -1, "expected 0 to 65535"),
        (3, 1, "expected a bool"),
        (4, 1j, "expected a number"),
    ],
)
def test_scalars_out_of_range(opened, bundle, position, value, words):
    device = opened("null")
    args = [np.zeros(1, np.int64), 1, 1, True, 1.0, 1]
    args[position] = value
    with pytest.raises(runtime.ArgumentError, match=words):
        device.load(bundle, "scalars")(*args)


@pytest.mark.parametrize("wrong", ["f31", object(), "float128", np.complex64, None])
def test_odd_dtypes_and_shapes(opened, wrong):
    device = opened("null")
    with pytest.raises(runtime.ArgumentError, match="not a dtype"):
        device.allocate(3, wrong)
    for shape in (-1, (2, -3), (1.5,), (True,), 1.5):
        with pytest.raises(runtime.ArgumentError, match="integers of at least 0"):
            device.allocate(shape, "f32")


def test_index_range_is_a_limit(opened, bundle):
    device = opened("null", budget=1 << 40)
    kernel = device.load(bundle, "saxpy", "i8")
    big = device.allocate(16, "i8")
    big.count = 1 << 31
    with pytest.raises(runtime.LimitExceeded) as caught:
        device.launch(kernel, big, device.allocate(16, "i8"), 1)
    assert caught.value.limit == "index i32"
    assert caught.value.maximum == (1 << 31) - 1


@pytest.mark.parametrize("grid", [2.5, "3", (1, 2, 3, 4), (), -1, (1, True)])
def test_odd_grids(opened, bundle, grid):
    device = opened("null")
    y = device.upload(floats(4))
    with pytest.raises(runtime.ArgumentError, match="one to three integers of at least 0"):
        device.launch(device.load(bundle, "heavy"), y, 1, grid=grid)


def test_a_grid_that_divides_by_zero(opened, bundle):
    device = opened("null")
    kernel, y = device.load(bundle, "heavy"), device.upload(floats(4))
    groups = ("ceil_div", ("count", "y"), ("scalar", "n"))
    kernel.manifest = dataclasses.replace(kernel.manifest, grid=(groups, 1, 1))
    device.launch(kernel, y, 2)
    with pytest.raises(runtime.ArgumentError, match="divides by 0; got n=0"):
        device.launch(kernel, y, 0)


def test_a_grid_that_is_negative_is_refused_and_not_taken_for_nothing(opened, bundle):
    """As that of a top-k with k = -1 is."""
    device = opened("null")
    kernel, y = device.load(bundle, "heavy"), device.upload(floats(4))
    groups = ("floordiv", ("count", "y"), ("scalar", "n"))
    kernel.manifest = dataclasses.replace(kernel.manifest, grid=(1, groups, 1))
    device.launch(kernel, y, 2)
    for _ in range(2):
        with pytest.raises(runtime.ArgumentError, match=r"grid \(1, -4, 1\) is negative.*got n=-1"):
            device.launch(kernel, y, -1)


def test_a_grid_over_what_folding_holds_leaves_the_device_usable(vulkan, bundle):
    kernel, y = vulkan.load(bundle, "heavy"), vulkan.upload(floats(4))
    kernel.manifest = dataclasses.replace(kernel.manifest, workgroup=(1, 1, 1))
    grid = (1 << 16, (1 << 16) - 1, 1)
    if all(
        size <= limit for size, limit in zip(grid, vulkan.capabilities.limits.grid, strict=True)
    ):
        return  # the device takes it as it is
    with pytest.raises(runtime.LimitExceeded, match="workgroups of a launch"):
        vulkan.launch(kernel, y, 1, grid=grid)
    recording = vulkan.record()
    with pytest.raises(runtime.LimitExceeded, match="workgroups of a launch"), recording:
        recording.launch(kernel, y, 1, grid=grid)
    vulkan.launch(kernel, y, 1, grid=1)
    vulkan.synchronize()


def test_binding_limit(opened, bundle):
    limits = dataclasses.replace(capabilities().limits, binding_bytes=1024)
    caps = capabilities(limits=limits)
    device = opened("null", caps=caps)
    kernel = device.load(bundle, "shift")
    a, b = device.allocate(257, "i32"), device.allocate(256, "i32")
    with pytest.raises(runtime.LimitExceeded, match="bytes of a binding"):
        device.launch(kernel, a, b)
    device.launch(kernel, b, b)


def test_unknown_devices_and_options():
    with pytest.raises(runtime.NoDevice, match="no device 'cuda9'; expected one of cpu, cuda"):
        runtime.open_device("cuda9")
    with pytest.raises(runtime.NoDevice, match="there is one cpu device"):
        runtime.open_device("cpu:3")
    with pytest.raises(
        runtime.ArgumentError, match="the option 'threads'; expected one of workers, timeout"
    ):
        runtime.open_device("cpu", threads=3)
    with pytest.raises(runtime.ArgumentError, match="at least 1"):
        runtime.open_device("cpu", workers=0)


def test_numpy_integers_are_integers(opened, bundle):
    """A size that numpy computed stands for the same number of Python."""
    device = opened("cpu")
    heavy = device.load(bundle, "heavy")
    heavy(floats(64), np.int8(1), grid=np.int64(2))
    heavy(floats(64), 1, grid=(np.uint8(2), 1))
    assert device.allocate((np.int64(2), np.uint8(3)), "f32").view(np.uint8(1), 2).count == 2


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_a_grid_of_a_numpy_scalar_does_not_wrap_around(opened, bundle, dtype):
    device = opened("null")
    kernel, y = device.load(bundle, "heavy"), device.upload(floats(4))
    groups = ("ceil_div", ("mul", ("scalar", "n"), 3), 2)
    kernel.manifest = dataclasses.replace(kernel.manifest, grid=(groups, 1, 1))
    command = device._command(kernel, (y, np.dtype(dtype).type(101)), {}, None)
    assert command.grid == (152, 1, 1)


@pytest.mark.parametrize(("start", "count"), [(1.0, 1), ("0", 1), (None, 1), (0, True), (0, 1.5)])
def test_odd_views(opened, start, count):
    buffer = opened("null").upload(floats(6))
    with pytest.raises(runtime.ArgumentError, match="wrong type; expected an int"):
        buffer.view(start, count)


@pytest.mark.parametrize("shape", [(-2, -3), (6.0,), (None,), (True, 6)])
def test_odd_reshapes(opened, shape):
    buffer = opened("null").upload(floats(6))
    with pytest.raises(runtime.ArgumentError, match="integers of at least 0"):
        buffer.reshape(*shape)


def test_masked_arrays_are_refused(device, saxpy):
    masked = np.ma.masked_greater(np.arange(4, dtype=np.float32), 2)
    buffer = device.upload(floats(4))
    for use in (
        lambda: saxpy(masked, floats(4), 1.0),
        lambda: saxpy(floats(4), masked, 1.0),
        lambda: device.upload(masked),
        lambda: buffer.write(masked),
    ):
        with pytest.raises(runtime.ArgumentError, match="a masked array"):
            use()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_subclasses_of_arrays_are_arrays(computing, bundle):
    """np.matrix has rows and columns whatever happens to it; np.memmap is the useful case."""
    y = np.ones((2, 3), np.float32).view(np.matrix)
    computing.load(bundle, "saxpy", "f32")(np.asmatrix(np.arange(6, dtype=np.float32)), y, 2.0)
    assert np.asarray(y).tolist() == [[1, 3, 5], [7, 9, 11]]


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, "1", True, None])
def test_a_bound_that_is_none_is_refused(device, timeout):
    if timeout is not None:  # the device's own
        with pytest.raises(runtime.ArgumentError, match="finite number of seconds"):
            device.synchronize(timeout)
    with pytest.raises(runtime.ArgumentError, match="finite number of seconds"):
        runtime.open_device("null", timeout=timeout)


def test_the_longest_bounds_are_waited(computing, bundle):
    y = computing.upload(floats(64))
    for timeout in (1e9, 1e30, 10**400, np.float32(1e38)):
        computing.launch(computing.load(bundle, "heavy"), y, 100, grid=64)
        computing.synchronize(timeout)


def test_things_of_another_kind(device, bundle, saxpy):
    recording, buffer = device.record(), device.upload(floats(4))
    with recording:
        pass
    for use in (
        lambda: device.launch(None, buffer, buffer, 1.0),
        lambda: device.launch("saxpy", buffer, buffer, 1.0),
        lambda: device.load("artifacts", "saxpy"),
        lambda: device.load(bundle, ["saxpy"]),
        lambda: device.write(None, floats(4)),
        lambda: device.download(floats(4)),
        lambda: device.replay(None),
        lambda: device.timestamps(buffer),
        lambda: device.upload([[1.0], [2.0, 3.0]]),
        lambda: runtime.open_device(None),
        lambda: runtime.open_device("cpu", workers="2"),
        lambda: runtime.open_device("cpu", workers=1.5),
        lambda: runtime.open_device("cpu", workers=10**6),
    ):
        with pytest.raises(runtime.ArgumentError):
            use()
    with pytest.raises(runtime.ArgumentError, match="would become infinite"):
        saxpy(floats(4), floats(4), np.longdouble("1e4000"))


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_the_ends_of_a_range_belong_to_it(name):
    dtype = DTYPES[name]
    mask = (1 << dtype.bits) - 1
    for value in (dtype.min, dtype.max):
        assert scalar_value_bits(value, dtype, "") == value & mask
        assert scalar_value_bits(dtype.storage.type(value), dtype, "") == value & mask
    for value in (dtype.min - 1, dtype.max + 1):
        with pytest.raises(runtime.ArgumentError, match="value outside"):
            scalar_value_bits(value, dtype, "")
