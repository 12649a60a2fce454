"""Registers chosen at run time: M0 is added to the number of a source or a destination."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decode import Instruction
from .errors import OutOfBounds
from .operands import B32, U32, raw_scalar, raw_source, raw_target, scalar_target, vector_index
from .registry import Step, instruction
from .state import M0, Arch, Machine

Array = np.ndarray[Any, Any]
REGISTERS, SCALARS = 256, 106


def _each_offset(m: Machine, first: int, limit: int) -> list[tuple[int, Array]]:
    """(register, waves bool[count]) for each value of M0 in the group."""
    offsets = m.scalar(M0)
    found = []
    for offset in np.unique(offsets):
        if first + int(offset) >= limit:
            raise OutOfBounds(f"register {first} + M0 = {int(offset)} does not exist")
        found.append((first + int(offset), offsets == offset))
    return found


@instruction("v_movrels_b32")
def _relative_source(i: Instruction, arch: Arch) -> Step:
    first, write = vector_index(i.operands[1]), raw_target(i, i.operands[0], B32)

    def step(m: Machine) -> None:
        out = np.zeros((m.count, m.lanes), np.uint32)
        for register, waves in _each_offset(m, first, REGISTERS):
            out[waves] = m.read(register)[waves]
        write(m, out)

    return step


@instruction("v_movreld_b32")
def _relative_destination(i: Instruction, arch: Arch) -> Step:
    first, read = vector_index(i.operands[0]), raw_source(i, i.operands[1], B32)

    def step(m: Machine) -> None:
        value = np.broadcast_to(read(m), (m.count, m.lanes))
        for register, waves in _each_offset(m, first, REGISTERS):
            m.write(register, np.where(waves[:, None], value, m.read(register)))

    return step


@instruction("s_movrels_b32")
def _relative_scalar(i: Instruction, arch: Arch) -> Step:
    first, write = i.operands[1].index, scalar_target(i, U32)

    def step(m: Machine) -> None:
        out = np.zeros(m.count, np.uint32)
        for register, waves in _each_offset(m, first, SCALARS):
            out[waves] = m.scalar(register)[waves]
        write(m, out)

    return step


@instruction("s_movreld_b32")
def _relative_scalar_destination(i: Instruction, arch: Arch) -> Step:
    first, read = i.operands[0].index, raw_scalar(i, i.operands[1], U32)

    def step(m: Machine) -> None:
        value = read(m)
        for register, waves in _each_offset(m, first, SCALARS):
            m.write_scalar(register, np.where(waves, value, m.scalar(register)))

    return step
