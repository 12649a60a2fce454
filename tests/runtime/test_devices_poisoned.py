"""A bounded wait, a lost device, a failed submission: typed, at once, and the process lives."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest

from gristmill import runtime


def assert_poisoned(device: runtime.Device, kind: type[runtime.Poisoned]) -> None:
    """Every call fails at once with the same type, also closing's own wait is skipped."""
    begin = time.perf_counter()
    for call in (
        device.synchronize,
        device.memory,
        lambda: device.allocate(1, "u8"),
        lambda: device.upload(np.zeros(3)),
        lambda: device.record().__exit__(None, None, None),
    ):
        with pytest.raises(kind, match="poisoned"):
            call()
    device.close()
    assert time.perf_counter() - begin < 10  # a wait would take minutes


def heavy_launch(device: runtime.Device, bundle: runtime.Bundle) -> None:
    y = device.upload(np.zeros(4, np.float32))
    device.launch(device.load(bundle, "heavy"), y, 60000, grid=(3000,))


PROGRAM = """
    import sys, time
    import numpy as np
    from gristmill import runtime

    bundle = runtime.open_bundle(sys.argv[1])
    device = runtime.open_device(sys.argv[2])
    y = device.upload(np.zeros(4, np.float32))
    device.launch(device.load(bundle, "heavy"), y, 60000, grid=(3000,))
    for _ in range(2):
        try:
            device.synchronize(timeout=0.02)
        except runtime.DeviceTimeout as error:
            print(type(error).__name__, flush=True)
    try:
        y.numpy()
    except runtime.DeviceTimeout as error:
        print("still", type(error).__name__, flush=True)
    device.close()
    with runtime.open_device("null") as other:
        print("alive", other.name, flush=True)
"""


@pytest.mark.parametrize("name", ["cpu", "interp", "lavapipe", "swiftshader"])
def test_timeout_poisons_and_the_process_ends_well(bundle_folder, elsewhere, name):
    """In a process of its own: what is leaked would slow down every later test."""
    spec, environment = elsewhere(name)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(bundle_folder), spec],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.split() == [
        *("DeviceTimeout", "DeviceTimeout"),
        *("still", "DeviceTimeout", "alive", "null"),
    ], done.stderr
    assert done.returncode == 0, done.stderr


class Failing:
    """A library whose function `name` returns a status instead of being called."""

    def __init__(self, real: Any, name: str, status: int) -> None:
        self._real, self._name, self._status = real, name, status

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            return lambda *args: self._status
        return getattr(self._real, name)


@pytest.mark.parametrize(
    ("call", "status", "kind"),
    [
        ("vkQueueSubmit", -4, runtime.DeviceLost),
        ("vkWaitForFences", -4, runtime.DeviceLost),
        ("vkWaitForFences", 2, runtime.DeviceTimeout),
        ("vkQueueSubmit", -2, runtime.SubmissionFailed),
    ],
)
def test_injected_vulkan_failures_poison(vulkan, bundle, call, status, kind):
    kernel = vulkan.load(bundle, "shift")
    y = vulkan.upload(np.zeros(4, np.int32))
    real = vulkan.api.vk
    vulkan.api.vk = Failing(real, call, status)
    vulkan._queue._spins = False

    def work() -> None:
        vulkan.launch(kernel, y, y)
        vulkan.synchronize(timeout=0.3)

    with pytest.raises(kind):
        work()
    assert_poisoned(vulkan, kind)
    vulkan.api.vk = real


def test_driver_out_of_memory_is_typed_and_harmless(vulkan):
    real = vulkan.api.vk
    vulkan.api.vk = Failing(real, "vkAllocateMemory", -2)
    with pytest.raises(runtime.OutOfMemory):
        vulkan.allocate(200 << 20, "u8")
    vulkan.api.vk = real
    assert vulkan.allocate(4, "u8").numpy().shape == (4,)


def test_pipeline_that_fails_leaves_nothing_behind(vulkan, bundle, monkeypatch):
    destroyed: list[str] = []
    destroy = vulkan._logical.destroy

    def counted(call: str, handle: Any) -> None:
        destroyed.append(call)
        destroy(call, handle)

    monkeypatch.setattr(vulkan._logical, "destroy", counted)
    real = vulkan.api.vk
    vulkan.api.vk = Failing(real, "vkCreateComputePipelines", -13)
    with pytest.raises(runtime.DriverError, match=r"kernel shift: .*VK_ERROR_UNKNOWN"):
        vulkan.load(bundle, "shift")
    vulkan.api.vk = real
    assert sorted(destroyed) == [
        "vkDestroyDescriptorSetLayout",
        "vkDestroyDescriptorUpdateTemplate",
        "vkDestroyPipelineLayout",
        "vkDestroyShaderModule",
    ]
    vulkan.load(bundle, "shift")


@pytest.mark.parametrize("hook", ["submit", "replay", "wait"])
def test_injected_failures_of_the_null_device(opened, bundle, hook):
    device = opened("null")
    kernel = device.load(bundle, "shift")
    y = device.upload(np.zeros(4, np.int32))
    with device.record() as recording:
        recording.launch(kernel, y, y)
    device.inject(hook, runtime.DeviceLost("injected"))

    def work() -> None:
        device.launch(kernel, y, y)
        recording.replay()
        device.synchronize()

    with pytest.raises(runtime.DeviceLost, match="injected"):
        work()
    assert_poisoned(device, runtime.DeviceLost)
    recording.close()
    y.free()


def test_error_that_does_not_poison_leaves_the_device_usable(opened, bundle):
    device = opened("null")
    device.inject("load", runtime.DriverError("vkCreateShaderModule", -13, "VK_ERROR_UNKNOWN"))
    with pytest.raises(runtime.DriverError):
        device.load(bundle, "shift")
    device.load(bundle, "shift")
    device.inject("allocate", runtime.OutOfMemory(16, 0))
    with pytest.raises(runtime.OutOfMemory):
        device.allocate(1, "u8")
    assert device.memory().live == 0


def test_failing_worker_is_a_failed_submission(opened, bundle):
    device = opened("cpu")
    kernel = device.load(bundle, "shift")
    y = device.upload(np.zeros(4, np.int32))
    kernel.code.function = None
    device.launch(kernel, y, y)
    with pytest.raises(runtime.SubmissionFailed, match="a worker failed: TypeError"):
        device.synchronize()
    assert_poisoned(device, runtime.SubmissionFailed)


def test_closing_that_is_interrupted_leaves_the_driver_alone(opened, bundle, monkeypatch):
    """Work may go on: what it uses is not taken away from it."""
    device = opened("null")
    closed: list[bool] = []
    monkeypatch.setattr(device, "_close", lambda: closed.append(True))
    device.inject("wait", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        device.close()
    assert not closed
    with pytest.raises(runtime.SubmissionFailed, match="closing was interrupted"):
        device.synchronize()


def test_launches_are_not_added_on_a_dead_device(opened, bundle):
    device = opened("null")
    kernel = device.load(bundle, "shift")
    y = device.upload(np.zeros(4, np.int32))
    recording = device.record()
    recording.__enter__()
    device.close()
    with pytest.raises(runtime.StateError, match="closed"):
        recording.launch(kernel, y, y)
