"""What each driver provides below the device contract.

Handles are the driver's own objects; nobody else looks into them. `Device` calls these with its
lock held, on a device that is open and not poisoned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import way_of
from .bundle import Artifact
from .faults import Words
from .launch import Command, LoadedKernel
from .memory import Array, Buffer

if TYPE_CHECKING:
    import numpy.typing as npt

    from .binder import Direct


class Driver(ABC):
    """The hooks of a device."""

    @abstractmethod
    def _allocate(self, nbytes: int) -> Any:
        """Memory whose base is 256-byte aligned; OutOfMemory."""

    def _address(self, handle: Any) -> int:
        """Where memory lies for kernels, for drivers that tell them so."""
        return 0

    @abstractmethod
    def _release(self, handle: Any) -> None:
        """Take memory back; no submitted work uses it."""

    @abstractmethod
    def _write(self, handle: Any, offset: int, data: memoryview) -> None:
        """Copy to the device, ordered after all submitted work."""

    def _write_in_order(self, handle: Any, offset: int, data: bytes) -> None:
        """Copy a few bytes in queue order, without waiting where the driver can."""
        self._write(handle, offset, memoryview(data))

    @abstractmethod
    def _read(self, handle: Any, offset: int, data: memoryview) -> None:
        """Copy from the device; all submitted work is done."""

    @abstractmethod
    def _load(self, artifact: Artifact, blob: bytes) -> Any:
        """Code from checked bytes."""

    @abstractmethod
    def _submit(self, command: Command) -> None:
        """Queue one launch of at least one workgroup."""

    def _direct(self, kernel: LoadedKernel) -> Direct:
        """What launches a kernel with arguments that are as usual."""
        quick, submit = way_of(kernel), self._submit

        def direct(args: Sequence[Any], grid: Any) -> bool:
            command = quick(args, grid)
            if command is None:
                return False
            if 0 not in command.grid:
                submit(command)
            return True

        return direct

    @abstractmethod
    def _record(self, commands: list[Command], timed: bool) -> Any:
        """Prepare launches for replay."""

    @abstractmethod
    def _replay(self, handle: Any) -> None:
        """Queue a prepared recording."""

    @abstractmethod
    def _drop_recording(self, handle: Any) -> None:
        """Give back what a recording holds, once no submitted work uses it."""

    @abstractmethod
    def _rewrite_recording(self, handle: Any, launch: int, command: Command) -> None:
        """Put other scalars into a prepared launch; no submitted work uses it."""

    @abstractmethod
    def _times(self, handle: Any) -> npt.NDArray[np.float64]:
        """Seconds per launch of the last replay, which is done."""

    @abstractmethod
    def _wait(self, timeout: float) -> None:
        """Wait for all submitted work; raises DeviceTimeout, DeviceLost."""

    @abstractmethod
    def _take_faults(self, words: int) -> Words:
        """The first `words` words of the fault bitmap, which are cleared; no work is pending."""

    @abstractmethod
    def _budget(self) -> tuple[int, int, bool]:
        """Bytes this device may hold, bytes there are, whether the first is estimated."""

    def _adopt(self, array: Array) -> Any:
        """A handle on host memory that the device uses in place; None where it cannot."""
        return None

    def _foreign(self, value: Any, where: str) -> Buffer | None:
        """A buffer on device memory of another library, which `value` stands for; None where it
        stands for none that this device can use."""
        return None

    def _give(self, buffer: Buffer, stream: int | None) -> Any:
        """A DLPack capsule of a buffer, for a taker that will use it on a stream."""
        raise BufferError(f"{buffer!r} is not shared: the device has no DLPack")

    def _place(self) -> tuple[int, int]:
        """DLPack's type and number of the device."""
        raise BufferError("the device has no DLPack")

    def _interface(self, buffer: Buffer) -> dict[str, Any]:
        """`__cuda_array_interface__` of a buffer."""
        raise AttributeError("__cuda_array_interface__ is for CUDA devices")

    @abstractmethod
    def _abandon(self) -> None:
        """The device is poisoned: leak what pending work may touch."""

    @abstractmethod
    def _close(self) -> None:
        """Give everything back; no work is pending."""
