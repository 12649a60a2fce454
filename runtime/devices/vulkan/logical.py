"""The logical device: everything the physical device has switched on, and its one queue."""

from __future__ import annotations

from typing import Any

from ...errors import DriverError, NoDevice
from .features import PhysicalDevice

_GRAPHICS, _COMPUTE = 0x1, 0x2


class Logical:
    """A VkDevice with a compute queue. period: nanoseconds of a timestamp tick, 0 without them."""

    def __init__(self, physical: PhysicalDevice) -> None:
        self.physical, self.api = physical, physical.api
        if not physical.robust:
            raise NoDevice("robustBufferAccess is missing", where=physical.name)
        self.family, bits = self._family()
        self.period = float(physical.properties.limits.timestampPeriod) if bits else 0.0
        self.timestamp_mask = (1 << bits) - 1
        self.handle = self._create()
        out = self.api.ffi.new("VkQueue *")
        self.api.vk.vkGetDeviceQueue(self.handle, self.family, 0, out)
        self.queue = out[0]

    def create(self, call: str, type_: str, *args: Any) -> Any:
        """The handle that a creating call of this device makes."""
        return self.api.create(call, type_, self.handle, *args)

    def destroy(self, call: str, handle: Any) -> None:
        """Undo `create`."""
        getattr(self.api.vk, call)(self.handle, handle, self.api.ffi.NULL)

    def close(self) -> None:
        """Everything made with it is gone."""
        self.api.vk.vkDestroyDevice(self.handle, self.api.ffi.NULL)

    def _family(self) -> tuple[int, int]:
        """The queue family and its timestamp bits.

        A family without graphics comes first: on NVIDIA, kernels with much workgroup memory run
        up to 1.6 times as fast there.
        """
        ffi, count = self.api.ffi, self.api.ffi.new("uint32_t *")
        query = self.api.vk.vkGetPhysicalDeviceQueueFamilyProperties
        query(self.physical.handle, count, ffi.NULL)
        families = ffi.new("VkQueueFamilyProperties[]", max(1, count[0]))
        query(self.physical.handle, count, families)
        able = [i for i in range(count[0]) if families[i].queueFlags & _COMPUTE]
        if not able:
            raise NoDevice("no queue that computes", where=self.physical.name)
        best = min(able, key=lambda i: (bool(families[i].queueFlags & _GRAPHICS), i))
        return best, int(families[best].timestampValidBits)

    def _create(self) -> Any:
        api, ffi, physical = self.api, self.api.ffi, self.physical
        priority = ffi.new("float[]", [1.0])
        queue = api.struct(
            "VkDeviceQueueCreateInfo",
            "DEVICE_QUEUE_CREATE_INFO",
            queueFamilyIndex=self.family,
            queueCount=1,
            pQueuePriorities=priority,
        )
        features = api.struct("VkPhysicalDeviceFeatures2", "PHYSICAL_DEVICE_FEATURES_2")
        for name in ("robustBufferAccess", *physical.core):
            setattr(features.features, name, 1)
        structs = physical.enabled_structs()
        api.chain(features, structs)
        names = [ffi.new("char[]", e.encode()) for e in physical.enabled_extensions()]
        pointers = ffi.new("char *[]", names)
        info = api.struct(
            "VkDeviceCreateInfo",
            "DEVICE_CREATE_INFO",
            pNext=features,
            queueCreateInfoCount=1,
            pQueueCreateInfos=queue,
            enabledExtensionCount=len(names),
            ppEnabledExtensionNames=pointers,
        )
        try:
            return api.create("vkCreateDevice", "VkDevice", physical.handle, info)
        except DriverError as error:
            raise NoDevice(
                f"the device cannot be opened: {error.what}", where=physical.name
            ) from error
