"""Conversions of eight-bit floats (gfx942: FNUZ; gfx950 and gfx12: OCP) and of bf16 pairs.

Stochastic rounding (v_cvt_sr_*) and conversions with scales are not modelled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import narrow
from .decode import Instruction
from .operands import B32, F32, raw_source, raw_target, source, target
from .registry import Step, instruction
from .state import Arch, Array, Machine

_OVERFLOW_CLAMPS = 23  # MODE.FP16_OVFL


def layout(i: Instruction, arch: Arch) -> narrow.Float8:
    """The format that fp8 or bf8 in a mnemonic means."""
    return narrow.float8("fp8" if "fp8" in i.mnemonic else "bf8", arch.processor == "gfx942")


def saturates(m: Machine) -> bool:
    bits = np.atleast_1d(m.mode_bits[m.g])
    return bool(bits[0] >> np.uint32(_OVERFLOW_CLAMPS) & 1)


def _into_half(i: Instruction, high: bool) -> Callable[[Machine, Array], None]:
    """Writes sixteen bits; the other half of the destination stays."""
    register = i.operands[0].index
    raw_target(i, i.operands[0], B32)

    def write(m: Machine, value: Array) -> None:
        old = m.read(register)
        if high:
            m.write(register, (old & np.uint32(0xFFFF)) | value << np.uint32(16))
        else:
            m.write(register, (old & np.uint32(0xFFFF0000)) | value)

    return write


@instruction("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32", modifiers=("op_sel",))
def _pack_two(i: Instruction, arch: Arch) -> Step:
    select = i.bits("op_sel", (0, 0, 0))
    if select[0] or select[1] or (len(i.operands) != 3):
        raise i.unknown("op_sel of f32 sources")
    kind = layout(i, arch)
    reads = [source(i, k, F32) for k in (1, 2)]
    write = _into_half(i, bool(select[2]))

    def step(m: Machine) -> None:
        low, high = (narrow.encode8(read(m), kind, saturates(m)) for read in reads)
        write(m, low | high << np.uint32(8))

    return step


@instruction("v_cvt_f32_fp8", "v_cvt_f32_bf8", modifiers=("byte_sel", "op_sel"))
def _unpack_one(i: Instruction, arch: Arch) -> Step:
    if "op_sel" in i.modifiers:
        raise i.unknown("op_sel where byte_sel selects")
    shift = np.uint32(8 * i.number("byte_sel"))
    kind, read, write = layout(i, arch), raw_source(i, i.operands[1], B32), target(i, F32)
    return lambda m: write(m, narrow.decode8(read(m) >> shift, kind))


@instruction("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8", modifiers=("op_sel",))
def _unpack_two(i: Instruction, arch: Arch) -> Step:
    if i.operands[0].count != 2:
        raise i.unknown("two results need two registers")
    shift = np.uint32(16 * i.bits("op_sel", (0, 0))[0])
    kind, first = layout(i, arch), i.operands[0].index
    raw_target(i, i.operands[0], B32)
    half_kind = i.operands[1].half
    if half_kind is not None:
        shift = np.uint32(16 if half_kind == "h" else 0)
    read = raw_source(i, i.operands[1], B32)

    def step(m: Machine) -> None:
        word = read(m) >> shift
        low, high = narrow.decode8(word, kind), narrow.decode8(word >> np.uint32(8), kind)
        m.write(first, low.view(np.uint32))
        m.write(first + 1, high.view(np.uint32))

    return step


@instruction("v_cvt_pk_bf16_f32", generations=(9, 12))
def _pack_bf16(i: Instruction, arch: Arch) -> Step:
    reads, write = [source(i, k, F32) for k in (1, 2)], raw_target(i, i.operands[0], B32)

    def step(m: Machine) -> None:
        low, high = (narrow.to_bf16(read(m)) for read in reads)
        write(m, low | high << np.uint32(16))

    return step
