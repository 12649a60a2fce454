"""Loads and stores of workgroup memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decode import Instruction
from .operands import U32, raw_source, vector_index
from .registry import Step, register
from .state import Arch, Machine
from .vmem import SIGNED, SIZES, extended, read_stored, write_loaded

Array = np.ndarray[Any, Any]


def lds_address(i: Instruction, position: int, offset: int) -> Any:
    """m -> int64[k]: byte addresses of the active lanes; they wrap at 32 bits as hardware's do."""
    read = raw_source(i, i.operands[position], U32)
    fixed = np.uint32(offset)
    return lambda m: (m.active(read(m)) + fixed).astype(np.int64)


def _half(i: Instruction, data: int) -> str | None:
    if "d16" not in i.mnemonic:
        return i.operands[data].half
    return i.operands[data].half or ("h" if i.mnemonic.endswith("_hi") else "l")


def _load(width: str) -> Any:
    def build(i: Instruction, arch: Arch) -> Step:
        address, size = lds_address(i, 1, i.number("offset")), SIZES[width]
        first, half = vector_index(i.operands[0]), _half(i, 0)

        def step(m: Machine) -> None:
            where = address(m)
            if len(where):
                words = m.lds.load(m.groups_of_lanes(), where, size)
                write_loaded(m, first, extended(words, width), half)

        return step

    return build


def _store(width: str) -> Any:
    def build(i: Instruction, arch: Arch) -> Step:
        address, size = lds_address(i, 0, i.number("offset")), SIZES[width]
        data = read_stored(i, i.operands[1], size, _half(i, 1))

        def step(m: Machine) -> None:
            where = address(m)
            if len(where):
                m.lds.store(m.groups_of_lanes(), where, size, data(m))

        return step

    return build


def _load_two(width: str, stride: int) -> Any:
    def build(i: Instruction, arch: Arch) -> Step:
        size, first = SIZES[width], vector_index(i.operands[0])
        unit = size * stride
        both = [lds_address(i, 1, i.number(f"offset{k}") * unit) for k in (0, 1)]

        def step(m: Machine) -> None:
            if m.mask.any():
                groups = m.groups_of_lanes()
                loaded = [m.lds.load(groups, address(m), size) for address in both]
                write_loaded(m, first, np.concatenate(loaded, axis=1), None)

        return step

    return build


def _store_two(width: str, stride: int) -> Any:
    def build(i: Instruction, arch: Arch) -> Step:
        size = SIZES[width]
        unit = size * stride
        both = [lds_address(i, 0, i.number(f"offset{k}") * unit) for k in (0, 1)]
        data = [read_stored(i, i.operands[1 + k], size, None) for k in (0, 1)]

        def step(m: Machine) -> None:
            if m.mask.any():
                groups = m.groups_of_lanes()
                for address, words in zip(both, data, strict=True):
                    m.lds.store(groups, address(m), size, words(m))

        return step

    return build


def _register_all() -> None:
    """gfx9 and gfx10 say read and write, gfx11 and gfx12 load and store."""
    for load, store in (("read", "write"), ("load", "store")):
        for width in ("b32", "b64", "b96", "b128", "u8", "i8", "u16", "i16"):
            register(f"ds_{load}_{width}", _load(width), ("offset",))
            if width not in SIGNED and width[0] == "b":
                register(f"ds_{store}_{width}", _store(width), ("offset",))
        for width in ("u8", "i8", "u16"):
            register(f"ds_{load}_{width}_d16", _load(width), ("offset",))
            register(f"ds_{load}_{width}_d16_hi", _load(width), ("offset",))
        for width in ("b8", "b16"):
            register(f"ds_{store}_{width}", _store(width), ("offset",))
            register(f"ds_{store}_{width}_d16_hi", _store(width), ("offset",))
    offsets = ("offset0", "offset1")
    for width in ("b32", "b64"):
        for stride, old, new in ((1, "", ""), (64, "st64", "_stride64")):
            for name in (f"ds_read2{old}_{width}", f"ds_load_2addr{new}_{width}"):
                register(name, _load_two(width, stride), offsets)
            for name in (f"ds_write2{old}_{width}", f"ds_store_2addr{new}_{width}"):
                register(name, _store_two(width, stride), offsets)


_register_all()
register("ds_nop", lambda i, arch: lambda m: None)
