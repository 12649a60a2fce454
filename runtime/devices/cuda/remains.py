"""What a closed device leaves behind: memory that takers of DLPack capsules still use.

With it live the stream, the pool and the use of the context, until the last taker is done.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from ...errors import GristmillError
from ...memory import Allocation
from . import dlpack
from .memory import CudaMemory

if TYPE_CHECKING:
    from .device import CudaDevice


class Remains:
    """The memory that capsules referred to when the device was closed."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._left = self._used()
        self._over = self._busy = False

    @property
    def memory(self) -> frozenset[CudaMemory]:
        """What is left."""
        return frozenset(self._left)

    def settle(self) -> None:
        """Free what no capsule refers to any more, after the work of its taker; with the last of
        it all that it needed."""
        with self._device._lock:
            if self._busy:  # a taker ended within this very call, which will see it
                return
            self._busy = True
            try:
                while not self._over and (not self._left or self._left - self._used()):
                    self._settle()
            finally:
                self._busy = False

    def _settle(self) -> None:
        device, done = self._device, self._left - self._used()
        self._left -= done
        self._over = not self._left
        with device._context, device._beside:
            own = [memory for memory in done if memory.keep is None]
            for memory in done.difference(own):
                memory.keep()
            device._shared.forget_all(own)
            if self._over:
                device._heap.close()
                device._queue.close()
        if self._over:
            device._context.release()

    def taker_is_done(self) -> None:
        """The same for callers to whom nothing can be raised."""
        device = self._device
        # The end of the process frees everything, and a child process must not.
        if not (device._forked or sys.is_finalizing()):
            with contextlib.suppress(GristmillError):
                self.settle()

    def _used(self) -> set[CudaMemory]:
        return {
            kept.handle
            for kept in dlpack.kept()
            if isinstance(kept, Allocation) and kept.device is self._device
        }
