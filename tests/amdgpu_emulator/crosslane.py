"""Instructions whose result comes from other lanes: v_permlane*, ds_permute, ds_swizzle."""

from __future__ import annotations

import numpy as np

from . import lanes
from .decode import Instruction
from .integers import bit_count
from .operands import (
    B32,
    U32,
    raw_source,
    raw_target,
    scalar_source,
    scalar_target,
    vector_index,
)
from .registry import Step, instruction
from .state import Arch, Array, Machine


def _vector(i: Instruction, position: int) -> int:
    """The register number of an operand that must be a vector register."""
    o = i.operands[position]
    if not o.is_vector or o.count != 1:
        raise i.unknown(f"{o.text} is no single vector register")
    return vector_index(o)


def _with_source_rules(i: Instruction, m: Machine, source: Array, value: Array) -> Array:
    """What op_sel:[fi, bound_ctrl] of v_permlane16 says of inactive source lanes."""
    fetch_inactive, zero = i.bits("op_sel", (0, 0))[:2]
    if fetch_inactive:
        return value
    active = np.take_along_axis(m.mask, source, 1)
    if zero:
        return np.where(active, value, np.uint32(0))
    if (m.mask & ~active).any():
        raise i.unknown("a value of an inactive lane, without fi or bound_ctrl")
    return value


@instruction(
    "v_permlane16_b32", "v_permlanex16_b32", modifiers=("op_sel",), generations=(10, 11, 12)
)
def _permlane(i: Instruction, arch: Arch) -> Step:
    first, other = _vector(i, 1), "permlanex" in i.mnemonic
    low, high = scalar_source(i, 2, U32), scalar_source(i, 3, U32)
    write = raw_target(i, i.operands[0], B32)

    def step(m: Machine) -> None:
        selectors = low(m).astype(np.uint64) | high(m).astype(np.uint64) << np.uint64(32)
        numbers = np.broadcast_to(np.arange(m.lanes, dtype=np.uint32), (m.count, m.lanes))
        source = lanes.permlane16(numbers, selectors, other).astype(np.int64)
        value = np.take_along_axis(m.read(first), source, 1)
        write(m, _with_source_rules(i, m, source, value))

    return step


@instruction(
    "v_permlane16_var_b32", "v_permlanex16_var_b32", modifiers=("op_sel",), generations=(12,)
)
def _permlane_var(i: Instruction, arch: Arch) -> Step:
    first, selectors, other = _vector(i, 1), _vector(i, 2), "permlanex" in i.mnemonic
    write = raw_target(i, i.operands[0], B32)

    def step(m: Machine) -> None:
        numbers = np.broadcast_to(np.arange(m.lanes, dtype=np.uint32), (m.count, m.lanes))
        source = lanes.permlane16_var(numbers, m.read(selectors), other).astype(np.int64)
        value = np.take_along_axis(m.read(first), source, 1)
        write(m, _with_source_rules(i, m, source, value))

    return step


@instruction("v_permlane64_b32", generations=(11, 12))
def _permlane64(i: Instruction, arch: Arch) -> Step:
    first, write = _vector(i, 1), raw_target(i, i.operands[0], B32)
    if arch.lanes == 32:
        return lambda m: None  # documented: does nothing in wave32
    return lambda m: write(m, np.roll(m.read(first), 32, axis=1))


@instruction("v_permlane32_swap_b32", "v_permlane16_swap_b32",
             modifiers=("bound_ctrl", "fi"), generations=(9,))  # fmt: skip
def _swap(i: Instruction, arch: Arch) -> Step:
    d, s = _vector(i, 0), _vector(i, 1)
    width = 32 if "permlane32" in i.mnemonic else 16

    def step(m: Machine) -> None:
        if not m.full:
            raise i.unknown("a swap of lanes, some of them inactive")
        first, second = lanes.swap(m.read(d), m.read(s), width)
        m.write(d, first)
        m.write(s, second)

    return step


@instruction("ds_bpermute_b32", "ds_permute_b32", "ds_bpermute_fi_b32", modifiers=("offset",))
def _permute(i: Instruction, arch: Arch) -> Step:
    address, value = raw_source(i, i.operands[1], B32), raw_source(i, i.operands[2], B32)
    write, offset = raw_target(i, i.operands[0], B32), np.uint32(i.number("offset"))
    fetch_inactive = "_fi_" in i.mnemonic
    # The halves of a wave of 64 are apart on gfx10 and gfx11.
    halves = arch.lanes == 64 and arch.generation in (10, 11)
    own_half = (np.arange(arch.lanes, dtype=np.uint32) & np.uint32(32)) << np.uint32(2)

    def step(m: Machine) -> None:
        at = np.broadcast_to(address(m) + offset, m.mask.shape)
        if halves:
            at = (at & np.uint32(0x7F)) | own_half
        data = np.broadcast_to(value(m), m.mask.shape)
        if "bpermute" in i.mnemonic:
            write(m, lanes.backward(data, at, m.mask, fetch_inactive))
        else:
            write(m, lanes.forward(data, at, m.mask))

    return step


@instruction("ds_swizzle_b32", modifiers=("offset",))
def _swizzle(i: Instruction, arch: Arch) -> Step:
    first, write = _vector(i, 1), raw_target(i, i.operands[0], B32)
    try:
        bits = lanes.swizzle_bits(str(i.modifiers.get("offset", "0")))
        source = lanes.swizzle_source(bits, arch.lanes)
    except (lanes.UnknownPatternError, ValueError) as error:
        raise i.unknown(str(error)) from None

    def step(m: Machine) -> None:
        shown = np.where(m.mask, m.read(first), np.uint32(0))
        write(m, shown[:, source])

    return step


def _one_lane(m: Machine, register: int, lane: Array) -> Array:
    """uint32[count]: the value in one lane of each wave."""
    return np.take_along_axis(m.read(register), lane.astype(np.int64)[:, None], 1)[:, 0]


@instruction("v_readlane_b32")
def _read_lane(i: Instruction, arch: Arch) -> Step:
    first, lane, write = _vector(i, 1), scalar_source(i, 2, U32), scalar_target(i, U32)
    return lambda m: write(m, _one_lane(m, first, lane(m) % np.uint32(m.lanes)))


@instruction("v_readfirstlane_b32")
def _read_first_lane(i: Instruction, arch: Arch) -> Step:
    """The first active lane; lane 0 where none is."""
    first, write = _vector(i, 1), scalar_target(i, U32)
    return lambda m: write(m, _one_lane(m, first, m.mask.argmax(axis=1)))


@instruction("v_writelane_b32")
def _write_lane(i: Instruction, arch: Arch) -> Step:
    register, value, lane = _vector(i, 0), scalar_source(i, 1, U32), scalar_source(i, 2, U32)

    def step(m: Machine) -> None:  # EXEC plays no part
        new = m.read(register).copy()
        new[np.arange(m.count), (lane(m) % np.uint32(m.lanes)).astype(np.int64)] = value(m)
        m.write_all(register, new)

    return step


@instruction("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")
def _count_below(i: Instruction, arch: Arch) -> Step:
    """Bits of the mask in lanes below this one (in the lower or upper 32 lanes), plus a number."""
    mask, plus = raw_source(i, i.operands[1], B32), raw_source(i, i.operands[2], B32)
    write = raw_target(i, i.operands[0], B32)
    base = 32 if "_hi_" in i.mnemonic else 0
    below = np.clip(np.arange(arch.lanes, dtype=np.int64) - base, 0, 32)
    seen = ((1 << below) - 1).astype(np.uint32)
    return lambda m: write(m, bit_count(mask(m) & seen) + plus(m))
