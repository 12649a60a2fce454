"""Scalar loads: s_load, s_buffer_load."""

from __future__ import annotations

import numpy as np

from .decode import NULL, Instruction
from .operands import U32, U64, raw_scalar
from .registry import Step, instruction
from .state import Arch, Machine

# gfx9 and gfx10 count in dwords, gfx11 and gfx12 in bits.
SIZES = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "dwordx8": 32, "dwordx16": 64}
SIZES |= {"b32": 4, "b64": 8, "b96": 12, "b128": 16, "b256": 32, "b512": 64}
SIZES |= {"u8": 1, "i8": 1, "u16": 2, "i16": 2}
MODIFIERS = ("offset", "glc", "dlc", "scope", "th")


def _store_words(m: Machine, register: int, loaded: np.ndarray) -> None:
    for k in range(loaded.shape[1]):
        m.write_scalar(register + k, loaded[:, k])


def sign_extend(words: np.ndarray, size: int, name: str) -> np.ndarray:
    """uint32[k, 1] of a load of `size` bytes called i8 or i16 (else as it is)."""
    if name[0] in "is" and size < 4:
        narrow = np.int8 if size == 1 else np.int16
        return words.astype(narrow).astype(np.int32).view(np.uint32)
    return words


@instruction(*(f"s_load_{size}" for size in SIZES), modifiers=MODIFIERS)
def _load(i: Instruction, arch: Arch) -> Step:
    name = i.mnemonic.removeprefix("s_load_")
    size, register = SIZES[name], i.operands[0].index
    base = raw_scalar(i, i.operands[1], U64)
    fixed = i.number("offset")
    offset = i.operands[2] if len(i.operands) > 2 else None
    if offset is not None and offset.kind in ("int", "literal"):
        fixed += int(offset.value) - (1 << 32 if int(offset.value) >> 31 & 1 else 0)
        offset = None
    moving = None
    if offset is not None and offset.index != NULL:
        moving = raw_scalar(i, offset, U32)
    step_back = np.int64(fixed).view(np.uint64)

    def step(m: Machine) -> None:
        address = base(m) + step_back
        if moving is not None:
            address = address + moving(m)
        address = address & ~np.uint64(3) if size >= 4 else address
        _store_words(m, register, sign_extend(m.memory.load(address, size), size, name))

    return step


@instruction(*(f"s_buffer_load_{size}" for size in SIZES), modifiers=MODIFIERS)
def _buffer_load(i: Instruction, arch: Arch) -> Step:
    raise i.unknown("no kernel of the project uses scalar buffer resources")
