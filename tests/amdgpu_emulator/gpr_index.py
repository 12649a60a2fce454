"""gfx9: from s_set_gpr_idx_on to s_set_gpr_idx_off, vector registers are counted from an index.

Such a sequence executes as one step. Between the two stand moves, and what computes in scalar
registers alone, which indexing does not concern; whatever else stands there is unknown. "Vega
instruction set architecture", VGPR indexing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np

from .decode import Instruction
from .errors import OutOfBounds
from .operands import B32, U32, raw_scalar, raw_source, vector_index
from .registry import Step, build
from .state import ACCUMULATION, M0, Arch, Array, Machine

START, END = "s_set_gpr_idx_on", "s_set_gpr_idx_off"
Move = Callable[[Machine, Array], None]  # the array: int64[count], the index of each wave
# Scalar arithmetic: neither jumps, waits nor modes, and none of it uses M0 unnamed.
_SCALAR = (
    "s_cmp_",
    "s_bitcmp",
    "s_bfe",
    "s_not_b",
    "s_mul",
    "s_add",
    "s_sub",
    "s_and_b",
    "s_or_b",
    "s_xor_b",
    "s_lsh",
    "s_cselect",
    "s_mov_b",
)
_BITS = {"SRC0": 1, "SRC1": 2, "SRC2": 4, "DST": 8}


def sequence(
    instructions: Mapping[int, Instruction], first: Instruction, arch: Arch
) -> tuple[Step, int]:
    """(closure of the whole sequence, address behind it)."""
    if arch.generation != 9:
        raise first.unknown(f"indexed registers on gfx{arch.generation}")
    named = re.fullmatch(r"gpr_idx\(([A-Z0-9,]*)\)", first.operands[1].text)
    if named is None:
        raise first.unknown(f"operand {first.operands[1].text}")
    indexed = [name for name in named[1].split(",") if name]
    bits = sum(_BITS[name] for name in indexed)
    moves, at = [], first.next
    while at in instructions and instructions[at].mnemonic != END:
        i = instructions[at]
        if i.mnemonic == "v_mov_b32" and i.suffix in ("", "e32"):
            moves.append(_move(i, "SRC0" in indexed, "DST" in indexed))
        elif i.mnemonic.startswith(_SCALAR) and "m0" not in i.text:
            moves.append(_aside(build(i, arch)))
        elif i.mnemonic != "s_nop":
            raise i.unknown("with indexed registers, only moves and scalars are known")
        at = i.next
    if at not in instructions:
        raise first.unknown(f"no {END} follows")
    read = raw_scalar(first, first.operands[0], U32)

    def step(m: Machine) -> None:
        index = read(m) & np.uint32(0xFF)
        kept = m.scalar(M0) & np.uint32(0xFFFF0F00)
        m.write_scalar(M0, kept | index | np.uint32(bits << 12))
        for move in moves:
            move(m, index.astype(np.int64))

    return step, instructions[at].next


def _aside(step: Step) -> Move:
    def move(m: Machine, index: Array) -> None:
        step(m)

    return move


def _waves(index: Array, first: int) -> list[tuple[int, Array]]:
    """(register, waves bool[count]) for each value of the index."""
    found = []
    for value in np.unique(index).tolist():
        if first + value >= ACCUMULATION:
            raise OutOfBounds(f"register v{first} counted from {value} does not exist")
        found.append((first + value, index == value))
    return found


def _move(i: Instruction, from_index: bool, to_index: bool) -> Move:
    """v_mov_b32 with source or destination indexed."""
    d, s = i.operands
    if d.kind != "v" or (from_index and s.kind != "v"):
        raise i.unknown("an indexed operand that is no vector register")
    plain = raw_source(i, s, B32)

    def move(m: Machine, index: Array) -> None:
        if from_index:
            value = np.empty((m.count, m.lanes), np.uint32)
            for register, waves in _waves(index, vector_index(s)):
                value[waves] = m.read(register)[waves]
        else:
            value = np.array(np.broadcast_to(plain(m), (m.count, m.lanes)))
        if not to_index:
            m.write(d.index, value)
            return
        for register, waves in _waves(index, d.index):
            m.write(register, np.where(waves[:, None], value, m.read(register)))

    return move
