"""What a code object says about itself, read without HSA, which tells neither the arguments of a
kernel nor the processor that it is for, and which no damaged file should reach.

The file is ELF64; a note holds the metadata, a map in MessagePack (LLVM's "User Guide for AMDGPU
Backend": code object V5 metadata, whose keys V6 keeps).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....store.messagepack import unpack
from ...errors import ArtifactCorrupt

_EHDR = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_DYN, _AMDGPU, _HSA = 3, 224, 64  # e_type, e_machine, EI_OSABI
_SYMTAB, _NOTE, _METADATA = 2, 7, 32
_TARGET = "amdgcn-amd-amdhsa--"
# What reading on from a wrong number comes to.
_MALFORMED = (
    *(struct.error, IndexError, KeyError, ValueError),
    *(TypeError, AttributeError, OverflowError),
)


@dataclass(frozen=True)
class Kernel:
    """arguments: offset and size in bytes, in order. hidden: kinds of those that a compiler added.
    Bytes of its kernarg block, workgroup memory and private memory; lanes of a wave; invocations of
    the greatest workgroup."""

    arguments: tuple[tuple[int, int], ...]
    hidden: tuple[str, ...]
    kernarg: int
    group: int
    private: int
    wave: int
    workgroup: int


@dataclass(frozen=True)
class CodeObject:
    """target: a target id, `gfx942:xnack-`. kernels: by the symbol of their descriptor."""

    target: str
    kernels: dict[str, Kernel]


def read(blob: bytes, where: str) -> CodeObject:
    """A code object; ArtifactCorrupt for bytes that are none."""
    try:
        return _read(blob)
    except _MALFORMED as error:
        raise ArtifactCorrupt(
            f"the code object is damaged ({type(error).__name__}: {error})",
            where=where,
            do="rebuild or fetch the bundle again",
        ) from error


def _read(blob: bytes) -> CodeObject:
    fields = _EHDR.unpack_from(blob)
    magic, width, order, _, abi, kind, machine = fields[:7]
    if (magic, width, order, abi) != (b"\x7fELF", 2, 1, _HSA) or (kind, machine) != (_DYN, _AMDGPU):
        raise ValueError("not a linked ELF file for AMD's HSA")
    sections = [_SHDR.unpack_from(blob, fields[10] + 64 * n) for n in range(fields[16])]
    symbols = {name for s in sections if s[1] == _SYMTAB for name in _names(blob, s, sections)}
    notes = [tree for s in sections if s[1] == _NOTE for tree in _notes(_part(blob, s[4], s[5]))]
    if len(notes) != 1:
        raise ValueError(f"{len(notes)} notes of metadata, not one")
    target = str(notes[0]["amdhsa.target"])
    if not target.startswith(_TARGET):
        raise ValueError(f"target {target!r}")
    kernels = {str(k[".symbol"]): _kernel(k) for k in notes[0]["amdhsa.kernels"]}
    absent = sorted(kernels.keys() - symbols)
    if absent:
        raise ValueError(f"no symbol {absent[0]}")
    return CodeObject(target.removeprefix(_TARGET), kernels)


def _part(blob: bytes, at: int, size: int) -> bytes:
    if at + size > len(blob):
        raise ValueError(f"{size} bytes at {at} of {len(blob)}")
    return blob[at : at + size]


def _names(blob: bytes, section: tuple[int, ...], sections: list[Any]) -> Iterator[str]:
    table = _part(blob, section[4], section[5])
    strings = sections[section[6]]
    names = _part(blob, strings[4], strings[5])
    for at in range(0, len(table), _SYM.size):
        start = _SYM.unpack_from(table, at)[0]
        yield names[start : names.index(b"\0", start)].decode()


def _notes(data: bytes) -> Iterator[Any]:
    at = 0
    while at < len(data):
        named, size, kind = struct.unpack_from("<III", data, at)
        owner, start = at + 12, at + 12 + (named + 3 & ~3)
        if kind == _METADATA and _part(data, owner, named) == b"AMDGPU\0":
            yield unpack(_part(data, start, size))
        at = start + (size + 3 & ~3)


def _kernel(tree: Any) -> Kernel:
    arguments = tree.get(".args", [])
    return Kernel(
        tuple((int(a[".offset"]), int(a[".size"])) for a in arguments),
        tuple(k for a in arguments if (k := str(a[".value_kind"])).startswith("hidden_")),
        int(tree[".kernarg_segment_size"]),
        int(tree[".group_segment_fixed_size"]),
        int(tree[".private_segment_fixed_size"]),
        int(tree[".wavefront_size"]),
        int(tree[".max_flat_workgroup_size"]),
    )
