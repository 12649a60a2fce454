"""Host memory as device memory: what `cpu`, `interp` and `null` allocate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BASE_ALIGNMENT = 256


class HostMemory:
    """Bytes of this process. address: of the first byte; keep: what owns it."""

    __slots__ = ("address", "bytes", "keep")

    def __init__(self, data: npt.NDArray[np.uint8], keep: Any) -> None:
        self.bytes, self.keep = data, keep
        self.address: int = data.ctypes.data

    @staticmethod
    def allocate(nbytes: int) -> HostMemory:
        """Aligned memory with undefined contents; MemoryError."""
        raw = np.empty(nbytes + BASE_ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % BASE_ALIGNMENT
        return HostMemory(raw[start : start + nbytes], raw)

    @staticmethod
    def of(array: npt.NDArray[Any]) -> HostMemory:
        """The memory of a contiguous array, in place."""
        return HostMemory(array.reshape(-1).view(np.uint8), array)

    def write(self, offset: int, data: memoryview) -> None:
        """Copy in."""
        self.bytes[offset : offset + len(data)] = data

    def read(self, offset: int, data: memoryview) -> None:
        """Copy out."""
        np.frombuffer(data, np.uint8)[:] = self.bytes[offset : offset + len(data)]


def _number(file: str) -> int | None:
    try:
        text = Path(file).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def physical_bytes() -> int:
    """Memory of the machine, or what a cgroup leaves of it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, _number("/sys/fs/cgroup/memory.max") or total)


def available_bytes() -> int:
    """Memory that can still be had without swapping."""
    available = physical_bytes()
    with open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                available = min(available, int(line.split()[1]) * 1024)
    limit, used = _number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")
    if limit is not None and used is not None:
        available = min(available, max(0, limit - used))
    return available
