"""From checked WGSL to a pipeline, its parameter blocks and its bind groups."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ....store.manifest import Manifest
from ...errors import ArtifactCorrupt, CompileFailed, DriverError
from .buffers import COPY_TARGET, UNIFORM, WgpuBuffer
from .logical import Logical, plain

_DECLARED = re.compile(r"^@group\(0\) @binding\((\d+)\) var<(uniform|storage, read(?:_write)?)> ")
_KINDS = {"uniform": 2, "storage, read_write": 3, "storage, read": 4}  # WGPUBufferBindingType
_WHERE = re.compile(r"wgsl:(\d+):\d+")
# Lines that the standard asks for and wgpu-native's compiler (naga) does not know: it has subgroups
# without being asked, and does not analyse how uniform their use is.
_UNKNOWN = "enable subgroups;\n", "diagnostic(off, subgroup_uniformity);\n"
_COMPUTE_STAGE = 4
_ALIGNMENT = 256  # of dynamic offsets: no device asks for more
_BLOCKS, _GROUPS = 64, 256  # that a pipeline keeps
# What the compiler adds to code: indexes are kept within bounds, but no turns of loops counted,
# which costs up to a sixth. Loops end by themselves or are the kernel's fault, as on every device.
_CHECKS = 1
Place = tuple[WgpuBuffer, int, int]  # buffer, offset, bytes


class Pipeline:
    """A loaded kernel. kinds: of its bindings, in order; the last but for faults is uniform.

    Launches with equal parameters share a block of `blocks`; launches with the same buffers share
    a bind group, which takes the block by its offset.
    """

    def __init__(self, logical: Logical, handle: Any, layout: Any, kinds: Sequence[int]) -> None:
        self._logical, self._lib = logical, logical.lib
        self.handle, self.layout, self.kinds = handle, layout, tuple(kinds)
        self._blocks: WgpuBuffer | None = None
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._groups: OrderedDict[Any, tuple[Any, list[WgpuBuffer]]] = OrderedDict()

    def block(self, data: bytes) -> tuple[WgpuBuffer, int]:
        """Where a parameter block lies; it is written in queue order if it does not yet."""
        stride = stride_of(len(data))
        if self._blocks is None:
            self._blocks = WgpuBuffer(self._logical, _BLOCKS * stride, UNIFORM | COPY_TARGET)
        at = self._known.get(data)
        if at is None:
            full = len(self._known) >= _BLOCKS
            at = next(iter(self._known.values())) if full else len(self._known) * stride
            queue, handle = self._logical.queue, self._blocks.handle
            self._lib.wgpuQueueWriteBuffer(queue, handle, at, data, len(data))
            self._logical.check("wgpuQueueWriteBuffer")
            if full:
                self._known.popitem(last=False)
            self._known[data] = at
        else:
            self._known.move_to_end(data)
        return self._blocks, at

    def group(self, places: Sequence[Place], block: WgpuBuffer, size: int) -> Any:
        """The bind group of these buffers, the parameter block's buffer among them."""
        key = tuple((id(buffer), at, nbytes) for buffer, at, nbytes in places)
        found = self._groups.get(key)
        if found is not None:
            self._groups.move_to_end(key)
            return found[0]
        if len(self._groups) >= _GROUPS:
            self._forget(next(iter(self._groups)))
        uniform = self.kinds.index(_KINDS["uniform"])
        whole = [*places[:uniform], (block, 0, size), *places[uniform:]]
        made = bind_group(self._logical, self, whole)
        buffers = [buffer for buffer, _, _ in places]
        for buffer in buffers:
            buffer.groups[id(self), key] = lambda: self._forget(key)
        self._groups[key] = made, buffers
        return made

    def _forget(self, key: Any) -> None:
        group, buffers = self._groups.pop(key)
        for buffer in buffers:
            buffer.groups.pop((id(self), key), None)
        self._lib.wgpuBindGroupRelease(group)

    def close(self) -> None:
        """No submitted work uses it."""
        for key in list(self._groups):
            self._forget(key)
        if self._blocks is not None:
            self._blocks.destroy()
        self._lib.wgpuComputePipelineRelease(self.handle)
        self._lib.wgpuBindGroupLayoutRelease(self.layout)


def stride_of(size: int) -> int:
    """The distance of parameter blocks of a size."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def bind_group(logical: Logical, pipeline: Pipeline, places: Sequence[Place]) -> Any:
    """A new bind group with these buffers in the order of their bindings."""
    entries = logical.ffi.new("WGPUBindGroupEntry[]", len(places))
    for n, (buffer, at, size) in enumerate(places):
        entries[n].binding, entries[n].buffer = n, buffer.handle
        entries[n].offset, entries[n].size = at, size
    descriptor = logical.api.struct(
        "WGPUBindGroupDescriptor", layout=pipeline.layout, entryCount=len(places), entries=entries
    )
    made = logical.lib.wgpuDeviceCreateBindGroup(logical.handle, descriptor)
    try:
        logical.check("wgpuDeviceCreateBindGroup")
    except DriverError:
        logical.lib.wgpuBindGroupRelease(made)
        raise
    return made


class PipelineMaker:
    """Makes pipelines and takes them back."""

    def __init__(self, logical: Logical) -> None:
        self._logical, self._api, self._lib = logical, logical.api, logical.lib
        self._made: list[Pipeline] = []

    def load(self, manifest: Manifest, blob: bytes, where: str) -> Pipeline:
        """The pipeline of an artifact whose bytes were checked."""
        try:
            text = blob.decode()
        except UnicodeDecodeError as error:
            raise ArtifactCorrupt("not WGSL", where=where, do="rebuild the bundle") from error
        kinds = declared(text)
        buffers = sum(p.kind != "scalar" for p in manifest.params)
        storage = [k != _KINDS["uniform"] for k in kinds]
        if storage != [True] * buffers + [False] + [True] * bool(manifest.sites):
            raise ArtifactCorrupt(
                "the module has other bindings than its manifest",
                where=where,
                expected=f"{buffers} buffers, parameters, {int(bool(manifest.sites))} bitmap",
                got=f"{len(kinds)} bindings",
                do="rebuild or fetch the bundle again",
            )
        return self.make(manifest.kernel, text, manifest.entry, kinds, where)

    def make(
        self, kernel: str, text: str, entry: str, kinds: Sequence[int], where: str
    ) -> Pipeline:
        """The pipeline of a module; CompileFailed with the line that is refused, where known."""
        lib, logical = self._lib, self._logical
        module = self._module(kernel, text, where)
        layout = self._layout(kinds)
        sets = logical.ffi.new("WGPUBindGroupLayout[1]", [layout])
        descriptor = self._api.struct(
            "WGPUPipelineLayoutDescriptor", bindGroupLayoutCount=1, bindGroupLayouts=sets
        )
        whole = lib.wgpuDeviceCreatePipelineLayout(logical.handle, descriptor)
        chars, view = self._api.view(entry.encode())
        pipeline = self._api.struct("WGPUComputePipelineDescriptor", layout=whole)
        pipeline.compute.module, pipeline.compute.entryPoint = module, view
        handle = lib.wgpuDeviceCreateComputePipeline(logical.handle, pipeline)
        del chars  # the descriptor pointed at it until here
        lib.wgpuShaderModuleRelease(module)
        lib.wgpuPipelineLayoutRelease(whole)
        try:
            self._compiled(kernel, "wgpuDeviceCreateComputePipeline", where)
        except BaseException:
            lib.wgpuComputePipelineRelease(handle)
            lib.wgpuBindGroupLayoutRelease(layout)
            raise
        self._made.append(Pipeline(logical, handle, layout, kinds))
        return self._made[-1]

    def _module(self, kernel: str, text: str, where: str) -> Any:
        for line in _UNKNOWN:
            text = text.replace(line, "\n", 1)
        chars, view = self._api.view(text.encode())
        source, chain = self._api.chained("WGPUShaderSourceWGSL", "ShaderSourceWGSL", code=view)
        descriptor = self._api.struct("WGPUShaderModuleDescriptor", nextInChain=chain)
        create = self._lib.wgpuDeviceCreateShaderModuleTrusted
        module = create(self._logical.handle, descriptor, _CHECKS)
        del chars, source  # the descriptor pointed at them until here
        try:
            self._compiled(kernel, "wgpuDeviceCreateShaderModule", where)
        except BaseException:
            self._lib.wgpuShaderModuleRelease(module)
            raise
        return module

    def _compiled(self, kernel: str, call: str, where: str) -> None:
        try:
            self._logical.check(call, where)
        except DriverError as error:
            found = _WHERE.search(str(error))
            line = int(found[1]) if found else None
            raise CompileFailed(kernel, line, plain(error.what), where) from error

    def _layout(self, kinds: Sequence[int]) -> Any:
        entries = self._logical.ffi.new("WGPUBindGroupLayoutEntry[]", len(kinds))
        for n, kind in enumerate(kinds):
            entries[n].binding, entries[n].visibility = n, _COMPUTE_STAGE
            entries[n].buffer.type = kind
            entries[n].buffer.hasDynamicOffset = kind == _KINDS["uniform"]
        descriptor = self._api.struct(
            "WGPUBindGroupLayoutDescriptor", entryCount=len(kinds), entries=entries
        )
        return self._lib.wgpuDeviceCreateBindGroupLayout(self._logical.handle, descriptor)

    def close(self) -> None:
        """No submitted work uses any of them."""
        for pipeline in self._made:
            pipeline.close()
        self._made.clear()


def declared(text: str) -> list[int]:
    """The kinds of a module's bindings, in order; [] where they do not count from 0."""
    found = [m for line in text.splitlines() if (m := _DECLARED.match(line))]
    in_order = sorted((int(m[1]), _KINDS[m[2]]) for m in found)
    return [k for _, k in in_order] if [n for n, _ in in_order] == [*range(len(found))] else []
