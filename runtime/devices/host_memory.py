"""Host memory as device memory: what `cpu`, `interp` and `null` allocate."""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BASE_ALIGNMENT = 256
HUGE_PAGE = 2 << 20


class HostMemory:
    """Bytes of this process. address: of the first byte; keep: what owns it."""

    __slots__ = ("address", "bytes", "keep")

    def __init__(self, data: npt.NDArray[np.uint8], keep: Any) -> None:
        self.bytes, self.keep = data, keep
        self.address: int = data.ctypes.data

    @staticmethod
    def allocate(nbytes: int) -> HostMemory:
        """Aligned memory with undefined contents; MemoryError."""
        if nbytes >= 2 * HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            return _on_huge_pages(nbytes)
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


def _on_huge_pages(nbytes: int) -> HostMemory:
    """Memory in huge pages where the system has them: a column of a matrix touches a page a row,
    and with small pages each misses the TLB. Only whole huge pages inside of what was asked for, so
    that no more memory is taken."""
    try:
        pages = mmap.mmap(-1, nbytes + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{nbytes} bytes: {error}") from error
    raw = np.frombuffer(pages, np.uint8)
    start = -raw.ctypes.data % HUGE_PAGE
    with contextlib.suppress(OSError):  # a system without huge pages: small ones do
        pages.madvise(mmap.MADV_HUGEPAGE, start, nbytes // HUGE_PAGE * HUGE_PAGE)
    return HostMemory(raw[start : start + nbytes], raw)


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
