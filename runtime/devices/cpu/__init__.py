"""The cpu device: shared objects made ahead of time, run by worker threads of this process."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from ...errors import NoDevice

if TYPE_CHECKING:
    from .device import CpuDevice


def open_device(spec: str, selector: str, timeout: float, workers: int | None = None) -> CpuDevice:
    """workers: threads that run kernels; all processors that this process may use by default."""
    from .device import CpuDevice

    if selector:
        raise NoDevice(f"no device {spec!r}", expected="cpu", do="there is one cpu device")
    return CpuDevice(spec, timeout, workers)


def find_devices() -> list[tuple[str, str]]:
    """One device; NoDevice on a machine without a cpu target."""
    from .level import targets

    best = targets()[0].removeprefix("cpu-")
    return [("cpu", f"{platform.machine()}, {len(os.sched_getaffinity(0))} processors, {best}")]
