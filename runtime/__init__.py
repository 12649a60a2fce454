"""Run artifacts on devices: open a bundle, open a device, load, launch, record, replay.

    from gristmill import runtime

    bundle = runtime.open_bundle("artifacts")
    with runtime.open_device("cpu") as device:
        saxpy = device.load(bundle, "saxpy", "f32")
        saxpy(x, y, 2.0)

Nothing here imports a compiler. What only devices need is imported once one is opened: the driver
of a GPU starts meanwhile, which takes longer.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .bundle import Artifact, Bundle, open_bundle
from .errors import (
    ArgumentError,
    ArtifactCorrupt,
    ArtifactMissing,
    BundleError,
    CodecMissing,
    CompileFailed,
    DeviceLost,
    DeviceTimeout,
    DriverError,
    GristmillError,
    KernelFault,
    LimitExceeded,
    ManifestInvalid,
    NoDevice,
    OutOfMemory,
    Poisoned,
    Refused,
    StateError,
    SubmissionFailed,
    Untrusted,
    VersionMismatch,
)
from .registry import FoundDevice, find_devices, open_device

if TYPE_CHECKING:
    from .device import Device
    from .launch import LoadedKernel
    from .memory import Buffer, MemoryReport, Slot
    from .recording import Recording
    from .refusal import Lack, Refusal

__all__ = [
    "ArgumentError",
    "Artifact",
    "ArtifactCorrupt",
    "ArtifactMissing",
    "Buffer",
    "Bundle",
    "BundleError",
    "CodecMissing",
    "CompileFailed",
    "Device",
    "DeviceLost",
    "DeviceTimeout",
    "DriverError",
    "FoundDevice",
    "GristmillError",
    "KernelFault",
    "Lack",
    "LimitExceeded",
    "LoadedKernel",
    "ManifestInvalid",
    "MemoryReport",
    "NoDevice",
    "OutOfMemory",
    "Poisoned",
    "Recording",
    "Refusal",
    "Refused",
    "Slot",
    "StateError",
    "SubmissionFailed",
    "Untrusted",
    "VersionMismatch",
    "find_devices",
    "open_bundle",
    "open_device",
]

_LATER = {
    "Buffer": "memory",
    "Device": "device",
    "Lack": "refusal",
    "LoadedKernel": "launch",
    "MemoryReport": "memory",
    "Recording": "recording",
    "Refusal": "refusal",
    "Slot": "memory",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    return value
