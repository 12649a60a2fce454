"""Devices with the kernels that ship."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill import runtime

ROOT = Path(__file__).parents[2]
TARGETS = "interp,cpu-x86-64-v3,cpu-x86-64-v4,spirv-vulkan1.1,wgsl"
DEVICES = ("cpu", "vulkan", "wgpu")


@pytest.fixture(scope="session")
def bundle(store_of_builds: Path, tmp_path_factory: pytest.TempPathFactory) -> runtime.Bundle:
    """Made once, from what the run has built."""
    out = tmp_path_factory.mktemp("planner")
    command = [sys.executable, "-m", "SCons", "-Q", f"target={TARGETS}", f"out={out}"]
    environment = {**os.environ, "GRISTMILL_STORE": str(store_of_builds)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return runtime.open_bundle(out)


@pytest.fixture(scope="module", params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[runtime.Device]:
    """Each device in turn."""
    from need import Need

    need: Callable[..., None] = Need.from_environment(os.environ)
    need(request.param)
    with runtime.open_device(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def cpu() -> Iterator[runtime.Device]:
    """The device that is always there."""
    with runtime.open_device("cpu") as opened:
        yield opened
