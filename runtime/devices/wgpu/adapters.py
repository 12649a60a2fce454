"""What an adapter is and has: asked once, requested entirely, and told as `Capabilities`."""

from __future__ import annotations

from typing import Any

from ....ir.targets import Capabilities, Limits
from ..gpu_features import SUBGROUPS
from .instance import Instance

ITEM = 32  # bytes of the widest vector that a buffer may be declared as items of

TARGETS = ("wgsl-webgpu",)
KINDS = {1: "discrete", 2: "integrated", 3: "cpu", 4: "other"}  # of WGPUAdapterType
BACKENDS = {2: "webgpu", 4: "dx12", 5: "metal", 6: "vulkan"}  # of WGPUBackendType
PREFERENCE = ("discrete", "integrated", "other", "cpu")
_LLVMPIPE_TRIPS = 65535
# WGSL has packed products on every adapter: the compiler writes them out where hardware lacks them.
_ALWAYS = frozenset({"dot4"})
_STORES_COMPONENTS = ("vulkan", "dx12")  # where a store of a component is one of its bytes alone
# Of wgpu-native -> what an artifact may require.
FEATURES: dict[str, tuple[str, ...]] = {
    "WGPUFeatureName_ShaderF16": ("f16",),
    "WGPUNativeFeature_ShaderF64": ("f64",),
    "WGPUNativeFeature_ShaderInt64": ("i64",),
    "WGPUNativeFeature_ShaderInt64AtomicAllOps": ("atomic_i64", "atomic_shared_i64"),
    "WGPUNativeFeature_ShaderFloat32Atomic": ("atomic_f32_add",),
    "WGPUNativeFeature_Subgroup": SUBGROUPS,
    "WGPUFeatureName_TimestampQuery": (),
}
SUBGROUP, TIMESTAMPS = "WGPUNativeFeature_Subgroup", "WGPUFeatureName_TimestampQuery"
# Vendors all of whose devices have subgroups of one size: NVIDIA, Apple, Mesa's and Google's
# software. Others choose one for each kernel, and WebGPU has no way to demand one.
_ONE_SIZE = {0x10DE, 0x106B, 0x10005, 0x1AE0}


class Adapter:
    """An adapter and all that was asked of it.

    features: names of wgpu-native that are requested of it. limits: a WGPULimits, all of which are
    requested. fixed_subgroup: whether all kernels get subgroups of one size.
    """

    def __init__(self, instance: Instance, handle: Any) -> None:
        self.instance, self.api, self.handle = instance, instance.api, handle
        api, lib = self.api, self.api.lib
        info = api.struct("WGPUAdapterInfo")
        lib.wgpuAdapterGetInfo(handle, info)
        self.name, self.driver = api.text(info.device), api.text(info.description)
        self.vendor = api.text(info.vendor)
        self.kind = KINDS.get(int(info.adapterType), "other")
        self.backend = BACKENDS.get(int(info.backendType), "other")
        self.fixed_subgroup = int(info.vendorID) in _ONE_SIZE
        lib.wgpuAdapterInfoFreeMembers(info[0])
        self.limits = api.struct("WGPULimits")
        lib.wgpuAdapterGetLimits(handle, self.limits)
        self.features = [
            name for name in FEATURES if lib.wgpuAdapterHasFeature(handle, getattr(lib, name))
        ]

    @property
    def label(self) -> str:
        """What a selector may name a part of."""
        return f"{self.name} ({self.backend}, {self.kind})"

    @property
    def software(self) -> bool:
        """Whether it runs on the processors that the process runs on."""
        return self.kind == "cpu"

    def release(self) -> None:
        """Devices made of it stay."""
        self.api.lib.wgpuAdapterRelease(self.handle)

    def capabilities(self, spec: str, subgroup: int | None) -> Capabilities:
        """The adapter as selection and planning see it. subgroup: size of its subgroups, None
        where it has none or no single one."""
        limits = self.limits
        groups = int(limits.maxComputeWorkgroupsPerDimension)
        has = {n for f in self.features if f != SUBGROUP or subgroup for n in FEATURES[f]}
        if self.backend in _STORES_COMPONENTS:
            has.add("component_stores")
        return Capabilities(
            device=spec,
            name=self.name,
            driver=f"{self.driver or self.vendor}, wgpu-native {self.api.version}".strip(", "),
            targets=TARGETS,
            limits=Limits(
                workgroup_invocations=int(limits.maxComputeInvocationsPerWorkgroup),
                workgroup_size=(
                    int(limits.maxComputeWorkgroupSizeX),
                    int(limits.maxComputeWorkgroupSizeY),
                    int(limits.maxComputeWorkgroupSizeZ),
                ),
                grid=(groups, groups, groups),
                shared_bytes=int(limits.maxComputeWorkgroupStorageSize),
                buffer_bytes=int(limits.maxBufferSize) // ITEM * ITEM,
                binding_bytes=int(limits.maxStorageBufferBindingSize) // ITEM * ITEM,
                buffers=int(limits.maxStorageBuffersPerShaderStage),
                loop_iterations=_LLVMPIPE_TRIPS if self.name.startswith("llvmpipe") else None,
            ),
            features=frozenset(has | _ALWAYS),
            subgroup_sizes=(subgroup,) if subgroup else (),
            offset_alignment=max(ITEM, int(limits.minStorageBufferOffsetAlignment)),
            unified_memory=self.kind in ("cpu", "integrated"),
            shared_arena=False,
            facts={"type": self.kind, "backend": self.backend},
        )


def listed(instance: Instance) -> list[Adapter]:
    """Every adapter of the machine; the caller releases each."""
    return [Adapter(instance, handle) for handle in instance.adapters()]
