"""Vulkan drivers for the tests of the SPIR-V emitter, and the helpers that lie beside them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from vulkan_driver import Driver

DRIVERS = ("lavapipe", "swiftshader")


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
    require(name)
    if name not in open_drivers:
        open_drivers[name] = Driver(name)
    return open_drivers[name]


@pytest.fixture
def lavapipe(require: Callable[..., None], open_drivers: dict[str, Driver]) -> Driver:
    """The driver with every feature."""
    require("lavapipe")
    if "lavapipe" not in open_drivers:
        open_drivers["lavapipe"] = Driver("lavapipe")
    return open_drivers["lavapipe"]
