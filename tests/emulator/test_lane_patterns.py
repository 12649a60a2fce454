"""DPP, permutes and swizzles of the AMD emulator: where each lane's value comes from."""

from __future__ import annotations

import numpy as np
import pytest

from amdgpu_emulator import lanes

# Source lanes of one row of sixteen, as AMD's documents draw them; None: no source.
ROWS = {
    ("row_shl", 1): [*range(1, 16), None],
    ("row_shl", 4): [*range(4, 16), None, None, None, None],
    ("row_shr", 1): [None, *range(15)],
    ("row_ror", 1): [15, *range(15)],
    ("row_ror", 12): [*range(4, 16), 0, 1, 2, 3],
    ("row_mirror", 0): list(range(15, -1, -1)),
    ("row_half_mirror", 0): [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8],
    ("quad_perm", (1, 0, 3, 2)): [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14],
    ("quad_perm", (3, 3, 3, 3)): [3] * 4 + [7] * 4 + [11] * 4 + [15] * 4,
    ("dpp8", (7, 6, 5, 4, 3, 2, 1, 0)): [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8],
    ("row_share", 5): [5] * 16,
    ("row_newbcast", 5): [5] * 16,
    ("row_xmask", 6): [i ^ 6 for i in range(16)],
}
WAVE = {
    ("wave_shl", 1): [*range(1, 64), None],
    ("wave_shr", 1): [None, *range(63)],
    ("wave_rol", 1): [*range(1, 64), 0],
    ("wave_ror", 1): [63, *range(63)],
    ("row_bcast", 15): [None] * 16 + [15] * 16 + [31] * 16 + [47] * 16,
    ("row_bcast", 31): [None] * 32 + [31] * 32,
}


def of(kind: str, amount: object, count: int) -> list[int | None]:
    source, inside = lanes.dpp_source(kind, amount, count)  # type: ignore[arg-type]
    return [int(s) if ok else None for s, ok in zip(source, inside, strict=True)]


@pytest.mark.parametrize("control", ROWS, ids=str)
def test_controls_within_rows(control: tuple[str, object]) -> None:
    row = ROWS[control]
    wanted = [None if s is None else s + at for at in range(0, 64, 16) for s in row]
    assert of(*control, 64) == wanted
    assert of(*control, 32) == wanted[:32]


@pytest.mark.parametrize("control", WAVE, ids=str)
def test_controls_across_the_wave(control: tuple[str, object]) -> None:
    assert of(*control, 64) == WAVE[control]


def test_unknown_control_is_refused() -> None:
    with pytest.raises(lanes.UnknownPatternError, match="row_bcast:7"):
        lanes.dpp_source("row_bcast", 7, 64)
    with pytest.raises(lanes.UnknownPatternError, match="row_turn:1"):
        lanes.dpp_source("row_turn", 1, 64)


def test_what_a_lane_without_source_gets() -> None:
    value = np.arange(100, 164, dtype=np.uint32)[None]
    active = np.ones((1, 64), bool)
    active[0, 5] = False
    source, inside = lanes.dpp_source("row_shr", 1, 64)
    moved, written = lanes.dpp(value, active, source, inside, zero=False, fetch_inactive=False)
    # Lanes 0, 16, ... have no source; lane 6's is inactive; lane 5 itself is.
    assert np.nonzero(~written[0])[0].tolist() == [0, 5, 6, 16, 32, 48]
    moved, written = lanes.dpp(value, active, source, inside, zero=True, fetch_inactive=False)
    assert np.nonzero(~written[0])[0].tolist() == [5]
    assert moved[0, [0, 6, 16, 7]].tolist() == [0, 0, 0, 106]
    moved, written = lanes.dpp(value, active, source, inside, zero=False, fetch_inactive=True)
    assert moved[0, 6] == 105
    assert np.nonzero(~written[0])[0].tolist() == [0, 5, 16, 32, 48]


def test_masks_of_rows_and_banks() -> None:
    open_lanes = np.nonzero(lanes.dpp_lanes(0b0101, 0b1000, 64))[0]
    assert open_lanes.tolist() == [12, 13, 14, 15, 44, 45, 46, 47]


def test_permlane16() -> None:
    value = np.arange(32, dtype=np.uint32)[None]
    selectors = np.array([sum((15 - i) << 4 * i for i in range(16))], np.uint64)
    same = lanes.permlane16(value, selectors, other_row=False)
    assert same[0].tolist() == [*range(15, -1, -1), *range(31, 15, -1)]
    other = lanes.permlane16(value, selectors, other_row=True)
    assert other[0].tolist() == [*range(31, 15, -1), *range(15, -1, -1)]
    each = np.arange(32, dtype=np.uint32)[None] + np.uint32(16 + 1)
    assert lanes.permlane16_var(value, each, False)[0].tolist() == [
        *range(1, 16), 0, *range(17, 32), 16
    ]  # fmt: skip


def test_swaps_of_halves() -> None:
    first, second = np.arange(64, dtype=np.uint32)[None], np.arange(100, 164, dtype=np.uint32)[None]
    d, s = lanes.swap(first, second, 32)
    assert d[0].tolist() == [*range(32), *range(100, 132)]
    assert s[0].tolist() == [*range(32, 64), *range(132, 164)]
    d, s = lanes.swap(first, second, 16)
    assert d[0, :32].tolist() == [*range(16), *range(100, 116)]
    assert s[0, :32].tolist() == [*range(16, 32), *range(116, 132)]


def test_permutes_through_lds() -> None:
    value = np.arange(200, 264, dtype=np.uint32)[None]
    active = np.ones((1, 64), bool)
    active[0, 3] = False
    address = (np.arange(64, dtype=np.uint32)[None] * 4 + 4) & np.uint32(0xFFFF)
    got = lanes.backward(value, address, active)
    assert got[0, [0, 2, 63]].tolist() == [201, 0, 200]  # lane 3 gives nothing; 64 wraps
    assert lanes.backward(value, address, active, fetch_inactive=True)[0, 2] == 203
    to_lane_nine = np.full((1, 64), 36, np.uint32)
    got = lanes.forward(value, to_lane_nine, active)
    assert got[0, 9] == 263
    assert np.count_nonzero(got) == 1
    active[0, 62:] = False
    assert lanes.forward(value, to_lane_nine, active)[0, 9] == 261


SWIZZLES = {
    "swizzle(SWAP,16)": (0x401F, lambda i: i ^ 16),
    "swizzle(REVERSE,32)": (0x7C1F, lambda i: i ^ 31),
    "swizzle(BROADCAST,16,3)": (0x0070, lambda i: (i & ~15) | 3),
    "swizzle(QUAD_PERM,3,2,1,0)": (0x801B, lambda i: i ^ 3),
    'swizzle(BITMASK_PERM,"10i0p")': (0x1205, lambda i: i & 32 | 16 | (i & 4 ^ 4) | i & 1),
}


@pytest.mark.parametrize("text", SWIZZLES)
def test_swizzles(text: str) -> None:
    bits, source = SWIZZLES[text]
    assert lanes.swizzle_bits(text) == bits
    assert lanes.swizzle_source(bits, 64).tolist() == [source(i) for i in range(64)]


def test_swizzles_that_the_text_does_not_say() -> None:
    with pytest.raises(lanes.UnknownPatternError):
        lanes.swizzle_bits("swizzle(ROTATE,0,1)")
    with pytest.raises(lanes.UnknownPatternError):
        lanes.swizzle_source(0xE001, 64)
