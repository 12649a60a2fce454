"""Vector integer and bit instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decode import VCC, Instruction, Operand
from .integers import (
    bit_count,
    bit_mask,
    bit_reverse,
    count_leading_sign,
    count_leading_zeros,
    count_trailing_zeros,
    extract,
    multiply_high,
    shift_left,
    shift_right,
)
from .operands import (
    B16,
    B32,
    I64,
    U32,
    U64,
    lane_mask,
    mask_target,
    source,
    target,
    vector_index,
)
from .registry import Step, instruction, register
from .state import Arch, Machine
from .valu import kinds, vector

Array = np.ndarray[Any, Any]
U = np.uint32


def _three(names: str, kind: str, f: Any) -> None:
    vector(names, f"{kind} {kind} {kind} {kind}", f)


def _two(names: str, kind: str, f: Any) -> None:
    vector(names, f"{kind} {kind} {kind}", f)


vector("v_mov_b32", "B32 B32", lambda x: x)
vector("v_mov_b16", "B16 B16", lambda x: x)
vector("v_mov_b64", "B64 B64", lambda x: x)
for _bits in (16, 32):
    vector(f"v_not_b{_bits}", f"U{_bits} U{_bits}", lambda x: ~x)
    _two(f"v_and_b{_bits}", f"U{_bits}", lambda x, y: x & y)
    _two(f"v_or_b{_bits}", f"U{_bits}", lambda x, y: x | y)
    _two(f"v_xor_b{_bits}", f"U{_bits}", lambda x, y: x ^ y)
    # the reversed shifts have the count first
    vector(f"v_lshlrev_b{_bits}", f"U{_bits} U{_bits} U{_bits}", lambda n, x: shift_left(x, n))
    vector(f"v_lshrrev_b{_bits}", f"U{_bits} U{_bits} U{_bits}", lambda n, x: shift_right(x, n))
    vector(f"v_ashrrev_i{_bits}", f"I{_bits} U{_bits} I{_bits}", lambda n, x: shift_right(x, n))
_two("v_xnor_b32", "U32", lambda x, y: ~(x ^ y))
vector("v_lshlrev_b64", "U64 U32 U64", lambda n, x: shift_left(x, n))
vector("v_lshrrev_b64", "U64 U32 U64", lambda n, x: shift_right(x, n))
vector("v_ashrrev_i64", "I64 U32 I64", lambda n, x: shift_right(x, n))

_three("v_and_or_b32", "U32", lambda x, y, z: x & y | z)
_three("v_or3_b32", "U32", lambda x, y, z: x | y | z)
_three("v_xor3_b32", "U32", lambda x, y, z: x ^ y ^ z)
_three("v_xad_u32", "U32", lambda x, y, z: (x ^ y) + z)
_three("v_add3_u32", "U32", lambda x, y, z: x + y + z)
_three("v_lshl_or_b32", "U32", lambda x, y, z: shift_left(x, y) | z)
_three("v_lshl_add_u32", "U32", lambda x, y, z: shift_left(x, y) + z)
_three("v_add_lshl_u32", "U32", lambda x, y, z: shift_left(x + y, z))
vector("v_lshl_add_u64", "U64 U64 U32 U64", lambda x, y, z: shift_left(x, y) + z)
_three("v_bfi_b32", "U32", lambda x, y, z: x & y | ~x & z)
vector("v_bfe_u32", "U32 U32 U32 U32", lambda x, o, w: _extract(x, o, w))
vector("v_bfe_i32", "I32 I32 U32 U32", lambda x, o, w: _extract(x, o, w))
_two("v_bfm_b32", "U32", bit_mask)
vector("v_bfrev_b32", "U32 U32", bit_reverse)
vector("v_bcnt_u32_b32", "U32 U32 U32", lambda x, y: bit_count(x) + y)
vector("v_clz_i32_u32 v_ffbh_u32", "I32 U32", count_leading_zeros)
vector("v_ctz_i32_b32 v_ffbl_b32", "I32 U32", count_trailing_zeros)
vector("v_cls_i32 v_ffbh_i32", "I32 I32", count_leading_sign)


def _extract(x: Array, offset: Array, width: Array) -> Array:
    return extract(x, offset & U(31), width & U(31))


def _align(unit: int) -> Any:
    def f(x: Array, y: Array, n: Array) -> Array:
        wide = x.astype(np.uint64) << np.uint64(32) | y
        return (wide >> (n & U(32 // unit - 1)).astype(np.uint64) * np.uint64(unit)).astype(U)

    return f


_three("v_alignbit_b32", "U32", _align(1))
_three("v_alignbyte_b32", "U32", _align(8))


def _permute(x: Array, y: Array, select: Array) -> Array:
    """Each byte of `select` names a byte of y (0-3), of x (4-7), a sign (8-11), 0 (12) or 255."""
    x, y, select = np.broadcast_arrays(x, y, select)
    wide = x.astype(np.uint64) << np.uint64(32) | y
    out = np.zeros(wide.shape, U)
    for k in range(4):
        s = (select >> U(8 * k) & U(0xFF)).astype(np.uint64)
        byte = wide >> (s & np.uint64(7)) * np.uint64(8) & np.uint64(0xFF)
        # 8, 9: signs of the halves of y; 10, 11: of x
        sign = (wide >> ((s & np.uint64(3)) * np.uint64(16) + np.uint64(15)) & np.uint64(1)) * 255
        byte = np.where(s >= 8, np.where(s < 12, sign, np.where(s == 12, 0, 255)), byte)
        out |= byte.astype(U) << U(8 * k)
    return out


_three("v_perm_b32", "U32", _permute)

# arithmetic; the names without "nc" are gfx9's


def _saturating(i: Instruction, arch: Arch) -> Step:
    """Addition and subtraction; `clamp` saturates."""
    operation, _, _, kind_name = _ADDITIONS[i.mnemonic]
    (kind,) = kinds(kind_name)
    x, y = source(i, 1, kind), source(i, 2, kind)
    if operation == "subrev":
        x, y = y, x
    clamp = "clamp" in i.modifiers
    plain = i.__class__(
        i.address, i.size, i.mnemonic, i.suffix, i.operands,
        {k: v for k, v in i.modifiers.items() if k != "clamp"}, i.text,
    )  # fmt: skip
    write = target(plain, kind, arch.generation == 9 and kind.bits == 16)
    limits = np.iinfo(kind.dtype)

    def step(m: Machine) -> None:
        a, b = x(m), y(m)
        if not clamp:
            write(m, a + b if operation == "add" else a - b)
            return
        wide = a.astype(np.int64)
        wide = wide + b if operation == "add" else wide - b
        write(m, np.clip(wide, limits.min, limits.max).astype(kind.dtype))

    return step


_ADDITIONS: dict[str, tuple[str, bool, bool, str]] = {}
for _op in ("add", "sub", "subrev"):
    for _kind in ("u32", "i32", "u16", "i16"):
        for _name in (f"v_{_op}_nc_{_kind}", f"v_{_op}_{_kind}"):
            _ADDITIONS[_name] = _op, False, False, _kind.upper()
            register(_name, _saturating, {"clamp", "op_sel"})

_two("v_mul_lo_u32", "U32", lambda x, y: x * y)
_two("v_mul_lo_i32", "U32", lambda x, y: x * y)
_two("v_mul_hi_u32", "U32", multiply_high)
_two("v_mul_hi_i32", "I32", multiply_high)
_two("v_mul_lo_u16", "U16", lambda x, y: x * y)
_three("v_mad_u16", "U16", lambda x, y, z: x * y + z)
_three("v_mad_i16", "I16", lambda x, y, z: x * y + z)
vector("v_mad_u32_u16", "U32 U16 U16 U32", lambda x, y, z: x.astype(U) * y + z)
vector("v_mad_i32_i16", "I32 I16 I16 I32", lambda x, y, z: x.astype(np.int32) * y + z)


def _u24(x: Array) -> Array:
    return x & U(0xFFFFFF)


def _i24(x: Array) -> Array:
    return x << np.int32(8) >> np.int32(8)


_two("v_mul_u32_u24", "U32", lambda x, y: _u24(x) * _u24(y))
_two("v_mul_hi_u32_u24", "U32", lambda x, y: multiply_high(_u24(x), _u24(y)))
_two("v_mul_i32_i24", "I32", lambda x, y: _i24(x) * _i24(y))
_two("v_mul_hi_i32_i24", "I32", lambda x, y: multiply_high(_i24(x), _i24(y)))
_three("v_mad_u32_u24", "U32", lambda x, y, z: _u24(x) * _u24(y) + z)
_three("v_mad_i32_i24", "I32", lambda x, y, z: _i24(x) * _i24(y) + z)


def median(x: Array, y: Array, z: Array) -> Array:
    return np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))


for _kind in ("U16", "I16", "U32", "I32"):
    _k = _kind.lower()
    _two(f"v_min_{_k}", _kind, np.minimum)
    _two(f"v_max_{_k}", _kind, np.maximum)
    _three(f"v_min3_{_k}", _kind, lambda x, y, z: np.minimum(np.minimum(x, y), z))
    _three(f"v_max3_{_k}", _kind, lambda x, y, z: np.maximum(np.maximum(x, y), z))
    _three(f"v_med3_{_k}", _kind, median)
    _three(f"v_minmax_{_k}", _kind, lambda x, y, z: np.maximum(np.minimum(x, y), z))
    _three(f"v_maxmin_{_k}", _kind, lambda x, y, z: np.minimum(np.maximum(x, y), z))

vector("v_sad_u32", "U32 U32 U32 U32", lambda x, y, z: np.maximum(x, y) - np.minimum(x, y) + z)


def _sad(bits: int) -> Any:
    def f(x: Array, y: Array, z: Array) -> Array:
        total, field = z, U((1 << bits) - 1)
        for at in range(0, 32, bits):
            a, b = x >> U(at) & field, y >> U(at) & field
            total = total + (np.maximum(a, b) - np.minimum(a, b))
        return total

    return f


_three("v_sad_u8", "U32", _sad(8))
_three("v_sad_u16", "U32", _sad(16))
vector("v_pack_b32_f16", "B32 B16 B16", lambda x, y: x.astype(U) | y.astype(U) << U(16))


@instruction("v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32")
def _multiply_add_wide(i: Instruction, arch: Arch) -> Step:
    """destination pair, carry mask, x, y, addend pair."""
    signed = "i64" in i.mnemonic
    kind, narrow = (I64, np.int32) if signed else (U64, np.uint32)
    x, y, z = source(i, 2, U32), source(i, 3, U32), source(i, 4, kind)
    write, carry = target(i, kind), mask_target(i, i.operands[1])

    def step(m: Machine) -> None:
        addend = z(m)
        product = x(m).view(narrow).astype(kind.dtype) * y(m).view(narrow).astype(kind.dtype)
        out = product + addend
        over = ((product ^ out) & (addend ^ out)) < 0 if signed else out < addend
        write(m, out)
        carry(m, over)

    return step


@instruction("v_cndmask_b32", "v_cndmask_b16", modifiers=("op_sel",))
def _select(i: Instruction, arch: Arch) -> Step:
    """destination, value if 0, value if 1, mask (VCC where none is written)."""
    kind = B16 if i.mnemonic.endswith("16") else B32
    x, y, write = source(i, 1, kind), source(i, 2, kind), target(i, kind)
    mask = lane_mask(i, i.operands[3] if len(i.operands) > 3 else Operand("s", "vcc", VCC, 2))
    return lambda m: write(m, np.where(mask(m), y(m), x(m)))


@instruction("v_swap_b32")
def _swap(i: Instruction, arch: Arch) -> Step:
    a, b = vector_index(i.operands[0]), vector_index(i.operands[1])

    def step(m: Machine) -> None:
        x, y = m.read(a).copy(), m.read(b).copy()
        m.write(a, y)
        m.write(b, x)

    return step


@instruction("v_swap_b16")
def _swap_halves(i: Instruction, arch: Arch) -> Step:
    x, y, write = source(i, 0, B16), source(i, 1, B16), target(i, B16)
    other = target(i.with_operands(i.operands[1]), B16)

    def step(m: Machine) -> None:
        a, b = x(m).copy(), y(m).copy()
        write(m, b)
        other(m, a)

    return step
