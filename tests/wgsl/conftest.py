"""wgpu on the Vulkan drivers of this machine, for the tests of the WGSL emitter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "spirv"))
sys.path.insert(0, str(Path(__file__).parent))

from wgpu_driver import WgpuDriver


@pytest.fixture(scope="session")
def open_wgpu() -> Iterator[dict[str, WgpuDriver]]:
    """Drivers started so far, by name."""
    started: dict[str, WgpuDriver] = {}
    yield started
    for driver in started.values():
        driver.close()


@pytest.fixture(params=["lavapipe", "swiftshader"])
def wgpu_driver(
    request: pytest.FixtureRequest,
    require: Callable[..., None],
    open_wgpu: dict[str, WgpuDriver],
) -> WgpuDriver:
    """wgpu on each Vulkan driver of this machine in turn."""
    name = request.param
    require("wgpu")
    require(name)
    if name not in open_wgpu:
        open_wgpu[name] = WgpuDriver(name)
    return open_wgpu[name]
