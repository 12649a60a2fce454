"""WMMA of gfx11 and gfx12, MFMA of gfx908 and later, and moves of accumulation registers.

Not modelled, and refused: sparse products, block scales, six- and four-bit floats, WMMA in wave64.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import matrix
from .decode import Instruction, Operand
from .errors import EmulationError
from .matrix_layout import BITS, Shape, parse
from .operands import B32, B64, constant_bits, source, target, vector_index
from .registry import Step, instruction, register
from .state import Arch, Array, Machine

_SIDES = ["cbsz", "abid", "blgp"]
_SIGNS = ["neg_lo", "neg_hi", "op_sel", "clamp"]

_MFMA = [
    "f32_32x32x1f32",
    "f32_16x16x1f32",
    "f32_4x4x1f32",
    "f32_32x32x2f32",
    "f32_16x16x4f32",
    "f32_32x32x1_2b_f32",
    "f32_16x16x1_4b_f32",
    "f32_4x4x1_16b_f32",
    "f32_32x32x2_f32",
    "f32_16x16x4_f32",
    "f32_32x32x4f16",
    "f32_16x16x4f16",
    "f32_4x4x4f16",
    "f32_32x32x8f16",
    "f32_16x16x16f16",
    "f32_32x32x4_2b_f16",
    "f32_16x16x4_4b_f16",
    "f32_4x4x4_16b_f16",
    "f32_32x32x8_f16",
    "f32_16x16x16_f16",
    "f32_32x32x16_f16",
    "f32_16x16x32_f16",
    "f32_32x32x2bf16",
    "f32_16x16x2bf16",
    "f32_4x4x2bf16",
    "f32_32x32x4bf16",
    "f32_16x16x8bf16",
    "f32_32x32x4bf16_1k",
    "f32_16x16x4bf16_1k",
    "f32_4x4x4bf16_1k",
    "f32_32x32x8bf16_1k",
    "f32_16x16x16bf16_1k",
    "f32_32x32x4_2b_bf16",
    "f32_16x16x4_4b_bf16",
    "f32_4x4x4_16b_bf16",
    "f32_32x32x8_bf16",
    "f32_16x16x16_bf16",
    "f32_32x32x16_bf16",
    "f32_16x16x32_bf16",
    "i32_32x32x4i8",
    "i32_16x16x4i8",
    "i32_4x4x4i8",
    "i32_32x32x8i8",
    "i32_16x16x16i8",
    "i32_32x32x4_2b_i8",
    "i32_16x16x4_4b_i8",
    "i32_4x4x4_16b_i8",
    "i32_32x32x16_i8",
    "i32_16x16x32_i8",
    "i32_32x32x16i8",
    "i32_16x16x32i8",
    "i32_32x32x32_i8",
    "i32_16x16x64_i8",
    "f64_16x16x4f64",
    "f64_4x4x4f64",
    "f64_16x16x4_f64",
    "f64_4x4x4_4b_f64",
    "f32_16x16x8_xf32",
    "f32_32x32x4_xf32",
    "f32_16x16x32_fp8_fp8",
    "f32_16x16x32_fp8_bf8",
    "f32_16x16x32_bf8_fp8",
    "f32_16x16x32_bf8_bf8",
    "f32_32x32x16_fp8_fp8",
    "f32_32x32x16_fp8_bf8",
    "f32_32x32x16_bf8_fp8",
    "f32_32x32x16_bf8_bf8",
    "f32_16x16x128_f8f6f4",
    "f32_32x32x64_f8f6f4",
]

_WMMA = [
    "f32_16x16x16_f16",
    "f32_16x16x16_bf16",
    "f16_16x16x16_f16",
    "bf16_16x16x16_bf16",
    "i32_16x16x16_iu8",
    "i32_16x16x16_iu4",
]
_WMMA_GFX12 = [
    "i32_16x16x32_iu4",
    "f32_16x16x16_fp8_fp8",
    "f32_16x16x16_fp8_bf8",
    "f32_16x16x16_bf8_fp8",
    "f32_16x16x16_bf8_bf8",
]


def flavour(arch: Arch) -> matrix.Flavour:
    return matrix.Flavour(
        fnuz=arch.processor in ("gfx940", "gfx941", "gfx942"),
        flush=arch.processor == "gfx90a",
        gfx12=arch.generation == 12,
    )


def registers(m: Machine, first: int, count: int) -> Array:
    """uint32[waves, count, lanes]."""
    return np.stack([m.read(first + k) for k in range(count)], axis=1)


def _read_c(i: Instruction, o: Operand, count: int, wide: bool) -> Step:
    """The accumulator: registers or one constant for all elements."""
    if o.is_vector:
        _check(i, o, count)
        first = vector_index(o)
        return lambda m: registers(m, first, count)
    if o.kind not in ("int", "float"):
        raise i.unknown(f"accumulator {o.text}")
    bits = constant_bits(o, B64 if wide else B32)
    words = [bits & 0xFFFFFFFF, bits >> 32] if wide else [bits]
    column = np.array(words * (count // len(words)), np.uint32)[None, :, None]
    return lambda m: np.broadcast_to(column, (m.count, count, m.lanes))


def _check(i: Instruction, o: Operand, count: int) -> None:
    if not o.is_vector or o.count != count:
        raise i.unknown(f"{o.text} where {count} registers are expected")


def _count(shape: Shape, elements: int, kind: str, lanes: int) -> int:
    """Registers that a matrix takes (with the copy that gfx11 wants, `elements` is doubled)."""
    return elements * BITS[kind] // (32 * lanes)


def _small_floats(i: Instruction, shape: Shape) -> Shape:
    """The f8f6f4 shape with the types that cbsz and blgp stand for there.

    Which k a lane holds does not matter: A and B agree, both having eight bits.
    """
    kinds = {0: "fp8", 1: "bf8"}
    cbsz, blgp = i.number("cbsz"), i.number("blgp")
    if cbsz not in kinds or blgp not in kinds or "abid" in i.modifiers:
        raise i.unknown("types of six or four bits, or scales")
    return replace(shape, a=kinds[cbsz], b=kinds[blgp])


def mfma(i: Instruction, arch: Arch) -> Step:
    shape = parse(i.mnemonic)
    assert shape is not None
    if "f8f6f4" in i.mnemonic:
        shape, sides = _small_floats(i, shape), [0, 0, 0]
    else:
        sides = [i.number(name) for name in _SIDES]
    wide = shape.d == "f64"
    if any(sides) and wide:
        raise i.unknown("modifiers of a product in f64")
    if (1 << sides[0]) > shape.blocks:
        raise i.unknown(f"cbsz:{sides[0]} with {shape.blocks} blocks")
    d, a, b, c = i.operands
    elements = shape.m * shape.k * shape.blocks
    sources = [_count(shape, elements, kind, 64) for kind in (shape.a, shape.b)]
    count = _count(shape, shape.m * shape.n * shape.blocks, shape.d, 64)
    for o, expected in zip((a, b, d), (*sources, count), strict=True):
        _check(i, o, expected)
    read_c, kind = _read_c(i, c, count, wide), flavour(arch)
    first_a, first_b, first_d = (vector_index(o) for o in (a, b, d))

    def step(m: Machine) -> None:  # EXEC plays no part
        left, right = registers(m, first_a, sources[0]), registers(m, first_b, sources[1])
        result = matrix.mfma(shape, left, right, read_c(m), kind, m.rng, *sides)
        for k in range(count):
            m.write_all(first_d + k, result[:, k])

    return step


def _modifiers(i: Instruction, shape: Shape) -> matrix.Modifiers:
    low, high = i.bits("neg_lo", (0, 0, 0)), i.bits("neg_hi", (0, 0, 0))
    select = i.bits("op_sel", (0, 0, 0))
    whole = shape.d == "i32"
    if (whole and (any(high) or low[2])) or any(select[:2]):
        raise i.unknown("these modifiers of a matrix product")
    if select[2] and shape.d not in ("f16", "bf16"):
        raise i.unknown("op_sel of results of 32 bits")
    if "clamp" in i.modifiers and not whole:
        raise i.unknown("clamp of a product of floats")
    return matrix.Modifiers(low, high, select[2], "clamp" in i.modifiers)


def wmma(i: Instruction, arch: Arch) -> Step:
    shape = parse(i.mnemonic)
    assert shape is not None
    if arch.lanes != 32:
        raise i.unknown("WMMA in wave64")
    kind, mods = flavour(arch), _modifiers(i, shape)
    if kind.gfx12 and mods.high:
        raise i.unknown("op_sel on gfx12")
    d, a, b, c = i.operands
    elements = 16 * shape.k * (1 if kind.gfx12 else 2)
    sources = [_count(shape, elements, t, 32) for t in (shape.a, shape.b)]
    count = _count(shape, 256, shape.d, 32) if kind.gfx12 else 8
    for o, expected in zip((a, b, d), (*sources, count), strict=True):
        _check(i, o, expected)
    if not c.is_vector and BITS[shape.d] == 16:
        raise i.unknown(f"constant accumulator {c.text} of sixteen bits")
    read_c = _read_c(i, c, count, False)
    first_a, first_b, first_d = (vector_index(o) for o in (a, b, d))

    def step(m: Machine) -> None:
        if not m.full:
            raise EmulationError("a matrix product with inactive lanes")
        left, right = registers(m, first_a, sources[0]), registers(m, first_b, sources[1])
        old = registers(m, first_d, count)
        try:
            result = matrix.wmma(shape, left, right, read_c(m), old, mods, kind, m.rng)
        except matrix.UnequalHalvesError as error:
            raise EmulationError(str(error)) from None
        for k in range(count):
            m.write_all(first_d + k, result[:, k])

    return step


for _name in _MFMA:
    register(f"v_mfma_{_name}", mfma, _SIDES, (9,))
for _name in _WMMA:
    register(f"v_wmma_{_name}", wmma, _SIGNS, (11, 12))
for _name in _WMMA_GFX12:
    register(f"v_wmma_{_name}", wmma, _SIGNS, (12,))


@instruction(
    "v_accvgpr_read_b32",
    "v_accvgpr_write_b32",
    "v_accvgpr_mov_b32",
    "v_accvgpr_read",
    "v_accvgpr_write",
    generations=(9,),
)
def accumulation_move(i: Instruction, arch: Arch) -> Step:
    read, write = source(i, 1, B32), target(i, B32)
    return lambda m: write(m, read(m))
