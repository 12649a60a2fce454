"""The Vulkan entry points: the `vulkan` package's cffi objects, status codes, chained structs.

Only the package's `ffi` and `lib` are used, never its Python wrappers. Structs that it lacks are
declared through an own cffi object.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...errors import DeviceLost, DriverError, NoDevice

OUT_OF_MEMORY = (-1, -2)
TIMEOUT = 2
_DEVICE_LOST = -4
_STATUS = {
    1: "VK_NOT_READY",
    2: "VK_TIMEOUT",
    -1: "VK_ERROR_OUT_OF_HOST_MEMORY",
    -2: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
    -3: "VK_ERROR_INITIALIZATION_FAILED",
    -4: "VK_ERROR_DEVICE_LOST",
    -5: "VK_ERROR_MEMORY_MAP_FAILED",
    -6: "VK_ERROR_LAYER_NOT_PRESENT",
    -7: "VK_ERROR_EXTENSION_NOT_PRESENT",
    -8: "VK_ERROR_FEATURE_NOT_PRESENT",
    -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
    -10: "VK_ERROR_TOO_MANY_OBJECTS",
    -12: "VK_ERROR_FRAGMENTED_POOL",
    -13: "VK_ERROR_UNKNOWN",
    -1000012000: "VK_ERROR_INVALID_SHADER_NV",
    -1000069000: "VK_ERROR_OUT_OF_POOL_MEMORY",
}

_LATER_STRUCTS = """
typedef struct {
    uint32_t sType; void *pNext;
    uint32_t shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix;
} VkPhysicalDeviceShaderBfloat16FeaturesKHR;
"""


class Api:
    """ffi, and `vk`: the library's functions and constants (tests put a stand-in there)."""

    def __init__(self) -> None:
        try:
            from vulkan._vulkan import ffi, lib
        except ImportError as error:
            raise NoDevice(
                "the vulkan package is not installed", do="pip install 'gristmill[vulkan]'"
            ) from error
        except OSError as error:
            raise NoDevice(
                f"no Vulkan loader ({error})", do="install libvulkan1 and a driver for the device"
            ) from error
        self.ffi: Any = ffi
        self.vk: Any = lib
        self._later: Any = import_module("cffi").FFI()
        self._later.cdef(_LATER_STRUCTS)

    def struct(self, type_: str, tag: str | int, **fields: Any) -> Any:
        """A new struct with its sType (a constant's name without prefix, or its number)."""
        s_type = tag if isinstance(tag, int) else getattr(self.vk, f"VK_STRUCTURE_TYPE_{tag}")
        try:
            new = self.ffi.new(f"{type_} *")
        except self.ffi.error:
            new = self._later.new(f"{type_} *")
        new.sType = s_type
        for name, value in fields.items():
            setattr(new, name, value)
        return new

    def chain(self, head: Any, structs: list[Any]) -> Any:
        """Link structs behind `head` by pNext; the caller keeps them alive."""
        following = self.ffi.NULL
        for struct in reversed(structs):
            struct.pNext = self._plain(following)
            following = struct
        head.pNext = self._plain(following)
        return head

    def _plain(self, pointer: Any) -> Any:
        """A pointer of either cffi object as `void *` of the first."""
        # By its number: cffi refuses a pointer of another object.
        return self.ffi.cast("void *", int(self._later.cast("uintptr_t", pointer)))

    def check(self, status: int, call: str, where: str = "") -> None:
        """DeviceLost or DriverError unless the status is VK_SUCCESS."""
        if status == 0:
            return
        if status == _DEVICE_LOST:
            raise DeviceLost(f"{call} reports VK_ERROR_DEVICE_LOST", where=where)
        raise DriverError(call, status, _STATUS.get(status, "an unknown status"), where)

    def create(self, call: str, type_: str, *args: Any) -> Any:
        """The handle that `vkCreate...(*args, NULL, &handle)` makes."""
        out = self.ffi.new(f"{type_} *")
        self.check(getattr(self.vk, call)(*args, self.ffi.NULL, out), call)
        return out[0]

    def listed(self, call: str, type_: str, *args: Any) -> Any:
        """The array that an enumerating call gives; those without a status work, too."""
        function, count = getattr(self.vk, call), self.ffi.new("uint32_t *")
        function(*args, count, self.ffi.NULL)
        items = self.ffi.new(f"{type_}[]", max(1, count[0]))
        status = function(*args, count, items)
        if isinstance(status, int):
            self.check(status, call)
        return [items[i] for i in range(count[0])], items

    def text(self, chars: Any) -> str:
        """A C string."""
        return bytes(self.ffi.string(chars)).decode("utf-8", "replace")


def version(major: int, minor: int) -> int:
    """An API version number."""
    return major << 22 | minor << 12
