"""What is particular to Vulkan: choosing, real capabilities, staging, validation, teardown."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import textwrap
from collections import Counter
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir.targets import FEATURES


def test_devices_are_chosen_by_index_and_by_part_of_the_name(opened):
    by_name = opened("swiftshader")
    assert "SwiftShader" in by_name.capabilities.name
    assert "llvmpipe" in opened("lavapipe").capabilities.name  # both at once


def test_unknown_device_lists_what_there_is(elsewhere, monkeypatch):
    _, environment = elsewhere("lavapipe")
    monkeypatch.setenv("VK_DRIVER_FILES", environment["VK_DRIVER_FILES"])
    for spec in ("vulkan:Radeon", "vulkan:99"):
        with pytest.raises(runtime.NoDevice, match=r"an index or a part of a name of 0: .*1: "):
            runtime.open_device(spec)
    found = [d for d in runtime.find_devices() if d.spec.startswith("vulkan:")]
    assert {d.spec for d in found} == {"vulkan:0", "vulkan:1"}
    assert not any(d.missing for d in found)


def test_no_driver_is_no_device(elsewhere, monkeypatch):
    elsewhere("lavapipe")
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    with pytest.raises(runtime.NoDevice):
        runtime.open_device("vulkan")
    missing = [d for d in runtime.find_devices() if d.spec.startswith("vulkan")]
    assert [bool(d.missing) for d in missing] == [True]


def test_capabilities_are_the_drivers_own(opened):
    lavapipe, swift = opened("lavapipe").capabilities, opened("swiftshader").capabilities
    assert lavapipe.features <= set(FEATURES)
    assert {"f16", "f64", "i8", "i64", "storage8", "storage16"} <= lavapipe.features
    assert "float_controls_rte16" in lavapipe.features
    assert not {"f16", "f64", "i8", "i64"} & swift.features
    assert lavapipe.limits.loop_iterations == 65535
    assert swift.limits.loop_iterations is None
    assert swift.subgroup_sizes == (4,)
    assert swift.offset_alignment == 256
    assert lavapipe.facts["robust_buffer_access_2"] == 1
    assert lavapipe.facts["type"] == "cpu"


def test_memory_budget_is_marked_as_estimated_without_the_extension(vulkan):
    physical = vulkan._logical.physical
    estimated = "VK_EXT_memory_budget" not in physical.extensions
    assert vulkan.memory().estimated is estimated


def test_staging_carries_more_than_both_halves(opened, rng):
    device = opened("staged")
    assert device._memory.local.visible is False
    array = rng.integers(0, 255, (40 << 20) + 13, np.uint8)
    buffer = device.upload(array)
    assert np.array_equal(buffer.numpy(), array)
    part = buffer.view(17 << 20, 9 << 20)
    part.write(array[: 9 << 20])
    array[17 << 20 : 26 << 20] = array[: 9 << 20].copy()
    assert np.array_equal(buffer.numpy(), array)


def test_blocks_are_used_again(opened):
    device = opened("lavapipe")
    heap = device._memory.local
    for size in (1000, 40 << 20):
        device.allocate(size, "u8").free()
        device.memory()
        blocks = len(heap._blocks) + len(heap._kept)
        for _ in range(20):
            device.allocate(size, "u8").free()
            device.memory()
        assert len(heap._blocks) + len(heap._kept) == blocks


def test_wrong_module_is_refused_before_the_driver(vulkan, bundle, monkeypatch):
    monkeypatch.setattr(runtime.Artifact, "read", lambda self: b"not SPIR-V!!")
    with pytest.raises(runtime.ArtifactCorrupt, match="not a SPIR-V module"):
        vulkan.load(bundle, "shift")


class Spy:
    """The driver's functions, and the names and arguments of those that were called."""

    def __init__(self, real: Any) -> None:
        self.real, self.calls = real, []

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.real, name)
        if not callable(function):
            return function

        def call(*args: Any) -> Any:
            self.calls.append((name, args))
            return function(*args)

        return call


def test_full_subgroups_are_demanded_of_a_workgroup_laid_out_in_a_row(opened, bundle, monkeypatch):
    """The kernel's workgroup is 4 wide, its module's is 64: whole subgroups of 8."""
    device = opened("lavapipe")
    monkeypatch.setattr(device.api, "vk", Spy(device.api.vk))
    tall, y = device.load(bundle, "tall"), np.zeros(64, np.int32)
    (made,) = [a for name, a in device.api.vk.calls if name == "vkCreateComputePipelines"]
    assert made[3].stage.flags == 2
    tall(y)
    assert set(y) == {2 * (0 + 1 + 2 + 3)}


class Failing(Spy):
    """The driver's functions, of which the n-th call that makes or submits something fails."""

    MAKES = (
        "vkCreate",
        "vkAllocateMemory",
        "vkAllocateCommand",
        "vkMap",
        "vkBind",
        "vkQueueSubmit",
    )

    def __init__(self, real: Any, at: int) -> None:
        super().__init__(real)
        self.left, self.failed, self.living = at, "", Counter()

    def __getattr__(self, name: str) -> Any:
        function = super().__getattr__(name)
        if not name.startswith(("vkDestroy", "vkFreeMemory", *self.MAKES)):
            return function

        def call(*args: Any) -> Any:
            if name.startswith(self.MAKES):
                self.left -= 1
                if self.left == 0:
                    self.failed = name
                    return -3
            result = function(*args)
            if name.startswith(("vkCreate", "vkAllocateMemory")) and name != "vkCreateInstance":
                self.living[name.removeprefix("vkCreate").replace("Pipelines", "Pipeline")] += 1
            if name.startswith(("vkDestroy", "vkFreeMemory")):
                kind = name.removeprefix("vkDestroy").replace("vkFree", "vkAllocate")
                self.living["ComputePipeline" if kind == "Pipeline" else kind] -= 1
            return result

        return call


@pytest.mark.parametrize("name", ["lavapipe", "staged"])
def test_a_device_that_fails_to_open_halfway_leaves_nothing(opened, monkeypatch, name):
    api, failed = opened(name).api, set()
    for at in itertools.count(1):
        driver = Failing(api.vk, at)
        with monkeypatch.context() as patch:
            patch.setattr(api, "vk", driver)
            try:
                device = opened(name)
            except runtime.GristmillError:
                assert not any(driver.living.values()), (driver.failed, driver.living)
                failed.add(driver.failed)
                continue
            assert not driver.failed
            device.close()
            assert not any(driver.living.values())
        break
    assert {"vkCreateDevice", "vkCreateFence", "vkMapMemory", "vkBindBufferMemory"} <= failed


def test_a_recording_that_fails_halfway_leaves_nothing(opened, bundle, monkeypatch):
    device = opened("lavapipe")
    kernel, y = device.load(bundle, "shift"), device.upload(np.zeros(9, np.int32))
    failed = set()
    for at in itertools.count(1):
        driver = Failing(device.api.vk, at)
        with monkeypatch.context() as patch:
            patch.setattr(device.api, "vk", driver)
            try:
                with device.record(timed=True) as recording:
                    recording.launch(kernel, y, y)
            except runtime.DriverError:
                assert not any(driver.living.values()), (driver.failed, driver.living)
                failed.add(driver.failed)
                continue
            recording.close()
            device.memory()
            assert not any(driver.living.values())
        break
    assert {"vkCreateQueryPool", "vkAllocateCommandBuffers", "vkBindBufferMemory"} <= failed


@pytest.mark.parametrize("recorded", [True, False])
def test_faults_are_copied_to_the_host_after_the_launch_that_sets_them(
    opened, bundle, monkeypatch, recorded
):
    """Software drivers run commands one by one and never show a missing barrier."""
    device = opened("staged")
    kernel = device.load(bundle, "checked_root")
    x, y = device.upload(np.ones(10, np.float32)), device.allocate(10, "f32")
    monkeypatch.setattr(device.api, "vk", Spy(device.api.vk))
    if recorded:
        with device.record() as recording:
            recording.launch(kernel, x, y)
        recording.replay()
    else:
        device.launch(kernel, x, y)
    names = [name for name, _ in device.api.vk.calls]
    launch = names.index("vkCmdDispatch")
    copy = names.index("vkCmdCopyBuffer", launch)
    (barrier,) = [
        args for name, args in device.api.vk.calls[launch:copy] if name.endswith("Barrier")
    ]
    _, before, after, _, _, memory, *_ = barrier
    compute, transfer, shader_write, transfer_read = 0x800, 0x1000, 0x40, 0x800
    assert (before & compute, after & transfer) == (compute, transfer)
    assert memory[0].srcAccessMask & shader_write
    assert memory[0].dstAccessMask & transfer_read
    monkeypatch.undo()
    device.synchronize()


VALIDATED = """
    import json, sys
    import numpy as np
    from gristmill import runtime
    from gristmill.runtime.devices.vulkan import instance
    from gristmill.runtime.devices.vulkan.features import PhysicalDevice

    bundle = runtime.open_bundle(sys.argv[1])
    if sys.argv[3] == "staged":
        PhysicalDevice.unified = False
    with runtime.open_device(sys.argv[2]) as device:
        kernels = {n: device.load(bundle, n) for n in ("shift", "add_slot", "checked_root")}
        y = device.upload(np.zeros(100000, np.int32))
        device.launch(kernels["shift"], y, y)
        slot = device.slot("i32", 5)
        f, g = device.upload(np.ones(10, np.float32)), device.allocate(10, "f32")
        with device.record(timed=True) as recording:
            recording.launch(kernels["shift"], y, y)
            recording.launch(kernels["add_slot"], y, slot)
            recording.launch(kernels["checked_root"], f, g)
        for n in range(100):
            slot.set(n)
            recording.replay()
        y.numpy(), recording.timestamps()
        f.write(np.full(10, -1, np.float32))
        recording.replay()
        try:
            device.synchronize()
        except runtime.KernelFault:
            pass
        recording.close()
        kernels["shift"](np.zeros(9, np.int32), np.zeros(9, np.int32))
        if sys.argv[3] == "wrong":
            device.api.vk.vkCmdDispatch(device._queue._ring[3].commands, 1, 1, 1)
    print(json.dumps(instance.messages))
"""


@pytest.mark.parametrize("name", ["lavapipe", "swiftshader", "staged"])
def test_validation_layer_has_nothing_to_say(bundle_folder, elsewhere, require, name):
    messages = _validated(bundle_folder, elsewhere, require, name, name)
    assert messages == []


def test_validation_messages_are_collected(bundle_folder, elsewhere, require):
    """The test above is worth something: a wrong call is reported."""
    messages = _validated(bundle_folder, elsewhere, require, "lavapipe", "wrong")
    assert any("vkCmdDispatch" in m for m in messages)


def _validated(folder, elsewhere, require, name: str, mode: str) -> list[str]:
    spec, environment = elsewhere(name)
    program = [sys.executable, "-c", textwrap.dedent(VALIDATED), str(folder), spec, mode]
    environment["GRISTMILL_VULKAN_VALIDATION"] = "1"
    # Also copies that no barrier orders.
    environment["VK_LAYER_ENABLES"] = "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=200)
    if "VK_LAYER_KHRONOS_validation" in done.stderr and "NoDevice" in done.stderr:
        require("validation", "the validation layer is not installed")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_kinds_of_matrices_are_features_where_all_of_them_are_there():
    """Codes of VkComponentTypeKHR, as an H200 lists them."""
    from gristmill.ir.targets import FEATURES
    from gristmill.runtime.devices.vulkan.features import matrix_features

    f16, f32, bf16, i8, i32, u8, u32 = 0, 1, 1000141000, 3, 5, 7, 9
    listed = {(16, (f16, f16, f16, f16)), (16, (f16, f16, f32, f32)), (16, (bf16, bf16, f32, f32))}
    listed |= {(32, (i8, i8, i32, i32)), (32, (u8, u8, u32, u32))}
    names = {"cooperative_matrix", "cooperative_matrix_bf16", "cooperative_matrix_i8"}
    assert matrix_features(listed) == names
    assert names <= FEATURES.keys()
    assert matrix_features(listed - {(16, (f16, f16, f16, f16))}) == names - {"cooperative_matrix"}
    assert matrix_features({(16, (i8, i8, i32, i32))}) == set()
    one = {(32, (i8, i8, i32, i32))}
    assert matrix_features(one) == set()
