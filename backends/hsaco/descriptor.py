"""The kernel descriptor: 64 bytes that the packet processor reads to start a kernel.

Layout: LLVM's "User Guide for AMDGPU Backend", "Kernel Descriptor".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .processors import Processor

SIZE = 64
ALIGN = 64
# group, private and kernarg bytes, reserved, entry, reserved, rsrc3, rsrc1, rsrc2, properties,
# preload, reserved
_LAYOUT = struct.Struct("<III4sq20sIIIHH4s")
_WAVE32 = 1 << 10  # of the properties
_DYNAMIC_STACK = 1 << 11
_WORKGROUP_PROCESSOR = 1 << 29  # of rsrc1, from gfx10 on


class DescriptorError(Exception):
    """Bytes that are no kernel descriptor, and why."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Sizes in bytes. entry: the first instruction, from the descriptor's own address on. vgprs:
    those allocated, in whole granules of the encoding."""

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry: int
    vgprs: int
    wavefront: int
    workgroup_processor: bool
    dynamic_stack: bool


def read(data: bytes, processor: Processor) -> Descriptor:
    """The descriptor in these 64 bytes. DescriptorError where they are none."""
    if len(data) != SIZE:
        raise DescriptorError(f"a kernel descriptor has {SIZE} bytes, not {len(data)}")
    lds, scratch, kernarg, zeros, entry, more, _, rsrc1, _, properties, _, last = _LAYOUT.unpack(
        data
    )
    if any(zeros + more + last):
        raise DescriptorError("reserved bytes of the kernel descriptor are not zero")
    has_wave32 = processor.wavefront == 32
    wave32 = bool(properties & _WAVE32)
    if wave32 and not has_wave32:
        raise DescriptorError("the kernel descriptor asks for waves of 32, which gfx9 has not")
    # The encoding counts what a wave of 32 takes; one of 64 takes half as many steps.
    step = processor.encoded // (2 if has_wave32 and not wave32 else 1)
    return Descriptor(
        lds,
        scratch,
        kernarg,
        entry,
        ((rsrc1 & 63) + 1) * step,
        32 if wave32 else 64,
        has_wave32 and bool(rsrc1 & _WORKGROUP_PROCESSOR),
        bool(properties & _DYNAMIC_STACK),
    )
