"""Scalar arithmetic: one value a wave, [count]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .decode import Instruction, operand
from .integers import (
    bit_count,
    bit_field,
    bit_mask,
    bit_reverse,
    count_leading_sign,
    count_leading_zeros,
    count_trailing_zeros,
    multiply_high,
    quad_mask,
    shift_left,
    shift_right,
    whole_quad,
)
from .operands import I32, I64, U32, U64, Kind, raw_scalar, scalar_source, scalar_target, words
from .registry import Step, instruction, register
from .state import EXEC, Arch, Machine

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]


def nonzero(result: Array, *_: Array) -> Array:
    return result != 0


def _simple(result: Kind, sources: tuple[Kind, ...], f: Function, scc: Function | None) -> Any:
    """A builder: f of the sources; SCC from (result, sources) if the instruction sets it."""

    def build(i: Instruction, arch: Arch) -> Step:
        if len(i.operands) != 1 + len(sources):
            raise i.unknown(f"{len(i.operands)} operands")
        reads = [scalar_source(i, k + 1, kind) for k, kind in enumerate(sources)]
        write, dtype = scalar_target(i, result), result.dtype

        def step(m: Machine) -> None:
            values = [read(m) for read in reads]
            out = f(*values)
            if out.dtype != dtype:
                out = out.astype(dtype)
            if scc is not None:  # before the write: a source may be a view of the destination
                m.set_scc(scc(out, *values))
            write(m, out)

        return step

    return build


# name without the width -> function; both widths exist, SCC = result is not zero
LOGIC: dict[str, Function] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
    "and_not1": lambda x, y: x & ~y,
    "or_not1": lambda x, y: x | ~y,
    "andn2": lambda x, y: x & ~y,
    "orn2": lambda x, y: x | ~y,
}
for _name, _f in LOGIC.items():
    register(f"s_{_name}_b32", _simple(U32, (U32, U32), _f, nonzero))
    register(f"s_{_name}_b64", _simple(U64, (U64, U64), _f, nonzero))


def _carry(x: Array, y: Array) -> Array:
    return (x.astype(np.uint64) + y >> np.uint64(32)) != 0


def _absdiff(x: Array, y: Array) -> Array:
    return np.abs(x.astype(np.int64) - y).astype(np.uint32).view(np.int32)


def _lshl_add(n: int) -> tuple[Function, Function]:
    shift = np.uint64(n)
    return (
        lambda x, y: ((x.astype(np.uint64) << shift) + y).astype(np.uint32),
        lambda r, x, y: ((x.astype(np.uint64) << shift) + y) >> np.uint64(32) != 0,
    )


# mnemonic -> (result, sources, function, SCC)
TABLE: dict[str, tuple[Kind, tuple[Kind, ...], Function, Function | None]] = {
    "s_mov_b32": (U32, (U32,), lambda x: x, None),
    "s_mov_b64": (U64, (U64,), lambda x: x, None),
    "s_not_b32": (U32, (U32,), lambda x: ~x, nonzero),
    "s_not_b64": (U64, (U64,), lambda x: ~x, nonzero),
    "s_brev_b32": (U32, (U32,), bit_reverse, None),
    "s_brev_b64": (U64, (U64,), bit_reverse, None),
    "s_add_u32": (U32, (U32, U32), lambda x, y: x + y, lambda r, x, y: r < x),
    "s_sub_u32": (U32, (U32, U32), lambda x, y: x - y, lambda r, x, y: x < y),
    "s_add_i32": (
        I32, (I32, I32), lambda x, y: x + y, lambda r, x, y: ((x ^ r) & (y ^ r)) < 0,
    ),
    "s_sub_i32": (
        I32, (I32, I32), lambda x, y: x - y, lambda r, x, y: ((x ^ y) & (x ^ r)) < 0,
    ),
    "s_mul_i32": (U32, (U32, U32), lambda x, y: x * y, None),
    "s_mul_hi_u32": (U32, (U32, U32), multiply_high, None),
    "s_mul_hi_i32": (I32, (I32, I32), multiply_high, None),
    "s_absdiff_i32": (I32, (I32, I32), _absdiff, nonzero),
    "s_abs_i32": (I32, (I32,), np.abs, nonzero),
    "s_min_i32": (I32, (I32, I32), np.minimum, lambda r, x, y: x < y),
    "s_max_i32": (I32, (I32, I32), np.maximum, lambda r, x, y: x >= y),
    "s_min_u32": (U32, (U32, U32), np.minimum, lambda r, x, y: x < y),
    "s_max_u32": (U32, (U32, U32), np.maximum, lambda r, x, y: x >= y),
    "s_lshl_b32": (U32, (U32, U32), shift_left, nonzero),
    "s_lshl_b64": (U64, (U64, U32), shift_left, nonzero),
    "s_lshr_b32": (U32, (U32, U32), shift_right, nonzero),
    "s_lshr_b64": (U64, (U64, U32), shift_right, nonzero),
    "s_ashr_i32": (I32, (I32, U32), shift_right, nonzero),
    "s_ashr_i64": (I64, (I64, U32), shift_right, nonzero),
    "s_bfm_b32": (U32, (U32, U32), bit_mask, None),
    "s_bfm_b64": (U64, (U64, U64), bit_mask, None),
    "s_sext_i32_i8": (I32, (U32,), lambda x: x.astype(np.int8).astype(np.int32), None),
    "s_sext_i32_i16": (I32, (U32,), lambda x: x.astype(np.int16).astype(np.int32), None),
    "s_pack_ll_b32_b16": (
        U32, (U32, U32), lambda x, y: x & np.uint32(0xFFFF) | y << np.uint32(16), None,
    ),
    "s_pack_lh_b32_b16": (
        U32, (U32, U32), lambda x, y: x & np.uint32(0xFFFF) | y & np.uint32(0xFFFF0000), None,
    ),
    "s_pack_hh_b32_b16": (
        U32, (U32, U32), lambda x, y: x >> np.uint32(16) | y & np.uint32(0xFFFF0000), None,
    ),
    "s_pack_hl_b32_b16": (
        U32, (U32, U32), lambda x, y: x >> np.uint32(16) | y << np.uint32(16), None,
    ),
    "s_bcnt0_i32_b32": (U32, (U32,), lambda x: bit_count(~x), nonzero),
    "s_bcnt0_i32_b64": (U32, (U64,), lambda x: bit_count(~x), nonzero),
    "s_bcnt1_i32_b32": (U32, (U32,), bit_count, nonzero),
    "s_bcnt1_i32_b64": (U32, (U64,), bit_count, nonzero),
    "s_ctz_i32_b32": (I32, (U32,), count_trailing_zeros, None),
    "s_ctz_i32_b64": (I32, (U64,), count_trailing_zeros, None),
    "s_ff1_i32_b32": (I32, (U32,), count_trailing_zeros, None),
    "s_ff1_i32_b64": (I32, (U64,), count_trailing_zeros, None),
    "s_ff0_i32_b32": (I32, (U32,), lambda x: count_trailing_zeros(~x), None),
    "s_ff0_i32_b64": (I32, (U64,), lambda x: count_trailing_zeros(~x), None),
    "s_clz_i32_u32": (I32, (U32,), count_leading_zeros, None),
    "s_clz_i32_u64": (I32, (U64,), count_leading_zeros, None),
    "s_flbit_i32_b32": (I32, (U32,), count_leading_zeros, None),
    "s_flbit_i32_b64": (I32, (U64,), count_leading_zeros, None),
    "s_cls_i32": (I32, (I32,), count_leading_sign, None),
    "s_cls_i32_i64": (I32, (I64,), count_leading_sign, None),
    "s_flbit_i32": (I32, (I32,), count_leading_sign, None),
    "s_flbit_i32_i64": (I32, (I64,), count_leading_sign, None),
    "s_quadmask_b32": (U32, (U32,), quad_mask, nonzero),
    "s_quadmask_b64": (U64, (U64,), quad_mask, nonzero),
    "s_wqm_b32": (U32, (U32,), whole_quad, nonzero),
    "s_wqm_b64": (U64, (U64,), whole_quad, nonzero),
    "s_bfe_u32": (U32, (U32, U32), bit_field, nonzero),
    "s_bfe_i32": (I32, (I32, U32), bit_field, nonzero),
    "s_bfe_u64": (U64, (U64, U32), bit_field, nonzero),
    "s_bfe_i64": (I64, (I64, U32), bit_field, nonzero),
    # gfx12
    "s_add_nc_u64": (U64, (U64, U64), lambda x, y: x + y, None),
    "s_sub_nc_u64": (U64, (U64, U64), lambda x, y: x - y, None),
    "s_mul_u64": (U64, (U64, U64), lambda x, y: x * y, None),
}  # fmt: skip
# gfx12's names of the same operations
for _new, _old in {
    "s_add_co_u32": "s_add_u32",
    "s_sub_co_u32": "s_sub_u32",
    "s_add_co_i32": "s_add_i32",
    "s_sub_co_i32": "s_sub_i32",
}.items():
    TABLE[_new] = TABLE[_old]
for _shift in range(1, 5):
    TABLE[f"s_lshl{_shift}_add_u32"] = (U32, (U32, U32), *_lshl_add(_shift))
for _mnemonic, _row in TABLE.items():
    register(_mnemonic, _simple(*_row))


# Compares write SCC alone.

COMPARE: dict[str, Function] = {
    "eq": np.equal,
    "lg": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def _compare(f: Function, kind: Kind) -> Any:
    def build(i: Instruction, arch: Arch) -> Step:
        x, y = scalar_source(i, 0, kind), scalar_source(i, 1, kind)
        return lambda m: m.set_scc(f(x(m), y(m)))

    return build


for _name, _f in COMPARE.items():
    for _kind in (I32, U32):
        register(f"s_cmp_{_name}_{_kind.name.lower()}", _compare(_f, _kind))
for _name in ("eq", "lg"):
    register(f"s_cmp_{_name}_u64", _compare(COMPARE[_name], U64))


def immediate(i: Instruction, position: int, signed: bool) -> int:
    """A 16-bit immediate, which the disassembler writes in hexadecimal or as a signed number."""
    value = int(i.operands[position].value) & 0xFFFF
    return value - (1 << 16) if signed and value >> 15 else value


def _compare_immediate(f: Function, kind: Kind) -> Any:
    def build(i: Instruction, arch: Arch) -> Step:
        x, y = scalar_source(i, 0, kind), kind.dtype(immediate(i, 1, kind.is_signed))
        return lambda m: m.set_scc(f(x(m), y))

    return build


for _name, _f in COMPARE.items():
    for _kind in (I32, U32):
        register(f"s_cmpk_{_name}_{_kind.name.lower()}", _compare_immediate(_f, _kind))


@instruction("s_bitcmp0_b32", "s_bitcmp1_b32", "s_bitcmp0_b64", "s_bitcmp1_b64")
def _bit_compare(i: Instruction, arch: Arch) -> Step:
    kind = U64 if i.mnemonic.endswith("64") else U32
    x, n = scalar_source(i, 0, kind), scalar_source(i, 1, U32)
    wanted = "cmp1" in i.mnemonic
    return lambda m: m.set_scc((shift_right(x(m), n(m)) & kind.dtype(1) != 0) == wanted)


@instruction("s_bitset0_b32", "s_bitset1_b32", "s_bitset0_b64", "s_bitset1_b64")
def _bit_set(i: Instruction, arch: Arch) -> Step:
    kind = U64 if i.mnemonic.endswith("64") else U32
    old, n = scalar_source(i, 0, kind), scalar_source(i, 1, U32)
    write, put = scalar_target(i, kind), "set1" in i.mnemonic

    def step(m: Machine) -> None:
        bit = shift_left(np.ones(m.count, kind.dtype), n(m))
        write(m, old(m) | bit if put else old(m) & ~bit)

    return step


@instruction("s_addc_u32", "s_subb_u32", "s_add_co_ci_u32", "s_sub_co_ci_u32")
def _with_carry(i: Instruction, arch: Arch) -> Step:
    x, y, write = scalar_source(i, 1, U32), scalar_source(i, 2, U32), scalar_target(i, U32)
    subtract = "sub" in i.mnemonic

    def step(m: Machine) -> None:
        a, b = x(m).astype(np.int64), y(m).astype(np.int64)
        wide = a - b - m.get_scc() if subtract else a + b + m.get_scc()
        m.set_scc(wide >> 32 != 0)
        write(m, wide.astype(np.uint32))

    return step


@instruction("s_cselect_b32", "s_cselect_b64")
def _select(i: Instruction, arch: Arch) -> Step:
    kind = U64 if i.mnemonic.endswith("64") else U32
    x, y, write = scalar_source(i, 1, kind), scalar_source(i, 2, kind), scalar_target(i, kind)
    return lambda m: write(m, np.where(m.get_scc(), x(m), y(m)))


@instruction("s_cmov_b32", "s_cmov_b64")
def _move_if(i: Instruction, arch: Arch) -> Step:
    kind = U64 if i.mnemonic.endswith("64") else U32
    old, x, write = scalar_source(i, 0, kind), scalar_source(i, 1, kind), scalar_target(i, kind)
    return lambda m: write(m, np.where(m.get_scc(), x(m), old(m)))


@instruction("s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_mulk_i32", "s_addk_co_i32")
def _immediate(i: Instruction, arch: Arch) -> Step:
    value = np.uint32(immediate(i, 1, signed=True) & 0xFFFFFFFF)
    old, write = scalar_source(i, 0, U32), scalar_target(i, U32)

    def add(m: Machine) -> None:
        x = old(m)
        out = x + value
        m.set_scc(((x ^ out) & (value ^ out)) >> np.uint32(31) != 0)
        write(m, out)

    if i.mnemonic.startswith("s_addk"):
        return add
    if i.mnemonic == "s_mulk_i32":
        return lambda m: write(m, old(m) * value)
    if i.mnemonic == "s_cmovk_i32":
        return lambda m: write(m, np.where(m.get_scc(), value, old(m)))
    return lambda m: write(m, np.full(m.count, value))


# EXEC: the old mask is saved, the new one computed from source and old mask.

SAVE_EXEC: dict[str, Function] = {
    "and": lambda x, e: x & e,
    "or": lambda x, e: x | e,
    "xor": lambda x, e: x ^ e,
    "nand": lambda x, e: ~(x & e),
    "nor": lambda x, e: ~(x | e),
    "xnor": lambda x, e: ~(x ^ e),
    "and_not1": lambda x, e: x & ~e,
    "andn2": lambda x, e: x & ~e,
    "or_not1": lambda x, e: x | ~e,
    "orn2": lambda x, e: x | ~e,
    "and_not0": lambda x, e: ~x & e,
    "andn1": lambda x, e: ~x & e,
    "or_not0": lambda x, e: ~x | e,
    "orn1": lambda x, e: ~x | e,
}


def _write_exec(m: Machine, value: Array, kind: Kind) -> None:
    low, high = words(value) if kind is U64 else (value, None)
    m.S[EXEC][m.g] = low
    if high is not None:
        m.S[EXEC + 1][m.g] = high
    m.refresh_mask()


def _save_exec(f: Function, kind: Kind, writes_new: bool) -> Any:
    def build(i: Instruction, arch: Arch) -> Step:
        x, write = scalar_source(i, 1, kind), scalar_target(i, kind)
        old_exec = raw_scalar(i, _EXEC_OPERAND, kind)

        def step(m: Machine) -> None:
            old = old_exec(m).copy()
            new = f(x(m), old)
            write(m, new if writes_new else old)
            _write_exec(m, new, kind)
            m.set_scc(new != 0)

        return step

    return build


_EXEC_OPERAND = operand("exec")
for _name, _f in SAVE_EXEC.items():
    for _kind in (U32, U64):
        register(f"s_{_name}_saveexec_b{_kind.bits}", _save_exec(_f, _kind, writes_new=False))
        if _name in ("and_not0", "and_not1", "andn1", "andn2"):
            register(f"s_{_name}_wrexec_b{_kind.bits}", _save_exec(_f, _kind, writes_new=True))


@instruction("s_bitreplicate_b64_b32")
def _replicate(i: Instruction, arch: Arch) -> Step:
    x, write = scalar_source(i, 1, U32), scalar_target(i, U64)

    def step(m: Machine) -> None:
        octets = np.ascontiguousarray(x(m)).view(np.uint8).reshape(-1, 4)
        bits = np.repeat(np.unpackbits(octets, axis=1, bitorder="little"), 2, axis=1)
        write(m, np.packbits(bits, axis=1, bitorder="little").view(np.uint64)[:, 0])

    return step
