"""Layouts and sums of the emulator's MFMA, against tables written down apart.

The tables go from register and lane to the element (the module under test goes the other way), as
AMD's matrix instruction calculator prints them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import matrix
from amdgpu_emulator.matrix_layout import Shape, mfma_input, mfma_output, parse
from matrix_codes import BITS, codes, pack, value

# mnemonic: blocks, elements of A in a lane.
MFMA = {
    "v_mfma_f32_32x32x1f32": (2, 1),
    "v_mfma_f32_32x32x1_2b_f32": (2, 1),
    "v_mfma_f32_16x16x1f32": (4, 1),
    "v_mfma_f32_16x16x1_4b_f32": (4, 1),
    "v_mfma_f32_4x4x1f32": (16, 1),
    "v_mfma_f32_4x4x1_16b_f32": (16, 1),
    "v_mfma_f32_32x32x2f32": (1, 1),
    "v_mfma_f32_16x16x4f32": (1, 1),
    "v_mfma_f32_16x16x4_f32": (1, 1),
    "v_mfma_f32_32x32x4f16": (2, 4),
    "v_mfma_f32_16x16x4f16": (4, 4),
    "v_mfma_f32_4x4x4f16": (16, 4),
    "v_mfma_f32_4x4x4_16b_f16": (16, 4),
    "v_mfma_f32_32x32x8f16": (1, 4),
    "v_mfma_f32_16x16x16f16": (1, 4),
    "v_mfma_f32_16x16x16_f16": (1, 4),
    "v_mfma_f32_16x16x32_f16": (1, 8),
    "v_mfma_f32_32x32x16_f16": (1, 8),
    "v_mfma_f32_32x32x2bf16": (2, 2),
    "v_mfma_f32_16x16x2bf16": (4, 2),
    "v_mfma_f32_4x4x2bf16": (16, 2),
    "v_mfma_f32_32x32x4bf16": (1, 2),
    "v_mfma_f32_16x16x8bf16": (1, 2),
    "v_mfma_f32_32x32x4bf16_1k": (2, 4),
    "v_mfma_f32_16x16x4bf16_1k": (4, 4),
    "v_mfma_f32_4x4x4bf16_1k": (16, 4),
    "v_mfma_f32_32x32x8bf16_1k": (1, 4),
    "v_mfma_f32_16x16x16bf16_1k": (1, 4),
    "v_mfma_f32_32x32x4_2b_bf16": (2, 4),
    "v_mfma_f32_16x16x16_bf16": (1, 4),
    "v_mfma_f32_16x16x32_bf16": (1, 8),
    "v_mfma_i32_32x32x4i8": (2, 4),
    "v_mfma_i32_16x16x4i8": (4, 4),
    "v_mfma_i32_4x4x4i8": (16, 4),
    "v_mfma_i32_32x32x8i8": (1, 4),
    "v_mfma_i32_16x16x16i8": (1, 4),
    "v_mfma_i32_32x32x16_i8": (1, 8),
    "v_mfma_i32_16x16x32_i8": (1, 8),
    "v_mfma_i32_16x16x64_i8": (1, 16),
    "v_mfma_f64_16x16x4f64": (1, 1),
    "v_mfma_f64_16x16x4_f64": (1, 1),
    "v_mfma_f64_4x4x4f64": (4, 1),
    "v_mfma_f64_4x4x4_4b_f64": (4, 1),
    "v_mfma_f32_16x16x8_xf32": (1, 2),
    "v_mfma_f32_32x32x4_xf32": (1, 2),
    "v_mfma_f32_16x16x32_fp8_bf8": (1, 8),
    "v_mfma_f32_32x32x16_bf8_fp8": (1, 8),
}
# (m, blocks, type of D): lane and item -> (block, row); the column is lane % m.
OUTPUT: dict[tuple[int, int, bool], Callable[[int, int], tuple[int, int]]] = {
    (32, 1, False): lambda lane, r: (0, 8 * (r // 4) + 4 * (lane // 32) + r % 4),
    (32, 2, False): lambda lane, r: (r // 16, 8 * (r // 4 % 4) + 4 * (lane // 32) + r % 4),
    (16, 1, False): lambda lane, r: (0, 4 * (lane // 16) + r),
    (16, 4, False): lambda lane, r: (r // 4, 4 * (lane // 16) + r % 4),
    (4, 16, False): lambda lane, r: (lane // 4, r),
    (16, 1, True): lambda lane, r: (0, 4 * r + lane // 16),
    (4, 4, True): lambda lane, r: (lane // 4 % 4, lane // 16),
}


@pytest.mark.parametrize("name", MFMA)
def test_mfma_places(name: str) -> None:
    blocks, per_lane = MFMA[name]
    shape = parse(name)
    assert shape is not None
    assert shape.blocks == blocks
    place = mfma_input(shape)
    found = {}
    for (b, i, k), lane in np.ndenumerate(place.lane):
        found[int(lane), int(place.item[b, i, k])] = b, i, k
    assert len(found) == 64 * per_lane
    for (lane, item), element in found.items():
        group = lane // shape.m
        assert element == (group % blocks, lane % shape.m, group // blocks * per_lane + item)
    out = mfma_output(shape)
    wanted = OUTPUT[shape.m, blocks, shape.d == "f64"]
    assert out.item.max() + 1 == shape.m * shape.n * blocks // 64
    for (b, i, j), lane in np.ndenumerate(out.lane):
        assert (b, i) == wanted(int(lane), int(out.item[b, i, j]))
        assert j == lane % shape.n


def test_names_that_are_no_dense_products() -> None:
    for name in ("v_smfmac_f32_16x16x32_f16", "v_swmmac_f32_16x16x32_f16", "v_mfma_ld_scale_b32"):
        assert parse(name) is None
    assert parse("v_mfma_scale_f32_16x16x128_f8f6f4") is None


def lay_out(shape: Shape, matrix_codes: np.ndarray, kind: str, per_lane: int) -> np.ndarray:
    """[blocks, m, k] codes to the registers of A, by the table in the test above."""
    items = np.zeros((per_lane, 64), matrix_codes.dtype)
    for lane in range(64):
        group = lane // shape.m
        for item in range(per_lane):
            at = group % shape.blocks, lane % shape.m, group // shape.blocks * per_lane + item
            items[item, lane] = matrix_codes[at]
    return pack(items, BITS[kind])[None]


def read_out(shape: Shape, registers: np.ndarray) -> np.ndarray:
    """f64[blocks, m, n] of D in registers [1, registers, 64], by the table of outputs."""
    kind = {"f64": np.float64, "f32": np.float32, "i32": np.int32}[shape.d]
    wide = shape.d == "f64"
    words = registers[0].astype(np.uint64)
    items = words[0::2] | words[1::2] << np.uint64(32) if wide else registers[0]
    number = np.ascontiguousarray(items).view(kind).astype(np.float64)
    out = np.full((shape.blocks, shape.m, shape.n), np.nan)
    for r, lane in np.ndindex(number.shape):
        block, row = OUTPUT[shape.m, shape.blocks, wide](lane, r)
        out[block, row, lane % shape.n] = number[r, lane]
    return out


@pytest.mark.parametrize("name", MFMA)
def test_mfma_multiplies(name: str) -> None:
    _, per_lane = MFMA[name]
    shape = parse(name)
    assert shape is not None
    rng = np.random.default_rng(7)
    a = codes(shape.a, (shape.blocks, shape.m, shape.k), rng)
    b = codes(shape.b, (shape.blocks, shape.n, shape.k), rng)
    count = shape.m * shape.n * shape.blocks // 64 * (2 if shape.d == "f64" else 1)
    c = rng.integers(-9, 9, (1, count, 64))
    if shape.d == "f64":
        halves = c[:, : count // 2].astype(np.float64).view(np.uint64)[0]
        c_registers = pack(halves, 64)[None]
    elif shape.d == "f32":
        c_registers = c.astype(np.float32).view(np.uint32)
    else:
        c_registers = c.astype(np.int32).view(np.uint32)
    d = matrix.mfma(
        shape,
        lay_out(shape, a, shape.a, per_lane),
        lay_out(shape, b, shape.b, per_lane),
        c_registers,
        matrix.Flavour(),
        rng,
    )
    product = value(a, shape.a) @ np.swapaxes(value(b, shape.b), 1, 2)
    np.testing.assert_array_equal(read_out(shape, d), product + read_out(shape, c_registers))


def one(name: str, a: np.ndarray, b: np.ndarray, **options: object) -> np.ndarray:
    """D of blocks-times-4x4 f32 products with C = 0."""
    shape = parse(name)
    assert shape is not None
    rng = np.random.default_rng(1)
    left, right = (lay_out(shape, x.astype(np.float32).view(np.uint32), "f32", 1) for x in (a, b))
    zero = np.zeros((1, shape.m * shape.n * shape.blocks // 64, 64), np.uint32)
    flavour = matrix.Flavour()
    return read_out(shape, matrix.mfma(shape, left, right, zero, flavour, rng, **options))  # type: ignore[arg-type]


def test_broadcast_of_blocks() -> None:
    a = np.arange(64).reshape(16, 4, 1)
    b = np.ones((16, 4, 1))
    rows = one("v_mfma_f32_4x4x1f32", a, b, cbsz=2, abid=1)[:, :, 0]
    np.testing.assert_array_equal(rows, a[[1] * 4 + [5] * 4 + [9] * 4 + [13] * 4, :, 0])


@pytest.mark.parametrize(
    ("blgp", "groups"),
    [(0, [0, 1, 2, 3]), (1, [0, 1, 0, 1]), (2, [2, 3, 2, 3]), (3, [1, 2, 3, 0])]
    + [(4 + g, [g] * 4) for g in range(4)],
)
def test_groups_of_lanes(blgp: int, groups: list[int]) -> None:
    """BLGP picks groups of sixteen lanes of B: with four blocks, the blocks."""
    a, b = np.ones((4, 16, 1)), np.arange(64).reshape(4, 16, 1)
    columns = one("v_mfma_f32_16x16x1f32", a, b, blgp=blgp)[:, 0, :]
    np.testing.assert_array_equal(columns, b[groups, :, 0])


def test_gfx90a_flushes_denormals_of_f16() -> None:
    shape = parse("v_mfma_f32_4x4x4f16")
    assert shape is not None
    tiny = np.full((1, 2, 64), 0x00010001, np.uint32)
    ones = np.full((1, 2, 64), 0x3C003C00, np.uint32)
    zero = np.zeros((1, 4, 64), np.uint32)
    rng = np.random.default_rng(0)
    kept = matrix.mfma(shape, tiny, ones, zero, matrix.Flavour(), rng).view(np.float32)
    gone = matrix.mfma(shape, tiny, ones, zero, matrix.Flavour(flush=True), rng)
    assert (kept == 4 * 2.0**-24).all()
    assert not gone.any()


def test_order_of_sums_is_not_promised() -> None:
    """Large numbers that cancel: some order of the sum must lose the small ones."""
    shape = parse("v_mfma_f32_16x16x4f32")
    assert shape is not None
    a = np.tile(np.array([1e8, 1.0, -1e8, 1.0]), (1, 16, 1))
    seen = set()
    for seed in range(40):
        left, right = (
            lay_out(shape, x.astype(np.float32).view(np.uint32), "f32", 1)
            for x in (a, np.ones((1, 16, 4)))
        )
        zero = np.zeros((1, 4, 64), np.uint32)
        rng = np.random.default_rng(seed)
        d = matrix.mfma(shape, left, right, zero, matrix.Flavour(), rng)
        seen.add(float(read_out(shape, d)[0, 0, 0]))
    assert len(seen) > 1
