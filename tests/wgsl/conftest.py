"""What compiles and runs WGSL on this machine: wgpu on its Vulkan drivers, and Chromium."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "spirv"))
sys.path.insert(0, str(Path(__file__).parent.parent / "web"))
sys.path.insert(0, str(Path(__file__).parent))

from chromium_driver import ChromiumDriver
from vulkan_driver import Driver
from wgpu_driver import WgpuDriver


@pytest.fixture(scope="session")
def open_wgpu() -> Iterator[dict[str, Driver]]:
    """Drivers started so far, by name."""
    started: dict[str, Driver] = {}
    yield started
    for driver in started.values():
        driver.close()


@pytest.fixture(params=["lavapipe", "swiftshader", "chromium"])
def wgpu_driver(
    request: pytest.FixtureRequest,
    require: Callable[..., None],
    open_wgpu: dict[str, Driver],
) -> Driver:
    """wgpu (naga) on each Vulkan driver of this machine in turn, then Chromium (Tint)."""
    name = request.param
    require(name)
    if name != "chromium":
        require("wgpu")
    if name not in open_wgpu:
        open_wgpu[name] = ChromiumDriver() if name == "chromium" else WgpuDriver(name)
    return open_wgpu[name]
