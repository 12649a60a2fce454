"""Vector arithmetic that gfx9 alone has, and what its 16-bit results do to the other half."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import UnknownInstruction
from amdgpu_emulator.one_wave import execute


@pytest.fixture(autouse=True)
def _tools(require: Callable[..., None]) -> None:
    require("llvm-mc")


def halves(value: float) -> int:
    """The bits of an f16."""
    return int(np.float16(value).view(np.uint16))


def f32(value: float) -> np.ndarray:
    return np.full(64, np.float32(value).view(np.uint32))


OLD = 0xABCD0000
SIX = {name: np.full(64, halves(2) | 0x12340000) for name in ("v0", "v1", "v2")}
WHOLE = {name: np.full(64, 0x56780002) for name in ("v0", "v1", "v2")}


@pytest.mark.parametrize(
    ("text", "low", "clears"),
    [
        ("v_add_f16 v3, v0, v1", halves(4), True),
        ("v_mac_f16 v3, v0, v1", halves(4), True),
        ("v_mad_legacy_f16 v3, v0, v1, v2", halves(6), True),
        ("v_fma_legacy_f16 v3, v0, v1, v2", halves(6), True),
        ("v_mad_f16 v3, v0, v1, v2", halves(6), False),
        ("v_fma_f16 v3, v0, v1, v2", halves(6), False),
        ("v_madmk_f16 v3, v0, 0x4500, v2", halves(12), True),
        ("v_madak_f16 v3, v0, v1, 0x4500", halves(9), True),
        ("v_rcp_f16 v3, v0", halves(0.5), True),
        ("v_cvt_f16_f32 v3, 1.0", halves(1), True),
    ],
)
def test_halves_of_float_results(text: str, low: int, clears: bool) -> None:
    got = execute("gfx906", text, {**SIX, "v3": np.full(64, OLD)}).read(3)[0]
    assert (got == (low if clears else OLD | low)).all()


@pytest.mark.parametrize(
    ("text", "low", "clears"),
    [
        ("v_add_u16 v3, v0, v1", 4, True),
        ("v_mul_lo_u16 v3, v0, v1", 4, True),
        ("v_mad_legacy_u16 v3, v0, v1, v2", 6, True),
        ("v_mad_legacy_i16 v3, v0, v1, v2", 6, True),
        ("v_mad_u16 v3, v0, v1, v2", 6, False),
        ("v_mad_i16 v3, v0, v1, v2", 6, False),
    ],
)
def test_halves_of_integer_results(text: str, low: int, clears: bool) -> None:
    got = execute("gfx90a", text, {**WHOLE, "v3": np.full(64, OLD)}).read(3)[0]
    assert (got == (low if clears else OLD | low)).all()


def test_gfx10_keeps_the_other_half() -> None:
    given = {name: value[:32] for name, value in WHOLE.items()}
    got = execute("gfx1030", "v_add_nc_u16 v3, v0, v1", {**given, "v3": np.full(32, OLD)})
    assert (got.read(3)[0] == OLD | 4).all()


def test_multiply_add_rounds_twice_and_knows_no_denormals() -> None:
    x = 1 + 2.0**-12
    registers = {"v0": f32(x), "v1": f32(x), "v2": f32(-1)}
    for text in ("v_madak_f32 v3, v0, v1, 0xbf800000", "v_mad_f32 v3, v0, v1, v2"):
        got = execute("gfx906", text, registers).read(3)[0].view(np.float32)
        assert (got == np.float32(np.float32(x) * np.float32(x)) - 1).all()
    fused = execute("gfx906", "v_fma_f32 v3, v0, v1, v2", registers).read(3)[0].view(np.float32)
    assert (fused == np.float32(x * x - 1)).all()
    tiny = {"v0": f32(2.0**-140), "v1": f32(1), "v2": f32(2.0**-130)}
    for text in ("v_madmk_f32 v3, v0, 0x40000000, v2", "v_mad_f32 v3, v0, v1, v2"):
        got = execute("gfx906", text, tiny).read(3)[0]
        assert not got.any()


def test_a_bounded_result_is_the_same_in_every_lane() -> None:
    """LLVM takes the quotient of two scalars to be one, and branches on its first lane."""
    seen = set()
    for seed in range(40):
        m = execute("gfx90a", "v_rcp_f32 v1, v0", {"v0": f32(7)}, seed=seed)
        got = m.read(1)[0].view(np.float32)
        assert (got == got[0]).all()
        seen.add(float(got[0]))
    third = np.float64(1) / 7
    assert len(seen) == 2
    assert min(seen) < third < max(seen)


def test_operations_on_three_bits_by_table() -> None:
    rng = np.random.default_rng(1)
    a, b, c = rng.integers(0, 1 << 32, (3, 64), dtype=np.uint32)
    registers = {"v0": a, "v1": b, "v2": c}
    for table in (0x00, 0x80, 0xEC, 0x96, 0x1B, 0xFF):
        text = f"v_bitop3_b32 v3, v0, v1, v2 bitop3:{table:#x}"
        got = execute("gfx950", text, registers).read(3)[0]
        for bit in range(32):
            row = 4 * (a >> bit & 1) + 2 * (b >> bit & 1) + (c >> bit & 1)
            np.testing.assert_array_equal(got >> bit & 1, table >> row & 1)


def test_packed_minima_of_three() -> None:
    def pair(low: float, high: float) -> np.ndarray:
        return np.full(64, halves(low) | halves(high) << 16)

    registers = {"v0": pair(1, np.nan), "v1": pair(-2, 3), "v2": pair(5, 7)}
    for name, low in (("minimum3", -2), ("maximum3", 5)):
        got = execute("gfx950", f"v_pk_{name}_f16 v3, v0, v1, v2", registers).read(3)[0]
        assert (got & 0xFFFF == halves(low)).all()
        assert np.isnan((got >> 16).astype(np.uint16).view(np.float16)).all()


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1201"])
def test_what_a_processor_lacks_is_unknown(processor: str) -> None:
    """Semantics of gfx9 answer for no other generation, even where a name is decoded."""
    from amdgpu_emulator import decode, registry
    from amdgpu_emulator.one_wave import arch

    made = decode.instruction(0, 8, "v_mad_legacy_u16 v0, v1, v2, v3")
    with pytest.raises(UnknownInstruction, match="v_mad_legacy_u16"):
        registry.build(made, arch(processor))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("v_add_u32 v1, v2, v3\ns_set_gpr_idx_off", "only moves"),
        ("s_mov_b32 m0, s1\ns_set_gpr_idx_off", "only moves"),
        ("s_branch 0\ns_set_gpr_idx_off", "only moves"),
        ("v_mov_b32 v1, v2", "no s_set_gpr_idx_off"),
    ],
)
def test_what_else_stands_between_indexed_moves_is_refused(text: str, why: str) -> None:
    from amdgpu_emulator import gpr_index
    from amdgpu_emulator.one_wave import arch, decoded

    made = decoded("gfx90a", "s_set_gpr_idx_on s0, gpr_idx(SRC0)\n" + text)
    with pytest.raises(UnknownInstruction, match=why):
        gpr_index.sequence({i.address: i for i in made}, made[0], arch("gfx90a"))


def test_scalars_between_indexed_moves_are_computed() -> None:
    text = (
        "s_mov_b32 s0, 2\ns_set_gpr_idx_on s0, gpr_idx(SRC0)\ns_add_u32 s1, s0, 5\n"
        "v_mov_b32 v5, v1\ns_cmp_gt_u32 s1, 6\ns_cselect_b32 s2, 11, 12\n"
        "s_bitcmp0_b32 s1, 3\ns_cselect_b32 s3, 20, 40\ns_set_gpr_idx_off\n"
        "v_add_u32 v6, s2, v5\nv_add_u32 v6, s3, v6"
    )
    registers = {f"v{n}": np.full(64, 100 + n, np.uint32) for n in range(4)}
    got = execute("gfx90a", text, registers).read(6)[0]
    np.testing.assert_array_equal(got, np.full(64, 103 + 11 + 20))
