"""Vulkan devices: SPIR-V artifacts on any driver of Vulkan 1.1 or later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import NoDevice
from ..selector import chosen

if TYPE_CHECKING:
    from .device import VulkanDevice

# VkPhysicalDeviceType, best first: discrete, integrated, virtual, CPU, other
_PREFERENCE = {2: 0, 1: 1, 3: 2, 4: 3, 0: 4}


def open_device(spec: str, selector: str, timeout: float) -> VulkanDevice:
    """selector: an index, a part of the device's name, or "" for the best device."""
    from . import instance
    from .device import VulkanDevice
    from .features import PhysicalDevice

    used = instance.acquire()
    try:
        handle = _choose(used, spec, selector)
        return VulkanDevice(spec, PhysicalDevice(used, handle), timeout)
    except BaseException:
        instance.release(used)
        raise


def find_devices() -> list[tuple[str, str]]:
    """Every physical device by index; NoDevice where package, loader or drivers are missing."""
    from . import instance

    used = instance.acquire()
    try:
        names = [used.api.text(used.properties(d).deviceName) for d in used.devices()]
    finally:
        instance.release(used)
    if not names:
        raise NoDevice("no Vulkan 1.1 device", do="install a driver, e.g. mesa-vulkan-drivers")
    return [(f"vulkan:{n}", name) for n, name in enumerate(names)]


def _choose(used: Any, spec: str, selector: str) -> Any:
    """The physical device that a selector means."""
    devices = used.devices()
    names = [used.api.text(used.properties(d).deviceName) for d in devices]
    if not devices:
        raise NoDevice("no Vulkan 1.1 device", do="install a driver, e.g. mesa-vulkan-drivers")
    if not selector:
        return min(devices, key=lambda d: _PREFERENCE.get(used.properties(d).deviceType, 5))
    index = chosen(selector, names)
    if index is not None:
        return devices[index]
    listed = ", ".join(f"{n}: {name}" for n, name in enumerate(names))
    raise NoDevice(f"no device {spec!r}", expected=f"an index or a part of a name of {listed}")
