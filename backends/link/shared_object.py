"""The shared object of a kernel for the CPU: what it may hold, and what it exports."""

from __future__ import annotations

from collections.abc import Sequence

from . import aarch64, elf, x86_64
from .elf import LinkError, ObjectFile, Symbol, read_object
from .image import Image

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
    machine = _MACHINES[obj.machine]
    return Image(obj, symbols, machine.PAGE, machine.relocate).write(elf.IDENT)


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
