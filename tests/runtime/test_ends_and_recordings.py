"""The end of a device tells what nobody was told; recordings hold under wrong use and threads."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from gristmill import runtime


def faulting(device: runtime.Device, bundle: runtime.Bundle) -> None:
    """Submit a launch that fails its assertion."""
    x = device.upload(np.full(4, -1, np.float32))
    y = device.allocate(4, "f32")
    device.launch(device.load(bundle, "checked_root"), x, y)


def test_a_fault_that_nobody_waited_for_is_told_by_close(opened, bundle):
    device = opened("cpu")
    faulting(device, bundle)
    with pytest.raises(runtime.KernelFault, match="checked_root"):
        device.close()
    with pytest.raises(runtime.StateError, match="closed"):  # and everything was given back
        device.synchronize()
    device.close()


def test_a_fault_that_was_told_is_not_told_again_at_the_end(opened, bundle):
    device = opened("cpu")
    faulting(device, bundle)
    with pytest.raises(runtime.KernelFault):
        device.synchronize()
    device.close()


def test_a_fault_at_the_end_of_a_with_block_is_told(bundle):
    with (
        pytest.raises(runtime.KernelFault, match="checked_root"),
        runtime.open_device("cpu") as device,
    ):
        faulting(device, bundle)
    assert device._closed


def test_a_fault_at_the_end_of_a_with_block_does_not_hide_what_went_wrong_in_it(bundle):
    device = runtime.open_device("cpu")
    error = ZeroDivisionError()
    device.__enter__()
    faulting(device, bundle)
    device.__exit__(type(error), error, None)
    assert device._closed


def test_a_fault_is_told_once_everything_was_given_back(opened, bundle, monkeypatch):
    device = opened("null")
    calls = []
    monkeypatch.setattr(device, "_close", lambda: calls.append("closed"))
    kernel = device.load(bundle, "checked_root")
    device.fault_words[0] = 1 << kernel.faults[0].base
    with pytest.raises(runtime.KernelFault):
        device.close()
    assert calls == ["closed"]


def test_a_process_ends_in_time_though_a_thread_waits_for_the_device():
    program = """
        import threading, time
        from gristmill import runtime
        from gristmill.runtime import lifetime
        lifetime.EXIT_SECONDS = 0.5
        device = runtime.open_device("null")
        device._wait = lambda timeout: time.sleep(60)
        threading.Thread(target=device.synchronize, daemon=True).start()
        while device._lock.acquire(blocking=False):
            device._lock.release()
            time.sleep(0.001)
        """
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert time.perf_counter() - begin < 10


def test_a_recording_whose_making_failed_is_closed(opened, bundle, monkeypatch):
    device = opened("null")
    y = device.upload(np.zeros(4, np.int32))
    recording = device.record()
    error = runtime.DriverError("make", 1, "no")

    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(device, "_record", failing)
    with pytest.raises(runtime.DriverError), recording:
        recording.launch(device.load(bundle, "shift"), y, y)
    monkeypatch.undo()
    with pytest.raises(runtime.StateError, match="made once"), recording:
        pass
    with pytest.raises(runtime.StateError, match="is closed"):
        recording.replay()


def made(device: runtime.Device, bundle: runtime.Bundle) -> runtime.Recording:
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    with device.record() as recording:
        recording.launch(device.load(bundle, "saxpy", "f32"), x, y, 1.0)
    return recording


@pytest.mark.parametrize("launch", ["a", 0.5, 0.0, None, True, -1, 1, [0], np.float32(0)])
def test_rewriting_a_launch_that_is_none_is_an_argument_error(opened, bundle, launch):
    recording = made(opened("null"), bundle)
    with pytest.raises(runtime.ArgumentError, match="expected 0 to 0"):
        recording.rewrite(launch, a=2.0)
    recording.rewrite(np.int64(0), a=2.0)


def test_rewriting_beside_close_is_a_state_error(opened, bundle, monkeypatch):
    device = opened("null")
    recording = made(device, bundle)
    from gristmill.runtime import recording as module

    other = threading.Thread(target=recording.close)
    checks = module.with_scalars

    def beside(*args):
        other.start()
        other.join(0.2)  # a close that does not wait for the lock is done by now
        return checks(*args)

    monkeypatch.setattr(module, "with_scalars", beside)
    recording.rewrite(0, a=2.0)
    other.join()
    with pytest.raises(runtime.StateError, match="not ready"):
        recording.rewrite(0, a=2.0)


def test_scalars_that_the_driver_did_not_take_are_not_kept(opened, bundle, monkeypatch):
    device = opened("null")
    recording = made(device, bundle)

    def failing(*_: object) -> None:
        raise runtime.DriverError("rewrite", 1, "no")

    before = list(recording._recorded)
    monkeypatch.setattr(device, "_rewrite_recording", failing)
    with pytest.raises(runtime.DriverError):
        recording.rewrite(0, a=7.0)
    assert recording._recorded == before


def test_a_recording_that_was_never_made_is_collected_silently():
    recording = runtime.Recording.__new__(runtime.Recording)  # `__init__` was interrupted
    recording.__del__()


@pytest.mark.parametrize("name", ["null", "cpu"])
def test_adopting_a_buffer_of_another_device_or_a_freed_one_is_refused(opened, name):
    one, two = opened(name), opened("null")
    buffer = two.upload(np.zeros(4, np.int32))
    with pytest.raises(runtime.StateError, match="another device"):
        one.adopt(buffer)
    own = one.upload(np.zeros(4, np.int32))
    assert one.adopt(own) is own
    own.free()
    with pytest.raises(runtime.StateError, match="freed"):
        one.adopt(own)


@pytest.mark.parametrize("selector", ["²", "①", "9" * 5000], ids=["square", "circle", "long"])
def test_a_selector_of_digits_that_are_no_number_is_no_device(selector):
    from gristmill.runtime.devices.vulkan import _choose

    used = SimpleNamespace(
        devices=lambda: ["one"],
        properties=lambda device: SimpleNamespace(deviceName=device, deviceType=2),
        api=SimpleNamespace(text=str),
    )
    assert _choose(used, "vulkan:0", "0") == _choose(used, "vulkan:ONE", "ONE") == "one"
    with pytest.raises(runtime.NoDevice, match="0: one"):
        _choose(used, f"vulkan:{selector}", selector)
