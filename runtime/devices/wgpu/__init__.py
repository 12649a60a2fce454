"""wgpu devices: WGSL artifacts on Vulkan, Metal and DX12 through wgpu-native."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import ArgumentError, NoDevice
from ...memory import is_size
from ..selector import chosen

if TYPE_CHECKING:
    from .adapters import Adapter
    from .device import WgpuDevice

_MISSING = "install a driver of Vulkan, e.g. mesa-vulkan-drivers"


def open_device(spec: str, selector: str, timeout: float, budget: int | None = None) -> WgpuDevice:
    """selector: an index, a kind (discrete, integrated, cpu, other), a part of the adapter's name
    or backend, or "" for the best one. budget: bytes that its buffers may hold together; half of
    the host's memory else, as WebGPU tells no sizes."""
    from . import instance
    from .adapters import listed
    from .device import WgpuDevice

    if budget is not None and not is_size(budget):
        raise ArgumentError(f"budget {budget!r}", where=spec, expected="bytes, at least 0")
    found = listed(instance.acquire())
    try:
        return WgpuDevice(spec, found[_choose(found, spec, selector)], timeout, budget)
    finally:
        for adapter in found:
            adapter.release()


def find_devices() -> list[tuple[str, str]]:
    """Every adapter by index; NoDevice where the package or every driver is missing."""
    from . import instance
    from .adapters import listed

    found = listed(instance.acquire())
    for adapter in found:
        adapter.release()
    if not found:
        raise NoDevice("wgpu finds no adapter", do=_MISSING)
    return [(f"wgpu:{n}", adapter.label) for n, adapter in enumerate(found)]


def _choose(found: list[Adapter], spec: str, selector: str) -> int:
    """The index of the adapter that a selector means."""
    from .adapters import PREFERENCE

    if not found:
        raise NoDevice("wgpu finds no adapter", where=spec, do=_MISSING)
    if not selector:
        return min(range(len(found)), key=lambda n: PREFERENCE.index(found[n].kind))
    index = chosen(selector, [adapter.label for adapter in found])  # kind and backend among them
    if index is not None:
        return index
    all_ = ", ".join(f"{n}: {adapter.label}" for n, adapter in enumerate(found))
    raise NoDevice(
        f"no device {spec!r}", expected=f"an index, a kind or a part of a name of {all_}"
    )
