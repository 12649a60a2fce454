"""Descriptor pools that grow, and sets written in one call."""

from __future__ import annotations

from typing import Any

from ...errors import DriverError
from ...hazards import Binding
from .buffers import VulkanBuffer
from .logical import Logical
from .pipelines import STORAGE, UNIFORM, Pipeline


class DescriptorPool:
    """Sets for one submission or recording. `reset` forgets them all."""

    def __init__(self, logical: Logical, sets: int = 1, storage: int = 32) -> None:
        self._logical, self._api = logical, logical.api
        self._sets, self._storage = sets, storage
        self._handle: Any = None
        self._out = self._api.ffi.new("VkDescriptorSet *")
        self._layouts = self._api.ffi.new("VkDescriptorSetLayout[1]")
        self._info: Any = None

    def reset(self, storage: int) -> None:
        """Forget all sets; room for `storage` storage buffers in all follows."""
        if self._handle is not None and storage <= self._storage:
            self._api.vk.vkResetDescriptorPool(self._logical.handle, self._handle, 0)
            return
        self.close()
        self._storage = max(storage, self._storage)
        self._handle = self._create()
        self._info = self._api.struct(
            "VkDescriptorSetAllocateInfo",
            "DESCRIPTOR_SET_ALLOCATE_INFO",
            descriptorPool=self._handle,
            descriptorSetCount=1,
            pSetLayouts=self._layouts,
        )

    def allocate(self, pipeline: Pipeline) -> Any:
        """A set of the pipeline's layout."""
        self._layouts[0] = pipeline.set_layout
        status = self._api.vk.vkAllocateDescriptorSets(self._logical.handle, self._info, self._out)
        self._api.check(status, "vkAllocateDescriptorSets")
        return self._out[0]

    def close(self) -> None:
        """The sets are not in use."""
        if self._handle is not None:
            self._logical.destroy("vkDestroyDescriptorPool", self._handle)
            self._handle = None

    def _create(self) -> Any:
        sizes = self._api.ffi.new("VkDescriptorPoolSize[2]")
        sizes[0].type, sizes[0].descriptorCount = STORAGE, max(1, self._storage)
        sizes[1].type, sizes[1].descriptorCount = UNIFORM, self._sets
        info = self._api.struct(
            "VkDescriptorPoolCreateInfo",
            "DESCRIPTOR_POOL_CREATE_INFO",
            maxSets=self._sets,
            poolSizeCount=2,
            pPoolSizes=sizes,
        )
        return self._logical.create("vkCreateDescriptorPool", "VkDescriptorPool", info)


class DescriptorWriter:
    """Fills sets through an update template, from one array that is used again."""

    def __init__(self, logical: Logical, faults: VulkanBuffer) -> None:
        self._logical, self._api, self._faults = logical, logical.api, faults
        self._room = 0
        self._infos: Any = None

    def write(
        self,
        set_: Any,
        pipeline: Pipeline,
        bindings: tuple[Binding, ...],
        params: tuple[VulkanBuffer, int, int],
    ) -> None:
        """Point a set at a launch's buffers, its parameter block (buffer, offset, size) and the
        fault bitmap."""
        if pipeline.descriptors > self._room:
            self._room = max(16, pipeline.descriptors)
            self._infos = self._api.ffi.new("VkDescriptorBufferInfo[]", self._room)
        if len(bindings) != pipeline.buffers:
            raise DriverError("descriptor update", 0, "a wrong number of buffers")
        infos = self._infos
        for n, binding in enumerate(bindings):
            # Whole words: 8- and 16-bit elements are also reached through the word around them.
            info, nbytes = infos[n], (binding.nbytes + 3) & ~3
            info.buffer = binding.allocation.handle.handle
            info.offset, info.range = binding.offset, nbytes or 16
        block, offset, size = params
        n = len(bindings)
        infos[n].buffer, infos[n].offset, infos[n].range = block.handle, offset, size
        if pipeline.faults:
            fault = infos[n + 1]
            fault.buffer, fault.offset, fault.range = self._faults.handle, 0, self._faults.size
        self._api.vk.vkUpdateDescriptorSetWithTemplate(
            self._logical.handle, set_, pipeline.template, infos
        )
