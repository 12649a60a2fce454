"""Matrix instructions as functions of registers: uint32[waves, registers, lanes] in and out.

AMD documents neither the order nor the width of the sums of products in f32. Here the products of
a random half of the k are added apart from the rest, so that code which needs one order shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import narrow
from .matrix_layout import (
    BITS,
    Place,
    Shape,
    broadcast_blocks,
    grouped_lanes,
    mfma_input,
    mfma_output,
    wmma_input,
    wmma_output,
)


@dataclass(frozen=True)
class Flavour:
    """What differs between processors."""

    fnuz: bool = False  # gfx942: fp8 and bf8 are the FNUZ formats
    flush: bool = False  # gfx90a: f16 and bf16 inputs and their f32 results flush denormals
    gfx12: bool = False


class UnequalHalvesError(ValueError):
    """WMMA of gfx11 reads A and B from both half waves: they must hold the same."""


def elements(registers: np.ndarray, kind: str) -> np.ndarray:
    """Unsigned codes [waves, items, lanes] of the elements packed in registers, low first."""
    waves, count, lanes = registers.shape
    bits = BITS[kind]
    if bits == 32:
        return registers
    if bits == 64:
        low = registers[:, 0::2].astype(np.uint64)
        return low | registers[:, 1::2].astype(np.uint64) << np.uint64(32)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)[None, None, :, None]
    parts = (registers[:, :, None, :] >> shifts) & np.uint32((1 << bits) - 1)
    return parts.reshape(waves, count * len(shifts[0, 0]), lanes)


def numbers(codes: np.ndarray, kind: str, flavour: Flavour, signed: bool = True) -> np.ndarray:
    """f64 of codes of a type."""
    if kind == "f64":
        return codes.view(np.float64)
    if kind in ("f32", "xf32"):
        return codes.view(np.float32).astype(np.float64)
    if kind in ("fp8", "bf8"):
        return narrow.decode8(codes, narrow.float8(kind, flavour.fnuz)).astype(np.float64)
    if kind in ("f16", "bf16", "bf16_1k"):
        value = narrow.from_f16(codes) if kind == "f16" else narrow.from_bf16(codes)
        smallest = 2.0**-14 if kind == "f16" else 2.0**-126
        if flavour.flush:
            value = np.where(np.abs(value) < smallest, np.copysign(0, value), value)
        return value.astype(np.float64)
    whole = codes.astype(np.int64)
    if signed:
        whole -= (whole >> (BITS[kind] - 1)) << BITS[kind]
    return whole.astype(np.float64)


def _ten_bits(value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """xf32 keeps ten bits of mantissa; whether it rounds or cuts is not documented: either."""
    bits = value.astype(np.float32).view(np.uint32)
    nearest = bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    kept = np.where(rng.random(bits.shape) < 0.5, bits, nearest) & np.uint32(0xFFFFE000)
    finite = np.isfinite(value)
    return np.where(finite, kept.view(np.float32).astype(np.float64), value)


def multiply(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, shape: Shape, rng: np.random.Generator
) -> np.ndarray:
    """a f64[..., m, k], b f64[..., n, k], c f64 or f32 or i64[..., m, n]: a b^T + c in c's type."""
    b = np.swapaxes(b, -1, -2)
    if shape.d == "f64":
        return a @ b + c
    if shape.d == "i32":  # below 2^53: exact
        return (a @ b).astype(np.int64) + c
    first = rng.permutation(shape.k) < (shape.k + 1) // 2
    result = c
    for part in (first, ~first):
        if part.any():
            result = result + (a[..., part] @ b[..., part, :]).astype(np.float32)
    return result


def take(codes: np.ndarray, place: Place) -> np.ndarray:
    """[waves, items, lanes] to [waves, *place]."""
    return codes[:, place.item, place.lane]


def _put(values: np.ndarray, place: Place, registers: int, lanes: int) -> np.ndarray:
    """[waves, *place] to [waves, registers, lanes]."""
    out = np.zeros((values.shape[0], registers, lanes), values.dtype)
    out[:, place.item, place.lane] = values
    return out


def mfma(
    shape: Shape,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    flavour: Flavour,
    rng: np.random.Generator,
    cbsz: int = 0,
    abid: int = 0,
    blgp: int = 0,
) -> np.ndarray:
    """D as uint32[waves, registers, 64] of registers of the same form."""
    place, out = mfma_input(shape), mfma_output(shape)
    sides = []
    for registers, kind in ((a, shape.a), (b, shape.b)):
        value = numbers(elements(registers, kind), kind, flavour)
        sides.append(_ten_bits(value, rng) if kind == "xf32" else value)
    left = take(sides[0], place)[:, broadcast_blocks(shape.blocks, cbsz, abid)]
    right = take(sides[1][:, :, grouped_lanes(blgp)], place)
    count = shape.m * shape.n * shape.blocks // 64
    codes = take(elements(c, shape.d), out)
    if shape.d == "f64":
        wide = _put(multiply(left, right, codes.view(np.float64), shape, rng), out, count, 64)
        words = np.ascontiguousarray(wide).view(np.uint64)
        pair = np.stack([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)], axis=2)
        return pair.reshape(len(words), 2 * count, 64).astype(np.uint32)
    if shape.d == "i32":
        total = multiply(left, right, codes.view(np.int32).astype(np.int64), shape, rng)
        return _put((total & 0xFFFFFFFF).astype(np.uint32), out, count, 64)
    result = multiply(left, right, codes.view(np.float32), shape, rng)
    if flavour.flush and shape.a in ("f16", "bf16", "bf16_1k"):
        result = np.where(np.abs(result) < 2.0**-126, np.copysign(np.float32(0), result), result)
    return _put(result.astype(np.float32).view(np.uint32), out, count, 64)


@dataclass(frozen=True)
class Modifiers:
    """Modifiers of WMMA: three bits each, for A, B and C."""

    neg_lo: tuple[int, ...] = (0, 0, 0)
    neg_hi: tuple[int, ...] = (0, 0, 0)
    high: int = 0  # op_sel of C and D: 16-bit results of gfx11 in the high halves
    clamp: bool = False


def _wmma_side(
    registers: np.ndarray, kind: str, side: int, shape: Shape, mods: Modifiers, flavour: Flavour
) -> np.ndarray:
    """f64[waves, 1, 16, k] of A (side 0) or B (side 1)."""
    if not flavour.gfx12 and not np.array_equal(registers[..., :16], registers[..., 16:32]):
        raise UnequalHalvesError(f"{'AB'[side]} differs between lanes 0-15 and 16-31")
    whole = kind in ("iu8", "iu4")  # there neg_lo says: signed
    codes = elements(registers, kind)
    value = numbers(codes, kind, flavour, signed=not whole or bool(mods.neg_lo[side]))
    value = take(value, wmma_input(shape, flavour.gfx12))
    if not whole:
        signs = np.where([mods.neg_lo[side], mods.neg_hi[side]], -1.0, 1.0)
        value = value * np.tile(signs, shape.k // 2)
    return value


def _accumulator(c: np.ndarray, shape: Shape, mods: Modifiers, flavour: Flavour) -> np.ndarray:
    """Codes [waves, 8, lanes] of C."""
    if BITS[shape.d] == 32:
        return c
    if flavour.gfx12:
        return elements(c, shape.d)
    return (c >> np.uint32(16 * mods.high)) & np.uint32(0xFFFF)


def wmma(
    shape: Shape,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    old: np.ndarray,
    mods: Modifiers,
    flavour: Flavour,
    rng: np.random.Generator,
) -> np.ndarray:
    """D as uint32[waves, registers, 32]; `old` is D before, whose other halves stay on gfx11."""
    left = _wmma_side(a, shape.a, 0, shape, mods, flavour)
    right = _wmma_side(b, shape.b, 1, shape, mods, flavour)
    out = wmma_output(flavour.gfx12)
    codes = take(_accumulator(c, shape, mods, flavour), out)
    if shape.d == "i32":
        total = multiply(left, right, codes.view(np.int32).astype(np.int64), shape, rng)
        if mods.clamp:
            total = np.clip(total, -(2**31), 2**31 - 1)
        return _put((total & 0xFFFFFFFF).astype(np.uint32), out, 8, 32)
    start = numbers(codes, shape.d, flavour).astype(np.float32)
    start = np.abs(start) if mods.neg_hi[2] else start
    start = -start if mods.neg_lo[2] else start
    result = multiply(left, right, start, shape, rng).astype(np.float32)
    if shape.d == "f32":
        return _put(result.view(np.uint32), out, 8, 32)
    half = narrow.to_f16(result) if shape.d == "f16" else narrow.to_bf16(result)
    return _merge_halves(_put(half, out, 8, 32), old, mods, flavour)


def _merge_halves(
    half: np.ndarray, old: np.ndarray, mods: Modifiers, flavour: Flavour
) -> np.ndarray:
    """Sixteen-bit results [waves, 8, 32] in registers: packed on gfx12, one a register on gfx11."""
    if flavour.gfx12:
        return half[:, 0::2] | half[:, 1::2] << np.uint32(16)
    if mods.high:
        return (old & np.uint32(0xFFFF)) | half << np.uint32(16)
    return (old & np.uint32(0xFFFF0000)) | half
