"""What a physical device has: queried once, enabled entirely, and told as `Capabilities`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....ir.targets import Capabilities, Limits
from ...memory import GRANULE
from .api import version
from .instance import Instance

_LLVMPIPE = 13  # VK_DRIVER_ID_MESA_LLVMPIPE
_LLVMPIPE_TRIPS = 65535
_INDEPENDENT_32, _INDEPENDENT = 0, 1  # VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_*
_COMPUTE_STAGE = 0x20
_BRAIN_STRUCT = "VkPhysicalDeviceShaderBfloat16FeaturesKHR"
MatrixKind = tuple[int, tuple[int, int, int, int]]  # depth, types
_SUBGROUP_SCOPE = 3  # VkScopeKHR
_HALF, _SINGLE, _BRAIN, _I8, _I32, _U8, _U32 = 0, 1, 1000141000, 3, 5, 7, 9  # VkComponentTypeKHR
# What a feature promises: the depth of products of 16 x 16, and types of a, b, c and the result.
_MATRICES = {
    "cooperative_matrix": (16, {(_HALF, _HALF, c, c) for c in (_HALF, _SINGLE)}),
    "cooperative_matrix_bf16": (16, {(_BRAIN, _BRAIN, _SINGLE, _SINGLE)}),
    "cooperative_matrix_i8": (32, {(_I8, _I8, _I32, _I32), (_U8, _U8, _U32, _U32)}),
}
CORE_FEATURES = {"shaderFloat64": "f64", "shaderInt64": "i64", "shaderInt16": "i16"}


@dataclass(frozen=True, slots=True)
class FeatureStruct:
    """A struct of feature switches: its type and tag, the version from which it is core, else the
    extension, and the features that its fields stand for ("" where none, but still enabled)."""

    type: str
    tag: str | int
    core: int | None
    extension: str | None
    fields: dict[str, str]


STRUCTS = (
    FeatureStruct(
        "VkPhysicalDevice16BitStorageFeatures",
        "PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES",
        version(1, 1),
        None,
        {"storageBuffer16BitAccess": "storage16"},
    ),
    FeatureStruct(
        "VkPhysicalDevice8BitStorageFeatures",
        "PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES",
        version(1, 2),
        "VK_KHR_8bit_storage",
        {"storageBuffer8BitAccess": "storage8"},
    ),
    FeatureStruct(
        "VkPhysicalDeviceShaderFloat16Int8Features",
        "PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES",
        version(1, 2),
        "VK_KHR_shader_float16_int8",
        {"shaderFloat16": "f16", "shaderInt8": "i8"},
    ),
    FeatureStruct(
        "VkPhysicalDeviceShaderAtomicInt64Features",
        "PHYSICAL_DEVICE_SHADER_ATOMIC_INT64_FEATURES",
        version(1, 2),
        "VK_KHR_shader_atomic_int64",
        {"shaderBufferInt64Atomics": "atomic_i64", "shaderSharedInt64Atomics": "atomic_shared_i64"},
    ),
    FeatureStruct(
        "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT",
        "PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT",
        None,
        "VK_EXT_shader_atomic_float",
        {
            "shaderBufferFloat32Atomics": "",
            "shaderBufferFloat32AtomicAdd": "atomic_f32_add",
            "shaderBufferFloat64Atomics": "",
            "shaderBufferFloat64AtomicAdd": "atomic_f64_add",
            "shaderSharedFloat32Atomics": "",
            "shaderSharedFloat32AtomicAdd": "atomic_shared_f32_add",
        },
    ),
    FeatureStruct(
        "VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT",
        "PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_2_FEATURES_EXT",
        None,
        "VK_EXT_shader_atomic_float2",
        {"shaderBufferFloat32AtomicMinMax": "atomic_f32_minmax"},
    ),
    FeatureStruct(
        "VkPhysicalDeviceVulkanMemoryModelFeatures",
        "PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES",
        version(1, 2),
        "VK_KHR_vulkan_memory_model",
        {"vulkanMemoryModel": "", "vulkanMemoryModelDeviceScope": "memory_model"},
    ),
    FeatureStruct(
        "VkPhysicalDeviceShaderSubgroupExtendedTypesFeatures",
        "PHYSICAL_DEVICE_SHADER_SUBGROUP_EXTENDED_TYPES_FEATURES",
        version(1, 2),
        "VK_KHR_shader_subgroup_extended_types",
        {"shaderSubgroupExtendedTypes": ""},
    ),
    FeatureStruct(
        "VkPhysicalDeviceSubgroupSizeControlFeatures",
        "PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES",
        version(1, 3),
        "VK_EXT_subgroup_size_control",
        {"subgroupSizeControl": "", "computeFullSubgroups": ""},
    ),
    FeatureStruct(
        "VkPhysicalDeviceShaderIntegerDotProductFeatures",
        "PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES",
        version(1, 3),
        "VK_KHR_shader_integer_dot_product",
        {"shaderIntegerDotProduct": "dot4"},
    ),
    FeatureStruct(
        "VkPhysicalDeviceRobustness2FeaturesEXT",
        "PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT",
        None,
        "VK_EXT_robustness2",
        {"robustBufferAccess2": ""},
    ),
    FeatureStruct(
        "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
        "PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR",
        None,
        "VK_KHR_cooperative_matrix",
        {"cooperativeMatrix": ""},
    ),
    FeatureStruct(
        _BRAIN_STRUCT,
        1000141000,
        None,
        "VK_KHR_shader_bfloat16",
        {"shaderBFloat16Type": "bf16", "shaderBFloat16CooperativeMatrix": ""},
    ),
)

# bit of VkSubgroupFeatureFlagBits -> feature
_SUBGROUP_OPS = {
    0x1: "subgroup_basic",
    0x2: "subgroup_vote",
    0x4: "subgroup_arithmetic",
    0x8: "subgroup_ballot",
    0x10: "subgroup_shuffle",
    0x20: "subgroup_shuffle_relative",
}
_TYPES = {1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
_DENORM, _ROUNDING, _HALF_ROUNDING, _SPECIALS = (
    "float_controls_denorm",
    "float_controls_rte",
    "float_controls_rte16",
    "float_controls_signed_zero_inf_nan",
)


def matrix_features(kinds: set[MatrixKind]) -> set[str]:
    """The features that a list of products, of 16 x 16 by a subgroup, amounts to."""
    return {
        name
        for name, (depth, wanted) in _MATRICES.items()
        if {(depth, types) for types in wanted} <= kinds
    }


class PhysicalDevice:
    """A physical device and all that was asked of it.

    on: enabled fields of each feature struct. core: enabled core features. facts about memory,
    subgroups and the driver are plain attributes.
    """

    def __init__(self, instance: Instance, handle: Any) -> None:
        self.instance, self.api, self.handle = instance, instance.api, handle
        self.properties = instance.properties(handle)
        self.name = self.api.text(self.properties.deviceName)
        self.version = int(self.properties.apiVersion)
        listed, keep = self.api.listed(
            "vkEnumerateDeviceExtensionProperties",
            "VkExtensionProperties",
            handle,
            self.api.ffi.NULL,
        )
        self.extensions = {self.api.text(e.extensionName) for e in listed}
        del keep
        self._query_features()
        self._query_properties()
        self._matrices = matrix_features(self._matrix_kinds())
        if "shaderBFloat16CooperativeMatrix" not in self.on.get(_BRAIN_STRUCT, ()):
            self._matrices.discard("cooperative_matrix_bf16")

    def has(self, core: int | None, extension: str | None) -> bool:
        """Whether something is core in the device's version or an extension it offers."""
        return (core is not None and self.version >= core) or extension in self.extensions

    @property
    def unified(self) -> bool:
        """Whether host and device share memory: integrated GPUs and CPU drivers."""
        return int(self.properties.deviceType) in (1, 4)

    def enabled_structs(self) -> list[Any]:
        """Feature structs with everything on that was found, for vkCreateDevice."""
        return [
            self.api.struct(s.type, s.tag, **dict.fromkeys(self.on[s.type], 1))
            for s in STRUCTS
            if self.on.get(s.type)
        ]

    def enabled_extensions(self) -> list[str]:
        """Extensions behind the enabled structs, and those that only report."""
        needed = [
            s.extension
            for s in STRUCTS
            if self.on.get(s.type) and s.extension and not self.has(s.core, None)
        ]
        reporting = [e for e in ("VK_EXT_memory_budget",) if e in self.extensions]
        if self.float_controls and not self.has(version(1, 2), None):
            reporting.append("VK_KHR_shader_float_controls")
        return needed + reporting

    def _query_features(self) -> None:
        api = self.api
        known = [s for s in STRUCTS if self.has(s.core, s.extension)]
        structs = [api.struct(s.type, s.tag) for s in known]
        head = api.struct("VkPhysicalDeviceFeatures2", "PHYSICAL_DEVICE_FEATURES_2")
        api.vk.vkGetPhysicalDeviceFeatures2(self.handle, api.chain(head, structs))
        self.on = {
            s.type: [f for f in s.fields if getattr(struct, f)]
            for s, struct in zip(known, structs, strict=True)
        }
        self.core = [f for f in CORE_FEATURES if getattr(head.features, f)]
        self.robust = bool(head.features.robustBufferAccess)

    def _query_properties(self) -> None:
        api = self.api
        subgroup = api.struct(
            "VkPhysicalDeviceSubgroupProperties", "PHYSICAL_DEVICE_SUBGROUP_PROPERTIES"
        )
        sizes = api.struct(
            "VkPhysicalDeviceSubgroupSizeControlProperties",
            "PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES",
        )
        floats = api.struct(
            "VkPhysicalDeviceFloatControlsProperties", "PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES"
        )
        driver = api.struct("VkPhysicalDeviceDriverProperties", "PHYSICAL_DEVICE_DRIVER_PROPERTIES")
        memory = api.struct(
            "VkPhysicalDeviceMaintenance3Properties", "PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES"
        )
        asked = [subgroup, memory]
        sized = self.has(version(1, 3), "VK_EXT_subgroup_size_control")
        self.float_controls = self.has(version(1, 2), "VK_KHR_shader_float_controls")
        named = self.has(version(1, 2), "VK_KHR_driver_properties")
        asked += [sizes] * sized + [floats] * self.float_controls + [driver] * named
        head = api.struct("VkPhysicalDeviceProperties2", "PHYSICAL_DEVICE_PROPERTIES_2")
        api.vk.vkGetPhysicalDeviceProperties2(self.handle, api.chain(head, asked))
        self.max_allocation = int(memory.maxMemoryAllocationSize)
        self.driver_id = int(driver.driverID)
        self.driver = f"{api.text(driver.driverName)} {api.text(driver.driverInfo)}".strip()
        self._keep_subgroup(subgroup, sizes)
        self._floats = {
            _DENORM: bool(floats.shaderDenormPreserveFloat32),
            _ROUNDING: bool(floats.shaderRoundingModeRTEFloat32),
            # For one width alone only where widths are independent, all or f32 from the others.
            _HALF_ROUNDING: bool(floats.shaderRoundingModeRTEFloat16)
            and int(floats.roundingModeIndependence) in (_INDEPENDENT_32, _INDEPENDENT),
            _SPECIALS: bool(floats.shaderSignedZeroInfNanPreserveFloat32),
        }

    def _matrix_kinds(self) -> set[MatrixKind]:
        """The products of 16 x 16 matrices that a subgroup computes."""
        if not self.on.get("VkPhysicalDeviceCooperativeMatrixFeaturesKHR"):
            return set()
        api, name = self.api, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
        query = self.instance.function(name, f"PFN_{name}")
        count = api.ffi.new("uint32_t *")
        api.check(query(self.handle, count, api.ffi.NULL), name)
        rows = api.ffi.new("VkCooperativeMatrixPropertiesKHR[]", max(1, count[0]))
        for n in range(count[0]):
            rows[n].sType = api.vk.VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
        api.check(query(self.handle, count, rows), name)
        return {
            (int(r.KSize), (int(r.AType), int(r.BType), int(r.CType), int(r.ResultType)))
            for r in (rows[n] for n in range(count[0]))
            if (r.MSize, r.NSize) == (16, 16)
            and int(r.scope) == _SUBGROUP_SCOPE
            and not r.saturatingAccumulation
        }

    def _keep_subgroup(self, subgroup: Any, sizes: Any) -> None:
        in_compute = bool(subgroup.supportedStages & _COMPUTE_STAGE)
        self.subgroup_size = int(subgroup.subgroupSize)
        self._subgroup_ops = int(subgroup.supportedOperations) if in_compute else 0
        control = self.on.get("VkPhysicalDeviceSubgroupSizeControlFeatures", [])
        self.size_control = "subgroupSizeControl" in control and bool(
            sizes.requiredSubgroupSizeStages & _COMPUTE_STAGE
        )
        self.full_subgroups = "computeFullSubgroups" in control
        self.max_subgroups = int(sizes.maxComputeWorkgroupSubgroups) if self.size_control else None
        self.subgroup_sizes: tuple[int, ...] = (self.subgroup_size,)
        if self.size_control:
            low, high = int(sizes.minSubgroupSize), int(sizes.maxSubgroupSize)
            self.subgroup_sizes = tuple(1 << n for n in range(8) if low <= 1 << n <= high)

    def features(self) -> frozenset[str]:
        """Names of `ir.targets.FEATURES`."""
        found = {CORE_FEATURES[f] for f in self.core}
        for struct in STRUCTS:
            found |= {struct.fields[f] for f in self.on.get(struct.type, ())}
        found |= {name for bit, name in _SUBGROUP_OPS.items() if self._subgroup_ops & bit}
        found |= {name for name, there in self._floats.items() if there}
        if self.size_control:
            found.add("subgroup_size_control")
        return frozenset((found | self._matrices) - {""})

    def capabilities(self, spec: str) -> Capabilities:
        """The device as selection and planning see it."""
        limits = self.properties.limits
        kept = Limits(
            workgroup_invocations=limits.maxComputeWorkGroupInvocations,
            workgroup_size=_three(limits.maxComputeWorkGroupSize),
            grid=_three(limits.maxComputeWorkGroupCount),
            shared_bytes=limits.maxComputeSharedMemorySize,
            buffer_bytes=self.max_allocation,
            binding_bytes=limits.maxStorageBufferRange,
            buffers=min(
                limits.maxPerStageDescriptorStorageBuffers,
                limits.maxDescriptorSetStorageBuffers,
                limits.maxPerStageResources - 1,
            ),
            loop_iterations=_LLVMPIPE_TRIPS if self.driver_id == _LLVMPIPE else None,
        )
        newer = ("spirv-vulkan1.3",) if self.version >= version(1, 3) else ()
        return Capabilities(
            device=spec,
            name=self.name,
            driver=self.driver or f"driver version {self.properties.driverVersion:#x}",
            targets=(*newer, "spirv-vulkan1.1"),
            limits=kept,
            features=self.features(),
            subgroup_sizes=self.subgroup_sizes,
            offset_alignment=max(GRANULE, int(limits.minStorageBufferOffsetAlignment)),
            unified_memory=self.unified,
            facts={
                "type": _TYPES.get(int(self.properties.deviceType), "other"),
                "api_version": f"{self.version >> 22}.{self.version >> 12 & 0x3FF}",
                "robust_buffer_access_2": int(
                    bool(self.on.get("VkPhysicalDeviceRobustness2FeaturesEXT"))
                ),
            },
        )


def _three(values: Any) -> tuple[int, int, int]:
    return int(values[0]), int(values[1]), int(values[2])
