"""What is particular to wgpu: choosing, typed errors where its library would end the process."""

from __future__ import annotations

import json

import pytest

from left_open import LEFT_OPEN
from wgpu_processes import DRIVERS as BOTH
from wgpu_processes import HEAD, Runner


def test_adapters_are_chosen_by_index_kind_name_and_backend(run: Runner, require) -> None:
    for name in ("wgpu", *BOTH):
        require(name)
    program = """
        names = {}
        for spec in sys.argv[2:]:
            with runtime.open_device(spec) as device:
                names[spec] = device.capabilities.name
        assert "SwiftShader" in names["wgpu:swiftshader"]
        assert "llvmpipe" in names["wgpu:LLVMpipe"]
        assert names["wgpu"] == names["wgpu:0"] == names["wgpu:cpu"] == names["wgpu:vulkan"]
        assert names["wgpu:0"] != names["wgpu:1"]
        for spec in ("wgpu:Radeon", "wgpu:2", "wgpu:discrete", "wgpu:metal"):
            opening = lambda: runtime.open_device(spec)
            error = expect(runtime.NoDevice, "an index, a kind or a part", opening)
            assert "0: " in str(error) and "1: " in str(error)
        found = [d for d in runtime.find_devices() if d.spec.startswith("wgpu")]
        assert [d.spec for d in found] == ["wgpu:0", "wgpu:1"] and not any(d.missing for d in found)
        assert all("(vulkan, cpu)" in d.description for d in found)
        """
    specs = ("wgpu", "wgpu:0", "wgpu:1", "wgpu:cpu", "wgpu:vulkan", "wgpu:swiftshader")
    run(program, *BOTH, args=(*specs, "wgpu:LLVMpipe"), head=HEAD)


@pytest.mark.parametrize("way", ["no driver", "no package", "another version"])
def test_what_is_missing_is_told_and_no_other_device_opened(run: Runner, require, way: str) -> None:
    require("wgpu")
    program = f"""
        import os
        way = {way!r}
        os.environ["VK_DRIVER_FILES"] = "/nonexistent.json"
        words = "wgpu finds no adapter"
        if way == "no package":
            sys.modules["wgpu"], words = None, "the wgpu package is not installed; pip install"
        elif way == "another version":
            from gristmill.runtime.devices.wgpu import api
            api.VERSION, words = 30, "another version of wgpu-native; expected 30"
        expect(runtime.NoDevice, words, lambda: runtime.open_device("wgpu"))
        (found,) = [d for d in runtime.find_devices() if d.spec == "wgpu"]
        assert words in found.missing
        """
    run(program, "lavapipe", head=HEAD)


def test_capabilities_are_the_adapters_own(run: Runner, require) -> None:
    for name in ("wgpu", *BOTH):
        require(name)
    program = """
        import dataclasses, json
        found = {}
        for name in ("llvmpipe", "swiftshader"):
            with runtime.open_device("wgpu:" + name) as device:
                found[name] = dataclasses.asdict(device.capabilities)
                found[name]["features"] = sorted(found[name]["features"])
        print(json.dumps(found))
        """
    from gristmill.ir.targets import FEATURES

    found = json.loads(run(program, *BOTH, head=HEAD))
    lavapipe, swift = found["llvmpipe"], found["swiftshader"]
    assert set(lavapipe["features"]) <= set(FEATURES)
    wide = {"f16", "f64", "i64", "atomic_i64", "atomic_f32_add"}
    assert wide <= set(lavapipe["features"])
    assert not wide & set(swift["features"])
    assert "subgroup_shuffle" in swift["features"]
    assert (lavapipe["subgroup_sizes"], swift["subgroup_sizes"]) == ([8], [4])
    assert lavapipe["limits"]["loop_iterations"] == 65535
    assert lavapipe["limits"]["workgroup_invocations"] == 1024  # raised over WebGPU's 256
    assert swift["limits"]["loop_iterations"] is None
    assert swift["offset_alignment"] == 256
    assert not lavapipe["shared_arena"]
    assert lavapipe["facts"] == {"type": "cpu", "backend": "vulkan"}


def test_a_size_that_kernels_choose_themselves_is_none(run: Runner, require) -> None:
    """Vendors whose compilers choose it for each kernel: what needs one is refused."""
    require("wgpu")
    program = """
        from gristmill.runtime.devices.wgpu import adapters
        adapters._ONE_SIZE = set()
        device = runtime.open_device("wgpu")
        assert device.capabilities.subgroup_sizes == ()
        assert not any(f.startswith("subgroup") for f in device.capabilities.features)
        expect(runtime.Refused, "lacks feature subgroup", lambda: device.load(bundle, "tall"))
        device.close()
        """
    run(program, "lavapipe", head=HEAD)


def test_code_that_does_not_compile_is_told_with_kernel_and_line(run: Runner, driver: str) -> None:
    program = """
        artifact = bundle.select("shift", "i32", device.capabilities)
        good = artifact.read()
        def load(blob):
            runtime.Artifact.read = lambda self: blob
            return device.load(bundle, "shift")
        lines = good.decode().splitlines()
        number = next(n for n, line in enumerate(lines) if "let " in line)
        lines[number] += " let oops = nothing;"
        wrong = "\\n".join(lines).encode()
        place = f"kernel shift, line {number + 1}: "
        error = expect(runtime.CompileFailed, place, lambda: load(wrong))
        assert (error.kernel, error.line) == ("shift", number + 1)
        assert "nothing" in str(error) and str(artifact.file) in str(error)
        wrong = good.replace(b"fn main(", b"fn other(")
        error = expect(runtime.CompileFailed, "kernel shift: ", lambda: load(wrong))
        assert error.line is None
        large = good.replace(b"@workgroup_size(64", b"@workgroup_size(100000")
        expect(runtime.CompileFailed, "kernel shift", lambda: load(large))
        for blob in (b"\\xff\\xfe", b"", good.replace(b"@binding(1)", b"@binding(7)")):
            expect(runtime.ArtifactCorrupt, "", lambda: load(blob))
        y = np.zeros(3, np.int32)
        load(good)(np.arange(3, dtype=np.int32), y)  # the device is none the worse
        assert y.tolist() == [1, 2, 3]
        device.close()
        """
    run(program, driver)


def test_an_adapter_that_vanishes_is_a_lost_device(run: Runner, driver: str) -> None:
    """Whichever call is the first to meet it; the process lives, and so do other devices."""
    program = """
        def vanish(first):
            device = runtime.open_device("wgpu")
            kernel = device.load(bundle, "saxpy", "f32")
            x, y = device.upload(np.ones(9, np.float32)), device.upload(np.ones(9, np.float32))
            with device.record() as recording:
                recording.launch(kernel, x, y, 1.0)
            device.launch(kernel, x, y, 1.0)
            device._logical.lib.wgpuDeviceDestroy(device._logical.handle)
            work = {
                "launch": lambda: device.launch(kernel, x, y, 1.0),
                "replay": recording.replay,
                "write": lambda: y.write(np.ones(9, np.float32)),
                "allocate": lambda: device.allocate(4, "f32"),
                "load": lambda: device.load(bundle, "shift"),
                "read": y.numpy,
            }
            expect(runtime.DeviceLost, "was lost", work[first])
            for call in work.values():
                expect(runtime.DeviceLost, "poisoned", call)
            device.close()

        for first in ("launch", "replay", "write", "allocate", "load", "read"):
            vanish(first)
        a = np.ones(9, np.float32)
        device.load(bundle, "saxpy", "f32")(a, a.copy(), 1.0)
        device.close()
        """
    run(program, driver)


def test_a_wrong_command_is_a_failed_submission(run: Runner, driver: str) -> None:
    """The library would end the process when such a command buffer is submitted."""
    program = """
        kernel, y, z = device.load(bundle, "group_ids"), *(device.allocate(4, "i32") for _ in "yz")
        device._encoder._grid = (1 << 20,) * 3  # more than the adapter takes: not folded
        launch = lambda: device.launch(kernel, y, z, grid=(70000,))
        expect(runtime.SubmissionFailed, "a validation error", launch)
        expect(runtime.SubmissionFailed, "poisoned", device.synchronize)
        device.close()
        """
    run(program, driver)


def test_a_grid_too_deep_for_what_the_code_relies_on_is_refused(run: Runner, driver: str) -> None:
    program = """
        from gristmill.runtime.launch import Command

        command = Command(device.load(bundle, "group_ids"), (), (), (1, 1, 1 << 31))
        expect(runtime.LimitExceeded, "in z", lambda: device._encoder._fold(command))
        device.close()
        """
    run(program, driver)


def test_an_error_of_a_call_is_told_and_does_no_harm(run: Runner, driver: str) -> None:
    program = """
        logical, y = device._logical, device.upload(np.ones(9, np.float32))
        put = lambda: device._transfers.put(y.allocation.handle, 1 << 40, b"1234", 4)
        error = expect(runtime.DriverError, "wgpuQueueWriteBuffer failed with a validation", put)
        assert "\\n" not in str(error)
        assert y.numpy().sum() == 9
        device.close()
        """
    run(program, driver)


def test_a_wait_that_outlasts_its_bound_poisons(run: Runner, driver: str) -> None:
    program = """
        import time
        y = device.upload(np.zeros(4, np.float32))
        device.launch(device.load(bundle, "heavy"), y, 60000, grid=(3000,))
        begin = time.perf_counter()
        wait = lambda: device.synchronize(timeout=0.02)
        expect(runtime.DeviceTimeout, "outlasted the bound", wait)
        assert time.perf_counter() - begin < 10
        for call in (device.synchronize, y.numpy, device.memory):
            expect(runtime.DeviceTimeout, "poisoned", call)
        device.close()
        assert time.perf_counter() - begin < 10
        """
    run(program, driver)


def test_a_process_ends_well_with_everything_left_open(run: Runner, driver: str) -> None:
    assert run(LEFT_OPEN, driver) == "2.0\n"


def test_a_fork_of_a_process_that_uses_wgpu_is_told(run: Runner, driver: str) -> None:
    program = """
        import os, signal
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            words = "wgpu was in use when this process was forked"
            for spec in ("wgpu", "vulkan"):
                expect(runtime.NoDevice, words, lambda: runtime.open_device(spec))
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        device.close()
        """
    run(program, driver)


def test_closing_gives_everything_back(run: Runner, driver: str) -> None:
    program = """
        def kept():
            api = device._instance.api
            report = api.ffi.new("WGPUGlobalReport *")
            api.lib.wgpuGenerateReport(device._instance.handle, report)
            counts = {n: getattr(report.hub, n).numKeptFromUser for n in dir(report.hub)}
            return {name: count for name, count in counts.items() if count}
        kernel, checked = device.load(bundle, "saxpy", "f32"), device.load(bundle, "checked_root")
        x, y = (device.upload(np.ones(1000, np.float32)) for _ in "xy")
        with device.record(timed=True) as recording:
            recording.launch(kernel, x, y, 1.0)
            recording.launch(checked, x, y)
        recording.replay()
        device.launch(kernel, x, y, 1.0)
        checked(np.ones(3, np.float32), np.ones(3, np.float32))
        y.numpy()
        assert {"buffers", "devices", "computePipelines", "bindGroups"} <= set(kept())
        before = kept()
        with device.record() as second:
            second.launch(kernel, x, y, 1.0)
        second.close()
        assert kept() == before, (kept(), before)
        device.close()
        assert not kept(), kept()
        """
    run(program, driver)
