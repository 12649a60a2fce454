"""SDWA forms of gfx9 and gfx10: sources are parts of registers, the result goes into a part of one.

Fields as in AMD's "Vega instruction set architecture", section on sub-dword addressing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .decode import Instruction
from .operands import B32, Read, raw_source
from .registry import Build, Step, form
from .state import TEMPORARY, Arch, Array, Machine

MODIFIERS = frozenset(("dst_sel", "dst_unused", "src0_sel", "src1_sel"))
# name: (shift, bits)
PARTS = {f"BYTE_{n}": (8 * n, 8) for n in range(4)} | {
    "WORD_0": (0, 16),
    "WORD_1": (16, 16),
    "DWORD": (0, 32),
}
_RESULT = TEMPORARY + 4


def part(i: Instruction, modifier: str) -> tuple[int, int]:
    """(shift, bits) that a selection names."""
    name = str(i.modifiers.get(modifier, "DWORD"))
    if name not in PARTS:
        raise i.unknown(f"{modifier}:{name}")
    return PARTS[name]


def extract(value: Array, shift: int, bits: int, signed: bool) -> Array:
    """uint32 of the part, zero- or sign-extended."""
    if bits == 32:
        return value
    upper = np.uint32(32 - bits)
    raised = value << np.uint32(32 - bits - shift)
    if signed:
        return (raised.view(np.int32) >> upper.astype(np.int32)).view(np.uint32)
    return raised >> upper


def insert(result: Array, old: Array, shift: int, bits: int, unused: str) -> Array:
    """`result` in its part of the destination; the rest zero, sign or as it was."""
    if bits == 32:
        return result
    part_mask = np.uint32(((1 << bits) - 1) << shift)
    placed = (result << np.uint32(shift)) & part_mask
    if unused == "UNUSED_PRESERVE":
        return (old & ~part_mask) | placed
    if unused == "UNUSED_SEXT":
        above = np.uint32(32 - bits - shift)
        raised = (placed << above).view(np.int32)
        return (raised >> above.astype(np.int32)).view(np.uint32)
    return placed


@form("sdwa", modifiers=MODIFIERS)
def sdwa(i: Instruction, arch: Arch, build: Build) -> Step:
    if arch.generation > 10:
        raise i.unknown(f"SDWA on gfx{arch.generation}")
    if i.mnemonic.startswith("v_cmpx"):
        raise i.unknown("SDWA of a compare into EXEC")
    first = 2 if "_co_" in i.mnemonic else 1
    operands = list(i.operands)
    reads: list[tuple[int, Read, int, int, bool]] = []
    for k in range(2):
        if first + k >= len(operands) or f"src{k}_sel" not in i.modifiers:
            continue
        o = operands[first + k]
        shift, bits = part(i, f"src{k}_sel")
        plain = replace(o, neg=False, abs=False, sext=False)
        reads.append((TEMPORARY + k, raw_source(i, plain, B32), shift, bits, o.sext))
        operands[first + k] = replace(o, kind="v", index=TEMPORARY + k, count=1, sext=False)
    rest = {name: value for name, value in i.modifiers.items() if name not in MODIFIERS}
    finish = None
    if "dst_sel" in i.modifiers:
        finish = _destination(i)
        operands[0] = replace(operands[0], index=_RESULT, count=1)
    inner = replace(i, operands=tuple(operands), modifiers=rest, suffix="e64")
    execute = build(inner, arch)
    old = operands_of_result(i) if finish else None

    def step(m: Machine) -> object:
        for register, read, shift, bits, signed in reads:
            m.write_all(register, extract(np.ascontiguousarray(read(m)), shift, bits, signed))
        if old is not None:
            m.write_all(_RESULT, old(m))
        result = execute(m)
        if finish is not None:
            finish(m)
        return result

    return step


def operands_of_result(i: Instruction) -> Read:
    """What the result register holds before: the old value where the instruction reads it, or 0."""
    accumulates = any(word in i.mnemonic for word in ("_mac_", "_fmac_", "dot"))
    if accumulates:
        return raw_source(i, i.operands[0], B32)
    zero = np.zeros((1, 1), np.uint32)
    return lambda m: zero


def _destination(i: Instruction) -> Step:
    """Moves the result from its temporary register to its part of the destination."""
    if not i.operands[0].is_vector or i.operands[0].count != 1:
        raise i.unknown(f"a part of {i.operands[0].text} as destination")
    shift, bits = part(i, "dst_sel")
    unused = str(i.modifiers.get("dst_unused", "UNUSED_PAD"))
    if unused not in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"):
        raise i.unknown(f"dst_unused:{unused}")
    register = i.operands[0].index

    def finish(m: Machine) -> None:
        m.write(register, insert(m.read(_RESULT), m.read(register), shift, bits, unused))

    return finish
