"""NT_AMDGPU_METADATA: what a code object says about its kernels, a map in MessagePack.

Keys and their meaning: LLVM's "User Guide for AMDGPU Backend", code object V5 and V6 metadata.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NOTE_NAME, NOTE_TYPE = b"AMDGPU\0", 32
PREFIX = "amdgcn-amd-amdhsa--"  # of the target id
_DEPTH = 16  # of maps and lists inside each other; metadata has 4
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# What kind of thing has its length in so many bytes behind the first.
_LONG = {
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4), 0xD9: ("text", 1),
    0xDA: ("text", 2), 0xDB: ("text", 4), 0xDC: ("list", 2), 0xDD: ("list", 4),
    0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


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
    return unpack(found[0])


def unpack(data: bytes) -> Any:
    """One value in MessagePack, which takes up all of `data`. MetadataError otherwise."""
    try:
        value, end = _value(data, 0, 0)
    except (IndexError, KeyError, TypeError, UnicodeDecodeError, struct.error) as error:
        raise MetadataError(f"not MessagePack: {error!r}") from error
    if end != len(data):
        raise MetadataError(f"MessagePack ends at byte {end} of {len(data)}")
    return value


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEPTH:
        raise MetadataError(f"MessagePack is nested deeper than {_DEPTH}")
    tag = data[at]
    at += 1
    if tag < 0x80 or tag >= 0xE0:
        return (tag if tag < 0x80 else tag - 256), at
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _NUMBERS:
        form = _NUMBERS[tag]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if tag < 0xC0:
        kind = "map" if tag < 0x90 else "list" if tag < 0xA0 else "text"
        count = tag & (31 if kind == "text" else 15)
    else:
        kind, width = _LONG[tag]
        count = int.from_bytes(data[at : at + width], "big")
        at += width
    if at + count > len(data):  # an element takes a byte at least
        raise MetadataError(f"MessagePack: a {kind} of {count} at byte {at} of {len(data)}")
    if kind in ("text", "bytes"):
        raw = data[at : at + count]
        return (raw.decode() if kind == "text" else raw), at + count
    return _gather(data, at, depth + 1, kind, count)


def _gather(data: bytes, at: int, depth: int, kind: str, count: int) -> tuple[Any, int]:
    flat = []
    for _ in range(count * (2 if kind == "map" else 1)):
        value, at = _value(data, at, depth)
        flat.append(value)
    if kind == "list":
        return flat, at
    found = dict(zip(flat[::2], flat[1::2], strict=True))
    if len(found) != count:
        raise MetadataError("MessagePack: a map has a key twice")
    return found, at


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
