"""Loads and stores of lanes: global, flat and scratch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .decode import NULL, Instruction, Operand
from .errors import OutOfBounds
from .memory import gather, scatter
from .operands import (
    PRIVATE_APERTURE,
    SHARED_APERTURE,
    U32,
    U64,
    raw_scalar,
    raw_source,
    vector_index,
)
from .registry import Step, register
from .state import Arch, Machine

Array = np.ndarray[Any, Any]
Address = Callable[[Machine], Array]

CACHE = ("glc", "slc", "dlc", "sc0", "sc1", "nt", "scope", "th", "nv")
MODIFIERS = ("offset", *CACHE)
# width in the mnemonic -> bytes; gfx9 and gfx10 names, then those of gfx11 and gfx12
SIZES = {
    "ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "byte": 1, "short": 2, "dword": 4,
    "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "b8": 1,
    "b16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16,
}  # fmt: skip
SIGNED = ("sbyte", "sshort", "i8", "i16")


def extended(words: Array, width: str) -> Array:
    """uint32[k, n]: what a load of `width` writes, sign-extended if it is signed."""
    if width in SIGNED:
        narrow = np.int8 if SIZES[width] == 1 else np.int16
        return words.astype(narrow).astype(np.int32).view(np.uint32)
    return words


def write_loaded(m: Machine, register: int, words: Array, half: str | None) -> None:
    """uint32[k, n] of the active lanes into consecutive registers, or into one half of one."""
    for k in range(words.shape[1]):
        value = m.spread(np.ascontiguousarray(words[:, k]))
        if half is not None:
            old = m.read(register)
            low = np.uint32(0xFFFF)
            value = old & low | value << np.uint32(16) if half == "h" else old & ~low | value & low
        m.write(register + k, value)


def read_stored(i: Instruction, o: Operand, size: int, half: str | None) -> Address:
    """m -> uint32[k, n]: the data of the active lanes."""
    count = max(size // 4, 1)
    if not o.is_vector:
        raise i.unknown(f"data operand {o.text}")
    first = vector_index(o)
    if half == "h":
        return lambda m: m.active(m.read(first) >> np.uint32(16))[:, None]
    if count == 1:
        return lambda m: m.active(m.read(first))[:, None]

    def read(m: Machine) -> Array:
        return np.stack([m.active(m.read(first + k)) for k in range(count)], axis=1)

    return read


# Addresses


def global_address(i: Instruction, vector: Operand, scalar: Operand) -> Address:
    """m -> uint64[k] of the active lanes: 64-bit vector, or scalar base and 32-bit vector."""
    offset = np.int64(i.number("offset")).view(np.uint64)
    if scalar.kind == "s" and scalar.index != NULL:
        base, index = raw_scalar(i, scalar, U64), raw_source(i, vector, U32)
        return lambda m: m.active((base(m) + offset)[:, None] + index(m))
    pointer = raw_source(i, vector, U64)
    return lambda m: m.active(pointer(m)) + offset


def scratch_address(i: Instruction, vector: Operand, scalar: Operand) -> Address:
    """m -> int64[k]: byte offsets into the private memory of each active lane."""
    offset = i.number("offset")
    parts = [o for o in (vector, scalar) if o.kind != "off" and o.index != NULL]
    reads = [raw_source(i, o, U32) for o in parts]

    def address(m: Machine) -> Array:
        total = np.full(m.mask.shape, offset, np.int64)
        for read in reads:
            total = total + read(m).view(np.int32)
        return m.active(total)

    return address


# Where the bytes are: load(m, address, size) and store(m, address, size, words)


class GlobalSpace:
    @staticmethod
    def load(m: Machine, address: Array, size: int) -> Array:
        return m.memory.load(address, size)

    @staticmethod
    def store(m: Machine, address: Array, size: int, words: Array) -> None:
        m.memory.store(address, size, words)


class ScratchSpace:
    @staticmethod
    def _offset(m: Machine, address: Array, size: int) -> Array:
        if len(address) and (address.min() < 0 or address.max() + size > m.scratch_bytes):
            raise OutOfBounds(
                f"scratch access of {size} bytes at {int(address.min())} to"
                f" {int(address.max())}: a lane has {m.scratch_bytes} bytes"
            )
        return m.active(m.scratch_bases()) + address

    @classmethod
    def load(cls, m: Machine, address: Array, size: int) -> Array:
        return gather(m.scratch(), cls._offset(m, address, size), size)

    @classmethod
    def store(cls, m: Machine, address: Array, size: int, words: Array) -> None:
        scatter(m.scratch(), cls._offset(m, address, size), size, words)


class FlatSpace:
    """Addresses whose upper word names an aperture lie in LDS or scratch, others are global."""

    @staticmethod
    def _apertures(address: Array) -> Array:
        """uint64[k]: the aperture of each lane, 0 for global memory."""
        upper = address >> np.uint64(32)
        local = (upper == SHARED_APERTURE) | (upper == PRIVATE_APERTURE)
        return np.where(local, upper, np.uint64(0))

    @classmethod
    def _parts(cls, m: Machine, address: Array) -> Iterator[tuple[int, Array | slice]]:
        """(aperture, its places among the active lanes); meanwhile only those are active."""
        apertures = cls._apertures(address)
        if (apertures == apertures[0]).all():
            yield int(apertures[0]), slice(None)
            return
        mask, full = m.mask, m.full
        for aperture in np.unique(apertures).tolist():
            chosen = apertures == aperture
            m.mask, m.full = mask, full
            m.mask, m.full = m.spread(chosen), False
            yield aperture, chosen
        m.mask, m.full = mask, full

    @classmethod
    def load(cls, m: Machine, address: Array, size: int) -> Array:
        out = np.empty((len(address), max(size // 4, 1)), np.uint32)
        for aperture, part in cls._parts(m, address):
            where = address[part]
            low = (where & np.uint64(0xFFFFFFFF)).astype(np.int64)
            if aperture == SHARED_APERTURE:
                out[part] = m.lds.load(m.groups_of_lanes(), low, size)
            elif aperture == PRIVATE_APERTURE:
                out[part] = ScratchSpace.load(m, low, size)
            else:
                out[part] = m.memory.load(where, size)
        return out

    @classmethod
    def store(cls, m: Machine, address: Array, size: int, words: Array) -> None:
        for aperture, part in cls._parts(m, address):
            where = address[part]
            low = (where & np.uint64(0xFFFFFFFF)).astype(np.int64)
            if aperture == SHARED_APERTURE:
                m.lds.store(m.groups_of_lanes(), low, size, words[part])
            elif aperture == PRIVATE_APERTURE:
                ScratchSpace.store(m, low, size, words[part])
            else:
                m.memory.store(where, size, words[part])


SPACES: dict[str, tuple[Any, Callable[[Instruction, Operand, Operand], Address]]] = {
    "global": (GlobalSpace, global_address),
    "flat": (FlatSpace, global_address),
    "scratch": (ScratchSpace, scratch_address),
}
_NONE = Operand("off", "off")


def _load(i: Instruction, arch: Arch) -> Step:
    space_name, half, width = _parts(i)
    space, addressing = SPACES[space_name]
    scalar = i.operands[2] if len(i.operands) > 2 else _NONE
    address, size = addressing(i, i.operands[1], scalar), SIZES[width]
    first = vector_index(i.operands[0])

    def step(m: Machine) -> None:
        where = address(m)
        if len(where):
            write_loaded(m, first, extended(space.load(m, where, size), width), half)

    return step


def _store(i: Instruction, arch: Arch) -> Step:
    space_name, half, width = _parts(i)
    space, addressing = SPACES[space_name]
    scalar = i.operands[2] if len(i.operands) > 2 else _NONE
    address, size = addressing(i, i.operands[0], scalar), SIZES[width]
    data = read_stored(i, i.operands[1], size, half)

    def step(m: Machine) -> None:
        where = address(m)
        if len(where):
            space.store(m, where, size, data(m))

    return step


_NAME = re.compile(r"(global|flat|scratch)_(load|store)_(d16_)?(hi_)?(\w+?)(_d16(?:_hi)?)?")


def _parts(i: Instruction) -> tuple[str, str | None, str]:
    """(space, half that a 16-bit load or store uses, width)."""
    found = _NAME.fullmatch(i.mnemonic)
    assert found is not None
    d16 = (found[3] or "") + (found[6] or "")
    high = found[4] or "hi" in (found[6] or "")
    data = i.operands[0 if found[2] == "load" else 1]
    half = data.half or ("h" if high else "l" if d16 else None)
    return found[1], half, found[5]


def _register_all() -> None:
    """gfx9 and gfx10: load_ubyte_d16_hi, load_short_d16, store_short_d16_hi; gfx11 and gfx12:
    load_d16_u8, load_d16_hi_b16, store_d16_hi_b8."""
    loads = [w for w in SIZES if w not in ("byte", "short", "b8", "b16")]
    stores = [w for w in SIZES if w not in SIGNED and w not in ("ubyte", "ushort", "u8", "u16")]
    halves_load = ["ubyte_d16", "sbyte_d16", "short_d16", "d16_u8", "d16_i8", "d16_b16"]
    halves_load += ["ubyte_d16_hi", "sbyte_d16_hi", "short_d16_hi"]
    halves_load += ["d16_hi_u8", "d16_hi_i8", "d16_hi_b16"]
    halves_store = ["byte_d16_hi", "short_d16_hi", "d16_hi_b8", "d16_hi_b16"]
    for space in SPACES:
        for width in loads + halves_load:
            register(f"{space}_load_{width}", _load, MODIFIERS)
        for width in stores + halves_store:
            register(f"{space}_store_{width}", _store, MODIFIERS)


_register_all()
