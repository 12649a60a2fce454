"""Instructions one by one, for what LLVM's code of the other tests does not contain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amdgpu_emulator import Memory, OutOfBounds
from amdgpu_emulator.one_wave import execute

U = np.uint32
LANES = np.arange(32, dtype=U)


@pytest.fixture(autouse=True)
def assembler(require: Any) -> None:
    require("llvm-mc")


def test_both_halves_of_a_dual_issue_read_before_either_writes() -> None:
    swap = "v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0"
    m = execute("gfx1100", swap, {"v0": LANES, "v1": LANES + U(100)})
    assert (m.read(0)[0] == LANES + 100).all()
    assert (m.read(1)[0] == LANES).all()
    fused = "v_dual_mov_b32 v3, v1 :: v_dual_fmac_f32 v2, v3, v3"
    m = execute("gfx1201", fused, {"v1": LANES, "v2": np.full(32, 1, np.float32).view(U),
                                   "v3": np.full(32, 3, np.float32).view(U)})  # fmt: skip
    assert (m.read(2)[0].view(np.float32) == 10).all()


def test_wide_products_carry() -> None:
    m = execute("gfx1100", "v_mad_u64_u32 v[4:5], s6, v0, v1, v[2:3]",
                {"v0": np.full(32, 0xFFFFFFFF), "v1": LANES, "v2": LANES * U(0),
                 "v3": np.full(32, 0xFFFFFFFE)})  # fmt: skip
    total = [0xFFFFFFFF * k + (0xFFFFFFFE << 32) for k in range(32)]
    assert [int(v) for v in m.read(5)[0]] == [t >> 32 & 0xFFFFFFFF for t in total]
    assert int(m.scalar(6)[0]) == sum((t >> 64) << k for k, t in enumerate(total))


def test_bytes_are_permuted() -> None:
    for select, wanted in (
        (0x03020100, 0xDDCCBBAA), (0x07060504, 0x44332211), (0x00040105, 0xAA11BB22),
        (0x0C0D0B0A, 0x00FF0000), (0x08090909, 0xFFFFFFFF),
    ):  # fmt: skip
        registers = {"v0": LANES * U(0) + U(0x44332211), "v1": LANES * U(0) + U(0xDDCCBBAA),
                     "v2": LANES * U(0) + U(select)}  # fmt: skip
        m = execute("gfx1100", "v_perm_b32 v3, v0, v1, v2", registers)
        assert int(m.read(3)[0, 0]) == wanted, hex(select)


# s0 = 0x87654678, s1 = 0x12, s2 = 0x15, s4 = 0x180
SCALAR = {
    "s_bfe_u32 s3, s0, 0x80004": 0x67,
    "s_bfe_i32 s3, s0, 0x8001c": 0xFFFFFFF8,
    "s_bfm_b32 s3, 5, 3": 0xF8,
    "s_brev_b32 s3, s0": int(f"{0x87654678:032b}"[::-1], 2),
    "s_quadmask_b32 s3, s1": 0b11,
    "s_wqm_b32 s3, s1": 0xFF,
    "s_absdiff_i32 s3, s1, s2": 3,
    "s_lshl3_add_u32 s3, s1, s2": (0x12 << 3) + 0x15,
    "s_cls_i32 s3, s0": 1,
    "s_clz_i32_u32 s3, s1": 27,
    "s_ctz_i32_b32 s3, s1": 1,
    "s_sext_i32_i8 s3, s4": 0xFFFFFF80,
    "s_pack_hl_b32_b16 s3, s0, s1": 0x00128765,
    "s_max_i32 s3, s0, s1": 0x12,
    "s_min_u32 s3, s0, s1": 0x12,
    "s_abs_i32 s3, s0": (1 << 32) - 0x87654678,
    "s_mul_hi_i32 s3, s0, s1": 0xFFFFFFF7,
}


def test_scalar_instructions() -> None:
    numbers = {"s0": 0x87654678, "s1": 0x12, "s2": 0x15, "s4": 0x180}
    values = {name: np.array([value]) for name, value in numbers.items()}
    for text, wanted in SCALAR.items():
        m = execute("gfx1100", text, values)
        assert int(m.scalar(3)[0]) == wanted, text


def test_integers_saturate_where_they_are_clamped() -> None:
    top = {"v0": LANES * U(0) + U(0xFFFFFFF0), "v1": LANES}
    m = execute("gfx1100", "v_add_nc_u32_e64 v2, v0, v1 clamp", top)
    assert (m.read(2)[0] == np.minimum(0xFFFFFFF0 + LANES.astype(np.int64), 0xFFFFFFFF)).all()
    m = execute("gfx1100", "v_sub_nc_u32_e64 v2, v1, v0 clamp", top)
    assert (m.read(2)[0] == 0).all()


def test_floats_are_scaled_and_clamped() -> None:
    x = np.linspace(-3, 3, 32, dtype=np.float32)
    m = execute("gfx1100", "v_add_f32_e64 v2, v0, v0 clamp mul:2", {"v0": x.view(U)})
    assert (m.read(2)[0].view(np.float32) == np.clip(x * 4, 0, 1)).all()
    m = execute("gfx1100", "v_mul_f32_e64 v2, -|v0|, v0 div:2", {"v0": x.view(U)})
    assert (m.read(2)[0].view(np.float32) == -np.abs(x) * x / 2).all()


def test_every_float_has_one_class() -> None:
    info = np.finfo(np.float32)
    x = np.array([np.nan, np.nan, -np.inf, -1, -info.tiny / 2, -0.0, 0.0, info.tiny / 2, 1, np.inf],
                 np.float32)  # fmt: skip
    bits = x.view(U).copy()
    bits[0] = 0x7F800001  # signaling
    bits = np.resize(bits, 32)
    for k in range(10):
        m = execute("gfx1100", f"v_cmp_class_f32_e64 s4, v0, {1 << k:#x}", {"v0": bits})
        wanted = sum(1 << n for n in range(32) if n % 10 == k)
        assert int(m.scalar(4)[0]) == wanted, k


def test_a_register_is_chosen_by_m0() -> None:
    registers = {"v1": LANES, "v4": LANES + U(7), "s0": np.array([3])}
    m = execute("gfx1100", "s_mov_b32 m0, s0\nv_movrels_b32_e32 v9, v1", registers)
    assert (m.read(9)[0] == LANES + 7).all()
    m = execute("gfx1100", "s_mov_b32 m0, s0\nv_movreld_b32_e32 v1, v4", registers)
    assert (m.read(4)[0] == LANES + 7).all()
    assert (m.read(1)[0] == LANES).all()


def test_inactive_lanes_keep_their_registers() -> None:
    active = LANES % 3 == 0
    m = execute("gfx1100", "v_mov_b32_e32 v1, v0", {"v0": LANES, "v1": LANES + U(50)}, active)
    assert (m.read(1)[0] == np.where(active, LANES, LANES + 50)).all()
    m = execute("gfx1100", "v_cmp_lt_u32_e64 s4, 5, v0", {"v0": LANES}, active)
    assert int(m.scalar(4)[0]) == sum(1 << int(k) for k in LANES if active[k] and k > 5)


def test_memory_finds_each_wrong_access_among_several_allocations() -> None:
    a, b = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    memory = Memory()
    memory.add(a.ctypes.data, 64, "a")
    memory.add(b.ctypes.data, 64, "b", writable=False)
    both = np.array([a.ctypes.data, b.ctypes.data], np.uint64)
    memory.check(both, 4, write=False)
    with pytest.raises(OutOfBounds, match="b: read-only"):
        memory.check(both, 4, write=True)
    with pytest.raises(OutOfBounds, match="behind its end"):
        memory.check(both + np.uint64(62), 4, write=False)
    with pytest.raises(ValueError, match="overlap"):
        memory.add(a.ctypes.data + 32, 8, "c")
