"""The device without compute: all checks and all accounting, outputs left alone.

For tests of what is built above a device. `inject` makes the next call of a driver hook fail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.targets import FEATURES, Capabilities, Limits
from ..bundle import Artifact
from ..device import Device
from ..faults import Words
from ..launch import Command
from .host_memory import HostMemory

TARGETS = (
    "interp-kir",
    "spirv-vulkan1.3",
    "spirv-vulkan1.1",
    "cpu-x86-64-v4",
    "cpu-x86-64-v3",
    "cpu-x86-64-v2",
    "cpu-aarch64",
)
TOTAL = 1 << 34


def capabilities(**changes: Any) -> Capabilities:
    """A device with every feature and roomy limits; `changes` replace fields."""
    limits = Limits(
        workgroup_invocations=1024,
        workgroup_size=(1024, 1024, 64),
        grid=(65535, 65535, 65535),
        shared_bytes=1 << 16,
        buffer_bytes=1 << 32,
        binding_bytes=1 << 32,
        buffers=64,
    )
    fields: dict[str, Any] = {
        "device": "null",
        "name": "no compute",
        "driver": "gristmill",
        "targets": TARGETS,
        "limits": limits,
        "features": frozenset(FEATURES),
        "subgroup_sizes": (1, 2, 4, 8, 16, 32, 64, 128),
    }
    return Capabilities(**(fields | changes))


class NullDevice(Device):
    """See the module. submitted: every command, in order; budget: bytes it may hold."""

    def __init__(self, name: str, caps: Capabilities, timeout: float, budget: int = TOTAL) -> None:
        super().__init__(name, caps, timeout)
        self.submitted: list[Command] = []
        self.fault_words = np.zeros(1, np.uint32)
        self.budget = budget
        self._injected: dict[str, BaseException] = {}

    def inject(self, hook: str, error: BaseException) -> None:
        """Make the next call of a hook (`allocate`, `load`, `submit`, `replay`, `wait`) fail."""
        self._injected[hook] = error

    def _may_fail(self, hook: str) -> None:
        if error := self._injected.pop(hook, None):
            raise error

    def _allocate(self, nbytes: int) -> HostMemory:
        self._may_fail("allocate")
        return HostMemory.allocate(nbytes)

    def _release(self, handle: HostMemory) -> None:
        pass

    def _write(self, handle: HostMemory, offset: int, data: memoryview) -> None:
        handle.write(offset, data)

    def _read(self, handle: HostMemory, offset: int, data: memoryview) -> None:
        handle.read(offset, data)

    def _load(self, artifact: Artifact, blob: bytes) -> bytes:
        self._may_fail("load")
        return blob

    def _submit(self, command: Command) -> None:
        self._may_fail("submit")
        self.submitted.append(command)

    def _record(self, commands: list[Command], timed: bool) -> list[Command]:
        return commands

    def _replay(self, handle: list[Command]) -> None:
        self._may_fail("replay")
        self.submitted += [c for c in handle if c.groups]

    def _drop_recording(self, handle: list[Command]) -> None:
        pass

    def _rewrite_recording(self, handle: list[Command], launch: int, command: Command) -> None:
        handle[launch] = command

    def _times(self, handle: list[Command]) -> npt.NDArray[np.float64]:
        return np.zeros(len(handle))

    def _wait(self, timeout: float) -> None:
        self._may_fail("wait")

    def _take_faults(self, words: int) -> Words:
        """Tests set bits in `fault_words`."""
        taken = np.zeros(words, np.uint32)
        n = min(words, len(self.fault_words))
        taken[:n] = self.fault_words[:n]
        self.fault_words[:] = 0
        return taken

    def _budget(self) -> tuple[int, int, bool]:
        return self.budget, max(self.budget, TOTAL), False

    def _abandon(self) -> None:
        pass

    def _close(self) -> None:
        pass


def open_device(
    spec: str,
    selector: str,
    timeout: float,
    caps: Capabilities | None = None,
    budget: int = TOTAL,
) -> NullDevice:
    """Always there. caps: pretend to be another device (see `capabilities`)."""
    return NullDevice(spec, caps or capabilities(), timeout, budget)


def find_devices() -> list[tuple[str, str]]:
    """One device."""
    return [("null", "no compute, for tests")]
