"""Layouts and modifiers of the emulator's WMMA, against tables written down apart."""

from __future__ import annotations

import numpy as np
import pytest

from amdgpu_emulator import matrix
from amdgpu_emulator.matrix_layout import parse, wmma_output
from matrix_codes import codes, pack, value


def wmma_input(name: str, gfx12: bool, a: np.ndarray) -> np.ndarray:
    """[16, k] codes to registers [1, n, 32]: both halves whole on gfx11, k split on gfx12."""
    shape = parse(name)
    assert shape is not None
    bits = {"iu4": 4, "iu8": 8, "fp8": 8, "bf8": 8}.get(shape.a, 16)
    k = shape.k
    rows = np.concatenate([a[:, : k // 2], a[:, k // 2 :]]) if gfx12 else np.concatenate([a, a])
    return pack(np.ascontiguousarray(rows.T), bits)[None]


def wmma_result(d: np.ndarray, gfx12: bool) -> np.ndarray:
    """[16, 16] of items [8, 32]."""
    out = np.zeros((16, 16), d.dtype)
    for r, lane in np.ndindex(8, 32):
        row = r + 8 * (lane // 16) if gfx12 else 2 * r + lane // 16
        out[row, lane % 16] = d[r, lane]
    return out


WMMA = (
    "f32_16x16x16_f16",
    "f32_16x16x16_bf16",
    "f16_16x16x16_f16",
    "bf16_16x16x16_bf16",
    "i32_16x16x16_iu8",
    "i32_16x16x16_iu4",
)


@pytest.mark.parametrize(
    ("name", "gfx12"),
    [(f"v_wmma_{name}", gfx12) for gfx12 in (False, True) for name in WMMA]
    + [("v_wmma_f32_16x16x16_fp8_bf8", True), ("v_wmma_i32_16x16x32_iu4", True)],
)
def test_wmma_multiplies(name: str, gfx12: bool) -> None:
    shape = parse(name)
    assert shape is not None
    rng = np.random.default_rng(5)
    a, b = codes(shape.a, (16, shape.k), rng), codes(shape.b, (16, shape.k), rng)
    mods = matrix.Modifiers(neg_lo=(1, 1, 0) if shape.a in ("iu8", "iu4") else (0, 0, 0))
    sixteen = shape.d in ("f16", "bf16")
    zero = np.zeros((1, 4 if sixteen and gfx12 else 8, 32), np.uint32)
    d = matrix.wmma(
        shape,
        wmma_input(name, gfx12, a),
        wmma_input(name, gfx12, b),
        zero,
        zero,
        mods,
        matrix.Flavour(gfx12=gfx12),
        rng,
    )[0]
    if sixteen:
        items = np.stack([d & 0xFFFF, d >> 16], 1).reshape(8, 32) if gfx12 else d
        got = value(wmma_result(items.astype(np.uint32), gfx12), shape.d)
    else:
        kind = np.int32 if shape.d == "i32" else np.float32
        got = wmma_result(d.view(kind), gfx12).astype(np.float64)
    if shape.a == "iu4":
        left, right = (((x.astype(np.int64) ^ 8) - 8).astype(np.float64) for x in (a, b))
    else:
        left, right = (value(x, "i8" if t == "iu8" else t) for x, t in ((a, shape.a), (b, shape.b)))
    np.testing.assert_array_equal(got, left @ right.T)


def wmma_gfx11(mods: matrix.Modifiers, old: int, name: str, c: float) -> np.ndarray:
    """D of ones times ones with C and the old contents of D given."""
    shape = parse(name)
    assert shape is not None
    ones = np.full((1, 8, 32), 0x3C003C00, np.uint32)
    start = np.full((1, 8, 32), np.float32(c).view(np.uint32))
    if shape.d == "f16":
        start = np.full((1, 8, 32), int(np.float16(c).view(np.uint16)) << 16 * mods.high, np.uint32)
    before = np.full((1, 8, 32), old, np.uint32)
    rng = np.random.default_rng(0)
    return matrix.wmma(shape, ones, ones, start, before, mods, matrix.Flavour(), rng)


def test_wmma_modifiers() -> None:
    name = "v_wmma_f32_16x16x16_f16"
    for mods, wanted in (
        (matrix.Modifiers(), 16 + 3),
        (matrix.Modifiers(neg_lo=(1, 0, 0)), 0 + 3),  # every second k negated
        (matrix.Modifiers(neg_lo=(1, 0, 0), neg_hi=(1, 0, 0)), -16 + 3),
        (matrix.Modifiers(neg_lo=(1, 0, 0), neg_hi=(0, 1, 0)), -16 + 3),
        (matrix.Modifiers(neg_lo=(0, 0, 1)), 16 - 3),
    ):
        assert (wmma_gfx11(mods, 0, name, 3.0).view(np.float32) == wanted).all(), mods
    absolute = matrix.Modifiers(neg_hi=(0, 0, 1))
    assert (wmma_gfx11(absolute, 0, name, -3.0).view(np.float32) == 19).all()


def test_halves_of_sixteen_bit_results() -> None:
    name = "v_wmma_f16_16x16x16_f16"
    nineteen = int(np.float16(19).view(np.uint16))
    low = wmma_gfx11(matrix.Modifiers(), 0xABCD1234, name, 3.0)
    high = wmma_gfx11(matrix.Modifiers(high=1), 0xABCD1234, name, 3.0)
    assert (low == 0xABCD0000 | nineteen).all()
    assert (high == nineteen << 16 | 0x1234).all()


def test_unequal_halves_are_an_error() -> None:
    shape = parse("v_wmma_f32_16x16x16_f16")
    assert shape is not None
    a, zero = np.zeros((1, 8, 32), np.uint32), np.zeros((1, 8, 32), np.uint32)
    b = a.copy()
    b[0, 3, 20] = 1
    rng = np.random.default_rng(0)
    with pytest.raises(matrix.UnequalHalvesError, match="B differs"):
        matrix.wmma(shape, a, b, zero, zero, matrix.Modifiers(), matrix.Flavour(), rng)


def test_unsigned_and_clamped_integers() -> None:
    shape = parse("v_wmma_i32_16x16x16_iu8")
    assert shape is not None
    full = np.full((1, 4, 32), 0xFFFFFFFF, np.uint32)
    large = np.full((1, 8, 32), 0x7FFFFFF0, np.uint32)
    rng = np.random.default_rng(0)

    def run(mods: matrix.Modifiers, c: np.ndarray) -> int:
        d = matrix.wmma(shape, full, full, c, c, mods, matrix.Flavour(), rng)
        return int(d.view(np.int32)[0, 0, 0])

    none = np.zeros_like(large)
    assert run(matrix.Modifiers(), none) == 16 * 255 * 255
    assert run(matrix.Modifiers(neg_lo=(1, 0, 0)), none) == -16 * 255
    assert run(matrix.Modifiers(neg_lo=(1, 1, 0)), none) == 16
    assert run(matrix.Modifiers(clamp=True), large) == 0x7FFFFFFF
    assert run(matrix.Modifiers(), large) == (0x7FFFFFF0 + 16 * 255 * 255) - 2**32


def test_wmma_output_covers_every_register() -> None:
    for gfx12 in (False, True):
        place = wmma_output(gfx12)
        assert len(np.unique(place.lane * 8 + place.item)) == 256
