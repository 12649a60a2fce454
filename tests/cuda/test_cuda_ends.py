"""What the driver does not take leaves no trace; what a device ends with is told."""

from __future__ import annotations

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime


def floats(device: runtime.Device, *values: float) -> list[runtime.Buffer]:
    return [device.upload(np.full(8, v, np.float32)) for v in values]


@pytest.mark.parametrize("pools", [0, 1])
def test_memory_is_given_back_to_the_driver_only_once_work_is_done(
    fake: FakeDriver, bundle: runtime.Bundle, pools: int
) -> None:
    """Without pools each buffer that is freed; with them what the pool keeps, to allocate again."""
    fake.set(pools=pools)
    device = runtime.open_device("cuda", timeout=0.1)
    x, y = floats(device, 1, 1)
    saxpy = device.load(bundle, "saxpy")
    device.synchronize()
    fake.set(hang_after=0)
    device.launch(saxpy, x, y, 1.0)
    held = fake.live()["allocations"]
    if pools:
        fake.set(fail_alloc=1)
        with pytest.raises(runtime.DeviceTimeout):
            device.allocate(8, "f32")
    else:
        with pytest.raises(runtime.DeviceTimeout):
            x.free()
    assert fake.live()["allocations"] == held
    device.close()


def test_a_fault_that_nobody_waited_for_is_told_by_close(
    fake: FakeDriver, bundle: runtime.Bundle
) -> None:
    device = runtime.open_device("cuda")
    x, y = floats(device, -1, 0)
    device.launch(device.load(bundle, "checked_root"), x, y)
    with pytest.raises(runtime.KernelFault, match="checked_root"):
        device.close()
    assert not fake.live()
    assert fake.users() == 0


def test_out_of_pinned_memory_is_typed_too(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeDriver
) -> None:
    fake.set(fail_pinned=1)
    with pytest.raises(runtime.OutOfMemory, match="page-locked") as caught:
        device.upload(np.zeros(5, np.uint8))
    assert caught.value.requested > 0
    with pytest.raises(runtime.OutOfMemory):
        device.load(bundle, "checked_root")
    fake.set(fail_pinned=0)
    assert not device.upload(np.zeros(5, np.uint8)).numpy().any()


def test_scalars_that_the_driver_did_not_take_are_not_kept(
    device: runtime.Device, bundle: runtime.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = floats(device, 1, 1)
    with device.record() as recording:
        recording.launch(device.load(bundle, "saxpy"), x, y, 1.0)
    api = device.api  # type: ignore[attr-defined]
    call = api.call

    def failing(name: str, *args: object) -> object:
        if name == "cuGraphExecKernelNodeSetParams":
            raise runtime.DriverError(name, 1, "no")
        return call(name, *args)

    monkeypatch.setattr(api, "call", failing)
    before = list(recording.handle.launches)
    with pytest.raises(runtime.DriverError):
        recording.rewrite(0, a=7.0)
    assert recording.handle.launches == recording._recorded == before


def test_a_buffer_of_another_device_or_a_freed_one_is_not_adopted(fake: FakeDriver) -> None:
    with runtime.open_device("cuda") as one, runtime.open_device("cuda") as two:
        buffer = two.upload(np.zeros(4, np.int32))
        with pytest.raises(runtime.StateError, match="another device"):
            one.adopt(buffer)
        assert two.adopt(buffer) is buffer
        buffer.free()
        with pytest.raises(runtime.StateError, match="freed"):
            two.adopt(buffer)
