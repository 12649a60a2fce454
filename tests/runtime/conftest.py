"""A bundle of small kernels, compiled once, and every device that can run it.

GRISTMILL_TEST_DEVICE names one more device, such as a GPU of this machine; GRISTMILL_TEST_BUNDLE is
a bundle made elsewhere by `PYTHONPATH=tests python tests/runtime/conftest.py FOLDER`, for machines
without compiler.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill import runtime
from gristmill.runtime.devices.cpu.level import targets as cpu_targets
from gristmill.store.bundle import Entry, Place, write_bundle
from modules import load_module
from need import driver_file, missing

HERE = Path(__file__).parent
SAMPLES = {
    "saxpy": {"f32": {"T": "f32"}, "f16": {"T": "f16"}, "f64": {"T": "f64"}, "i8": {"T": "i8"}},
    "add_slot": {"i32": {}},
    "checked_root": {"f32": {}},
    "shift": {"i32": {}},
    "group_ids": {"i32": {}},
    "heavy": {"f32": {}},
    "scalars": {"i64": {}},
    "nested": {"u32": {}},
    "tall": {"i32": {}},
    "requantize": {"e4m3": {"S": "f8e5m2", "T": "f8e4m3"}, "e5m2": {"S": "f8e4m3", "T": "f8e5m2"}},
}
# Fixture name -> spec; a Vulkan device is opened with both software drivers listed.
DEVICES = {
    "cpu": "cpu",
    "interp": "interp",
    "null": "null",
    "lavapipe": "vulkan:llvmpipe",
    "swiftshader": "vulkan:SwiftShader",
    "staged": "vulkan:llvmpipe",  # treated as a discrete GPU: no buffer is mapped
}
if "GRISTMILL_TEST_DEVICE" in os.environ:
    DEVICES["hardware"] = os.environ["GRISTMILL_TEST_DEVICE"]
COMPUTING = [name for name in DEVICES if name != "null"]
DRIVERS = ["lavapipe", "swiftshader"]
VULKAN = [*DRIVERS, "staged"]
if DEVICES.get("hardware", "").startswith("vulkan"):
    VULKAN.append("hardware")


def compile_bundle(folder: Path, targets: tuple[str, ...]) -> Path:
    """Compile every sample for every target and write the bundle; its folder."""
    from gristmill.backends.compile import Options, compile_kernel
    from gristmill.backends.cpu.replay import replay_artifact
    from gristmill.ir.text import line_locs, print_kernel

    samples = load_module(HERE / "sample_kernels.py", "sample_kernels")
    entries = []
    for name, specializations in SAMPLES.items():
        for specialization, constexprs in specializations.items():
            kernel = getattr(samples, name).trace(specialization, **constexprs)
            text = print_kernel(kernel)
            asserts = [
                Place(loc.file, loc.line, loc.column)
                for number, loc in sorted(line_locs(kernel).items())
                if text.splitlines()[number - 1].strip().startswith("assert")
            ]
            for target in targets:
                blob, manifest = compile_kernel(text, target, Options())
                path = f"{target.replace(':', '.')}/{name}/{specialization}.bin"  # as in a build
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(blob)
                sites = tuple(asserts[: len(manifest.sites)])
                entries.append(Entry(manifest, path, sites))
    for target in targets:
        if target.startswith("cpu-"):
            blob, manifest = replay_artifact(target.removeprefix("cpu-"))
            (folder / target / "replay.so").write_bytes(blob)
            entries.append(Entry(manifest, f"{target}/replay.so"))
    write_bundle(folder, entries)
    return folder


@pytest.fixture(scope="session")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All samples for this machine's cpu, Vulkan 1.1 and the interpreter."""
    if ready := os.environ.get("GRISTMILL_TEST_BUNDLE"):
        return Path(ready)
    baseline = cpu_targets()[-2] if len(cpu_targets()) > 1 else cpu_targets()[0]
    targets = ("interp-kir", "spirv-vulkan1.1", baseline)
    return compile_bundle(tmp_path_factory.mktemp("bundle"), targets)


@pytest.fixture(scope="session")
def bundle(bundle_folder: Path) -> runtime.Bundle:
    return runtime.open_bundle(bundle_folder)


@contextlib.contextmanager
def software_drivers() -> Iterator[pytest.MonkeyPatch]:
    """Both Vulkan software drivers, whatever the machine's own configuration says."""
    files = [str(f) for f in map(driver_file, DRIVERS) if f is not None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VK_DRIVER_FILES", os.pathsep.join(files))
        yield patch


@pytest.fixture
def opened(
    require: Callable[..., None],
) -> Iterator[Callable[..., runtime.Device]]:
    """`opened("lavapipe", ...)`: a device by fixture name, closed after the test."""
    devices: list[runtime.Device] = []

    def open_one(name: str, **options: object) -> runtime.Device:
        if name in VULKAN and name != "hardware":
            require("lavapipe" if name == "staged" else name)
            require("vulkan", missing("vulkan"))
            with software_drivers() as patch:
                if name == "staged":
                    from gristmill.runtime.devices.vulkan.features import PhysicalDevice

                    patch.setattr(PhysicalDevice, "unified", False)
                devices.append(runtime.open_device(DEVICES[name], **options))
        else:
            devices.append(runtime.open_device(DEVICES[name], **options))
        return devices[-1]

    yield open_one
    for device in devices:
        device.close()


@pytest.fixture
def elsewhere(
    opened: Callable[..., runtime.Device],
) -> Callable[[str], tuple[str, dict[str, str]]]:
    """`elsewhere("lavapipe")`: spec and environment for opening the device in another process."""

    def found(name: str) -> tuple[str, dict[str, str]]:
        opened(name).close()
        with software_drivers():
            return DEVICES[name], dict(os.environ)

    return found


@pytest.fixture(params=list(DEVICES))
def device(request: pytest.FixtureRequest, opened: Callable[..., runtime.Device]) -> runtime.Device:
    """Every device."""
    return opened(request.param)


@pytest.fixture(params=COMPUTING)
def computing(
    request: pytest.FixtureRequest, opened: Callable[..., runtime.Device]
) -> runtime.Device:
    """Every device that computes."""
    return opened(request.param)


@pytest.fixture(params=VULKAN)
def vulkan(request: pytest.FixtureRequest, opened: Callable[..., runtime.Device]) -> runtime.Device:
    """Both Vulkan software drivers."""
    return opened(request.param)


@pytest.fixture(autouse=True)
def no_validation_messages() -> Iterator[None]:
    """With GRISTMILL_VULKAN_VALIDATION=1, a message of the validation layer fails the test."""
    yield
    instance = sys.modules.get("gristmill.runtime.devices.vulkan.instance")
    if instance is not None and instance.messages:
        said, instance.messages[:] = list(instance.messages), []
        pytest.fail("validation layer: " + json.dumps(said, indent=1))


if __name__ == "__main__":
    everything = ("interp-kir", "ptx-sm_80", "spirv-vulkan1.1", *cpu_targets())
    print(compile_bundle(Path(sys.argv[1]), everything))
