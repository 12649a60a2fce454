"""Dot products: four bytes, eight nibbles or two halves of a register with those of another.

Pseudocode of AMD's documents: V_DOT4_I32_I8, V_DOT4_I32_IU8, V_DOT2_F32_F16 and their kin. The
rounding between the products of floats is not the same on every processor: their order is random.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import narrow
from .decode import Instruction
from .operands import B32, Read, raw_source, raw_target
from .registry import Build, Step, register
from .state import Arch, Array, Machine

_PACKED = ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")


def fields(value: Array, bits: int, signed: bool) -> Array:
    """int64[..., 32/bits] of the fields of uint32 words, low first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    parts = ((value[..., None] >> shifts) & np.uint32((1 << bits) - 1)).astype(np.int64)
    return (parts ^ (1 << bits - 1)) - (1 << bits - 1) if signed else parts


def whole_dot(a: Array, b: Array, c: Array, clamp: bool, signed: bool) -> Array:
    """uint32 of the sum of products of int64[..., n] and c (int64), wrapped or saturated."""
    total = (a * b).sum(axis=-1) + c
    if clamp:
        low, high = (-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)
        total = np.clip(total, low, high)
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _sources(i: Instruction, accumulates: bool) -> list[Read]:
    """Raw words of both factors and of the addend (the destination's old value: `accumulates`)."""
    operands = [*i.operands[1:], i.operands[0]] if accumulates else list(i.operands[1:])
    if len(operands) != 3:
        raise i.unknown(f"{len(i.operands)} operands of a dot product")
    return [raw_source(i, o, B32) for o in operands]


def integers(bits: int, signed: bool, accumulates: bool) -> Build:
    """Builder of dot products of integers; of iu8 and iu4, neg_lo says what is signed."""

    def build(i: Instruction, arch: Arch) -> Step:
        if any(o.neg or o.abs for o in i.operands) or any(i.bits("neg_hi", (0, 0, 0))):
            raise i.unknown("signs of a dot product of integers")
        signs = i.bits("neg_lo", (0, 0, 0))
        if signs[2] or ("iu" not in i.mnemonic and any(signs)):
            raise i.unknown("neg_lo of a dot product of integers")
        each = [bool(s) for s in signs[:2]] if "iu" in i.mnemonic else [signed, signed]
        signed_sum = "_i32_" in i.mnemonic
        reads, write = _sources(i, accumulates), raw_target(i, i.operands[0], B32)
        clamp = "clamp" in i.modifiers
        select = _selections(i) if bits == 16 else None
        if select is None and any(name in i.modifiers for name in ("op_sel", "op_sel_hi")):
            raise i.unknown("op_sel of a dot product of bytes")

        def step(m: Machine) -> None:
            a, b = (fields(reads[k](m), bits, each[k]) for k in range(2))
            if select is not None:
                a, b = a[..., select[0]], b[..., select[1]]
            c = reads[2](m)
            wide = c.view(np.int32).astype(np.int64) if signed_sum else c.astype(np.int64)
            write(m, whole_dot(a, b, wide, clamp, signed_sum))

        return step

    return build


def _selections(i: Instruction) -> list[list[int]]:
    """Per factor the halves that make the first and the second product (op_sel, op_sel_hi)."""
    low, high = i.bits("op_sel", (0, 0, 0)), i.bits("op_sel_hi", (1, 1, 1))
    return [[low[k], high[k]] for k in range(2)]


def floats(kind: str, accumulates: bool) -> Build:
    """Builder of v_dot2 with f16 or bf16 factors and f32 addend and result."""

    def build(i: Instruction, arch: Arch) -> Step:
        if "clamp" in i.modifiers:
            raise i.unknown("clamp of a dot product of floats")
        select = _selections(i)
        signs = [i.bits("neg_lo", (0, 0, 0)), i.bits("neg_hi", (0, 0, 0))]
        operands = [replace(o, neg=False, abs=False) for o in i.operands]
        if operands != list(i.operands) or signs[0][2] or signs[1][2]:
            raise i.unknown("signs of whole operands of a dot product")
        reads, write = _sources(i, accumulates), raw_target(i, i.operands[0], B32)
        decode = narrow.from_f16 if kind == "f16" else narrow.from_bf16
        smallest = 2.0**-14 if kind == "f16" else 2.0**-126
        flush = arch.processor == "gfx90a"  # "flushes subnormal input and output"

        def pair(m: Machine, k: int) -> Array:
            word = reads[k](m)
            both = np.stack([word & np.uint32(0xFFFF), word >> np.uint32(16)], axis=-1)
            value = decode(both[..., select[k]])
            if flush:
                value = np.where(np.abs(value) < smallest, np.float32(0), value)
            return value * np.where([signs[0][k], signs[1][k]], np.float32(-1), np.float32(1))

        def step(m: Machine) -> None:
            products = pair(m, 0) * pair(m, 1)  # bf16 and f16: exact in f32
            terms = [products[..., 0], products[..., 1], reads[2](m).view(np.float32)]
            first, second, third = m.rng.permutation(3)
            total = np.ascontiguousarray((terms[first] + terms[second]) + terms[third])
            write(m, total.view(np.uint32))

        return step

    return build


_CLAMP = ("clamp",)
register("v_dot4_i32_i8", integers(8, True, False), (*_PACKED, *_CLAMP), (9, 10))
register("v_dot4_u32_u8", integers(8, False, False), (*_PACKED, *_CLAMP))
register("v_dot8_i32_i4", integers(4, True, False), (*_PACKED, *_CLAMP), (9, 10))
register("v_dot8_u32_u4", integers(4, False, False), (*_PACKED, *_CLAMP))
register("v_dot2_i32_i16", integers(16, True, False), (*_PACKED, *_CLAMP), (9, 10))
register("v_dot2_u32_u16", integers(16, False, False), (*_PACKED, *_CLAMP), (9, 10))
register("v_dot4_i32_iu8", integers(8, False, False), (*_PACKED, *_CLAMP), (11, 12))
register("v_dot8_i32_iu4", integers(4, False, False), (*_PACKED, *_CLAMP), (11, 12))
register("v_dot4c_i32_i8", integers(8, True, True), (), (9, 10))
register("v_dot8c_i32_i4", integers(4, True, True), (), (9,))
register("v_dot2c_i32_i16", integers(16, True, True), (), (9,))
register("v_dot2_f32_f16", floats("f16", False), (*_PACKED, *_CLAMP))
register("v_dot2_f32_bf16", floats("bf16", False), (*_PACKED, *_CLAMP))
register("v_dot2c_f32_f16", floats("f16", True), (), (9, 10))
register("v_dot2c_f32_bf16", floats("bf16", True), (), (9,))
register("v_dot2acc_f32_f16", floats("f16", True), (), (11, 12))
