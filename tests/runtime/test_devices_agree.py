"""One suite for all devices: memory, launches, recordings, slots, faults, timestamps."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from gristmill import runtime
from gristmill.runtime.memory import as_dtype


def refused(device: runtime.Device, bundle: runtime.Bundle, name: str, spec: str) -> bool:
    """Whether the device refuses a kernel, which the weak Vulkan driver may."""
    return isinstance(bundle.select(name, spec, device.capabilities), runtime.Refusal)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (1 << 20,), (0,), (4, 0)])
@pytest.mark.parametrize("dtype", ["u8", "f16", "bf16", "i32", "f64"])
def test_upload_comes_back(device, rng, shape, dtype):
    storage = as_dtype(dtype).storage
    array = rng.integers(0, 255, int(np.prod(shape)) * storage.itemsize, np.uint8)
    array = array.view(storage).reshape(shape)
    buffer = device.upload(array, dtype)
    assert buffer.shape == shape
    assert buffer.numpy().tobytes() == array.tobytes()


def test_write_replaces_contents_and_checks_them(device):
    buffer = device.allocate(4, "i32")
    buffer.write(np.arange(4, dtype=np.int32))
    assert buffer.numpy().tolist() == [0, 1, 2, 3]
    for wrong in (np.arange(5, dtype=np.int32), np.arange(4, dtype=np.int64)):
        with pytest.raises(runtime.ArgumentError, match="expected 4 elements of int32"):
            buffer.write(wrong)


def test_views_share_memory(device):
    buffer = device.upload(np.arange(1024, dtype=np.float32))
    view = buffer.view(256, 128)
    view.write(np.zeros(128, np.float32))
    assert buffer.numpy()[250:260].tolist() == [250, 251, 252, 253, 254, 255, 0, 0, 0, 0]
    assert buffer.reshape(32, 32).numpy().shape == (32, 32)
    with pytest.raises(runtime.ArgumentError, match="a range within 1024 elements"):
        buffer.view(1000, 25)


def test_memory_is_accounted_and_given_back(device):
    before = device.memory().live
    buffers = [device.allocate(n, "u8") for n in (1, 16, 17, 1 << 20)]
    report = device.memory()
    assert report.live - before == 16 + 16 + 32 + (1 << 20)
    assert report.peak >= report.live
    assert 0 < report.budget <= report.total
    view = buffers[3].view(0, 16)
    for buffer in buffers:
        buffer.free()
    assert device.memory().live - before == 1 << 20  # the view still needs it
    del view
    assert device.memory().live == before
    with pytest.raises(runtime.StateError, match="freed"):
        buffers[0].numpy()


def test_out_of_memory_names_both_numbers(device):
    report = device.memory()
    limit = device.capabilities.limits.buffer_bytes
    too_much = report.budget + (1 << 24)
    if too_much <= limit:
        with pytest.raises(runtime.OutOfMemory) as caught:
            device.allocate(too_much, "u8")
        assert caught.value.requested >= too_much
        assert caught.value.available < too_much
    with pytest.raises(runtime.LimitExceeded) as limited:
        device.allocate(limit + 1, "u8")
    assert limited.value.value == limit + 1
    assert device.allocate(16, "u8").count == 16


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 1 << 18])
def test_saxpy_with_numpy_arrays(computing, bundle, rng, n):
    kernel = computing.load(bundle, "saxpy", "f32")
    x, y = rng.random(n, np.float32), rng.random(n, np.float32)
    expected = np.float32(1.5) * x + y
    kernel(x, y, 1.5)
    assert np.array_equal(y, expected)
    kernel(x, a=-1.0, y=y)
    assert np.array_equal(y, expected - x)


@pytest.mark.parametrize("spec", ["f16", "f64", "i8"])
def test_types_run_right_or_are_refused(computing, bundle, rng, spec):
    if refused(computing, bundle, "saxpy", spec):
        with pytest.raises(runtime.Refused, match="lacks feature") as caught:
            computing.load(bundle, "saxpy", spec)
        assert caught.value.refusal.lacks
        return
    kernel = computing.load(bundle, "saxpy", spec)
    dtype = kernel.params[0].dtype.storage
    x, y = rng.integers(-8, 8, 777).astype(dtype), rng.integers(-8, 8, 777).astype(dtype)
    expected = (3 * x + y).astype(dtype)
    kernel(x, y, 3)
    assert np.array_equal(y, expected)


def test_scalars_of_every_width_arrive(computing, bundle):
    if refused(computing, bundle, "scalars", "i64"):
        assert "i64" not in computing.capabilities.features
        with pytest.raises(runtime.Refused, match=r"lacks feature .*i64"):
            computing.load(bundle, "scalars")
        return
    y = np.zeros(16 * 12 * 4, np.int64)
    computing.load(bundle, "scalars")(y, -100, 60000, True, 2.5, -(1 << 40))
    assert set(y.tolist()) == {-100 + 60000 + 1000000 + 2 - (1 << 40)}


def test_launches_run_in_order(computing, bundle):
    kernel = computing.load(bundle, "saxpy", "f32")
    one = computing.upload(np.ones(5000, np.float32))
    y = computing.upload(np.zeros(5000, np.float32))
    for n in range(200):
        computing.launch(kernel, one, y, float(n % 3))
    assert set(y.numpy().tolist()) == {float(sum(n % 3 for n in range(200)))}


def test_grid_over_the_limit_is_folded(computing, bundle):
    kernel = computing.load(bundle, "group_ids", "i32")
    for grid, total in (
        ((70000,), 70000),
        ((3, 5, 7), 105),
        ((1, 66000), 66000),
        ((300, 1, 2), 600),
    ):
        y, z = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
        kernel(y, z, grid=grid)
        assert np.array_equal(y, np.arange(total))
        assert set(z.tolist()) == {grid[0] * 3 + (grid[1] if len(grid) > 1 else 1)}


def test_grid_is_needed_checked_and_may_be_zero(device, bundle):
    kernel = device.load(bundle, "group_ids", "i32")
    y = device.upload(np.full(4, 7, np.int32))
    z = device.allocate(4, "i32")
    with pytest.raises(runtime.ArgumentError, match="pass grid="):
        device.launch(kernel, y, z)
    for wrong in ((1, 2, 3, 4), (-1,), (1.5,), ()):
        with pytest.raises(runtime.ArgumentError, match="wrong grid"):
            device.launch(kernel, y, z, grid=wrong)
    with pytest.raises(runtime.LimitExceeded, match="workgroups of a launch"):
        device.launch(kernel, y, z, grid=(1 << 31, 4, 4))
    device.launch(kernel, y, z, grid=(0,))
    assert y.numpy().tolist() == [7] * 4


def test_recording_replays_any_number_of_times(computing, bundle):
    kernel = computing.load(bundle, "saxpy", "f32")
    x = computing.upload(np.ones(1000, np.float32))
    y = computing.upload(np.zeros(1000, np.float32))
    z = computing.upload(np.zeros(1000, np.float32))
    with computing.record() as recording:
        recording.launch(kernel, x, y, 1.0)
        recording.launch(kernel, y, z, 1.0)
        recording.launch(kernel, x, y, a=2.0)
    assert len(recording) == 3
    assert y.numpy().sum() == 0  # recording alone runs nothing
    expect_y = expect_z = 0.0
    for _ in range(10):
        recording.replay()
        expect_y += 1
        expect_z += expect_y
        expect_y += 2
    assert set(y.numpy().tolist()) == {expect_y}
    assert set(z.numpy().tolist()) == {expect_z}
    del x, y, z
    gc.collect()
    recording.replay()  # keeps its buffers alive
    computing.synchronize()


def test_recordings_interleave_with_launches_and_writes(computing, bundle):
    kernel, one = computing.load(bundle, "add_slot", "i32"), computing.slot("i32", 1)
    y = computing.upload(np.zeros(300, np.int32))
    with computing.record() as recording:
        recording.launch(kernel, y, one)
    for n in range(40):
        recording.replay()
        computing.launch(kernel, y, one)
        if n == 20:
            y.write(np.zeros(300, np.int32))
    assert set(y.numpy().tolist()) == {2 * 19}


def test_closed_recording_gives_memory_back(computing, bundle):
    kernel = computing.load(bundle, "saxpy", "f32")
    before = computing.memory().live
    x, y = computing.upload(np.ones(9, np.float32)), computing.upload(np.ones(9, np.float32))
    with computing.record() as recording:
        recording.launch(kernel, x, y, 1.0)
    recording.replay()
    x.free()
    y.free()
    recording.close()
    computing.synchronize()
    assert computing.memory().live == before
    with pytest.raises(runtime.StateError, match="closed"):
        recording.replay()


def test_recording_states_are_checked(device, bundle):
    kernel = device.load(bundle, "shift", "i32")
    x, y = device.upload(np.zeros(3, np.int32)), device.upload(np.zeros(3, np.int32))
    recording = device.record()
    with pytest.raises(runtime.StateError, match="not open"):
        recording.launch(kernel, x, y)
    with recording:
        recording.launch(kernel, x, y)
        with pytest.raises(runtime.StateError, match="still open"):
            recording.replay()
    with pytest.raises(runtime.StateError, match="made once"), recording:
        pass
    with pytest.raises(runtime.ArgumentError), device.record() as broken:
        broken.launch(kernel, y)
    with pytest.raises(runtime.StateError, match="closed"):
        broken.replay()


def test_empty_recording_replays(device):
    with device.record() as recording:
        pass
    recording.replay()
    device.synchronize()


def test_slot_changes_between_replays_in_order(computing, bundle):
    kernel = computing.load(bundle, "add_slot", "i32")
    y = computing.upload(np.zeros(100, np.int32))
    slot = computing.slot("i32", 3)
    with computing.record() as recording:
        recording.launch(kernel, y, slot)
    expected = 0
    for value in (3, 5, -2, 100, 7):
        slot.set(value)
        recording.replay()
        recording.replay()
        expected += 2 * value
    assert set(y.numpy().tolist()) == {expected}
    with pytest.raises(runtime.ArgumentError, match="outside i32"):
        slot.set(1 << 40)


def test_slot_takes_a_number_in_a_call(computing, bundle):
    y = np.zeros(5, np.int32)
    computing.load(bundle, "add_slot", "i32")(y, 11)
    assert y.tolist() == [11] * 5


def test_fault_names_kernel_site_and_source_line(computing, bundle):
    kernel = computing.load(bundle, "checked_root", "f32")
    y = np.zeros(200, np.float32)
    kernel(np.full(200, 4, np.float32), y)
    assert set(y.tolist()) == {2.0}
    x = np.full(200, 4, np.float32)
    x[150] = -1
    with pytest.raises(runtime.KernelFault, match="x is negative") as caught:
        kernel(x, y)
    assert (caught.value.kernel, caught.value.launch) == ("checked_root", None)
    assert "sample_kernels.py" in caught.value.loc.file
    x[150], x[3] = 4, 1000
    with pytest.raises(runtime.KernelFault, match="x is too large"):
        kernel(x, y)
    kernel(np.full(200, 4, np.float32), y)  # a fault is reported once


def test_fault_names_the_launch_of_a_recording(computing, bundle):
    kernel = computing.load(bundle, "checked_root", "f32")
    good = computing.upload(np.ones(10, np.float32))
    bad = computing.upload(np.full(10, -1, np.float32))
    out = computing.allocate(10, "f32")
    with computing.record() as recording:
        for n in range(50):
            recording.launch(kernel, bad if n == 37 else good, out)
    recording.replay()
    bad.write(np.ones(10, np.float32))
    recording.replay()  # a later clean replay hides nothing
    with pytest.raises(runtime.KernelFault) as caught:
        computing.synchronize()
    assert caught.value.launch == 37
    recording.replay()
    computing.synchronize()


def test_timestamps_of_a_recording(computing, bundle):
    kernel = computing.load(bundle, "heavy", "f32")
    y = computing.upload(np.zeros(4, np.float32))
    with computing.record(timed=True) as recording:
        recording.launch(kernel, y, 10, grid=(1,))
        recording.launch(kernel, y, 3000, grid=(100,))
        recording.launch(kernel, y, 10, grid=(0,))
    found = []
    for _ in range(5):  # on a busy machine a short launch may take longer than a long one
        recording.replay()
        found.append(recording.timestamps())
        assert found[-1].shape == (3,)
    times = np.min(found, axis=0)
    assert times[1] > times[0] > 0
    assert times[2] == 0
    with computing.record() as untimed:
        recording_launches = untimed.launch(kernel, y, 1, grid=(1,))
    assert recording_launches == 0
    with pytest.raises(runtime.StateError, match="timed=True"):
        untimed.timestamps()


def test_kernels_are_loaded_once(device, bundle):
    assert device.load(bundle, "shift") is device.load(bundle, "shift", "i32")


def test_closed_device_says_so(device):
    buffer = device.upload(np.zeros(3))
    device.close()
    device.close()
    for call in (buffer.numpy, device.synchronize, device.memory, lambda: device.allocate(1, "u8")):
        with pytest.raises(runtime.StateError, match="closed"):
            call()
    buffer.free()


def test_scalars_of_a_recording_can_be_rewritten(computing, bundle):
    kernel = computing.load(bundle, "saxpy", "f32")
    x = computing.upload(np.ones(200, np.float32))
    y = computing.upload(np.zeros(200, np.float32))
    with computing.record() as recording:
        recording.launch(kernel, x, y, 1.0)
        recording.launch(kernel, x, y, 7.0, grid=(0,))
        recording.launch(kernel, x, y, 2.0)
    recording.replay()
    recording.rewrite(2, a=10.0)
    recording.rewrite(1, a=3.0)
    recording.replay()
    assert set(y.numpy().tolist()) == {14.0}
    for launch, change, words in (
        (3, {"a": 1.0}, "0 to 2"),
        (0, {"b": 1.0}, "one of a"),
        (0, {"a": "x"}, "a number"),
    ):
        with pytest.raises(runtime.ArgumentError, match=words):
            recording.rewrite(launch, **change)


def test_recordings_that_nobody_holds_are_given_back(computing, bundle):
    kernel = computing.load(bundle, "checked_root")
    x, y = computing.upload(np.ones(9, np.float32)), computing.allocate(9, "f32")
    for _ in range(50):
        with computing.record() as recording:
            recording.launch(kernel, x, y)
        recording.replay()
    del recording
    gc.collect()
    computing.synchronize()
    computing.memory()
    assert computing._faults.words <= 1
    assert computing.memory().live <= 16 + 48 + 48
