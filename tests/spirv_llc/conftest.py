"""Vulkan drivers for modules that LLVM made, with the helpers of the tests of our own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "spirv"))

from vulkan_driver import Driver


@pytest.fixture(scope="session")
def drivers_of_llc() -> Iterator[dict[str, Driver]]:
    """Drivers started so far, by name."""
    started: dict[str, Driver] = {}
    yield started
    for driver in started.values():
        driver.close()


@pytest.fixture(params=["lavapipe", "swiftshader"])
def driver(
    request: pytest.FixtureRequest,
    require: Callable[..., None],
    drivers_of_llc: dict[str, Driver],
) -> Driver:
    """Each Vulkan driver of this machine in turn, where there is an llc as well."""
    name = request.param
    require("llc")
    require(name)
    if name not in drivers_of_llc:
        drivers_of_llc[name] = Driver(name)
    return drivers_of_llc[name]
