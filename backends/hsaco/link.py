"""From LLVM's relocatable object of kernels to the code object that ROCm's loader takes.

The loader wants ET_DYN with the object's flags and ABI version, segments whose addresses are
congruent to their file offsets, `.symtab` (not `.dynsym`) with a global `NAME.kd` for each kernel,
the note of the metadata, and a section `.text`. Relocation types: LLVM's "User Guide for AMDGPU
Backend".
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ..link import elf
from ..link.elf import LinkError, ObjectFile, Relocation, Symbol
from ..link.image import Image
from ..llvm.machine import LLVM_VERSION
from .code_object import KD, CodeObjectError, version_of

__all__ = ["LinkError", "link", "link_or_lld", "lld"]

PAGE = 0x1000
_SECONDS, _VERSION_SECONDS = 60, 5
_KINDS = frozenset((elf.SHT_PROGBITS, elf.SHT_NOTE))
_ABS32_LO, _ABS32_HI, _ABS64, _REL32, _REL64, _ABS32 = 1, 2, 3, 4, 5, 6
_REL32_LO, _REL32_HI, _REL16 = 10, 11, 14
# Type -> (bytes, distance from the place or not, bits to shift out, must it fit the field?)
_FIELDS = {
    _ABS32_LO: (4, False, 0, False),
    _ABS32_HI: (4, False, 32, False),
    _ABS64: (8, False, 0, True),
    _ABS32: (4, False, 0, True),
    _REL32: (4, True, 0, True),
    _REL64: (8, True, 0, True),
    _REL32_LO: (4, True, 0, False),
    _REL32_HI: (4, True, 32, False),
}


def link(obj: bytes, entries: Sequence[str]) -> bytes:
    """The code object with exactly these kernels. LinkError says what in `obj` is not fit."""
    read = elf.read_object(obj, _KINDS)
    if read.machine != elf.EM_AMDGPU:
        raise LinkError(f"machine {read.machine} is not AMD's (224)")
    try:
        version_of(read.ident)
    except CodeObjectError as error:
        raise LinkError(str(error)) from error
    exported, kept = _symbols(read, entries)
    return _CodeObject(read, exported, PAGE, _relocate, kept).write(read.ident)


def link_or_lld(
    obj: bytes, entries: Sequence[str], own: Callable[[bytes, Sequence[str]], bytes] = link
) -> tuple[bytes, dict[str, object]]:
    """`link`, or where it raises `ld.lld` of PATH; and the facts: {"linker": name and version}
    where it was that. LinkError with both reasons where that fails too."""
    try:
        return own(obj, entries), {}
    except LinkError as error:
        try:
            blob, version = lld(obj)
        except LinkError as other:
            raise LinkError(f"{error}; {other}") from error
    return blob, {"linker": f"ld.lld {version}"}


@functools.cache
def _program() -> tuple[str, str]:
    """Path and version of `ld.lld`, which must be of the release that the build's LLVM is: its
    bytes are an artifact's."""
    seen = []
    for name in (f"ld.lld-{LLVM_VERSION[0]}", "ld.lld"):
        path = shutil.which(name)
        if path is None:
            continue
        try:
            told = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS
            )
        except subprocess.TimeoutExpired:
            seen.append(f"{name} does not tell its version within {_VERSION_SECONDS} seconds")
            continue
        found = re.search(r"LLD ([\d.]+)", told.stdout)
        version = found[1] if found else "unknown"
        if version.startswith(".".join(map(str, LLVM_VERSION)) + "."):
            return path, version
        seen.append(f"{name} is {version}")
    expected = ".".join(map(str, LLVM_VERSION))
    raise LinkError(f"no ld.lld {expected} on PATH{': ' if seen else ''}{', '.join(seen)}")


def lld(obj: bytes) -> tuple[bytes, str]:
    """The code object as `ld.lld` links it, and its version. LinkError where it does not."""
    path, version = _program()
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        source.write_bytes(obj)
        command = [path, "-shared", "--no-undefined", str(source), "-o", str(result)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise LinkError(f"{path} was not done after {_SECONDS} seconds") from error
        if done.returncode:
            raise LinkError(f"{path} refuses it: {done.stderr.strip()[-500:]}")
        return result.read_bytes(), version


def _symbols(obj: ObjectFile, entries: Sequence[str]) -> tuple[list[Symbol], list[Symbol]]:
    """What the code object exports, and what its `.symtab` holds."""
    kept = []
    for symbol in obj.symbols[1:]:
        if symbol.section == elf.SHN_UNDEF:
            raise LinkError(f"undefined symbol {symbol.name}: a kernel calls nothing outside")
        if symbol.section == elf.SHN_COMMON:
            raise LinkError(f"common symbol {symbol.name}: kernels have no writable data")
        if symbol.kind in (elf.STT_FUNC, elf.STT_OBJECT) and not symbol.name.startswith(".L"):
            kept.append(symbol)
    exported = [s for s in kept if s.binding != elf.STB_LOCAL]
    expected = {(n, elf.STT_FUNC) for n in entries} | {(n + KD, elf.STT_OBJECT) for n in entries}
    got = {(s.name, s.kind) for s in exported}
    if got != expected or len(exported) != len(expected):
        names = [", ".join(sorted(name for name, _ in found)) for found in (got, expected)]
        raise LinkError(
            f"the object exports {names[0] or 'nothing'}; expected {names[1]} "
            "(LLVM drops a kernel whose features the processor does not have)"
        )
    return exported, kept


class _CodeObject(Image):
    def target_of(self, relocation: Relocation) -> int:
        symbol = relocation.symbol
        if symbol.section == elf.SHN_ABS:
            return symbol.value + relocation.addend
        if relocation.kind in (_ABS32_LO, _ABS32_HI, _ABS64, _ABS32):
            raise LinkError(
                f"relocation {relocation.kind} against {symbol.name}: only the loader knows the "
                "address of what it loads"
            )
        return super().target_of(relocation)


def _relocate(data: bytearray, offset: int, kind: int, target: int, place: int) -> None:
    """Fill in the field that `kind` names for `target` (symbol plus addend) at `data[offset]`."""
    if kind == _REL16:
        _write(data, offset, 2, _branch(target - place), fits=True)
        return
    if kind not in _FIELDS:
        raise LinkError(f"AMDGPU relocation {kind} is not position-independent kernel code")
    size, relative, shift, fits = _FIELDS[kind]
    _write(data, offset, size, (target - place if relative else target) >> shift, fits)


def _branch(distance: int) -> int:
    """The operand of a branch: instruction words from the one behind it."""
    if distance % 4:
        raise LinkError(f"branch over {distance} bytes, which is no multiple of 4")
    return (distance - 4) // 4


def _write(data: bytearray, offset: int, size: int, value: int, fits: bool) -> None:
    if offset + size > len(data):
        raise LinkError(f"relocation at {offset} of a section of {len(data)} bytes")
    bits = 8 * size
    if fits and not -(1 << bits - 1) <= value < 1 << bits:
        raise LinkError(f"{value:#x} does not fit the {bits} bits of its field")
    data[offset : offset + size] = (value & (1 << bits) - 1).to_bytes(size, "little")
