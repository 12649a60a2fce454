"""Memory goes to and comes from other libraries of the process, in the order of streams."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.runtime.devices.cuda import dlpack
from gristmill.runtime.memory import as_dtype

MODES = ["interface", "dlpack"]


class Owner:
    """Another library: memory of the context and a stream that it works on."""

    def __init__(self, device: Any) -> None:
        self.device, self.drv = device, device.api.drv
        with device._context:
            self.stream = self.call("cuStreamCreate", 1)
            self.pool = device._heap.pool

    def call(self, name: str, *args: Any) -> Any:
        with self.device._context:
            status, *results = getattr(self.drv, name)(*args)
        assert not status
        return results[0] if results else None

    def tensor(self, values: Any, mode: str) -> Tensor:
        return Tensor(self, np.ascontiguousarray(values), mode)

    def close(self) -> None:
        self.call("cuStreamDestroy", self.stream)


class Tensor:
    """A tensor of that library: being filled on its stream when it is made."""

    def __init__(self, owner: Owner, values: np.ndarray[Any, Any], mode: str) -> None:
        self.owner, self.values, self.mode = owner, values, mode
        size = values.nbytes
        self.address = int(
            owner.call("cuMemAllocFromPoolAsync", max(size, 16), owner.pool, owner.stream)
        )
        self.changes: dict[str, Any] = {}
        self.asked: list[Any] = []
        if size:
            data = values.ctypes.data
            owner.call("cuMemcpyHtoDAsync", self.address, data, size, owner.stream)

    def __getattr__(self, name: str) -> Any:
        if name == "__cuda_array_interface__" and self.mode == "interface":
            return {
                "shape": self.values.shape,
                "typestr": self.values.dtype.str,
                "data": (self.address if self.values.size else 0, False),
                "version": 3,
                "stream": int(self.owner.stream),
            } | self.changes
        if name == "__dlpack_device__" and self.mode == "dlpack":
            return lambda: (2, self.changes.get("device", 0))
        if name == "__dlpack__" and self.mode == "dlpack":
            return self.capsule
        raise AttributeError(name)

    def capsule(self, *, stream: int) -> Any:
        self.asked.append(stream)
        event = self.owner.call("cuEventCreate", 2)
        self.owner.call("cuEventRecord", event, self.owner.stream)
        self.owner.call("cuStreamWaitEvent", stream, event, 0)
        self.owner.call("cuEventDestroy", event)
        dtype = as_dtype(self.changes.get("dtype", self.values.dtype))
        return dlpack.give(
            self.address, self.changes.get("owner", 0), self.values.shape, dtype, self
        )

    def free(self) -> None:
        self.owner.call("cuMemFreeAsync", self.address, self.owner.stream)


@pytest.fixture
def owner(device: runtime.Device) -> Any:
    other = Owner(device)
    yield other
    for _ in range(20):
        device._context.__enter__()  # type: ignore[attr-defined]
        other.drv.cuStreamQuery(other.stream)
        device._context.__exit__()  # type: ignore[attr-defined]
    other.close()


@pytest.mark.parametrize("mode", MODES)
def test_foreign_tensors_are_arguments_of_launches(
    device: runtime.Device, bundle: runtime.Bundle, owner: Owner, mode: str
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x = owner.tensor(np.arange(100, dtype=np.float32), mode)
    y = owner.tensor(np.ones(100, np.float32), mode)
    device.launch(saxpy, x, y, 2.0)  # both are still being filled
    held = device.adopt(y)
    assert np.array_equal(held.numpy(), 2 * np.arange(100) + 1)
    assert held.shape == (100,)
    saxpy(x, y, 2.0)
    assert np.array_equal(held.numpy(), 4 * np.arange(100) + 1)
    if mode == "dlpack":
        assert set(x.asked) == {device.stream}  # type: ignore[attr-defined]
    del held
    x.free()
    y.free()


@pytest.mark.parametrize("mode", MODES)
def test_launches_on_the_same_foreign_memory_are_ordered_in_a_recording(
    device: runtime.Device, bundle: runtime.Bundle, owner: Owner, mode: str
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y, z = (owner.tensor(np.full(8, v, np.float32), mode) for v in (1, 2, 4))
    with device.record() as recording:
        recording.launch(saxpy, x, y, 1.0)
        recording.launch(saxpy, y, z, 1.0)
        recording.launch(saxpy, z, y, 1.0)
    recording.replay()
    assert set(device.adopt(y).numpy()) == {10}
    with pytest.raises(runtime.ArgumentError, match="overlap"):
        device.launch(saxpy, x, x, 1.0)
    recording.close()
    for tensor in (x, y, z):
        tensor.free()


@pytest.mark.parametrize("mode", MODES)
def test_replays_and_the_owners_stream_take_turns_where_the_caller_says_so(
    device: runtime.Device, bundle: runtime.Bundle, owner: Owner, mode: str
) -> None:
    """As README shows it; 0 is the owner's stream where that is the default one."""
    saxpy, stream = device.load(bundle, "saxpy"), int(owner.stream)
    x, y = (owner.tensor(np.full(8, v, np.float32), mode) for v in (1, 2))
    with device.record() as recording:
        for _ in range(20):
            recording.launch(saxpy, x, y, 1.0)
    device.synchronize()
    for turn in (1, 2, 3):
        filled = np.full(8, turn, np.float32)
        for _ in range(20):
            owner.call("cuMemcpyHtoDAsync", y.address, filled.ctypes.data, 32, owner.stream)
        device.order_after(stream)  # type: ignore[attr-defined]
        recording.replay()
        device.order_before(stream)  # type: ignore[attr-defined]
        assert set(copied(owner, y.address, 8)) == {turn + 20}
    device.order_after(0)  # type: ignore[attr-defined]
    device.order_before(0)  # type: ignore[attr-defined]
    device.synchronize()
    recording.close()
    x.free()
    y.free()


@pytest.mark.parametrize("mode", MODES)
def test_foreign_memory_is_held_until_pending_work_is_done(
    device: runtime.Device, bundle: runtime.Bundle, owner: Owner, mode: str, fake: FakeDriver
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x = owner.tensor(np.ones(8, np.float32), mode)
    y = device.upload(np.ones(8, np.float32))
    device.synchronize()
    address, gone = x.address, weakref.ref(x)
    device.launch(saxpy, x, y, 1.0)
    del x
    device._collect()
    gc.collect()
    assert gone() is not None
    device.synchronize()
    gc.collect()
    assert gone() is None
    owner.call("cuMemFreeAsync", address, owner.stream)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"typestr": "<f8"}, "wrong dtype"),
        ({"typestr": "<c8"}, "not a dtype"),
        ({"shape": (2, 4), "strides": (4, 8)}, "not contiguous"),
        ({"strides": (3,)}, "not contiguous"),
        ({"mask": 1}, "masked"),
    ],
)
def test_foreign_memory_that_does_not_fit_is_refused(
    device: runtime.Device,
    bundle: runtime.Bundle,
    owner: Owner,
    changes: dict[str, Any],
    message: str,
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (owner.tensor(np.ones(8, np.float32), "interface") for _ in range(2))
    x.changes = changes
    with pytest.raises(runtime.ArgumentError, match=message):
        device.launch(saxpy, x, y, 1.0)
    x.free()
    y.free()


def test_read_only_memory_is_not_written(
    device: runtime.Device, bundle: runtime.Bundle, owner: Owner
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (owner.tensor(np.ones(8, np.float32), "interface") for _ in range(2))
    x.changes = {"data": (x.address, True)}
    device.launch(saxpy, x, y, 1.0)
    with pytest.raises(runtime.ArgumentError, match="read-only"):
        device.launch(saxpy, y, x, 1.0)
    for buffer in (device.adopt(x), device.adopt(x).view(2, 4), device.adopt(x).reshape(2, 4)):
        with pytest.raises(runtime.ArgumentError, match="read-only"):
            buffer.write(np.zeros(buffer.shape, np.float32))
        with pytest.raises(BufferError, match="read-only"):
            buffer.__dlpack__()
    del buffer
    device.synchronize()
    x.free()
    y.free()


def test_memory_of_another_device_is_refused(device: runtime.Device, owner: Owner) -> None:
    x = owner.tensor(np.ones(8, np.float32), "dlpack")
    x.changes = {"owner": 1}
    with pytest.raises(runtime.ArgumentError, match="expected device 0, got device 1"):
        device.adopt(x)
    x.free()


@pytest.mark.parametrize("value", [np.ones(4, np.float32), [1, 2], None, 3])
def test_what_is_no_device_memory_is_refused(device: runtime.Device, value: Any) -> None:
    with pytest.raises(runtime.ArgumentError, match="expected an object with __dlpack__"):
        device.adopt(value)
    with (
        runtime.open_device("null") as null,
        pytest.raises(runtime.ArgumentError, match="no memory of this device"),
    ):
        null.adopt(value)


@pytest.mark.parametrize("mode", MODES)
def test_empty_foreign_arrays_are_taken(
    device: runtime.Device, bundle: runtime.Bundle, owner: Owner, mode: str
) -> None:
    x, y = (owner.tensor(np.ones(0, np.float32), mode) for _ in range(2))
    device.launch(device.load(bundle, "saxpy"), x, y, 1.0)
    assert device.adopt(x).numpy().shape == (0,)
    x.free()
    y.free()


def copied(owner: Owner, address: int, count: int) -> np.ndarray[Any, Any]:
    """What the other library reads on its stream, once it has been waited for."""
    target = np.zeros(count, np.float32)
    owner.call("cuMemcpyDtoHAsync", target.ctypes.data, address, target.nbytes, owner.stream)
    event = owner.call("cuEventCreate", 2)
    owner.call("cuEventRecord", event, owner.stream)
    for _ in range(1000):
        with owner.device._context:
            (status,) = owner.drv.cuEventQuery(event)
        if not status:
            break
    owner.call("cuEventDestroy", event)
    return target


def test_a_capsule_shows_the_buffer_and_its_taker_waits_for_launches(
    device: runtime.Device, bundle: runtime.Bundle, owner: Owner
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.full((4, 8), v, np.float32)) for v in (1, 2))
    device.launch(saxpy, x, y, 3.0)
    assert y.__dlpack_device__() == (2, 0)
    taken = dlpack.take(y.__dlpack__(stream=int(owner.stream)), "here")
    assert (taken.shape, taken.dtype.name, taken.device_id) == ((4, 8), "f32", 0)
    assert set(copied(owner, taken.address, 32)) == {5}
    taken.let_go()
    device.launch(saxpy, x, y, 3.0)
    interface = y.__cuda_array_interface__
    assert interface["stream"] == device.stream  # type: ignore[attr-defined]
    assert interface["typestr"] == "<f4"
    device.order_before(int(owner.stream))  # type: ignore[attr-defined]
    assert set(copied(owner, interface["data"][0], 32)) == {8}


def test_a_capsule_keeps_its_buffer(device: runtime.Device, fake: FakeDriver) -> None:
    buffer = device.upload(np.ones(100, np.float32))
    live = device.memory().live
    capsule = buffer.__dlpack__()
    taken = dlpack.take(capsule, "here")
    unused = buffer.__dlpack__(stream=-1)
    del buffer, capsule
    assert device.memory().live == live
    taken.let_go()
    assert device.memory().live == live
    del unused
    assert device.memory().live < live


def test_given_memory_goes_back_after_the_work_of_its_taker(
    device: runtime.Device, owner: Owner
) -> None:
    buffer = device.upload(np.full(8, 7, np.float32))
    device.synchronize()
    taken = dlpack.take(buffer.__dlpack__(stream=int(owner.stream)), "here")
    target = np.zeros(8, np.float32)
    for _ in range(50):
        owner.call("cuMemcpyDtoHAsync", target.ctypes.data, taken.address, 32, owner.stream)
    taken.let_go()
    del buffer
    device._collect()
    device.synchronize()
    assert set(target) == {7}


def test_given_memory_that_comes_back_is_known(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    saxpy = device.load(bundle, "saxpy")
    x = device.upload(np.ones(64, np.float32))

    class Wrapper:
        def __init__(self, buffer: runtime.Buffer) -> None:
            self.interface = buffer.__cuda_array_interface__

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return self.interface

    again = device.adopt(Wrapper(x))
    assert again.allocation is x.allocation
    with pytest.raises(runtime.ArgumentError, match="overlap"):
        device.launch(saxpy, x, Wrapper(x), 1.0)


def test_what_cannot_be_given_is_a_buffer_error(device: runtime.Device) -> None:
    buffer = device.upload(np.ones(4, np.float32))
    for wrong in ({"copy": True}, {"dl_device": (1, 0)}, {"stream": 0}, {"stream": "x"}):
        with pytest.raises(BufferError):
            buffer.__dlpack__(**wrong)  # type: ignore[arg-type]
    with runtime.open_device("null") as null:
        other = null.upload(np.ones(4, np.float32))
        with pytest.raises(BufferError):
            other.__dlpack_device__()
        with pytest.raises(BufferError):
            other.__dlpack__()
        assert not hasattr(other, "__cuda_array_interface__")
    for name, code in (("bf16", (4, 16)), ("f8e4m3", (10, 8)), ("f8e5m2", (12, 8))):
        buffer = device.allocate(4, name)  # numpy has no such type, DLPack does
        assert not hasattr(buffer, "__cuda_array_interface__")
        assert dlpack.dtype_code(buffer.dtype) == code
        taken = dlpack.take(buffer.__dlpack__(), "here")
        assert taken.dtype.name == name
        taken.let_go()


def test_a_used_capsule_is_refused(device: runtime.Device) -> None:
    capsule = device.upload(np.ones(4, np.float32)).__dlpack__()
    taken = dlpack.take(capsule, "here")
    with pytest.raises(runtime.ArgumentError, match="was used"):
        dlpack.take(capsule, "here")
    taken.let_go()
    assert ctypes.pythonapi.PyCapsule_IsValid  # the names are CPython's own
