"""A linked code object as ROCm's loader sees it: label, kernels, their descriptors, metadata."""

from __future__ import annotations

from dataclasses import dataclass

from ..link import elf
from ..link.elf import LinkError
from . import descriptor, metadata
from .descriptor import Descriptor, DescriptorError
from .metadata import KernelInfo, Metadata, MetadataError
from .processors import parse_target, target_of

OSABI, VERSIONS = 64, {3: 5, 4: 6}  # EI_OSABI; EI_ABIVERSION: version of the code object
KD = ".kd"  # ends the name of a descriptor


class CodeObjectError(Exception):
    """Bytes that are no code object that ROCm's loader would take, and why."""


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel: what it says about itself twice, and its code."""

    info: KernelInfo
    descriptor: Descriptor
    code: bytes


@dataclass(frozen=True, slots=True)
class CodeObject:
    """target: the target id of the ELF header. version: 5 or 6."""

    target: str
    version: int
    kernels: dict[str, Function]


def read(blob: bytes) -> CodeObject:
    """Read a code object. CodeObjectError says what is wrong with it."""
    try:
        return _File(blob).read()
    except (LinkError, MetadataError, DescriptorError, *elf.MALFORMED) as error:
        raise CodeObjectError(f"not a code object, or a damaged one: {error}") from error


def version_of(ident: bytes) -> int:
    """The version of a code object from e_ident. CodeObjectError where it is not AMD's."""
    if ident[6] != 1 or ident[7] != OSABI or ident[8] not in VERSIONS or any(ident[9:]):
        raise CodeObjectError(
            f"e_ident {ident.hex()} is not that of an HSA code object of version 5 or 6"
        )
    return VERSIONS[ident[8]]


class _File:
    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.elf = elf.Reader(blob, elf.ET_DYN)
        if self.elf.machine != elf.EM_AMDGPU:
            raise CodeObjectError(f"machine {self.elf.machine} is not AMD's (224)")
        self.version = version_of(self.elf.ident)
        try:
            self.target = target_of(self.elf.flags)
        except ValueError as error:
            raise CodeObjectError(str(error)) from error
        self.loads = self.segments()

    def segments(self) -> list[tuple[int, ...]]:
        """The program headers of what is loaded, checked as a loader would."""
        header = elf.EHDR.unpack_from(self.blob)
        at, size, count = header[5], header[9], header[10]
        if size != elf.PHDR.size:
            raise CodeObjectError(f"program headers of {size} bytes, not {elf.PHDR.size}")
        rows = [elf.PHDR.unpack_from(self.blob, at + n * size) for n in range(count)]
        loads = [row for row in rows if row[0] == elf.PT_LOAD]
        end = 0
        for _, _, offset, address, _, stored, reserved, align in loads:
            if align == 0 or align & (align - 1) or (offset - address) % align:
                raise CodeObjectError(f"segment at {address:#x}: file offset {offset:#x}, {align=}")
            if address < end or stored > reserved or offset + stored > len(self.blob):
                raise CodeObjectError(f"segment at {address:#x} of {reserved} bytes has no place")
            end = address + reserved
        return loads

    def loaded(self, address: int, size: int, flags: int) -> bytes:
        """Bytes at an address, which lie in a segment with these permissions."""
        for _, has, offset, start, _, stored, _, _ in self.loads:
            if start <= address and address + size <= start + stored and has & flags == flags:
                return self.blob[offset + address - start : offset + address - start + size]
        raise CodeObjectError(f"{size} bytes at {address:#x} are in no loaded segment fit for them")

    def read(self) -> CodeObject:
        found = self.metadata()
        if found.target != self.target:
            raise CodeObjectError(
                f"the metadata is for {found.target}, the ELF header for {self.target}"
            )
        symbols = {s.name: s for s in self.elf.symbols() if s.binding == elf.STB_GLOBAL}
        kernels = {k.name: self.function(k, symbols) for k in found.kernels}
        said = {k.symbol for k in found.kernels}
        odd = [name for name in symbols if name.endswith(KD) and name not in said]
        if odd or len(kernels) != len(found.kernels):
            raise CodeObjectError(f"metadata and descriptors differ: {', '.join(odd) or 'twice'}")
        return CodeObject(self.target, self.version, kernels)

    def metadata(self) -> Metadata:
        headers = self.elf.headers
        notes = [h for h in headers if h[1] == elf.SHT_NOTE]
        if len(notes) != 1:
            raise CodeObjectError(f"{len(notes)} sections of notes, not one")
        if not any(self.elf.string(self.elf.names, h[0]) == ".text" for h in headers):
            raise CodeObjectError("there is no section .text, which ROCm's loader asks for")
        return metadata.parse(metadata.read_note(self.elf.bytes_of(notes[0])))

    def function(self, info: KernelInfo, symbols: dict[str, elf.Symbol]) -> Function:
        if info.symbol != info.name + KD:
            raise CodeObjectError(f"the descriptor of {info.name} is called {info.symbol}")
        kd, code = symbols.get(info.symbol), symbols.get(info.name)
        if kd is None or kd.kind != elf.STT_OBJECT or kd.value % descriptor.ALIGN:
            raise CodeObjectError(f"there is no descriptor {info.symbol}: LLVM dropped the kernel")
        if code is None or code.kind != elf.STT_FUNC:
            raise CodeObjectError(f"there is no function {info.name}")
        raw = self.loaded(kd.value, kd.size, elf.PF_R)
        read = descriptor.read(raw, parse_target(self.target)[0])
        if kd.value + read.entry != code.value or code.value % 256:
            raise CodeObjectError(
                f"the descriptor of {info.name} starts {kd.value + read.entry:#x}, "
                f"the function lies at {code.value:#x}"
            )
        return Function(info, read, self.loaded(code.value, code.size, elf.PF_R | elf.PF_X))
