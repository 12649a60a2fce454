"""The instances of wgpu-native of the process: one for each environment that chose drivers.

An instance stays: a driver that is unloaded and loaded again some thirty times may fail to load.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from .. import forks
from .api import Api

_PRIMARY = 0x2D  # Vulkan, Metal, DX12: OpenGL's compute is too weak to be offered beside them
_NO_FLAGS = 0  # no validation of shaders that draw, whose pipelines cost time at opening
_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
_lock = threading.Lock()
_instances: dict[tuple[str | None, ...], Instance] = {}


def _note_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_note_fork)


class Instance:
    """A WGPUInstance, and the environment in which it was made."""

    def __init__(self, api: Api, environment: tuple[str | None, ...]) -> None:
        self.api, self.environment = api, environment
        extras, chain = self.api.chained(
            "WGPUInstanceExtras", "InstanceExtras", backends=_PRIMARY, flags=_NO_FLAGS
        )
        descriptor = self.api.struct("WGPUInstanceDescriptor", nextInChain=chain)
        self.handle = self.api.lib.wgpuCreateInstance(descriptor)
        del extras  # it was in the descriptor's chain until here

    def adapters(self) -> list[Any]:
        """Every WGPUAdapter of the machine; the caller releases each."""
        ffi, enumerate_ = self.api.ffi, self.api.lib.wgpuInstanceEnumerateAdapters
        room = 16
        while True:
            found = ffi.new("WGPUAdapter[]", room)
            count = int(enumerate_(self.handle, ffi.NULL, ffi.NULL))
            if count <= room:
                break
            room = count
        return [found[n] for n in range(int(enumerate_(self.handle, ffi.NULL, found)))]


def acquire() -> Instance:
    """The instance of this environment.

    NoDevice in the child of a process that used such drivers (see `forks`).
    """
    environment = tuple(map(os.environ.get, _VARIABLES))
    with _lock:
        found = _instances.get(environment)
        api = found.api if found else Api()  # without the package, no driver comes into use
        forks.use("wgpu")
        if found is None:
            found = _instances[environment] = Instance(api, environment)
        return found


def leave(instance: Instance) -> None:
    """A device of the instance was poisoned: later devices get a fresh one."""
    with _lock:
        if _instances.get(instance.environment) is instance:
            del _instances[instance.environment]
