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

from ...errors import ArtifactCorrupt

_EHDR = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_DYN, _AMDGPU, _HSA = 3, 224, 64  # e_type, e_machine, EI_OSABI
_SYMTAB, _NOTE, _METADATA = 2, 7, 32
_TARGET = "amdgcn-amd-amdhsa--"
_MOST_DEPTH = 16
# What reading on from a wrong number comes to.
_MALFORMED = (
    *(struct.error, IndexError, KeyError, ValueError),
    *(TypeError, AttributeError, OverflowError),
)
_FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
# What follows, and how many bytes its length has.
_SIZED = {
    0xC4: ("b", 1), 0xC5: ("b", 2), 0xC6: ("b", 4), 0xD9: ("s", 1), 0xDA: ("s", 2),
    0xDB: ("s", 4), 0xDC: ("a", 2), 0xDD: ("a", 4), 0xDE: ("m", 2), 0xDF: ("m", 4),
}  # fmt: skip


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
            yield _value(_part(data, start, size), 0, 0)[0]
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


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """A value in MessagePack, and where it ends."""
    if depth > _MOST_DEPTH:
        raise ValueError("metadata within metadata")
    tag, at = data[at], at + 1
    if tag < 0x80 or tag >= 0xE0:
        return (tag if tag < 0x80 else tag - 256), at
    if tag in _FIXED:
        return _FIXED[tag], at
    if tag in _NUMBERS:
        form = _NUMBERS[tag]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if tag < 0xC0:
        kind, count = ("m", tag & 15) if tag < 0x90 else ("a", tag & 15)
        if tag >= 0xA0:
            kind, count = "s", tag & 31
    else:
        kind, width = _SIZED[tag]
        count, at = int.from_bytes(_part(data, at, width), "big"), at + width
    if kind in "sb":
        text = _part(data, at, count)
        return (text.decode() if kind == "s" else text), at + count
    items = []
    for _ in range(count * (2 if kind == "m" else 1)):
        item, at = _value(data, at, depth + 1)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if kind == "m" else items), at
