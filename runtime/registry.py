"""Opening devices by name, and finding out which ones this machine has."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import lifetime
from .errors import ArgumentError, GristmillError, NoDevice, expect
from .lifetime import WAIT_SECONDS

if TYPE_CHECKING:
    from .device import Device

# Best first where a caller has no preference; `null` and `interp` are only opened by name.
DRIVERS = ("cuda", "hsa", "vulkan", "wgpu", "cpu", "interp", "null")


class FoundDevice(NamedTuple):
    """A device of this machine, or why a driver finds none (`missing`)."""

    spec: str
    description: str
    missing: str = ""


def _driver(name: str) -> ModuleType:
    if name not in DRIVERS:
        raise NoDevice(f"no device {name!r}", expected=f"one of {', '.join(sorted(DRIVERS))}")
    return importlib.import_module(f".devices.{name}", __package__)


def open_device(spec: str = "cpu", *, timeout: float = WAIT_SECONDS, **options: Any) -> Device:
    """Open a device: "cpu", "vulkan", "vulkan:1", "vulkan:llvmpipe" (part of a name), ...

    timeout: seconds that a wait may take unless it says so itself. options: what the driver
    takes (`workers` of cpu). Raises NoDevice with what is missing, ArgumentError.
    """
    expect(spec, str, "open_device")
    name, _, selector = spec.partition(":")
    driver = _driver(name)
    if options:
        _check_options(name, driver, options)
    device: Device = driver.open_device(spec, selector, timeout, **options)
    lifetime.opened(device)
    return device


def _check_options(name: str, driver: ModuleType, options: dict[str, Any]) -> None:
    import inspect  # a third of the import time of `runtime`, and seldom needed

    _, _, _, *takes = inspect.signature(driver.open_device).parameters
    for option in options:
        if option not in takes:
            raise ArgumentError(
                f"device {name} does not take the option {option!r}",
                expected=f"one of {', '.join([*takes, 'timeout'])}",
            )


def find_devices() -> list[FoundDevice]:
    """All devices that could be opened here, best driver first; missing drivers are listed too."""
    found = []
    for name in DRIVERS:
        try:
            found += [FoundDevice(spec, text) for spec, text in _driver(name).find_devices()]
        except GristmillError as error:
            found.append(FoundDevice(name, "", str(error)))
    return found
