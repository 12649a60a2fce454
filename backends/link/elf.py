"""ELF64 little-endian: structs, constants and a bounds-checked reader of relocatable objects."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
SHDR = struct.Struct("<IIQQQQIIQQ")
PHDR = struct.Struct("<IIQQQQQQ")
SYM = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")
DYN = struct.Struct("<QQ")

IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)  # 64-bit, little-endian, version 1, System V
ET_REL, ET_DYN = 1, 3
EM_X86_64, EM_AARCH64, EM_AMDGPU = 62, 183, 224

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_HASH, SHT_DYNAMIC = 1, 2, 3, 4, 5, 6
SHT_NOTE, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 7, 8, 9, 11
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2
STB_LOCAL, STB_GLOBAL = 0, 1
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION = 0, 1, 2, 3

PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 4, 0x6474E551, 0x6474E552
PF_X, PF_W, PF_R = 1, 2, 4
DT_NULL, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT = 0, 4, 5, 6, 10, 11


# What reading past the end of a file, or text that is none, comes to.
MALFORMED = (struct.error, IndexError, OverflowError, UnicodeDecodeError)


class LinkError(Exception):
    """An object that cannot become a kernel artifact: which part of it, and why."""


@dataclass(slots=True)
class Section:
    """A section with its bytes. `address` and `offset` are set by the layout; `link`, `info` and
    `entry` (bytes of one) say what a table holds."""

    name: str
    data: bytearray
    align: int
    flags: int
    kind: int = SHT_PROGBITS
    address: int = 0
    offset: int = 0
    link: int = 0
    info: int = 0
    entry: int = 0

    @property
    def executable(self) -> bool:
        return bool(self.flags & SHF_EXECINSTR)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol: `section` is the index of the section that defines it, 0 where undefined."""

    name: str
    binding: int
    kind: int
    visibility: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a section (by index) to be filled in with the address of a symbol."""

    section: int
    offset: int
    kind: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """What a relocatable object holds: loaded sections by index, symbols, relocations."""

    ident: bytes
    machine: int
    flags: int
    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def align_up(value: int, align: int) -> int:
    """The least multiple of `align` (a power of two) that is not below `value`."""
    return (value + align - 1) & -align


def sysv_hash(name: str) -> int:
    """The hash of DT_HASH tables."""
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        high = h & 0xF0000000
        h = (h ^ high >> 24) & ~high & 0xFFFFFFFF
    return h


def read_object(blob: bytes, kinds: Collection[int] = (SHT_PROGBITS,)) -> ObjectFile:
    """Read a relocatable object. LinkError on anything malformed or not of kernels.

    kinds: the types of section that may be loaded.
    """
    try:
        return Reader(blob, ET_REL, kinds).read()
    except MALFORMED as error:
        raise LinkError(f"malformed object of {len(blob)} bytes: {error}") from error


class Reader:
    """Headers, sections and symbols of an ELF file of one type (ET_REL, ET_DYN).

    LinkError or one of MALFORMED says what is wrong with it.
    """

    def __init__(self, blob: bytes, kind: int, kinds: Collection[int] = (SHT_PROGBITS,)) -> None:
        self.blob, self.kinds = blob, kinds
        header = EHDR.unpack_from(blob)
        if header[0][:6] != IDENT[:6] or header[1] != kind:
            what = "relocatable object" if kind == ET_REL else "shared object"
            raise LinkError(f"not a 64-bit little-endian {what} (type {header[1]})")
        self.ident, self.machine, self.flags = header[0], header[2], header[7]
        offset, size, count, names = header[6], header[11], header[12], header[13]
        if size != SHDR.size or count == 0 or names >= count:
            raise LinkError(f"malformed section table: {count} headers of {size} bytes")
        self.headers = [SHDR.unpack_from(blob, offset + n * size) for n in range(count)]
        self.table, self.names = offset, names

    def read(self) -> ObjectFile:
        self.check_apart()
        sections: dict[int, Section] = {}
        for n, header in enumerate(self.headers):
            section = self.section(header)
            if section is not None:
                sections[n] = section
        symbols = self.symbols()
        relocations = tuple(r for h in self.headers for r in self.relocations(h, sections, symbols))
        return ObjectFile(self.ident, self.machine, self.flags, sections, symbols, relocations)

    def check_apart(self) -> None:
        """Nothing in the file shares bytes with anything else: one of them would be misread."""
        held = [(0, EHDR.size, "the header")]
        held.append((self.table, SHDR.size * len(self.headers), "the section headers"))
        for n, h in enumerate(self.headers):
            if h[1] not in (0, SHT_NOBITS) and h[5]:
                held.append((h[4], h[5], f"section {n}"))
        held.sort()
        for (start, size, one), (next_, _, other) in pairwise(held):
            if start + size > next_:
                raise LinkError(f"{one} and {other} overlap in the file")

    def bytes_of(self, header: tuple[int, ...]) -> bytes:
        start, size = header[4], header[5]
        if start + size > len(self.blob):
            raise LinkError(
                f"section at {start}..{start + size} of an object of {len(self.blob)} bytes"
            )
        return self.blob[start : start + size]

    def string(self, table: int, offset: int) -> str:
        start, size = self.headers[table][4:6]
        end = self.blob.find(b"\0", start + offset, start + size)
        if end < 0:
            raise LinkError(f"no string at {offset} of section {table}")
        return self.blob[start + offset : end].decode()

    def section(self, header: tuple[int, ...]) -> Section | None:
        name, kind, flags, size = (
            self.string(self.names, header[0]),
            header[1],
            header[2],
            header[5],
        )
        if name == ".note.GNU-stack" and flags & SHF_EXECINSTR:
            raise LinkError("the object asks for an executable stack")
        if not flags & SHF_ALLOC or not size:
            return None
        if flags & SHF_TLS:
            raise LinkError(f"section {name}: thread-local storage")
        if flags & SHF_WRITE:
            raise LinkError(f"section {name}: kernels have no writable data")
        if kind not in self.kinds:
            raise LinkError(f"section {name}: type {kind:#x} has no place in a kernel")
        align = max(header[8], 1)
        if align & (align - 1) or align > 4096:
            raise LinkError(f"section {name}: alignment {align}")
        flags &= SHF_ALLOC | SHF_EXECINSTR
        return Section(name, bytearray(self.bytes_of(header)), align, flags, kind)

    def symbols(self) -> tuple[Symbol, ...]:
        tables = [h for h in self.headers if h[1] == SHT_SYMTAB]
        if len(tables) != 1:
            raise LinkError(f"{len(tables)} symbol tables, expected 1")
        data, strings = self.bytes_of(tables[0]), tables[0][6]
        found = []
        for name, info, other, section, value, size in SYM.iter_unpack(data):
            text = self.string(strings, name)
            found.append(Symbol(text, info >> 4, info & 15, other & 3, section, value, size))
        return tuple(found)

    def relocations(
        self, header: tuple[int, ...], sections: dict[int, Section], symbols: tuple[Symbol, ...]
    ) -> list[Relocation]:
        if header[1] == SHT_REL and header[7] in sections:
            raise LinkError("relocations without addends")
        if header[1] != SHT_RELA or header[7] not in sections:
            return []
        found = []
        for offset, info, addend in RELA.iter_unpack(self.bytes_of(header)):
            if info >> 32 >= len(symbols):
                raise LinkError(f"relocation against symbol {info >> 32} of {len(symbols)}")
            symbol = symbols[info >> 32]
            found.append(Relocation(header[7], offset, info & 0xFFFFFFFF, symbol, addend))
        return found
