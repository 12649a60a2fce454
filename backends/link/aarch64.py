"""aarch64: page size and the position-independent relocations of kernels."""

from __future__ import annotations

import struct

from .elf import EM_AARCH64, LinkError

MACHINE = EM_AARCH64
PAGE = 0x10000  # kernels run with pages of 4, 16 or 64 KiB

R_PREL64, R_PREL32 = 260, 261
R_ADR_PREL_LO21, R_ADR_PREL_PG_HI21, R_ADR_PREL_PG_HI21_NC = 274, 275, 276
R_ADD_ABS_LO12_NC = 277
R_JUMP26, R_CALL26 = 282, 283
_LOAD_STORE = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # LDST{8,16,32,64,128}_ABS_LO12_NC: scale


def relocate(data: bytearray, offset: int, kind: int, target: int, place: int) -> None:
    """Fill in the field that `kind` names for `target` (symbol plus addend) at `data[offset]`."""
    size = 8 if kind == R_PREL64 else 4
    if offset + size > len(data):
        raise LinkError(f"relocation at {offset} of a section of {len(data)} bytes")
    if kind in (R_PREL32, R_PREL64):
        distance = _fit(target - place, 8 * size)
        data[offset : offset + size] = (distance & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return
    (word,) = struct.unpack_from("<I", data, offset)
    struct.pack_into("<I", data, offset, _instruction(word, kind, target, place))


def _instruction(word: int, kind: int, target: int, place: int) -> int:
    if kind in (R_JUMP26, R_CALL26):
        if (target - place) % 4:
            raise LinkError("branch to an address that is not a multiple of 4")
        return word & 0xFC000000 | _fit((target - place) >> 2, 26) & 0x3FFFFFF
    if kind in (R_ADR_PREL_PG_HI21, R_ADR_PREL_PG_HI21_NC):
        return _adr(word, ((target & ~0xFFF) - (place & ~0xFFF)) >> 12)
    if kind == R_ADR_PREL_LO21:
        return _adr(word, target - place)
    low = target & 0xFFF
    if kind == R_ADD_ABS_LO12_NC:
        return word & 0xFFC003FF | low << 10
    if kind in _LOAD_STORE:
        scale = _LOAD_STORE[kind]
        if low % (1 << scale):
            raise LinkError(f"load of {1 << scale} bytes from the misaligned address {target:#x}")
        return word & 0xFFC003FF | low >> scale << 10
    raise LinkError(f"aarch64 relocation {kind} is not position-independent kernel code")


def _adr(word: int, distance: int) -> int:
    distance = _fit(distance, 21)
    return word & 0x9F00001F | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5


def _fit(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise LinkError(f"distance {value:#x} does not fit {bits} bits")
    return value
