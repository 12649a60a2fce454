"""Laying out and writing a shared object.

    R   headers, notes, .hash, .dynsym, .dynstr, read-only data
    RX  code
    RW  .dynamic, read-only once it is loaded

The loader of older C libraries writes addresses into `.dynamic`, so that alone lies in a writable
segment, which PT_GNU_RELRO closes before any kernel can run. File offsets are dense; addresses
skip to a fresh page where the protection changes. Section headers are kept for objdump and perf,
and because some loaders read them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from . import elf
from .elf import LinkError, ObjectFile, Relocation, Section, Symbol, align_up

# (bytes of a section, offset in it, type of the relocation, target, place)
Relocate = Callable[[bytearray, int, int, int, int], None]


class Image:
    """A shared object in the making.

    symbols: what it exports. notes: read-only sections that stand before all others, with a
    program header of their own. symtab: the symbols of a `.symtab`; None: there is none.
    """

    def __init__(
        self,
        obj: ObjectFile,
        symbols: Sequence[Symbol],
        page: int,
        relocate: Relocate,
        symtab: Sequence[Symbol] | None = None,
    ) -> None:
        self.obj, self.symbols, self.page, self.fix = obj, symbols, page, relocate
        names, self.name_at = _strings(symbols)
        count = len(symbols) + 1
        flags = elf.SHF_ALLOC
        self.hash = Section(".hash", _hash_table(symbols), 8, flags, elf.SHT_HASH, entry=4)
        self.dynsym = Section(
            ".dynsym", bytearray(elf.SYM.size * count), 8, flags, elf.SHT_DYNSYM,
            info=1, entry=elf.SYM.size,
        )  # fmt: skip
        self.dynstr = Section(".dynstr", names, 1, flags, elf.SHT_STRTAB)
        self.dynamic = Section(
            ".dynamic", bytearray(elf.DYN.size * 6), 8, flags | elf.SHF_WRITE, elf.SHT_DYNAMIC,
            entry=elf.DYN.size,
        )  # fmt: skip
        loaded = list(obj.sections.values())
        self.notes = [s for s in loaded if s.kind == elf.SHT_NOTE]
        data = [s for s in loaded if not s.executable and s.kind != elf.SHT_NOTE]
        self.segments = [
            ([*self.notes, self.hash, self.dynsym, self.dynstr, *data], elf.PF_R),
            ([s for s in loaded if s.executable], elf.PF_R | elf.PF_X),
            ([self.dynamic], elf.PF_R | elf.PF_W),
        ]
        if not self.segments[1][0]:
            raise LinkError("there is no code")
        self.sections = [s for group, _ in self.segments for s in group]
        self.number = {id(s): n for n, s in enumerate(self.sections, 1)}
        self.hash.link = self.number[id(self.dynsym)]
        self.dynsym.link = self.dynamic.link = self.number[id(self.dynstr)]
        self.symtab = symtab

    def write(self, ident: bytes) -> bytes:
        """The bytes of the shared object. LinkError where a relocation cannot be filled in."""
        programs, end = self.layout()
        self.relocate()
        self.fill()
        tables = self.symbol_table() if self.symtab is not None else []
        for s in tables:
            s.offset = align_up(end, s.align)
            end = s.offset + len(s.data)
        headers, names = self.section_headers([*self.sections, *tables], end)
        table = align_up(end + len(names), 8)
        image = bytearray(table + len(headers))
        count = len(headers) // elf.SHDR.size
        elf.EHDR.pack_into(
            image, 0, ident, elf.ET_DYN, self.obj.machine, 1, 0, elf.EHDR.size, table,
            self.obj.flags, elf.EHDR.size, elf.PHDR.size, len(programs), elf.SHDR.size,
            count, count - 1,
        )  # fmt: skip
        for n, program in enumerate(programs):
            elf.PHDR.pack_into(image, elf.EHDR.size + n * elf.PHDR.size, *program)
        for s in (*self.sections, *tables):
            image[s.offset : s.offset + len(s.data)] = s.data
        image[end : end + len(names)] = names
        image[table:] = headers
        return bytes(image)

    def layout(self) -> tuple[list[tuple[int, ...]], int]:
        """Place every section; the program headers and the end of the loaded bytes."""
        page = self.page
        headers = len(self.segments) + 3 + bool(self.notes)
        offset = elf.EHDR.size + elf.PHDR.size * headers
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
        if self.notes:
            first, last = self.notes[0], self.notes[-1]
            size = last.offset + len(last.data) - first.offset
            at = (first.offset, first.address, first.address, size, size)
            programs.append((elf.PT_NOTE, elf.PF_R, *at, first.align))
        return programs, offset

    def address_of(self, symbol: Symbol) -> int:
        """Where a symbol lies. LinkError where that is nowhere in this object."""
        section = self.obj.sections.get(symbol.section)
        if section is None:
            raise LinkError(f"a relocation against {symbol.name or 'no symbol'} has no address")
        if symbol.value + symbol.size > len(section.data):
            raise LinkError(f"symbol {symbol.name} reaches beyond its section {section.name}")
        return section.address + symbol.value

    def relocate(self) -> None:
        for r in self.obj.relocations:
            section = self.obj.sections[r.section]
            place = section.address + r.offset
            self.fix(section.data, r.offset, r.kind, self.target_of(r), place)

    def target_of(self, relocation: Relocation) -> int:
        """What a relocation refers to: the address of its symbol, plus its addend."""
        return self.address_of(relocation.symbol) + relocation.addend

    def fill(self) -> None:
        """Write the exported symbols and the dynamic table, now that addresses are known."""
        self.dynsym.data[elf.SYM.size :] = self.packed(self.symbols, self.name_at)
        entries = (
            (elf.DT_HASH, self.hash.address),
            (elf.DT_STRTAB, self.dynstr.address),
            (elf.DT_SYMTAB, self.dynsym.address),
            (elf.DT_STRSZ, len(self.dynstr.data)),
            (elf.DT_SYMENT, elf.SYM.size),
            (elf.DT_NULL, 0),
        )
        self.dynamic.data[:] = b"".join(elf.DYN.pack(*e) for e in entries)

    def packed(self, symbols: Sequence[Symbol], name_at: Sequence[int]) -> bytes:
        """Symbols as a table of this object has them."""
        rows = bytearray()
        for s, name in zip(symbols, name_at, strict=True):
            address = self.address_of(s)
            number = self.number[id(self.obj.sections[s.section])]
            rows += elf.SYM.pack(
                name, s.binding << 4 | s.kind, s.visibility, number, address, s.size
            )
        return bytes(rows)

    def symbol_table(self) -> list[Section]:
        """`.symtab`, local symbols first as ELF wants it, and its names."""
        symbols = sorted(self.symtab or (), key=lambda s: s.binding != elf.STB_LOCAL)
        names, name_at = _strings(symbols)
        data = bytearray(elf.SYM.size) + self.packed(symbols, name_at)
        local = sum(s.binding == elf.STB_LOCAL for s in symbols) + 1
        after = len(self.sections) + 2
        table = Section(
            ".symtab", data, 8, 0, elf.SHT_SYMTAB, link=after, info=local, entry=elf.SYM.size
        )
        return [table, Section(".strtab", names, 1, 0, elf.SHT_STRTAB)]

    def section_headers(self, sections: Sequence[Section], end: int) -> tuple[bytes, bytes]:
        """The headers of these sections and of `.shstrtab`, which is to lie at `end`."""
        names, headers = bytearray(b"\0"), bytearray(elf.SHDR.size)
        for s in sections:
            headers += elf.SHDR.pack(
                len(names), s.kind, s.flags, s.address, s.offset, len(s.data), s.link, s.info,
                s.align, s.entry,
            )  # fmt: skip
            names += s.name.encode() + b"\0"
        own = len(names)
        names += b".shstrtab\0"
        headers += elf.SHDR.pack(own, elf.SHT_STRTAB, 0, 0, end, len(names), 0, 0, 1, 0)
        return bytes(headers), bytes(names)


def _strings(symbols: Sequence[Symbol]) -> tuple[bytearray, list[int]]:
    """A table of the names of symbols, and where each stands in it."""
    strings, at = bytearray(b"\0"), []
    for symbol in symbols:
        at.append(len(strings))
        strings += symbol.name.encode() + b"\0"
    return strings, at


def _hash_table(symbols: Sequence[Symbol]) -> bytearray:
    buckets, chain = [0] * len(symbols), [0] * (len(symbols) + 1)
    for n, symbol in enumerate(symbols, 1):
        bucket = elf.sysv_hash(symbol.name) % len(symbols)
        chain[n] = buckets[bucket]
        buckets[bucket] = n
    words = [len(buckets), len(chain), *buckets, *chain]
    return bytearray(struct.pack(f"<{len(words)}I", *words))
