"""NT_AMDGPU_METADATA: what a code object says about its kernels, a map in MessagePack.

Keys and their meaning: LLVM's "User Guide for AMDGPU Backend", code object V5 and V6 metadata.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...store.messagepack import MessagePackError, unpack

NOTE_NAME, NOTE_TYPE = b"AMDGPU\0", 32
PREFIX = "amdgcn-amd-amdhsa--"  # of the target id


class MetadataError(Exception):
    """Metadata that cannot be read: what, and where."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel: place and size in the kernarg block in bytes, and its kind:
    `global_buffer`, `by_value`, `hidden_...` for what a runtime would have to add."""

    name: str
    offset: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel as its metadata has it. Sizes in bytes; registers of one invocation (vgprs, agprs)
    or one wave (sgprs). vgprs holds the accumulation registers where the processor has them in one
    file. symbol: of its descriptor."""

    name: str
    symbol: str
    arguments: tuple[Argument, ...]
    kernarg_bytes: int
    lds_bytes: int
    scratch_bytes: int
    dynamic_stack: bool
    wavefront: int
    workgroup_processor: bool
    max_workgroup: int
    sgprs: int
    vgprs: int
    agprs: int
    sgpr_spills: int
    vgpr_spills: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """target: a target id, `gfx90a:xnack-`. version: of the metadata."""

    target: str
    version: tuple[int, int]
    kernels: tuple[KernelInfo, ...]


def read_note(data: bytes) -> Any:
    """The contents of a section of notes as a tree, from its NT_AMDGPU_METADATA note.

    MetadataError where there is not one such note, or it is malformed.
    """
    found = []
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            raise MetadataError(f"a note is cut off at byte {at} of {len(data)}")
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + (name_size + 3 & -4)
        if start + size > len(data):
            raise MetadataError(f"the note at byte {at} ends beyond its section of {len(data)}")
        if kind == NOTE_TYPE and data[at + 12 : at + 12 + name_size] == NOTE_NAME:
            found.append(data[start : start + size])
        at = start + (size + 3 & -4)
    if len(found) != 1:
        raise MetadataError(f"{len(found)} notes of AMDGPU metadata, not one")
    try:
        return unpack(found[0])
    except MessagePackError as error:
        raise MetadataError(str(error)) from error


def parse(tree: Any) -> Metadata:
    """The metadata in a tree. MetadataError names what is missing or of another type."""
    top = _Map(tree, "the metadata")
    target = top.get("amdhsa.target", str)
    if not target.startswith(PREFIX):
        raise MetadataError(f"target {target!r} does not begin with {PREFIX}")
    version = top.get("amdhsa.version", list)
    if len(version) != 2 or not all(isinstance(n, int) for n in version):
        raise MetadataError(f"version {version!r} is not two numbers")
    kernels = tuple(_kernel(k) for k in top.get("amdhsa.kernels", list))
    return Metadata(target.removeprefix(PREFIX), (version[0], version[1]), kernels)


class _Map:
    """A map that says which of its keys is missing or odd."""

    def __init__(self, tree: Any, what: str) -> None:
        if not isinstance(tree, Mapping):
            raise MetadataError(f"{what}: a map is expected, not {type(tree).__name__}")
        self.tree, self.what = tree, what

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        value = self.tree.get(key, default)
        if not isinstance(value, kind) or (kind is int and not 0 <= value < 1 << 63):
            raise MetadataError(f"{self.what}: {key} is {value!r}, not {kind.__name__}")
        return value


def _kernel(tree: Any) -> KernelInfo:
    what = tree.get(".name", "?") if isinstance(tree, Mapping) else "?"
    k = _Map(tree, f"kernel {what}")
    arguments = tuple(_argument(a, k.what) for a in k.get(".args", list, []))
    return KernelInfo(
        name=k.get(".name", str),
        symbol=k.get(".symbol", str),
        arguments=arguments,
        kernarg_bytes=k.get(".kernarg_segment_size", int),
        lds_bytes=k.get(".group_segment_fixed_size", int),
        scratch_bytes=k.get(".private_segment_fixed_size", int),
        dynamic_stack=bool(k.get(".uses_dynamic_stack", int, False)),
        wavefront=k.get(".wavefront_size", int),
        workgroup_processor=bool(k.get(".workgroup_processor_mode", int, 0)),
        max_workgroup=k.get(".max_flat_workgroup_size", int),
        sgprs=k.get(".sgpr_count", int),
        vgprs=k.get(".vgpr_count", int),
        agprs=k.get(".agpr_count", int, 0),
        sgpr_spills=k.get(".sgpr_spill_count", int, 0),
        vgpr_spills=k.get(".vgpr_spill_count", int, 0),
    )


def _argument(tree: Any, kernel: str) -> Argument:
    a = _Map(tree, f"an argument of {kernel}")
    name, kind = a.get(".name", str, ""), a.get(".value_kind", str)
    return Argument(name, a.get(".offset", int), a.get(".size", int), kind)
