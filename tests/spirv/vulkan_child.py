"""A process that runs SPIR-V modules on the first Vulkan device of its driver.

Jobs arrive pickled on standard input, results leave pickled on standard output. The driver is
chosen by VK_DRIVER_FILES, which the loader reads once: hence a process for each driver.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any, BinaryIO

import vulkan as vk
from vulkan import ffi, lib

CORE = {  # member of a feature struct -> feature name of ir.targets
    "shaderFloat16": "f16",
    "shaderInt8": "i8",
    "storageBuffer8BitAccess": "storage8",
    "storageBuffer16BitAccess": "storage16",
    "shaderBufferInt64Atomics": "atomic_i64",
    "shaderSharedInt64Atomics": "atomic_shared_i64",
    "shaderFloat64": "f64",
    "shaderInt64": "i64",
    "shaderInt16": "i16",
    "shaderIntegerDotProduct": "dot4",
    "subgroupSizeControl": "subgroup_size_control",
    "shaderBufferFloat32AtomicAdd": "atomic_f32_add",
    "shaderSharedFloat32AtomicAdd": "atomic_shared_f32_add",
    "shaderBufferFloat64AtomicAdd": "atomic_f64_add",
}
SUBGROUP = {
    0x1: "subgroup_basic", 0x2: "subgroup_vote", 0x4: "subgroup_arithmetic",
    0x8: "subgroup_ballot", 0x10: "subgroup_shuffle", 0x20: "subgroup_shuffle_relative",
}  # fmt: skip
ROLES = (
    ("VkPhysicalDeviceVulkan11Features", 49, None),
    ("VkPhysicalDeviceVulkan12Features", 51, None),
    ("VkPhysicalDeviceVulkan13Features", 53, None),
    ("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT", 1000260000, "VK_EXT_shader_atomic_float"),
)


def check(status: int, what: str) -> None:
    if status != 0:
        raise RuntimeError(f"{what} gave VkResult {status}")


class Device:
    def __init__(self) -> None:
        app = vk.VkApplicationInfo(apiVersion=(1 << 22) | (3 << 12), pApplicationName="test")
        self.instance = vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=app), None)
        self.physical = vk.vkEnumeratePhysicalDevices(self.instance)[0]
        extensions = {
            e.extensionName for e in vk.vkEnumerateDeviceExtensionProperties(self.physical, None)
        }
        self.features: set[str] = set()
        chain = ffi.new("VkPhysicalDeviceFeatures2*")
        chain.sType = 1000059000
        self.keep: list[Any] = [chain]
        enabled = []
        for name, number, extension in ROLES:
            if extension is not None and extension not in extensions:
                continue
            enabled += [extension] if extension else []
            struct = ffi.new(f"{name}*")
            struct.sType = number
            struct.pNext = chain.pNext
            chain.pNext = ffi.cast("void*", struct)
            self.keep.append(struct)
        lib.vkGetPhysicalDeviceFeatures2(self.physical, chain)
        for struct in [chain.features, *(s[0] for s in self.keep[1:])]:
            for member, feature in CORE.items():
                if getattr(struct, member, 0):
                    self.features.add(feature)
        self.subgroup, operations = self.properties()
        self.features |= {n for bit, n in SUBGROUP.items() if operations & bit}
        self.open(chain, enabled)

    def properties(self) -> tuple[int, int]:
        props = ffi.new("VkPhysicalDeviceProperties2*")
        props.sType = 1000059001
        sub = ffi.new("VkPhysicalDeviceSubgroupProperties*")
        sub.sType = 1000094000
        controls = ffi.new("VkPhysicalDeviceFloatControlsProperties*")
        controls.sType = 1000197000
        sub.pNext = ffi.cast("void*", controls)
        props.pNext = ffi.cast("void*", sub)
        lib.vkGetPhysicalDeviceProperties2(self.physical, props)
        self.name = ffi.string(props.properties.deviceName).decode()
        for member, feature in (
            ("shaderRoundingModeRTEFloat32", "float_controls_rte"),
            ("shaderRoundingModeRTEFloat16", "float_controls_rte16"),
            ("shaderDenormPreserveFloat32", "float_controls_denorm"),
            ("shaderSignedZeroInfNanPreserveFloat32", "float_controls_signed_zero_inf_nan"),
        ):
            if getattr(controls, member):
                self.features.add(feature)
        return sub.subgroupSize, sub.supportedOperations

    def open(self, chain: Any, extensions: list[str]) -> None:
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, pQueuePriorities=[1.0])
        info = vk.VkDeviceCreateInfo(
            pNext=chain, pQueueCreateInfos=[queue], ppEnabledExtensionNames=extensions
        )
        self.device = vk.vkCreateDevice(self.physical, info, None)
        self.queue = vk.vkGetDeviceQueue(self.device, 0, 0)
        pool = vk.VkCommandPoolCreateInfo(queueFamilyIndex=0)
        self.pool = vk.vkCreateCommandPool(self.device, pool, None)
        memory = vk.vkGetPhysicalDeviceMemoryProperties(self.physical)
        self.memory_type = next(
            n for n in range(memory.memoryTypeCount) if memory.memoryTypes[n].propertyFlags & 6 == 6
        )

    def buffer(self, data: bytes, usage: int) -> tuple[Any, Any, Any, int]:
        size = max(16, (len(data) + 15) // 16 * 16)
        info = vk.VkBufferCreateInfo(size=size, usage=usage, sharingMode=0)
        buffer = vk.vkCreateBuffer(self.device, info, None)
        need = vk.vkGetBufferMemoryRequirements(self.device, buffer)
        allocate = vk.VkMemoryAllocateInfo(
            allocationSize=need.size, memoryTypeIndex=self.memory_type
        )
        memory = vk.vkAllocateMemory(self.device, allocate, None)
        vk.vkBindBufferMemory(self.device, buffer, memory, 0)
        mapped = vk.vkMapMemory(self.device, memory, 0, need.size, 0)
        mapped[: len(data)] = data
        return buffer, memory, mapped, size

    def run(self, job: dict[str, Any]) -> list[bytes]:
        """blob, entry, buffers (bytes), uniform (binding, bytes), groups, subgroup or None."""
        d = self.device
        code = job["blob"]
        module = vk.vkCreateShaderModule(
            d, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None
        )
        at, words = job["uniform"]
        blobs = list(job["buffers"])
        blobs.insert(at, words)
        kinds = [6 if n == at else 7 for n in range(len(blobs))]
        layout = vk.vkCreateDescriptorSetLayout(
            d,
            vk.VkDescriptorSetLayoutCreateInfo(
                pBindings=[
                    vk.VkDescriptorSetLayoutBinding(
                        binding=n, descriptorType=k, descriptorCount=1, stageFlags=32
                    )
                    for n, k in enumerate(kinds)
                ]
            ),
            None,
        )
        pipe_layout = vk.vkCreatePipelineLayout(
            d, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[layout]), None
        )
        extra = {}
        if job.get("subgroup") and "subgroup_size_control" in self.features:
            required = ffi.new("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo*")
            required.sType = 1000225001
            required.requiredSubgroupSize = job["subgroup"]
            extra = {"pNext": required}
        stage = vk.VkPipelineShaderStageCreateInfo(
            stage=32, module=module, pName=job["entry"], **extra
        )
        info = vk.VkComputePipelineCreateInfo(stage=stage, layout=pipe_layout)
        (pipeline,) = vk.vkCreateComputePipelines(d, None, 1, [info], None)
        pool = vk.vkCreateDescriptorPool(
            d,
            vk.VkDescriptorPoolCreateInfo(
                maxSets=1,
                pPoolSizes=[
                    vk.VkDescriptorPoolSize(type=6, descriptorCount=1),
                    vk.VkDescriptorPoolSize(type=7, descriptorCount=max(len(blobs), 1)),
                ],
            ),
            None,
        )
        (dset,) = vk.vkAllocateDescriptorSets(
            d, vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[layout])
        )
        made = [self.buffer(b, 0x10 if k == 6 else 0x20) for b, k in zip(blobs, kinds, strict=True)]
        writes = [
            vk.VkWriteDescriptorSet(
                dstSet=dset,
                dstBinding=n,
                descriptorType=k,
                pBufferInfo=[vk.VkDescriptorBufferInfo(buffer=m[0], offset=0, range=m[3])],
            )
            for n, (m, k) in enumerate(zip(made, kinds, strict=True))
        ]
        vk.vkUpdateDescriptorSets(d, len(writes), writes, 0, None)
        (cmd,) = vk.vkAllocateCommandBuffers(
            d, vk.VkCommandBufferAllocateInfo(commandPool=self.pool, level=0, commandBufferCount=1)
        )
        vk.vkBeginCommandBuffer(cmd, vk.VkCommandBufferBeginInfo(flags=1))
        vk.vkCmdBindPipeline(cmd, 1, pipeline)
        vk.vkCmdBindDescriptorSets(cmd, 1, pipe_layout, 0, 1, [dset], 0, None)
        vk.vkCmdDispatch(cmd, *job["groups"])
        vk.vkEndCommandBuffer(cmd)
        fence = vk.vkCreateFence(d, vk.VkFenceCreateInfo(), None)
        vk.vkQueueSubmit(self.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[cmd])], fence)
        vk.vkWaitForFences(d, 1, [fence], True, 20_000_000_000)
        out = [bytes(m[2][: len(b)]) for m, b in zip(made, blobs, strict=True)]
        out.pop(at)
        vk.vkDestroyFence(d, fence, None)
        vk.vkFreeCommandBuffers(d, self.pool, 1, [cmd])
        for buffer, memory, _, _ in made:
            vk.vkDestroyBuffer(d, buffer, None)
            vk.vkFreeMemory(d, memory, None)
        vk.vkDestroyDescriptorPool(d, pool, None)
        vk.vkDestroyPipeline(d, pipeline, None)
        vk.vkDestroyPipelineLayout(d, pipe_layout, None)
        vk.vkDestroyDescriptorSetLayout(d, layout, None)
        vk.vkDestroyShaderModule(d, module, None)
        return out


def main(source: BinaryIO, sink: BinaryIO) -> None:
    device = Device()
    pickle.dump((device.name, device.features, device.subgroup), sink)
    sink.flush()
    while True:
        try:
            job = pickle.load(source)
        except EOFError:
            return
        try:
            answer: Any = device.run(job)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, sink)
        sink.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
