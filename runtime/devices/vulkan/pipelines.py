"""From checked SPIR-V to a pipeline and the layout of its one descriptor set."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ....store.manifest import Manifest
from ...errors import ArtifactCorrupt, LimitExceeded
from .logical import Logical

STORAGE, UNIFORM = 7, 6  # VkDescriptorType
_COMPUTE_STAGE = 0x20
_FULL_SUBGROUPS = 0x2
_HEADER_WORDS, _EXECUTION_MODE, _LOCAL_SIZE = 5, 16, 17
_MAGIC = b"\x03\x02\x23\x07"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A loaded kernel. buffers: storage buffers without the fault bitmap; template: updates all
    descriptors of a set from one array."""

    handle: Any
    layout: Any
    set_layout: Any
    template: Any
    buffers: int
    faults: bool

    @property
    def descriptors(self) -> int:
        return self.buffers + 1 + self.faults


class PipelineMaker:
    """Makes pipelines and keeps what they share."""

    def __init__(self, logical: Logical) -> None:
        self._logical, self._api = logical, logical.api
        info = self._api.struct("VkPipelineCacheCreateInfo", "PIPELINE_CACHE_CREATE_INFO")
        self._cache = logical.create("vkCreatePipelineCache", "VkPipelineCache", info)
        self._made: list[Pipeline] = []

    def make(self, manifest: Manifest, blob: bytes, where: str) -> Pipeline:
        """The pipeline of an artifact whose bytes were checked."""
        if len(blob) % 4 or blob[:4] != _MAGIC:
            raise ArtifactCorrupt("not a SPIR-V module", where=where, do="rebuild the bundle")
        self._check_subgroups(manifest)
        buffers, faults = sum(p.kind != "scalar" for p in manifest.params), bool(manifest.sites)
        kinds = [STORAGE] * buffers + [UNIFORM] + [STORAGE] * faults
        destroy = self._logical.destroy
        with ExitStack() as undo:  # what was made before a call that fails
            set_layout = self._set_layout(kinds)
            undo.callback(destroy, "vkDestroyDescriptorSetLayout", set_layout)
            layout = self._layout(set_layout)
            undo.callback(destroy, "vkDestroyPipelineLayout", layout)
            template = self._template(kinds, set_layout)
            undo.callback(destroy, "vkDestroyDescriptorUpdateTemplate", template)
            handle = self._pipeline(manifest, blob, layout)
            undo.pop_all()
        made = Pipeline(handle, layout, set_layout, template, buffers, faults)
        self._made.append(made)
        return made

    def close(self) -> None:
        """No submitted work uses any of them."""
        for p in self._made:
            self._logical.destroy("vkDestroyPipeline", p.handle)
            self._logical.destroy("vkDestroyPipelineLayout", p.layout)
            self._logical.destroy("vkDestroyDescriptorUpdateTemplate", p.template)
            self._logical.destroy("vkDestroyDescriptorSetLayout", p.set_layout)
        self._made.clear()
        self._logical.destroy("vkDestroyPipelineCache", self._cache)

    def _check_subgroups(self, manifest: Manifest) -> None:
        physical = self._logical.physical
        if manifest.subgroup is None or physical.max_subgroups is None:
            return
        x, y, z = manifest.workgroup
        count = -(-x * y * z // manifest.subgroup)
        if count > physical.max_subgroups:
            raise LimitExceeded(
                "subgroups in a workgroup",
                physical.max_subgroups,
                count,
                f"kernel {manifest.kernel}",
            )

    def _set_layout(self, kinds: list[int]) -> Any:
        api, ffi = self._api, self._api.ffi
        bindings = ffi.new("VkDescriptorSetLayoutBinding[]", len(kinds))
        for n, kind in enumerate(kinds):
            bindings[n].binding, bindings[n].descriptorType = n, kind
            bindings[n].descriptorCount, bindings[n].stageFlags = 1, _COMPUTE_STAGE
        info = api.struct(
            "VkDescriptorSetLayoutCreateInfo",
            "DESCRIPTOR_SET_LAYOUT_CREATE_INFO",
            bindingCount=len(kinds),
            pBindings=bindings,
        )
        return self._logical.create("vkCreateDescriptorSetLayout", "VkDescriptorSetLayout", info)

    def _layout(self, set_layout: Any) -> Any:
        sets = self._api.ffi.new("VkDescriptorSetLayout[]", [set_layout])
        info = self._api.struct(
            "VkPipelineLayoutCreateInfo",
            "PIPELINE_LAYOUT_CREATE_INFO",
            setLayoutCount=1,
            pSetLayouts=sets,
        )
        return self._logical.create("vkCreatePipelineLayout", "VkPipelineLayout", info)

    def _template(self, kinds: list[int], set_layout: Any) -> Any:
        api, ffi = self._api, self._api.ffi
        size = ffi.sizeof("VkDescriptorBufferInfo")
        entries = ffi.new("VkDescriptorUpdateTemplateEntry[]", len(kinds))
        for n, kind in enumerate(kinds):
            entries[n].dstBinding, entries[n].descriptorType = n, kind
            entries[n].descriptorCount, entries[n].offset, entries[n].stride = 1, n * size, size
        info = api.struct(
            "VkDescriptorUpdateTemplateCreateInfo",
            "DESCRIPTOR_UPDATE_TEMPLATE_CREATE_INFO",
            descriptorUpdateEntryCount=len(kinds),
            pDescriptorUpdateEntries=entries,
            templateType=0,  # of a descriptor set
            descriptorSetLayout=set_layout,
        )
        return self._logical.create(
            "vkCreateDescriptorUpdateTemplate", "VkDescriptorUpdateTemplate", info
        )

    def _pipeline(self, manifest: Manifest, blob: bytes, layout: Any) -> Any:
        api, ffi, logical = self._api, self._api.ffi, self._logical
        words = ffi.new("uint32_t[]", len(blob) // 4)
        ffi.memmove(words, blob, len(blob))
        info = api.struct(
            "VkShaderModuleCreateInfo", "SHADER_MODULE_CREATE_INFO", codeSize=len(blob), pCode=words
        )
        module = logical.create("vkCreateShaderModule", "VkShaderModule", info)
        name = ffi.new("char[]", manifest.entry.encode())
        pipeline = api.struct(
            "VkComputePipelineCreateInfo", "COMPUTE_PIPELINE_CREATE_INFO", layout=layout
        )
        stage = pipeline.stage
        stage.sType = api.vk.VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO
        stage.stage, stage.module, stage.pName = _COMPUTE_STAGE, module, name
        required = self._required_subgroup(manifest, words, stage)
        out = ffi.new("VkPipeline *")
        try:
            status = api.vk.vkCreateComputePipelines(
                logical.handle, self._cache, 1, pipeline, ffi.NULL, out
            )
            api.check(status, "vkCreateComputePipelines", f"kernel {manifest.kernel}")
        finally:
            logical.destroy("vkDestroyShaderModule", module)
            del required  # it was chained to the stage until here
        return out[0]

    def _required_subgroup(self, manifest: Manifest, words: Any, stage: Any) -> Any:
        """Demand the kernel's subgroup size where the device lets it be demanded, and full
        subgroups where the module's own workgroup size lets those be demanded."""
        physical, size = self._logical.physical, manifest.subgroup
        if size is None or not physical.size_control:
            return None
        required = self._api.struct(
            "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo",
            "PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO",
            requiredSubgroupSize=size,
        )
        stage.pNext = self._api.ffi.cast("void *", required)
        if physical.full_subgroups and _width(words) % size == 0:
            stage.flags = _FULL_SUBGROUPS
        return required


def _width(words: Any) -> int:
    """The x of a module's LocalSize; emitters may lay a workgroup out otherwise than its kernel."""
    at, count = _HEADER_WORDS, len(words)
    while at < count:
        length, code = words[at] >> 16, words[at] & 0xFFFF
        if code == _EXECUTION_MODE and words[at + 2] == _LOCAL_SIZE:
            return int(words[at + 3])
        at += max(length, 1)
    return 1
