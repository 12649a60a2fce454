"""What a device holds: memory within its budget, and what is given back once nobody holds it.

Destructors run in any thread and at any moment, so that they only put what they had on a list;
`_collect` gives it back to the driver.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

from .errors import LimitExceeded, OutOfMemory, Poisoned
from .faults import FaultRange, FaultTable
from .life import Living
from .memory import GRANULE, Allocation, padded

if TYPE_CHECKING:
    from ..ir.targets import Capabilities
    from .device import Device


class Holdings(Living):
    """The accounts of a device."""

    def __init__(self, name: str, capabilities: Capabilities, timeout: float) -> None:
        super().__init__(name, capabilities, timeout)
        self._garbage: deque[tuple[Any, int]] = deque()
        self._dropped: deque[tuple[list[FaultRange], Any]] = deque()
        self._live = self._peak = 0
        self._faults = FaultTable()
        self._empty: Allocation | None = None

    def _reserve(self, nbytes: int) -> Allocation:
        """Memory of at least `nbytes`, within limits and budget."""
        limit = self.capabilities.limits.buffer_bytes
        if nbytes > limit:
            raise LimitExceeded("bytes of a buffer", limit, nbytes, self.name)
        size = padded(nbytes)
        self._collect()
        budget, _, _ = self._budget()
        available = budget - self._live
        if size > available:
            raise OutOfMemory(size, max(0, available), self.name)
        handle = self._allocate(size)
        self._live += size
        self._peak = max(self._peak, self._live)
        return Allocation(cast("Device", self), handle, size)

    def _collect(self) -> None:
        """Give back recordings and memory that nobody holds any more."""
        with self._lock:
            if not self._usable:
                return
            try:
                while self._dropped:
                    faults, handle = self._dropped.popleft()
                    self._faults.retire(faults)
                    self._drop_recording(handle)
                while self._garbage:
                    handle, nbytes = self._garbage.popleft()
                    self._live -= nbytes
                    self._release(handle)
            except Poisoned as error:
                self._poison(error)
                raise

    def _dummy(self) -> Allocation:
        """What empty buffers are bound to."""
        if self._empty is None:
            self._empty = self._reserve(GRANULE)
        return self._empty
