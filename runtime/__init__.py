"""Run artifacts on devices: open a bundle, open a device, load, launch, record, replay.

    from gristmill import runtime

    bundle = runtime.open_bundle("artifacts")
    with runtime.open_device("cpu") as device:
        saxpy = device.load(bundle, "saxpy", "f32")
        saxpy(x, y, 2.0)

Nothing here imports a compiler.
"""

from __future__ import annotations

from .bundle import Artifact, Bundle, open_bundle
from .device import Device
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
from .launch import LoadedKernel
from .memory import Buffer, MemoryReport, Slot
from .recording import Recording
from .refusal import Lack, Refusal
from .registry import FoundDevice, find_devices, open_device

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
