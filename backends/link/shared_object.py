"""Laying out and writing the shared object.

    R   headers, .hash, .dynsym, .dynstr, read-only data
    RX  code
    RW  .dynamic, read-only once it is loaded

The loader of older C libraries writes addresses into `.dynamic`, so that alone lies in a writable
segment, which PT_GNU_RELRO closes before any kernel can run. File offsets are dense; addresses
skip to a fresh page where the protection changes. Section headers are kept for objdump and perf.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from . import aarch64, elf, x86_64
from .elf import LinkError, ObjectFile, Section, Symbol, align_up, read_object

_MACHINES = {m.MACHINE: m for m in (x86_64, aarch64)}


def link(blob: bytes, exports: Sequence[str] | None = None) -> bytes:
    """A shared object with the global functions of a relocatable object.

    `exports`: the names it must define, no more and no fewer (None: any). LinkError says what in
    the object is not fit for a kernel artifact.
    """
    obj = read_object(blob)
    if obj.machine not in _MACHINES:
        raise LinkError(f"machine {obj.machine} is neither x86-64 (62) nor aarch64 (183)")
    symbols = _exported(obj)
    names = sorted(s.name for s in symbols)
    if exports is not None and names != sorted(exports):
        raise LinkError(
            f"the object defines {', '.join(names)}; expected {', '.join(sorted(exports))}"
        )
    return _Image(obj, symbols).write()


def _exported(obj: ObjectFile) -> list[Symbol]:
    found = []
    for symbol in obj.symbols[1:]:
        if symbol.section == elf.SHN_UNDEF:
            raise LinkError(
                f"undefined symbol {symbol.name}: a kernel calls nothing outside itself"
            )
        if symbol.section == elf.SHN_COMMON:
            raise LinkError(f"common symbol {symbol.name}: kernels have no writable data")
        if symbol.binding == elf.STB_LOCAL or symbol.visibility:
            continue
        if symbol.section not in obj.sections or symbol.kind != elf.STT_FUNC:
            raise LinkError(f"global symbol {symbol.name} is not a function")
        if not obj.sections[symbol.section].executable:
            raise LinkError(f"function {symbol.name} lies in data")
        found.append(symbol)
    if not found:
        raise LinkError("the object exports no function")
    return found


class _Image:
    def __init__(self, obj: ObjectFile, symbols: list[Symbol]) -> None:
        self.obj, self.symbols = obj, symbols
        self.machine = _MACHINES[obj.machine]
        strings = bytearray(b"\0")
        self.name_at = []
        for symbol in symbols:
            self.name_at.append(len(strings))
            strings += symbol.name.encode() + b"\0"
        count = len(symbols) + 1
        self.hash = Section(".hash", _hash_table(symbols), 8, elf.SHF_ALLOC)
        self.dynsym = Section(".dynsym", bytearray(elf.SYM.size * count), 8, elf.SHF_ALLOC)
        self.dynstr = Section(".dynstr", strings, 1, elf.SHF_ALLOC)
        flags = elf.SHF_ALLOC | elf.SHF_WRITE
        self.dynamic = Section(".dynamic", bytearray(elf.DYN.size * 6), 8, flags)
        loaded = list(obj.sections.values())
        read = [self.hash, self.dynsym, self.dynstr, *(s for s in loaded if not s.executable)]
        self.segments = [
            (read, elf.PF_R),
            ([s for s in loaded if s.executable], elf.PF_R | elf.PF_X),
            ([self.dynamic], elf.PF_R | elf.PF_W),
        ]
        self.sections = [s for group, _ in self.segments for s in group]
        self.number = {id(s): n for n, s in enumerate(self.sections, 1)}

    def write(self) -> bytes:
        programs, end = self.layout()
        self.relocate()
        self.fill()
        headers, names = self.section_headers(end)
        table = align_up(end + len(names), 8)
        image = bytearray(table + len(headers))
        elf.EHDR.pack_into(
            image, 0, elf.IDENT, elf.ET_DYN, self.obj.machine, 1, 0, elf.EHDR.size, table,
            self.obj.flags, elf.EHDR.size, elf.PHDR.size, len(programs), elf.SHDR.size,
            len(self.sections) + 2, len(self.sections) + 1,
        )  # fmt: skip
        for n, program in enumerate(programs):
            elf.PHDR.pack_into(image, elf.EHDR.size + n * elf.PHDR.size, *program)
        for s in self.sections:
            image[s.offset : s.offset + len(s.data)] = s.data
        image[end : end + len(names)] = names
        image[table:] = headers
        return bytes(image)

    def layout(self) -> tuple[list[tuple[int, ...]], int]:
        """Place every section; the program headers and the end of the loaded bytes."""
        page = self.machine.PAGE
        offset = elf.EHDR.size + elf.PHDR.size * (len(self.segments) + 3)
        address = 0
        programs: list[tuple[int, ...]] = []
        for n, (group, protection) in enumerate(self.segments):
            offset = align_up(offset, max(s.align for s in group))
            start = offset if n else 0
            base = align_up(address, page) + start % page if n else 0
            for s in group:
                offset = align_up(offset, s.align)
                s.offset, s.address = offset, base + offset - start
                offset += len(s.data)
            address = base + offset - start
            if self.dynamic in group:
                # The loader protects whole pages of the size in use: fill the largest one.
                address = align_up(address, page)
            size = offset - start
            programs.append(
                (elf.PT_LOAD, protection, start, base, base, size, address - base, page)
            )
        d, relro = self.dynamic, programs[-1]
        at = (d.offset, d.address, d.address, len(d.data), len(d.data))
        programs.append((elf.PT_DYNAMIC, elf.PF_R | elf.PF_W, *at, 8))
        programs.append((elf.PT_GNU_STACK, elf.PF_R | elf.PF_W, 0, 0, 0, 0, 0, 16))
        programs.append((elf.PT_GNU_RELRO, elf.PF_R, *relro[2:7], 1))
        return programs, offset

    def address_of(self, symbol: Symbol) -> int:
        section = self.obj.sections.get(symbol.section)
        if section is None:
            raise LinkError(f"a relocation against {symbol.name or 'no symbol'} has no address")
        if symbol.value + symbol.size > len(section.data):
            raise LinkError(f"symbol {symbol.name} reaches beyond its section {section.name}")
        return section.address + symbol.value

    def relocate(self) -> None:
        for r in self.obj.relocations:
            section = self.obj.sections[r.section]
            target, place = self.address_of(r.symbol) + r.addend, section.address + r.offset
            self.machine.relocate(section.data, r.offset, r.kind, target, place)

    def fill(self) -> None:
        """Write the symbols and the dynamic table, now that addresses are known."""
        for n, (symbol, name) in enumerate(zip(self.symbols, self.name_at, strict=True), 1):
            number = self.number[id(self.obj.sections[symbol.section])]
            elf.SYM.pack_into(
                self.dynsym.data, n * elf.SYM.size, name, elf.STB_GLOBAL << 4 | symbol.kind, 0,
                number, self.address_of(symbol), symbol.size,
            )  # fmt: skip
        entries = (
            (elf.DT_HASH, self.hash.address),
            (elf.DT_STRTAB, self.dynstr.address),
            (elf.DT_SYMTAB, self.dynsym.address),
            (elf.DT_STRSZ, len(self.dynstr.data)),
            (elf.DT_SYMENT, elf.SYM.size),
            (elf.DT_NULL, 0),
        )
        self.dynamic.data[:] = b"".join(elf.DYN.pack(*e) for e in entries)

    def section_headers(self, end: int) -> tuple[bytes, bytes]:
        kinds = {
            ".hash": (elf.SHT_HASH, self.number[id(self.dynsym)], 0, 4),
            ".dynsym": (elf.SHT_DYNSYM, self.number[id(self.dynstr)], 1, elf.SYM.size),
            ".dynstr": (elf.SHT_STRTAB, 0, 0, 0),
            ".dynamic": (elf.SHT_DYNAMIC, self.number[id(self.dynstr)], 0, elf.DYN.size),
        }
        names, headers = bytearray(b"\0"), bytearray(elf.SHDR.size)
        for s in self.sections:
            kind, link_, info, entry = kinds.get(s.name, (elf.SHT_PROGBITS, 0, 0, 0))
            headers += elf.SHDR.pack(
                len(names),
                kind,
                s.flags,
                s.address,
                s.offset,
                len(s.data),
                link_,
                info,
                s.align,
                entry,
            )
            names += s.name.encode() + b"\0"
        own = len(names)
        names += b".shstrtab\0"
        headers += elf.SHDR.pack(own, elf.SHT_STRTAB, 0, 0, end, len(names), 0, 0, 1, 0)
        return bytes(headers), bytes(names)


def _hash_table(symbols: list[Symbol]) -> bytearray:
    buckets, chain = [0] * len(symbols), [0] * (len(symbols) + 1)
    for n, symbol in enumerate(symbols, 1):
        bucket = elf.sysv_hash(symbol.name) % len(symbols)
        chain[n] = buckets[bucket]
        buckets[bucket] = n
    words = [len(buckets), len(chain), *buckets, *chain]
    return bytearray(struct.pack(f"<{len(words)}I", *words))
