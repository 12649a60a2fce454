"""x86-64: page size and the position-independent relocations of kernels."""

from __future__ import annotations

from .elf import EM_X86_64, LinkError

MACHINE = EM_X86_64
PAGE = 0x1000

R_PC32, R_PLT32, R_PC64 = 2, 4, 24
_BYTES = {R_PC32: 4, R_PLT32: 4, R_PC64: 8}


def relocate(data: bytearray, offset: int, kind: int, target: int, place: int) -> None:
    """Fill in the distance from `place` to `target` (symbol plus addend) at `data[offset]`."""
    if kind not in _BYTES:
        raise LinkError(f"x86-64 relocation {kind} is not position-independent kernel code")
    size = _BYTES[kind]
    if offset + size > len(data):
        raise LinkError(f"relocation at {offset} of a section of {len(data)} bytes")
    distance = target - place
    if not -(1 << 8 * size - 1) <= distance < 1 << 8 * size - 1:
        raise LinkError(f"distance {distance:#x} does not fit {8 * size} bits")
    data[offset : offset + size] = (distance & ((1 << 8 * size) - 1)).to_bytes(size, "little")
