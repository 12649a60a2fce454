"""Every kernel that ships, by way of LLVM: valid or refused, and where valid, right.

The share that LLVM takes stands at the end of a test run.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import runtime
from gristmill.cli.check import check_one
from gristmill.kernels import families
from need import driver_file

ROOT = Path(__file__).parents[2]
SEED = 20_240_229
# Of the artifacts, those that must be valid modules. What is refused: cooperative matrices.
VALID = 0.95
DEVICES = {"lavapipe": "vulkan:llvmpipe", "swiftshader": "vulkan:SwiftShader"}
# (kernel, specialization) -> the error of LLVM that makes it compute wrongly. There is none.
WRONG: dict[tuple[str, str], str] = {}


def build(out: Path, store: Path) -> subprocess.CompletedProcess[str]:
    """`scons -k` of all kernels by way of LLVM."""
    command = [sys.executable, "-m", "SCons", "-Q", "-k", "target=spirv", "spirv_codegen=llc"]
    environment = {**os.environ, "GRISTMILL_STORE": str(store)}
    return subprocess.run(
        [*command, f"out={out}"], cwd=ROOT, env=environment, capture_output=True, text=True
    )


@pytest.fixture(scope="session")
def built(store_of_builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the artifacts are; made once, also where tests run in several processes."""
    own = tmp_path_factory.getbasetemp()
    # Beside the folders of the processes of this run; without such, what is beside is of others.
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    out = folder / "shipped-kernels-by-llc"
    with open(folder / "shipped-kernels-by-llc.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "bundle.json").exists():
            done = build(out, store_of_builds)
            assert (out / "bundle.json").exists(), done.stdout[-2000:] + done.stderr[-2000:]
    return out


def refused(out: Path) -> dict[str, str]:
    """Why there is no module, by the names of artifacts."""
    found = {}
    for path in sorted(out.glob("spirv-*/*/*.spv")):
        if not path.stat().st_size:
            name = f"{path.parent.name}/{path.stem}"
            found[name] = json.loads(path.with_suffix(".json").read_bytes())["refused"]
    return found


def test_nearly_every_kernel_is_a_valid_module(
    require: Callable[..., None], request: pytest.FixtureRequest, record_property: Callable
) -> None:
    require("llc")
    out = request.getfixturevalue("built")
    count, lacking = len(list(out.glob("spirv-*/*/*.spv"))), refused(out)
    valid = count - len(lacking)
    record_property(
        "summary", f"llc SPIR-V: {valid} of {count} modules valid, {len(lacking)} refused"
    )
    assert count > 100
    assert valid / count >= VALID, "\n".join(f"{k}: {v}" for k, v in lacking.items())
    assert all("no module by way of LLVM (llc): " in why for why in lacking.values()), lacking


@pytest.mark.parametrize("name", DEVICES)
def test_valid_modules_agree_with_their_references(
    name: str,
    require: Callable[..., None],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable,
) -> None:
    for thing in ("llc", "vulkan", name):
        require(thing)
    bundle = runtime.open_bundle(request.getfixturevalue("built"))
    monkeypatch.setenv("VK_DRIVER_FILES", str(driver_file(name)))
    with runtime.open_device(DEVICES[name]) as device:
        found = [
            check_one(device, bundle, kernel, specialization, SEED)
            for kernel, specializations in bundle.kernels().items()
            if kernel in families()
            for specialization in specializations
            if (kernel, specialization) not in WRONG
        ]
    right = sum(result.status == "ok" for result in found)
    lacking = sum(result.status == "refused" for result in found)
    record_property(
        "summary",
        f"llc SPIR-V on {name}: {right} of {len(found)} specializations agree, the device lacks "
        f"a feature for {lacking}",
    )
    allowed = {"ok", "refused"} if name == "swiftshader" else {"ok"}
    assert [result for result in found if result.status not in allowed] == []
    assert right > len(found) // 3
