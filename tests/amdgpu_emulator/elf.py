"""The parts of an AMD code object that execution needs: sections, symbols, kernel descriptors.

Layouts: the ELF64 specification, and "Kernel Descriptor" of LLVM's AMDGPUUsage.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from .errors import CodeObjectError

ET_REL, ET_DYN = 1, 3
EM_AMDGPU = 224
SHT_SYMTAB, SHT_NOBITS, SHT_RELA = 2, 8, 4
SHF_ALLOC, SHF_EXECINSTR = 2, 4

# e_flags & 0xff, as LLVM's BinaryFormat/ELF.h numbers the processors.
PROCESSORS = {
    0x02F: "gfx906",
    0x030: "gfx908",
    0x03F: "gfx90a",
    0x04C: "gfx942",
    0x04F: "gfx950",
    0x036: "gfx1030",
    0x041: "gfx1100",
    0x046: "gfx1101",
    0x047: "gfx1102",
    0x044: "gfx1103",
    0x043: "gfx1150",
    0x04A: "gfx1151",
    0x048: "gfx1200",
    0x04E: "gfx1201",
    0x051: "gfx9-generic",
    0x05F: "gfx9-4-generic",
    0x053: "gfx10-3-generic",
    0x054: "gfx11-generic",
    0x059: "gfx12-generic",
}


@dataclass(frozen=True)
class Section:
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    info: int


@dataclass(frozen=True)
class Symbol:
    """`value` is an address in a linked object and an offset into `section` in another."""

    value: int
    size: int
    section: int


@dataclass(frozen=True)
class Elf:
    type: int
    processor: str
    sections: tuple[Section, ...]
    symbols: dict[str, Symbol]
    image: bytearray  # the loaded bytes, index = address

    def bytes_of(self, symbol: Symbol, size: int) -> bytes:
        start = symbol.value + (self.sections[symbol.section].address if self.type == ET_REL else 0)
        return bytes(self.image[start : start + size])


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()


def _sections(data: bytes) -> list[Section]:
    offset, count, names = (
        struct.unpack_from("<Q", data, 40)[0],
        *struct.unpack_from("<HH", data, 60),
    )
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i) for i in range(count)]
    strings = data[rows[names][4] : rows[names][4] + rows[names][5]]
    return [Section(_string(strings, r[0]), r[1], r[2], r[3], r[4], r[5], r[7]) for r in rows]


def _placed(sections: list[Section]) -> list[Section]:
    """The sections of a relocatable object at addresses of their own; `.text` stays at 0."""
    end = max((s.size for s in sections if s.flags & SHF_EXECINSTR), default=0)
    placed = []
    for s in sections:
        if s.flags & SHF_ALLOC and not s.flags & SHF_EXECINSTR:
            end = (end + 255) // 256 * 256
            s = Section(s.name, s.type, s.flags, end, s.offset, s.size, s.info)
            end += s.size
        placed.append(s)
    return placed


def _check_relocations(data: bytes, sections: list[Section]) -> None:
    for s in sections:
        if s.type == SHT_RELA and sections[s.info].flags & SHF_EXECINSTR and s.size:
            raise CodeObjectError(
                "a relocatable object whose code needs relocations: link it before executing it"
            )


def read(data: bytes) -> Elf:
    """The object in `data`; `CodeObjectError` if it is no code object for AMD GPUs."""
    if data[:4] != b"\x7fELF" or len(data) < 64:
        raise CodeObjectError("not an ELF file")
    kind, machine = struct.unpack_from("<HH", data, 16)
    flags = struct.unpack_from("<I", data, 48)[0]
    if machine != EM_AMDGPU or kind not in (ET_REL, ET_DYN):
        raise CodeObjectError(f"ELF machine {machine}, type {kind}: expected AMDGPU, ET_DYN/ET_REL")
    if flags & 0xFF not in PROCESSORS:
        raise CodeObjectError(f"e_flags {flags:#x} name no processor that is known here")
    try:
        sections = _sections(data)
        if kind == ET_REL:
            _check_relocations(data, sections)
            sections = _placed(sections)
        image = bytearray(max((s.address + s.size for s in sections if s.flags & 2), default=0))
        for s in sections:
            if s.flags & SHF_ALLOC and s.type != SHT_NOBITS:
                image[s.address : s.address + s.size] = data[s.offset : s.offset + s.size]
        symbols = _symbols(data, sections)
    except (struct.error, IndexError, ValueError) as error:
        raise CodeObjectError(f"corrupt ELF: {error}") from error
    return Elf(kind, PROCESSORS[flags & 0xFF], tuple(sections), symbols, image)


def _symbols(data: bytes, sections: list[Section]) -> dict[str, Symbol]:
    found: dict[str, Symbol] = {}
    table = next((s for s in sections if s.type == SHT_SYMTAB), None)
    if table is None:
        raise CodeObjectError("no .symtab")
    strings = next(s for s in sections if s.name == ".strtab")
    text = data[strings.offset : strings.offset + strings.size]
    for at in range(table.offset, table.offset + table.size, 24):
        name, _, _, section, value, size = struct.unpack_from("<IBBHQQ", data, at)
        if name:
            found[_string(text, name)] = Symbol(value, size, section)
    return found


@dataclass(frozen=True)
class Descriptor:
    """The kernel descriptor, 64 bytes, as far as execution needs it."""

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry: int  # address of the first instruction
    rsrc3: int
    rsrc1: int
    rsrc2: int
    properties: int
    preload: int

    def bit(self, position: int) -> bool:
        return bool(self.properties >> position & 1)

    @property
    def user_sgprs(self) -> int:
        return self.rsrc2 >> 1 & 31


def descriptor(elf: Elf, kernel: str) -> Descriptor:
    symbol = elf.symbols.get(f"{kernel}.kd")
    if symbol is None:
        known = sorted(name[:-3] for name in elf.symbols if name.endswith(".kd"))
        raise CodeObjectError(f"no kernel {kernel!r} in the code object; it holds {known}")
    row = struct.unpack("<III4xq20xIIIHH4x", elf.bytes_of(symbol, 64))
    entry = symbol.value + row[3]
    if elf.type == ET_REL:  # the offset still waits for its relocation
        entry = elf.symbols[kernel].value
    return Descriptor(row[0], row[1], row[2], entry, *row[4:])


def generation(processor: str) -> int:
    """9 for gfx906 to gfx950, else 10, 11 or 12."""
    found = re.match(r"gfx(1\d|9)", processor)
    if found is None:
        raise CodeObjectError(f"processor {processor} is of no known generation")
    return int(found[1])
