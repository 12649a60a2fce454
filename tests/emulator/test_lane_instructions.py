"""DPP, SDWA and lane instructions as executed: operands, modifiers, EXEC, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from amdgpu_emulator import UnknownInstruction
from amdgpu_emulator.one_wave import execute

LANE = np.arange(64, dtype=np.uint32)
OLD = np.full(64, 7000, np.uint32)
MASKS = "row_mask:0xf bank_mask:0xf"


def f32(x: object) -> np.ndarray:
    return np.asarray(x, np.float32).view(np.uint32)


@pytest.fixture(autouse=True)
def _tools(require) -> None:  # type: ignore[no-untyped-def]
    require("llvm-mc")


@pytest.mark.parametrize("processor", ["gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_a_shift_within_rows(processor: str) -> None:
    lanes = 64 if processor.startswith("gfx9") else 32
    lane, old = LANE[:lanes], OLD[:lanes]
    text = f"v_mov_b32_dpp v1, v0 row_shr:1 {MASKS}"
    got = execute(processor, text, {"v0": lane, "v1": old}).read(1)[0]
    np.testing.assert_array_equal(got, np.where(lane % 16 == 0, old, lane - 1))
    text += " bound_ctrl:0" if processor.startswith("gfx9") else " bound_ctrl:1"
    got = execute(processor, text, {"v0": lane, "v1": old}).read(1)[0]
    np.testing.assert_array_equal(got, np.where(lane % 16 == 0, 0, lane - 1))


def test_masks_and_inactive_lanes() -> None:
    text = "v_mov_b32_dpp v1, v0 quad_perm:[1,1,1,1] row_mask:0xe bank_mask:0x7"
    active = LANE % 4 != 1
    got = execute("gfx90a", text, {"v0": LANE, "v1": OLD}, active).read(1)[0]
    np.testing.assert_array_equal(got, OLD)  # every source is inactive
    active = LANE % 4 != 2
    got = execute("gfx90a", text, {"v0": LANE, "v1": OLD}, active).read(1)[0]
    written = active & (LANE >= 16) & (LANE % 16 < 12)
    np.testing.assert_array_equal(got, np.where(written, LANE // 4 * 4 + 1, OLD))


def test_mirrors_have_no_number() -> None:
    got = execute("gfx908", f"v_mov_b32_dpp v1, v0 row_half_mirror {MASKS}", {"v0": LANE})
    np.testing.assert_array_equal(got.read(1)[0], LANE ^ 7)
    got = execute("gfx1100", f"v_mov_b32_dpp v1, v0 row_mirror {MASKS}", {"v0": LANE[:32]})
    np.testing.assert_array_equal(got.read(1)[0], LANE[:32] ^ 15)


def test_signs_of_the_moved_value() -> None:
    value = f32(np.where(LANE % 2, -1.0, 1.0) * LANE)
    ten = f32(np.full(64, 10.0))
    m = execute(
        "gfx942", f"v_add_f32_dpp v2, -|v0|, v1 row_ror:3 {MASKS}", {"v0": value, "v1": ten}
    )
    source = LANE // 16 * 16 + (LANE - 3) % 16
    np.testing.assert_array_equal(m.read(2)[0].view(np.float32), 10.0 - source)


def test_accumulating_with_dpp_keeps_unwritten_lanes() -> None:
    one = f32(np.ones(64))
    text = "v_fmac_f32_dpp v2, v0, v1 row_bcast:15 row_mask:0xa bank_mask:0xf"
    m = execute("gfx90a", text, {"v0": f32(LANE), "v1": one, "v2": f32(np.full(64, 0.5))})
    row = LANE // 16
    wanted = np.where(row % 2 == 1, row * 16 - 1 + 0.5, 0.5)
    np.testing.assert_array_equal(m.read(2)[0].view(np.float32), wanted)


def test_dpp8_and_fetching_inactive_lanes() -> None:
    lane, old = LANE[:32], OLD[:32]
    active = lane % 2 == 0
    text = "v_mov_b32_dpp v1, v0 dpp8:[1,0,3,2,5,4,7,6]"
    got = execute("gfx1100", text, {"v0": lane, "v1": old}, active).read(1)[0]
    np.testing.assert_array_equal(got, old)
    got = execute("gfx1100", text + " fi:1", {"v0": lane, "v1": old}, active).read(1)[0]
    np.testing.assert_array_equal(got, np.where(active, lane ^ 1, old))


def test_carry_with_dpp() -> None:
    big = np.full(64, 0xFFFFFFFF, np.uint32)
    text = f"v_add_co_u32_dpp v2, vcc, v0, v1 wave_ror:1 {MASKS} bound_ctrl:0"
    m = execute("gfx906", text, {"v0": LANE, "v1": big})
    np.testing.assert_array_equal(m.read(2)[0], (LANE - 1) % 64 - 1)
    np.testing.assert_array_equal(m.lane_bits(106)[0], (LANE + 63) % 64 != 0)


def test_a_mask_that_dpp_leaves_out_lanes_of_is_refused() -> None:
    text = f"v_add_co_u32_dpp v2, vcc, v0, v1 row_shr:1 {MASKS}"
    with pytest.raises(UnknownInstruction, match="v_add_co_u32_dpp"):
        execute("gfx906", text, {"v0": LANE, "v1": LANE})


# SDWA


def sdwa(
    text: str, d: str = "DWORD", unused: str = "PAD", a: str = "DWORD", b: str = "DWORD"
) -> str:
    """An SDWA instruction: `d`, `a`, `b` are the parts of destination and sources."""
    return f"{text} dst_sel:{d} dst_unused:UNUSED_{unused} src0_sel:{a} src1_sel:{b}"


def test_parts_of_sources() -> None:
    word = np.full(64, 0x84030201, np.uint32)
    for select, wanted in {"BYTE_0": 1, "BYTE_2": 3, "BYTE_3": 0x84, "WORD_1": 0x8403}.items():
        text = sdwa("v_add_u32_sdwa v2, v0, v1", a=select)
        got = execute("gfx906", text, {"v0": word, "v1": LANE}).read(2)[0]
        np.testing.assert_array_equal(got, LANE + np.uint32(wanted))
    text = sdwa("v_add_u32_sdwa v2, sext(v0), v1", a="BYTE_3", b="WORD_0")
    got = execute("gfx906", text, {"v0": word, "v1": LANE + np.uint32(0x50000)}).read(2)[0]
    np.testing.assert_array_equal(got.view(np.int32), LANE.astype(np.int32) - 124)


@pytest.mark.parametrize(
    ("select", "unused", "wanted"),
    [
        ("BYTE_1", "PAD", 0x0000F500),
        ("BYTE_1", "PRESERVE", 0xAAAAF5AA),
        ("BYTE_1", "SEXT", 0xFFFFF500),
        ("WORD_1", "PRESERVE", 0xFFF5AAAA),
        ("WORD_0", "PAD", 0x0000FFF5),
        ("DWORD", "PAD", 0xFFFFFFF5),
    ],
)
def test_parts_of_the_destination(select: str, unused: str, wanted: int) -> None:
    text = sdwa("v_sub_u32_sdwa v2, v0, v1", select, unused, b="BYTE_0")
    registers = {"v0": np.full(64, 1), "v1": np.full(64, 0x10C), "v2": np.full(64, 0xAAAAAAAA)}
    active = LANE != 9
    got = execute("gfx90a", text, registers, active).read(2)[0]
    assert got[9] == 0xAAAAAAAA
    assert (got[active] == wanted).all()


def test_halves_of_floats() -> None:
    half = np.float16(1.5).view(np.uint16).astype(np.uint32) << np.uint32(16)
    text = sdwa("v_add_f16_sdwa v2, -v0, v1", "WORD_1", "PRESERVE", "WORD_1", "WORD_0")
    one = np.float16(1.0).view(np.uint16)
    registers = {"v0": np.full(64, half), "v1": np.full(64, one), "v2": np.full(64, 0x1234)}
    got = execute("gfx906", text, registers).read(2)[0]
    assert (got == (int(np.float16(-0.5).view(np.uint16)) << 16 | 0x1234)).all()


def test_compares_of_parts() -> None:
    text = "v_cmp_gt_u32_sdwa vcc, v0, v1 src0_sel:BYTE_0 src1_sel:BYTE_1"
    m = execute("gfx908", text, {"v0": LANE + np.uint32(0x300), "v1": np.full(64, 0x0A00)})
    np.testing.assert_array_equal(m.lane_bits(106)[0], LANE > 10)


# permutes


def test_permlanes_and_their_rules() -> None:
    lane = LANE[:32]
    registers = {"v0": lane, "v1": OLD[:32], "s0": 0x76543210, "s1": 0xFEDCBA98}
    got = execute("gfx1100", "v_permlanex16_b32 v1, v0, s0, s1", registers).read(1)[0]
    np.testing.assert_array_equal(got, lane ^ 16)
    active = lane != 20
    text = "v_permlanex16_b32 v1, v0, s0, s1"
    with pytest.raises(UnknownInstruction, match="inactive"):
        execute("gfx1100", text, registers, active)
    got = execute("gfx1100", text + " op_sel:[1,0]", registers, active).read(1)[0]
    np.testing.assert_array_equal(got, np.where(active, lane ^ 16, OLD[:32]))
    got = execute("gfx1100", text + " op_sel:[0,1]", registers, active).read(1)[0]
    assert got[4] == 0


def test_permutes_and_swizzles() -> None:
    address = (LANE ^ 5) * np.uint32(4)
    for name in ("ds_bpermute_b32", "ds_permute_b32"):
        m = execute("gfx90a", f"{name} v2, v1, v0 offset:4", {"v0": LANE, "v1": address - 4})
        np.testing.assert_array_equal(m.read(2)[0], LANE ^ 5)
    m = execute("gfx906", "ds_swizzle_b32 v1, v0 offset:0x041F", {"v0": LANE})
    np.testing.assert_array_equal(m.read(1)[0], LANE ^ 1)
    with pytest.raises(UnknownInstruction, match="ROTATE"):
        execute("gfx906", "ds_swizzle_b32 v1, v0 offset:0xC025", {"v0": LANE})


def test_halves_of_the_wave() -> None:
    registers = {"v0": LANE, "v1": LANE + np.uint32(100)}
    m = execute("gfx950", "v_permlane32_swap_b32 v0, v1", registers)
    np.testing.assert_array_equal(m.read(0)[0], np.where(LANE < 32, LANE, LANE + 68))
    np.testing.assert_array_equal(m.read(1)[0], np.where(LANE < 32, LANE + 32, LANE + 100))


def test_lanes_by_number() -> None:
    m = execute("gfx942", "v_readlane_b32 s3, v0, 37\nv_readfirstlane_b32 s4, v0", {"v0": LANE},
                LANE > 40)  # fmt: skip
    assert m.scalar(3)[0] == 37
    assert m.scalar(4)[0] == 41
    m = execute("gfx942", "v_writelane_b32 v0, s2, 63", {"v0": LANE, "s2": 9}, LANE < 5)
    assert m.read(0)[0, 63] == 9
    assert (m.read(0)[0, :63] == LANE[:63]).all()
    text = "v_mbcnt_lo_u32_b32 v1, s2, 0\nv_mbcnt_hi_u32_b32 v1, s3, v1"
    m = execute("gfx942", text, {"s2": 0xFFFFFFFF, "s3": 0xF})
    np.testing.assert_array_equal(m.read(1)[0], np.minimum(LANE, 36))
