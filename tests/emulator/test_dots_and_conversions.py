"""Dot products, eight-bit and bf16 conversions and packed f32 of the AMD emulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import UnknownInstruction, narrow
from amdgpu_emulator.one_wave import execute

EDGES = np.array([0, 1, 0x7F7F7F7F, 0x80808080, 0xFFFFFFFF, 0x80007FFF, 0x7FFF8000], np.uint32)


@pytest.fixture(autouse=True)
def _tools(require: Callable[..., None]) -> None:
    require("llvm-mc")


def words(seed: int) -> np.ndarray:
    """uint32[64]: edge cases first."""
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    some[: len(EDGES)] = rng.permutation(EDGES)
    return some


def parts(word: int, bits: int, signed: bool) -> list[int]:
    """The fields of one word, one at a time."""
    out = []
    for at in range(0, 32, bits):
        field = word >> at & (1 << bits) - 1
        out.append(field - (1 << bits) if signed and field >> bits - 1 else field)
    return out


def dot(a: np.ndarray, b: np.ndarray, c: np.ndarray, bits: int, signs: tuple[bool, bool]) -> list:
    """Python integers: sums of products plus c, not wrapped."""
    sums = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        pairs = zip(parts(x, bits, signs[0]), parts(y, bits, signs[1]), strict=True)
        sums.append(sum(p * q for p, q in pairs) + z)
    return sums


A, B, C = words(1), words(2), words(3)
SIGNED, UNSIGNED = (True, True), (False, False)
DOTS = [
    ("gfx906", "v_dot4_i32_i8 v3, v0, v1, v2", 8, SIGNED),
    ("gfx906", "v_dot4_u32_u8 v3, v0, v1, v2", 8, UNSIGNED),
    ("gfx942", "v_dot8_i32_i4 v3, v0, v1, v2", 4, SIGNED),
    ("gfx942", "v_dot8_u32_u4 v3, v0, v1, v2", 4, UNSIGNED),
    ("gfx90a", "v_dot2_i32_i16 v3, v0, v1, v2", 16, SIGNED),
    ("gfx90a", "v_dot2_u32_u16 v3, v0, v1, v2", 16, UNSIGNED),
    ("gfx942", "v_mov_b32 v3, v2\nv_dot4c_i32_i8 v3, v0, v1", 8, SIGNED),
    ("gfx908", "v_mov_b32 v3, v2\nv_dot8c_i32_i4 v3, v0, v1", 4, SIGNED),
    ("gfx908", "v_mov_b32 v3, v2\nv_dot2c_i32_i16 v3, v0, v1", 16, SIGNED),
    ("gfx1030", "v_dot4_i32_i8 v3, v0, v1, v2", 8, SIGNED),
    ("gfx1100", "v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,1,0]", 8, SIGNED),
    ("gfx1100", "v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[0,1,0]", 8, (False, True)),
    ("gfx1201", "v_dot4_i32_iu8 v3, v0, v1, v2", 8, UNSIGNED),
    ("gfx1201", "v_dot4_u32_u8 v3, v0, v1, v2", 8, UNSIGNED),
    ("gfx1201", "v_dot8_i32_iu4 v3, v0, v1, v2 neg_lo:[1,0,0]", 4, (True, False)),
]


@pytest.mark.parametrize(("processor", "text", "bits", "signs"), DOTS, ids=str)
def test_dot_products(processor: str, text: str, bits: int, signs: tuple[bool, bool]) -> None:
    lanes = 64 if processor.startswith("gfx9") else 32
    a, b, c = A[:lanes], B[:lanes], C[:lanes]
    got = execute(processor, text, {"v0": a, "v1": b, "v2": c}).read(3)[0]
    assert got.tolist() == [s & 0xFFFFFFFF for s in dot(a, b, c, bits, signs)]


def test_saturated_dot_products() -> None:
    c = np.where(np.arange(64) % 2, 0x7FFFFF00, 0x80000010).astype(np.uint32)
    m = execute("gfx906", "v_dot4_i32_i8 v3, v0, v1, v2 clamp", {"v0": A, "v1": B, "v2": c})
    sums = dot(A, B, c.view(np.int32), 8, SIGNED)
    wanted = [min(max(s, -(2**31)), 2**31 - 1) for s in sums]
    assert m.read(3)[0].view(np.int32).tolist() == wanted
    c = np.full(64, 0xFFFFF000, np.uint32)
    m = execute("gfx906", "v_dot4_u32_u8 v3, v0, v1, v2 clamp", {"v0": A, "v1": B, "v2": c})
    assert m.read(3)[0].tolist() == [min(s, 2**32 - 1) for s in dot(A, B, c, 8, UNSIGNED)]


def halves(low: object, high: object) -> np.ndarray:
    """uint32 of two f16."""
    return narrow.to_f16(np.float32(low)) | narrow.to_f16(np.float32(high)) << np.uint32(16)


@pytest.mark.parametrize(
    ("modifiers", "wanted"),
    [
        ("", 2 * 5 + 3 * 7 + 100),
        (" op_sel:[1,0,0]", 3 * 5 + 3 * 7 + 100),
        (" op_sel_hi:[1,0,1]", 2 * 5 + 3 * 5 + 100),
        (" neg_lo:[1,0,0]", -2 * 5 + 3 * 7 + 100),
        (" neg_hi:[0,1,0]", 2 * 5 - 3 * 7 + 100),
    ],
)
def test_dot_products_of_halves(modifiers: str, wanted: int) -> None:
    c = np.full(64, np.float32(100).view(np.uint32))
    registers = {"v0": np.full(64, halves(2, 3)), "v1": np.full(64, halves(5, 7)), "v2": c}
    for processor in ("gfx906", "gfx942", "gfx1100", "gfx1201"):
        if processor == "gfx942" and "op_sel" in modifiers:
            continue  # it has none here
        cut = {k: v[: 64 if processor.startswith("gfx9") else 32] for k, v in registers.items()}
        m = execute(processor, "v_dot2_f32_f16 v3, v0, v1, v2" + modifiers, cut)
        assert (m.read(3)[0].view(np.float32) == wanted).all(), processor


def test_halves_of_integers_by_op_sel() -> None:
    registers = {"v0": np.full(64, 0x00030002), "v1": np.full(64, 0x00070005), "v2": np.full(64, 9)}
    for modifiers, wanted in {
        "": 2 * 5 + 3 * 7 + 9,
        " op_sel:[0,1,0]": 2 * 7 + 3 * 7 + 9,
        " op_sel_hi:[0,1,1]": 2 * 5 + 2 * 7 + 9,
    }.items():
        m = execute("gfx90a", "v_dot2_u32_u16 v3, v0, v1, v2" + modifiers, registers)
        assert (m.read(3)[0] == wanted).all(), modifiers


def test_gfx90a_takes_denormal_halves_for_zeros() -> None:
    registers = {"v0": np.full(64, 0x00010001), "v1": np.full(64, 0x3C003C00)}
    for processor, wanted in (("gfx908", 2.0**-23), ("gfx90a", 0.0)):
        m = execute(processor, "v_dot2_f32_f16 v3, v0, v1, 0", registers)
        assert (m.read(3)[0].view(np.float32) == wanted).all()


def test_dot_products_of_bf16_and_into_the_destination() -> None:
    two = narrow.to_bf16(np.full(64, 2, np.float32)) * np.uint32(0x10001)
    c = np.full(64, np.float32(0.5).view(np.uint32))
    for text in ("v_dot2_f32_bf16 v3, v0, v0, v2", "v_mov_b32 v3, v2\nv_dot2c_f32_bf16 v3, v0, v0"):
        m = execute("gfx950", text, {"v0": two, "v2": c})
        assert (m.read(3)[0].view(np.float32) == 8.5).all()
    text = "v_mov_b32 v3, v2\nv_dot2c_f32_f16 v3, v0, v0"
    m = execute("gfx908", text, {"v0": np.full(64, halves(1, 2)), "v2": c})
    assert (m.read(3)[0].view(np.float32) == 5.5).all()


# conversions

SPECIAL = np.array([0.0, -0.0, 1.0, 449.0, -1e9, np.inf, -np.inf, np.nan, 2**-10, 1e-8], np.float32)


def floats(seed: int, lanes: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    some = (rng.normal(size=lanes) * 2.0 ** rng.integers(-12, 12, lanes)).astype(np.float32)
    some[: len(SPECIAL)] = rng.permutation(SPECIAL)
    return some


@pytest.mark.parametrize(
    ("processor", "fnuz"), [("gfx942", True), ("gfx950", False), ("gfx1201", False)]
)
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_eight_bit_floats(processor: str, fnuz: bool, kind: str) -> None:
    lanes = 64 if processor.startswith("gfx9") else 32
    x, y = floats(1, lanes), floats(2, lanes)
    old = np.full(lanes, 0xABCD1234, np.uint32)
    registers = {"v0": x.view(np.uint32), "v1": y.view(np.uint32), "v2": old}
    layout = narrow.float8(kind, fnuz)
    pair = narrow.encode8(x, layout, False) | narrow.encode8(y, layout, False) << np.uint32(8)
    low = execute(processor, f"v_cvt_pk_{kind}_f32 v2, v0, v1", registers).read(2)[0]
    np.testing.assert_array_equal(low, 0xABCD0000 | pair)
    high = f"v_cvt_pk_{kind}_f32 v2, v0, v1 op_sel:[0,0,1]"
    np.testing.assert_array_equal(
        execute(processor, high, registers).read(2)[0], pair << np.uint32(16) | 0x1234
    )


def test_overflow_by_mode() -> None:
    big = np.full(64, np.float32(1e6).view(np.uint32))
    text = "v_mov_b32 v2, 0\nv_cvt_pk_fp8_f32 v2, v0, v0"
    for mode, wanted in ((0xF0, np.nan), (0xF0 | 1 << 23, 448.0)):
        m = execute("gfx950", text, {"v0": big}, mode=mode)
        np.testing.assert_array_equal(narrow.values(narrow.E4M3)[m.read(2)[0] & 0xFF], wanted)


def test_eight_bit_floats_back() -> None:
    word = np.full(64, 0x443C3840, np.uint32)
    value = narrow.values(narrow.E4M3)
    text = "v_cvt_f32_fp8_sdwa v1, v0 src0_sel:BYTE_2\nv_cvt_f32_fp8 v2, v0"
    text += "\nv_cvt_pk_f32_fp8_sdwa v[4:5], v0 src0_sel:WORD_1\nv_cvt_pk_f32_fp8 v[6:7], v0"
    m = execute("gfx950", text, {"v0": word})
    got = [m.read(r)[0, 0].view(np.float32) for r in (1, 2, 4, 5, 6, 7)]
    assert got == [value[b] for b in (0x3C, 0x40, 0x3C, 0x44, 0x40, 0x38)]
    text = "v_cvt_f32_bf8 v1, v0 byte_sel:3\nv_cvt_pk_f32_bf8 v[4:5], v0 op_sel:[1,0]"
    m = execute("gfx1201", text, {"v0": word[:32]})
    value = narrow.values(narrow.E5M2)
    got = [m.read(r)[0, 0].view(np.float32) for r in (1, 4, 5)]
    assert got == [value[b] for b in (0x44, 0x3C, 0x44)]


def test_stochastic_rounding_is_refused() -> None:
    with pytest.raises(UnknownInstruction, match="v_cvt_sr_fp8_f32"):
        execute("gfx942", "v_cvt_sr_fp8_f32 v0, v1, v2", {})


def test_pairs_of_bf16() -> None:
    x, y = floats(3, 64), floats(4, 64)
    m = execute("gfx950", "v_cvt_pk_bf16_f32 v2, v0, -v1",
                {"v0": x.view(np.uint32), "v1": y.view(np.uint32)})  # fmt: skip
    got = m.read(2)[0]
    np.testing.assert_array_equal(narrow.from_bf16(got), narrow.from_bf16(narrow.to_bf16(x)))
    np.testing.assert_array_equal(
        narrow.from_bf16(got >> np.uint32(16)), -narrow.from_bf16(narrow.to_bf16(y))
    )


# packed f32


def f32(*values: float) -> np.ndarray:
    """uint32[values, 64]."""
    return np.repeat(np.array(values, np.float32).view(np.uint32)[:, None], 64, 1)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v_pk_add_f32 v[6:7], v[0:1], v[2:3]", (11, 22)),
        ("v_pk_mul_f32 v[6:7], v[0:1], v[2:3]", (10, 40)),
        ("v_pk_fma_f32 v[6:7], v[0:1], v[2:3], v[4:5]", (110, 240)),
        ("v_pk_mul_f32 v[6:7], v[0:1], v[2:3] op_sel_hi:[0,1]", (10, 20)),
        ("v_pk_mul_f32 v[6:7], v[0:1], v[2:3] op_sel:[1,0] op_sel_hi:[0,1]", (20, 20)),
        ("v_pk_add_f32 v[6:7], v[0:1], v[2:3] neg_lo:[1,0] neg_hi:[0,1]", (9, -18)),
        ("v_pk_mul_f32 v[6:7], v[0:1], s[2:3]", (3, 8)),
        ("v_pk_mul_f32 v[6:7], v[0:1], 2.0 op_sel_hi:[1,0]", (2, 4)),
        ("v_pk_mov_b32 v[6:7], v[0:1], v[2:3] op_sel:[1,0]", (2, 10)),
        ("v_pk_mov_b32 v[6:7], v[0:1], v[2:3] op_sel:[0,1]", (1, 20)),
        ("v_pk_add_f32 v[0:1], v[0:1], v[0:1] op_sel:[1,1] op_sel_hi:[0,0]", None),
    ],
)
def test_packed(text: str, wanted: tuple[float, float] | None) -> None:
    registers = {"v[0:1]": f32(1, 2), "v[2:3]": f32(10, 20), "v[4:5]": f32(100, 200)}
    registers |= {"s[2:3]": f32(3, 4)[:, :1]}
    first, wanted = (0, (4, 2)) if wanted is None else (6, wanted)
    m = execute("gfx942", text, registers)
    assert tuple(float(m.read(first + k)[0, 0].view(np.float32)) for k in (0, 1)) == wanted


def test_the_upper_half_of_a_constant_is_refused() -> None:
    with pytest.raises(UnknownInstruction, match="upper half"):
        execute("gfx942", "v_pk_mul_f32 v[6:7], v[0:1], 2.0", {})
