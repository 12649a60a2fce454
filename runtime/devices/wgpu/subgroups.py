"""The size of an adapter's subgroups, which wgpu-native does not tell: as a kernel sees it."""

from __future__ import annotations

from .buffers import Transfers, WgpuBuffer
from .logical import Logical
from .pipelines import PipelineMaker, bind_group, declared

_PROBE = """\
@group(0) @binding(0) var<storage, read_write> found: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(subgroup_size) size: u32) { found[0] = size; }
"""


def subgroup_size(logical: Logical, pipelines: PipelineMaker, transfers: Transfers) -> int:
    """Run a kernel that tells. Costs one compilation."""
    lib, ffi = logical.lib, logical.ffi
    pipeline = pipelines.make("subgroup size", _PROBE, "main", declared(_PROBE), "")
    found = WgpuBuffer(logical, 16)
    group = bind_group(logical, pipeline, [(found, 0, 16)])
    encoder = logical.encoder()
    work = lib.wgpuCommandEncoderBeginComputePass(encoder, ffi.NULL)
    lib.wgpuComputePassEncoderSetPipeline(work, pipeline.handle)
    lib.wgpuComputePassEncoderSetBindGroup(work, 0, group, 0, ffi.NULL)
    lib.wgpuComputePassEncoderDispatchWorkgroups(work, 1, 1, 1)
    lib.wgpuComputePassEncoderEnd(work)
    lib.wgpuComputePassEncoderRelease(work)
    logical.submit(encoder)
    word = bytearray(4)
    transfers.read(found, 0, memoryview(word))
    lib.wgpuBindGroupRelease(group)
    found.destroy()
    return int.from_bytes(word, "little")
