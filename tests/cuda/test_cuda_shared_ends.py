"""Memory that another library holds outlives the device; what is odd about sharing is refused."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.runtime.devices.cuda import dlpack


class Interface:
    """An object of another library with this interface."""

    def __init__(self, **interface: Any) -> None:
        self.__cuda_array_interface__ = interface


def of(buffer: runtime.Buffer, **changes: Any) -> Interface:
    return Interface(**buffer.__cuda_array_interface__ | changes)


def contents(address: int, count: int) -> np.ndarray[Any, Any]:
    """What device memory of the double holds, which is memory of this process."""
    return np.frombuffer(ctypes.string_at(address, count * 4), np.float32)


@pytest.mark.parametrize("pools", [1, 0])
def test_a_tensor_of_another_library_lives_on_after_the_device_is_closed(
    fake: FakeDriver, pools: int
) -> None:
    fake.set(pools=pools)
    device = runtime.open_device("cuda", timeout=20)
    buffers = [device.upload(np.full(8, v, np.float32)) for v in (1, 2, 3)]
    device.synchronize()
    one, two, again = (dlpack.take(buffers[n].__dlpack__(), "here") for n in (0, 1, 1))
    capsule = buffers[2].__dlpack__()
    device.close()
    assert fake.live()["allocations"] == 3
    assert fake.users() == 1
    assert [set(contents(t.address, 8)) for t in (one, two)] == [{1}, {2}]
    two.let_go()
    assert fake.live()["allocations"] == 3  # another capsule
    thread = threading.Thread(target=again.let_go)
    thread.start()
    thread.join()
    del capsule
    one.let_go()
    assert not fake.live()
    assert fake.users() == 0


def test_memory_that_was_held_goes_back_after_the_work_of_its_taker(fake: FakeDriver) -> None:
    device = runtime.open_device("cuda", timeout=20)
    buffer = device.upload(np.full(8, 7, np.float32))
    device.synchronize()
    taken = dlpack.take(buffer.__dlpack__(), "here")
    drv = device.api.drv  # type: ignore[attr-defined]
    other = runtime.open_device("cuda", timeout=20)
    device.close()
    target = np.zeros(8, np.float32)
    for _ in range(50):
        with other._context:  # type: ignore[attr-defined]
            stream = other.stream  # type: ignore[attr-defined]
            drv.cuMemcpyDtoHAsync(target.ctypes.data, taken.address, 32, stream)
    other._queue.busy = True  # type: ignore[attr-defined]
    taken.let_go()
    other.synchronize()
    assert set(target) == {7}
    other.close()
    assert not fake.live()


def test_a_buffer_that_is_freed_lives_on_in_its_capsules(device: runtime.Device) -> None:
    buffer = device.upload(np.full(8, 5, np.float32))
    device.synchronize()
    taken = dlpack.take(buffer.__dlpack__(), "here")
    live = device.memory().live
    buffer.free()
    device.synchronize()
    assert device.memory().live == live
    assert set(contents(taken.address, 8)) == {5}
    taken.let_go()
    assert device.memory().live < live


def test_closing_waits_for_users_of_an_interface_before_it_frees(fake: FakeDriver) -> None:
    device = runtime.open_device("cuda", timeout=20)
    other = runtime.open_device("cuda", timeout=20)
    buffer = device.upload(np.full(8, 7, np.float32))
    device.synchronize()
    address = buffer.__cuda_array_interface__["data"][0]
    target = np.zeros(8, np.float32)
    with other._context:  # type: ignore[attr-defined]
        for _ in range(50):
            other.api.drv.cuMemcpyDtoHAsync(  # type: ignore[attr-defined]
                target.ctypes.data,
                address,
                32,
                other.stream,  # type: ignore[attr-defined]
            )
    other._queue.busy = True  # type: ignore[attr-defined]
    device.close()
    other.close()
    assert set(target) == {7}
    assert not fake.live()


def test_a_stream_under_capture_is_refused_and_not_drawn_into(
    device: runtime.Device, fake: FakeDriver
) -> None:
    api = device.api  # type: ignore[attr-defined]
    with device._context:  # type: ignore[attr-defined]
        stream = int(api.call("cuStreamCreate", 1))
    buffer = device.upload(np.ones(4, np.float32))
    held = fake.live()
    fake.set(capturing=stream)
    for call in (
        lambda: device.order_after(stream),  # type: ignore[attr-defined]
        lambda: device.order_before(stream),  # type: ignore[attr-defined]
        lambda: buffer.__dlpack__(stream=stream),
        lambda: device.adopt(of(buffer, stream=stream)),
    ):
        with pytest.raises(runtime.StateError, match=r"captured.*before the capture begins"):
            call()
    assert fake.live() == held
    fake.set(capturing=0)
    device.order_after(stream)  # type: ignore[attr-defined]
    while device._queue.api.drv.cuStreamQuery(stream)[0]:  # type: ignore[attr-defined]
        pass
    device.synchronize()
    with device._context:  # type: ignore[attr-defined]
        api.call("cuStreamDestroy", stream)


def test_a_tensor_whose_owner_captures_is_refused_before_a_launch_lands_in_its_graph(
    device: runtime.Device, fake: FakeDriver
) -> None:
    class Capturing:
        def __init__(self, buffer: runtime.Buffer) -> None:
            self.__dlpack_device__ = buffer.__dlpack_device__
            self.buffer = buffer

        def __dlpack__(self, *, stream: int) -> Any:
            fake.set(capturing=stream)  # it waits for an event of the capture
            return self.buffer.__dlpack__(stream=-1)

    value = Capturing(device.upload(np.ones(4, np.float32)))
    with pytest.raises(runtime.StateError, match="captured"):
        device.adopt(value)
    assert not dlpack.kept()
    fake.set(capturing=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"typestr": ...}, "cuda: __cuda_array_interface__ without typestr"),
        ({"shape": ..., "data": ...}, "cuda: __cuda_array_interface__ without shape and data"),
        ({"data": None}, "cuda: __cuda_array_interface__ without an address"),
        ({"typestr": "<c8"}, "cuda: not a dtype: '<c8'"),
        ({"data": (4096, False)}, "cuda: no memory of this device; .*0x1000"),
    ],
)
def test_an_interface_that_lacks_something_is_an_argument_error_that_says_where(
    device: runtime.Device, changes: dict[str, Any], message: str
) -> None:
    value = of(device.upload(np.ones(8, np.float32)), **changes)
    interface = value.__cuda_array_interface__
    for name in [name for name, change in changes.items() if change is ...]:
        del interface[name]
    with pytest.raises(runtime.ArgumentError, match=message):
        device.adopt(value)


def test_a_capsule_of_a_later_version_is_given_back_unread(device: runtime.Device) -> None:
    asked = []

    @dlpack._Deleter
    def deleter(address: int) -> None:
        asked.append(address)

    managed = dlpack._ManagedVersioned()
    managed.major, managed.minor = 2, 3
    managed.deleter = ctypes.cast(deleter, ctypes.c_void_p)
    managed.tensor.ndim = 1 << 30  # would be read far beyond what there is
    managed.tensor.shape = ctypes.cast(8, ctypes.POINTER(ctypes.c_int64))
    managed.tensor.code, managed.tensor.bits, managed.tensor.lanes = 2, 64, 2
    at = ctypes.addressof(managed)
    capsule = dlpack._new(at, dlpack.VERSIONED, None)
    with pytest.raises(runtime.ArgumentError, match=r"at most version 1, got version 2\.3"):
        dlpack.take(capsule, "here")
    assert asked == [at]
    with pytest.raises(runtime.ArgumentError, match="was used"):
        dlpack.take(capsule, "here")


def test_memory_that_comes_back_is_found_without_going_through_all_that_was_given(
    device: runtime.Device,
) -> None:
    buffers = [device.upload(np.full(8, n, np.float32)) for n in range(100)]
    values = [of(buffer) for buffer in buffers]
    shared = device._shared  # type: ignore[attr-defined]

    class Unscanned(dict):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise AssertionError("went through them all")

        items = values = keys = __iter__

    shared._given = Unscanned(shared._given)
    for value, buffer in zip(values, buffers, strict=True):
        address = value.__cuda_array_interface__["data"][0]
        assert device.adopt(value).allocation is buffer.allocation
        value.__cuda_array_interface__ |= {"shape": (1,), "data": (address + 28, False)}
        assert device.adopt(value).allocation is buffer.allocation
    gone, first = buffers[50], buffers[0]
    address = gone.allocation.handle.address
    del buffer, gone, buffers[50]
    gc.collect()
    device.synchronize()
    assert shared._own(address) is None
    assert shared._own(first.allocation.handle.address) is first.allocation
    assert shared._starts == sorted(shared._starts)
    assert len(shared._starts) == len(shared._given) == 99


class Stream:
    """A stream of another library over the double, which copies from what it took."""

    def __init__(self, device: runtime.Device, kind: int) -> None:
        self.context, self.api = device._context, device.api  # type: ignore[attr-defined]
        with self.context:
            self.handle = int(self.api.call("cuStreamCreate", 1)) if kind > 2 else kind
        self.target = np.zeros(8, np.float32)

    def copy(self, address: int) -> None:
        with self.context:
            for _ in range(50):
                self.api.call(
                    "cuMemcpyDtoHAsync", self.target.ctypes.data, address, 32, self.handle
                )

    def end(self) -> None:
        with self.context:
            while int(self.api.drv.cuStreamQuery(self.handle)[0]):
                pass
            if self.handle > 2:
                self.api.call("cuStreamDestroy", self.handle)


@pytest.mark.parametrize("driver", [13000, 12040])
@pytest.mark.parametrize("stream", [1, 2])
def test_memory_that_goes_back_from_a_default_stream_ends_no_capture(
    fake: FakeDriver, device: runtime.Device, stream: int, driver: int
) -> None:
    fake.set(driver=driver)
    taker = Stream(device, stream)
    buffer = device.upload(np.full(8, 7, np.float32))
    device.synchronize()
    taken = dlpack.take(buffer.__dlpack__(stream=stream), "here")
    fake.set(capturing=12345)  # of somebody, in the usual mode
    taker.copy(taken.address)
    taken.let_go()
    del buffer
    device.synchronize()
    fake.set(capturing=0)
    taker.end()
    assert set(taker.target) == {7}
    assert fake.live().get("allocations", 0) == 0


def test_memory_stays_while_the_default_stream_is_drawn_into_a_capture(
    fake: FakeDriver, device: runtime.Device
) -> None:
    buffer = device.upload(np.full(8, 7, np.float32))
    device.synchronize()
    taken = dlpack.take(buffer.__dlpack__(stream=1), "here")
    fake.set(capturing=12345, blocking=1)
    taken.let_go()
    del buffer
    device.synchronize()
    assert fake.live()["allocations"] == 1
    fake.set(capturing=0)
    device.synchronize()  # asks again
    device.synchronize()  # is done
    assert "allocations" not in fake.live()


def test_what_a_device_does_beside_a_capture_does_not_end_it(
    fake: FakeDriver, bundle: runtime.Bundle
) -> None:
    fake.set(capturing=12345)
    device = runtime.open_device("cuda", timeout=20)
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.full(64, v, np.float32)) for v in (1, 2))
    with device.record(timed=True) as recording:
        recording.launch(saxpy, x, y, 2.0)
    recording.replay()
    device.launch(saxpy, x, y, 1.0)
    assert set(y.numpy()) == {5}
    assert len(device.timestamps(recording)) == 1
    root = device.load(bundle, "checked_root")
    assert root is not None
    large = device.upload(np.ones(3 << 20, np.float32))
    assert large.numpy().all()
    assert device.memory().live
    del large
    device.synchronize()
    device.close()
    assert not fake.live()


def test_calls_leave_the_capture_mode_of_their_thread_as_it_was(
    fake: FakeDriver, device: runtime.Device
) -> None:
    drv = device.api.drv  # type: ignore[attr-defined]
    modes = drv.CUstreamCaptureMode
    for mode in (modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, modes.CU_STREAM_CAPTURE_MODE_GLOBAL):
        drv.cuThreadExchangeStreamCaptureMode(mode)
        device.upload(np.ones(4, np.float32))
        with pytest.raises(runtime.StateError):
            device.write(runtime.open_device("null").allocate(4, "f32"), np.ones(4, np.float32))
        assert drv.cuThreadExchangeStreamCaptureMode(mode)[1] == mode
