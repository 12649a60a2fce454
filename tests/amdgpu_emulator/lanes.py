"""Data from other lanes: DPP, permutes, swizzles. Functions of lane numbers, uint32[waves, lanes].

DPP and the permutes follow AMD's instruction set documents (Vega, CDNA3, RDNA3, RDNA4: "Data
parallel primitives", "DS_SWIZZLE_B32", "V_PERMLANE16_B32"). A row is sixteen lanes, a bank four.
"""

from __future__ import annotations

import functools
import re

import numpy as np

U = np.uint32


class UnknownPatternError(ValueError):
    """A pattern of lanes that is not modelled."""


@functools.cache
def dpp_source(kind: str, amount: int | tuple[int, ...], lanes: int) -> tuple[np.ndarray, ...]:
    """(source int64[lanes], inside bool[lanes]) of a DPP control; `inside`: the source exists.

    `amount`: the number behind the name (the four or eight selectors of quad_perm and dpp8).
    """
    lane = np.arange(lanes)
    row, place = lane & ~15, lane & 15
    inside = np.ones(lanes, bool)
    if kind in ("quad_perm", "dpp8"):
        chosen = np.array(amount)
        size = len(chosen)
        return (lane // size) * size + chosen[lane % size], inside
    assert isinstance(amount, int)
    if kind in ("row_shl", "row_shr"):
        moved = place + (amount if kind == "row_shl" else -amount)
        return row + (moved & 15), (moved >= 0) & (moved < 16)
    if kind in ("wave_shl", "wave_shr"):
        moved = lane + (amount if kind == "wave_shl" else -amount)
        return moved % lanes, (moved >= 0) & (moved < lanes)
    if kind == "row_bcast":
        return _row_bcast(amount, lane)
    whole = {
        "row_ror": lambda: row + ((place - amount) & 15),
        "row_mirror": lambda: row + 15 - place,
        "row_half_mirror": lambda: lane ^ 7,
        "row_share": lambda: row + amount,
        "row_newbcast": lambda: row + amount,
        "row_xmask": lambda: lane ^ amount,
        "wave_rol": lambda: (lane + amount) % lanes,
        "wave_ror": lambda: (lane - amount) % lanes,
    }
    if kind not in whole:
        raise UnknownPatternError(f"{kind}:{amount}")
    return whole[kind](), inside


def _row_bcast(amount: int, lane: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """row_bcast:15: the last lane of each row goes to the next row; 31: lane 31 to rows 2 and 3."""
    if amount == 15:
        return np.maximum((lane & ~15) - 1, 0), lane >= 16
    if amount == 31:
        return np.full_like(lane, 31), lane >= 32
    raise UnknownPatternError(f"row_bcast:{amount}")


def dpp_lanes(row_mask: int, bank_mask: int, lanes: int) -> np.ndarray:
    """bool[lanes]: lanes that the masks of rows and banks let through."""
    lane = np.arange(lanes)
    return ((row_mask >> (lane // 16)) & (bank_mask >> ((lane % 16) // 4)) & 1).astype(bool)


def dpp(
    value: np.ndarray,
    active: np.ndarray,
    source: np.ndarray,
    inside: np.ndarray,
    zero: bool,
    fetch_inactive: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """(moved value, bool written), each [waves, lanes], for EXEC `active`.

    A source outside the row, or (without `fi`) in an inactive lane, gives 0 where bound_ctrl
    (`zero`) is set; else the lane keeps its old result: it is not written.
    """
    usable = inside & (active[:, source] | fetch_inactive)
    moved = np.where(usable, value[:, source], U(0))
    written = active if zero else active & usable
    return moved, written


def permlane16(value: np.ndarray, selectors: np.ndarray, other_row: bool) -> np.ndarray:
    """v_permlane16_b32 (or permlanex16: from the neighbouring row), no regard for EXEC.

    `selectors`: uint64[waves], sixteen times four bits.
    """
    lane = np.arange(value.shape[1])
    shift = (4 * (lane % 16)).astype(np.uint64)
    chosen = ((selectors[:, None] >> shift) & np.uint64(15)).astype(np.int64)
    return np.take_along_axis(value, _row(lane, other_row) + chosen, 1)


def permlane16_var(value: np.ndarray, selectors: np.ndarray, other_row: bool) -> np.ndarray:
    """As permlane16, each lane with a selector of its own: uint32[waves, lanes]."""
    lane = np.arange(value.shape[1])
    chosen = (selectors & U(15)).astype(np.int64)
    return np.take_along_axis(value, _row(lane, other_row) + chosen, 1)


def _row(lane: np.ndarray, other: bool) -> np.ndarray:
    return (lane & ~15) ^ (16 if other else 0)


def swap(first: np.ndarray, second: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """v_permlane16_swap and 32: odd groups of vdst trade with even ones of src0."""
    lane = np.arange(first.shape[1])
    odd = (lane // width) % 2 == 1
    other = lane ^ width
    return np.where(odd, second[:, other], first), np.where(odd, second, first[:, other])


def backward(
    value: np.ndarray, address: np.ndarray, active: np.ndarray, fetch_inactive: bool = False
) -> np.ndarray:
    """ds_bpermute_b32: lane i gets the value of lane address/4; inactive sources give 0."""
    lanes = value.shape[1]
    source = ((address >> U(2)) % U(lanes)).astype(np.int64)
    shown = value if fetch_inactive else np.where(active, value, U(0))
    return np.take_along_axis(shown, source, 1)


def forward(value: np.ndarray, address: np.ndarray, active: np.ndarray) -> np.ndarray:
    """ds_permute_b32: lane i sends to lane address/4; the highest sender wins, none gives 0."""
    waves, lanes = value.shape
    target = ((address >> U(2)) % U(lanes)).astype(np.int64)
    out = np.zeros_like(value)
    every = np.arange(waves)
    for lane in range(lanes):
        sends = active[:, lane]
        out[every[sends], target[sends, lane]] = value[sends, lane]
    return out


def swizzle_bits(text: str) -> int:
    """The sixteen bits of `swizzle(MODE,...)` as the disassembler writes them.

    ROTATE is refused: its text leaves the mask out. So is FFT, which nothing here can verify.
    """
    found = re.fullmatch(r"swizzle\((\w+),(.*)\)", text)
    if found is None:
        return int(text, 0)
    mode, rest = found[1], found[2].strip().strip('"')
    if mode == "BITMASK_PERM":
        keep = sum(16 >> at for at, c in enumerate(rest) if c in "pi")
        either = sum(16 >> at for at, c in enumerate(rest) if c == "1")
        flip = sum(16 >> at for at, c in enumerate(rest) if c == "i")
        return keep | either << 5 | flip << 10
    numbers = [int(n) for n in rest.split(",")]
    if mode == "QUAD_PERM":
        return 0x8000 | sum(n << 2 * at for at, n in enumerate(numbers))
    if mode in ("SWAP", "REVERSE"):
        return 0x1F | (numbers[0] if mode == "SWAP" else numbers[0] - 1) << 10
    if mode == "BROADCAST":
        return 0x1F & ~(numbers[0] - 1) | numbers[1] << 5
    raise UnknownPatternError(text)


@functools.cache
def swizzle_source(bits: int, lanes: int) -> np.ndarray:
    """int64[lanes]: the source lanes of ds_swizzle_b32 for its sixteen bits."""
    lane = np.arange(lanes)
    if bits >= 0xC000:
        raise UnknownPatternError(f"swizzle {bits:#x}")
    if bits & 0x8000:
        chosen = np.array([(bits >> (2 * i)) & 3 for i in range(4)])
        return (lane & ~3) | chosen[lane & 3]
    keep, either, flip = bits & 31, (bits >> 5) & 31, (bits >> 10) & 31
    return (lane & ~31) | ((((lane & 31) & keep) | either) ^ flip)
