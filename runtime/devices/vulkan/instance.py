"""The Vulkan instance of the process, its physical devices, and validation messages.

One instance serves all devices and stays when the last of them is closed: a driver that is unloaded
and loaded again some thirty times may fail to load. A changed environment gets an instance of its
own. GRISTMILL_VULKAN_VALIDATION=1 turns the validation layer on; what it says is collected in
`messages`.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from ...errors import DriverError, NoDevice
from .. import forks
from .api import Api, version

VALIDATION = "GRISTMILL_VULKAN_VALIDATION"
_LAYER = b"VK_LAYER_KHRONOS_validation"
messages: list[str] = []

_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES", VALIDATION)
_lock = threading.Lock()
_current: Instance | None = None


def _note_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_note_fork)


class Instance:
    """A VkInstance with a count of its users."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.users = 0
        self.environment = _environment()
        self.validation = os.environ.get(VALIDATION, "") not in ("", "0")
        self._messenger: Any = None
        self._callback: Any = None
        self.handle = self._create()
        if self.validation:
            self._listen()

    def devices(self) -> list[Any]:
        """Physical devices with Vulkan 1.1 or later, as VkPhysicalDevice."""
        found, _ = self.api.listed("vkEnumeratePhysicalDevices", "VkPhysicalDevice", self.handle)
        return [d for d in found if self.properties(d).apiVersion >= version(1, 1)]

    def properties(self, physical: Any) -> Any:
        """VkPhysicalDeviceProperties."""
        properties = self.api.ffi.new("VkPhysicalDeviceProperties *")
        self.api.vk.vkGetPhysicalDeviceProperties(physical, properties)
        return properties

    def function(self, name: str, type_: str) -> Any:
        """An extension function; None where the loader does not know it."""
        ffi = self.api.ffi
        pointer = self.api.vk.vkGetInstanceProcAddr(self.handle, ffi.new("char[]", name.encode()))
        return ffi.cast(type_, pointer) if pointer else None

    def destroy(self) -> None:
        """Nothing uses it any more."""
        if self._messenger is not None:
            name = "vkDestroyDebugUtilsMessengerEXT"
            self.function(name, f"PFN_{name}")(self.handle, self._messenger, self.api.ffi.NULL)
        self.api.vk.vkDestroyInstance(self.handle, self.api.ffi.NULL)

    def _create(self) -> Any:
        ffi, api = self.api.ffi, self.api
        layers = [ffi.new("char[]", _LAYER)] if self.validation else []
        wanted = [b"VK_EXT_debug_utils"] if self.validation else []
        extensions = [ffi.new("char[]", name) for name in wanted]
        name = ffi.new("char[]", b"gristmill")
        application = api.struct(
            "VkApplicationInfo", "APPLICATION_INFO", pApplicationName=name, apiVersion=version(1, 3)
        )
        layer_names, extension_names = ffi.new("char *[]", layers), ffi.new("char *[]", extensions)
        info = api.struct(
            "VkInstanceCreateInfo",
            "INSTANCE_CREATE_INFO",
            pApplicationInfo=application,
            enabledLayerCount=len(layers),
            ppEnabledLayerNames=layer_names,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extension_names,
        )
        try:
            return api.create("vkCreateInstance", "VkInstance", info)
        except DriverError as error:
            layer = f" with {_LAYER.decode()}" if self.validation else ""
            raise NoDevice(
                f"no Vulkan instance{layer}: {error.what}", do="install a Vulkan driver"
            ) from error

    def _listen(self) -> None:
        ffi, api = self.api.ffi, self.api

        def note(severity: int, kinds: int, data: Any, user: Any) -> int:
            messages.append(api.text(data.pMessage))
            return 0

        self._callback = ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", note)
        info = api.struct(
            "VkDebugUtilsMessengerCreateInfoEXT",
            "DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT",
            messageSeverity=0x1100,  # warnings and errors
            messageType=0x2,  # of validation
            pfnUserCallback=self._callback,
        )
        create = self.function(
            "vkCreateDebugUtilsMessengerEXT", "PFN_vkCreateDebugUtilsMessengerEXT"
        )
        out = ffi.new("VkDebugUtilsMessengerEXT *")
        api.check(create(self.handle, info, ffi.NULL, out), "vkCreateDebugUtilsMessengerEXT")
        self._messenger = out[0]


def acquire() -> Instance:
    """The process's instance; `release` it once for every `acquire`.

    NoDevice in the child of a process that used such drivers (see `forks`).
    """
    global _current
    with _lock:
        api = _current.api if _current else Api()  # without the package, no driver comes into use
        forks.use("Vulkan")
        if _current is not None and _current.environment != _environment():
            if _current.users == 0:
                _current.destroy()
            _current = None
        if _current is None:
            _current = Instance(api)
        _current.users += 1
        return _current


def release(instance: Instance) -> None:
    """Undo `acquire`."""
    with _lock:
        instance.users -= 1
        if instance.users == 0 and instance is not _current:
            instance.destroy()


def leave(instance: Instance) -> None:
    """A device that uses the instance was poisoned: later devices get a fresh one."""
    global _current
    with _lock:
        if _current is instance:
            _current = None


def _environment() -> tuple[str | None, ...]:
    return tuple(map(os.environ.get, _VARIABLES))
