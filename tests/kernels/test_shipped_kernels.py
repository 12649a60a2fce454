"""Every kernel that ships, as built by the shipped configuration, on every device of this machine.

The interpreter tells races and accesses out of bounds as well; so do the checks of a build with
checks=on.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gristmill import runtime
from gristmill.cli.check import check_one
from gristmill.kernels import families
from gristmill.runtime.devices.cpu.level import targets as host_targets
from need import driver_file
from nv_kernels import FOR_NVIDIA

ROOT = Path(__file__).parents[2]
SEED = 20_240_229
DEVICES = {
    "interp": "interp",
    "cpu": "cpu",
    "lavapipe": "vulkan:llvmpipe",
    "swiftshader": "vulkan:SwiftShader",
}
# The interpreter checks on its own: a build with checks gives it the same bytes.
EVERYWHERE = pytest.mark.parametrize(
    ("device", "built"),
    [(name, on) for name in DEVICES for on in ("off", "on") if (name, on) != ("interp", "on")],
    indirect=True,
)


@pytest.fixture(scope="session")
def build(
    store_of_builds: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], runtime.Bundle]:
    """`build("on")`: the bundle of the shipped configuration with checks, made once: for the
    devices here, as nothing else of it is looked at."""

    @functools.cache
    def made(checks: str) -> runtime.Bundle:
        out = tmp_path_factory.mktemp(f"checks-{checks}")
        command = [sys.executable, "-m", "SCons", "-Q", f"checks={checks}", f"out={out}"]
        if checks == "on":
            command.append(f"target=spirv-vulkan1.1,{host_targets()[0]}")
        environment = {**os.environ, "GRISTMILL_STORE": str(store_of_builds)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return runtime.open_bundle(out)

    return made


@pytest.fixture
def built(request: pytest.FixtureRequest, build: Callable[[str], runtime.Bundle]) -> runtime.Bundle:
    """The bundle with checks or without."""
    return build(request.param)


@pytest.fixture
def device(
    request: pytest.FixtureRequest, require: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[runtime.Device]:
    """Every device that computes."""
    name = request.param
    require(name)
    if (file := driver_file(name) if DEVICES[name].startswith("vulkan") else None) is not None:
        require("vulkan")
        monkeypatch.setenv("VK_DRIVER_FILES", str(file))
    with runtime.open_device(DEVICES[name]) as opened:
        yield opened


@EVERYWHERE
def test_every_specialization_agrees_with_its_reference(
    built: runtime.Bundle, device: runtime.Device
) -> None:
    found = [
        check_one(device, built, kernel, specialization, SEED)
        for kernel, specializations in built.kernels().items()
        if kernel in families()
        for specialization in specializations
    ]
    assert {result.kernel for result in found} == set(families()) - FOR_NVIDIA
    allowed = {"ok", "refused"} if "SwiftShader" in device.name else {"ok"}
    assert [result for result in found if result.status not in allowed] == []
    assert sum(result.status == "ok" for result in found) > len(found) // 3


@EVERYWHERE
@pytest.mark.parametrize("row", [-1, 3, 2**31 - 1, -(2**31)])
def test_a_row_outside_the_table_is_a_fault(
    built: runtime.Bundle, device: runtime.Device, row: int
) -> None:
    """And nothing of what lies beside the table is read."""
    table, y = np.ones((3, 5), np.float32), np.full((4, 5), 7, np.float32)
    gather = device.load(built, "gather", "f32")
    with pytest.raises(runtime.KernelFault, match="row number outside the table") as fault:
        gather(table, np.array([2, row, 0, 1], np.int32), y, 5)
    assert fault.value.loc is not None
    assert fault.value.loc.file == "kernels/gather.py"
    if device.capabilities.unified_memory and not device.name.startswith("vulkan"):
        assert y.sum(-1).tolist() == [5, 0, 5, 5]
