"""What a cubin says about itself: architecture, kernels, registers, memory.

A cubin is an ELF file. The section `.nv.info` holds attributes of the kernels by symbol number,
`.nv.info.NAME` those of one kernel, as (format, attribute, 16-bit value or size, payload).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_CUDA = 190  # e_machine
_FUNCTION, _ENTRY = 2, 0x10  # type of a symbol, and its mark as a kernel
_SIZED = 4  # format of an attribute with a payload; the others hold their value
_REGISTERS, _FRAME, _PARAMETER, _WORKGROUP = 0x2F, 0x11, 0x17, 0x10
_ACCELERATED = 0x09  # of .nv.compat: code for this very architecture alone, `sm_90a`
_SYSTEM_SHARED = 1024  # what the hardware keeps of each workgroup's memory from sm_90 on


class CubinError(Exception):
    """Bytes that are not a cubin."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """arch: `sm_90`, `sm_90a`. parameters: place and size of each in bytes. workgroup: the size
    that a launch must have. assembler: name and version as the assembler wrote them, empty where
    it did not."""

    arch: str
    name: str
    registers: int
    shared_bytes: int
    local_bytes: int
    parameters: tuple[tuple[int, int], ...]
    workgroup: tuple[int, int, int]
    assembler: str


def read(blob: bytes) -> Cubin:
    """Read a cubin with one kernel. CubinError says what is wrong with it."""
    try:
        return _read(blob)
    except (struct.error, LookupError, ValueError, OverflowError) as error:
        raise CubinError(f"not a cubin, or a damaged one: {error}") from error


def _read(blob: bytes) -> Cubin:
    head = _HEADER.unpack_from(blob)
    ident, machine, flags = head[0], head[2], head[7]
    if ident[:4] != b"\x7fELF" or machine != _CUDA:
        raise CubinError("not a cubin: no ELF header of NVIDIA's")
    sections = _sections(blob, head[6], head[12], head[13])
    kernels = _kernels(sections)
    if len(kernels) != 1:
        raise CubinError(f"{len(kernels)} kernels, not one: {', '.join(kernels.values())}")
    ((number, name),) = kernels.items()
    about = {a: p for a, p in _attributes(sections[".nv.info"]) if _number(p) == number}
    own = dict(_attributes(sections[f".nv.info.{name}"]))
    # The place of the architecture in the flags depends on the version of the format.
    sm = flags >> 8 & 0xFF if ident[8] >= 8 else flags & 0xFF
    compat = dict(_attributes(sections.get(".nv.compat", b"")))
    exact = bool(compat.get(_ACCELERATED, b"\0")[0]) or (ident[8] < 8 and flags >> 11 & 1)
    shared = _size(blob, head, f".nv.shared.{name}")
    return Cubin(
        f"sm_{sm}{'a' if exact else ''}",
        name,
        struct.unpack_from("<I", about[_REGISTERS], 4)[0],
        max(shared - (_SYSTEM_SHARED if sm >= 90 else 0), 0),
        struct.unpack_from("<I", about.get(_FRAME, bytes(8)), 4)[0],
        tuple(_parameters(sections[f".nv.info.{name}"])),
        struct.unpack_from("<3I", own.get(_WORKGROUP, bytes(12))),
        _assembler(sections.get(".note.nv.tkinfo", b"")),
    )


def _rows(blob: bytes, at: int, count: int, names: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    rows = [_SECTION.unpack_from(blob, at + n * _SECTION.size) for n in range(count)]
    offset = rows[names][4]
    for row in rows:
        start = offset + row[0]
        yield blob[start : blob.index(b"\0", start)].decode(), row


def _sections(blob: bytes, at: int, count: int, names: int) -> dict[str, bytes]:
    """The contents of the sections by name."""
    return {name: blob[row[4] : row[4] + row[5]] for name, row in _rows(blob, at, count, names)}


def _size(blob: bytes, head: tuple[int, ...], wanted: str) -> int:
    """The size of a section that may have no contents in the file."""
    rows = _rows(blob, head[6], head[12], head[13])
    return sum(row[5] for name, row in rows if name == wanted)


def _kernels(sections: dict[str, bytes]) -> dict[int, str]:
    """Symbols that a launch may name; other functions are the assembler's own subroutines."""
    table, names = sections[".symtab"], sections[".strtab"]
    found = {}
    for number, row in enumerate(_SYMBOL.iter_unpack(table)):
        if row[1] & 15 == _FUNCTION and row[2] & _ENTRY:
            found[number] = names[row[0] : names.index(b"\0", row[0])].decode()
    return found


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        kind, attribute, value = struct.unpack_from("<BBH", data, at)
        size = value if kind == _SIZED else 0
        yield attribute, data[at + 4 : at + 4 + size] if size else data[at + 2 : at + 4]
        at += 4 + size


def _parameters(data: bytes) -> list[tuple[int, int]]:
    rows = [struct.unpack("<IHHI", p) for a, p in _attributes(data) if a == _PARAMETER]
    return sorted((at, packed >> 18) for _, _, at, packed in rows)


def _number(payload: bytes) -> int:
    """The symbol that an attribute of `.nv.info` is about."""
    return int.from_bytes(payload[:4], "little") if len(payload) >= 8 else -1


def _assembler(note: bytes) -> str:
    versions = re.findall(rb"release [\d.]+, V([\d.]+)", note)
    return f"ptxas {versions[-1].decode()}" if versions else ""
