"""Vulkan drivers for the tests of the SPIR-V emitter, and the helpers that lie beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from vulkan_driver import Driver

# Other drivers to judge instead, as paths of their manifests: for a machine with a GPU.
MORE = tuple(filter(None, os.environ.get("GRISTMILL_VULKAN_DRIVERS", "").split(os.pathsep)))
DRIVERS = MORE or ("lavapipe", "swiftshader")


@pytest.fixture(scope="session")
def open_drivers() -> Iterator[dict[str, Driver]]:
    """Drivers started so far, by name."""
    started: dict[str, Driver] = {}
    yield started
    for driver in started.values():
        driver.close()


@pytest.fixture(params=DRIVERS)
def driver(
    request: pytest.FixtureRequest,
    require: Callable[..., None],
    open_drivers: dict[str, Driver],
) -> Driver:
    """Each Vulkan driver of this machine in turn."""
    name = request.param
    if name not in MORE:
        require(name)
    if name not in open_drivers:
        open_drivers[name] = Driver(name)
    return open_drivers[name]
