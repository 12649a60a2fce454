"""Conversions between integers and floats of 16, 32 and 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .decode import Instruction
from .operands import F16, KINDS, OUTPUT_MODIFIERS, Kind, source, target
from .registry import Build, Step, register
from .state import Arch, Mode
from .valu import vector

Array = np.ndarray[Any, Any]


def rounded(true: Array, dtype: type[Any], mode: int) -> Array:
    """float64 to f16 or f32 by MODE's rounding: nearest even, up, down, toward zero."""
    nearest = true.astype(dtype)
    if mode == 0:
        return nearest
    back = nearest.astype(np.float64)
    up, down = dtype(np.inf), dtype(-np.inf)
    toward_up = np.nextafter(nearest, up)
    toward_down = np.nextafter(nearest, down)
    high = np.where(back < true, toward_up, nearest)
    low = np.where(back > true, toward_down, nearest)
    chosen = {1: high, 2: low, 3: np.where(np.signbit(true), high, low)}[mode]
    # a zero of nextafter's has lost its sign
    return np.where(np.isnan(true), nearest, np.copysign(chosen, nearest))


def to_integer(x: Array, kind: Kind) -> Array:
    """Toward zero, saturating, NaN to 0."""
    limits = np.iinfo(kind.dtype)
    wide = np.where(x == x, np.trunc(x.astype(np.float64)), 0.0)
    return np.clip(wide, limits.min, limits.max).astype(np.int64).astype(kind.dtype)


def _narrowing(result: Kind, given: Kind, pick: Callable[[Mode], int]) -> Build:
    """A conversion to a float that rounds by MODE."""

    def build(i: Instruction, arch: Arch) -> Step:
        x = source(i, 1, given)
        zero = arch.generation == 9 and result is F16 and "op_sel" not in i.modifiers
        write = target(i, result, zero, any_rounding=True)
        return lambda m: write(m, rounded(x(m).astype(np.float64), result.dtype, pick(m.mode)))

    return build


def _round_32(mode: Mode) -> int:
    return mode.round_32


def _round_16_64(mode: Mode) -> int:
    return mode.round_16_64


for _result, _given, _pick in (
    ("F16", "F32", _round_16_64),
    ("F32", "F64", _round_32),
    ("F32", "I32", _round_32),
    ("F32", "U32", _round_32),
    ("F16", "I16", _round_16_64),
    ("F16", "U16", _round_16_64),
):
    register(
        f"v_cvt_{_result.lower()}_{_given.lower()}",
        _narrowing(KINDS[_result], KINDS[_given], _pick),
        OUTPUT_MODIFIERS,
    )
vector("v_cvt_f32_f16", "F32 F16", lambda x: x.astype(np.float32))
vector("v_cvt_f64_f32", "F64 F32", lambda x: x.astype(np.float64))
vector("v_cvt_f64_i32", "F64 I32", lambda x: x.astype(np.float64))
vector("v_cvt_f64_u32", "F64 U32", lambda x: x.astype(np.float64))


def _byte_of(k: int) -> Callable[[Array], Array]:
    return lambda x: (x >> np.uint32(8 * k) & np.uint32(255)).astype(np.float32)


for _byte in range(4):
    vector(f"v_cvt_f32_ubyte{_byte}", "F32 U32", _byte_of(_byte))


def _integers(before: Callable[[Array], Array], result: Kind) -> Callable[[Array], Array]:
    return lambda x: to_integer(before(x), result)


def _same(x: Array) -> Array:
    return x


def _clamped_integers(mnemonic: str, result: str, given: str, f: Callable[[Array], Array]) -> None:
    """Float to integer saturates anyway: `clamp` changes nothing."""
    inner = _plain(f, KINDS[result], KINDS[given])
    register(mnemonic, inner, ("clamp", "op_sel"))


def _plain(f: Callable[[Array], Array], result: Kind, given: Kind) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        x = source(i, 1, given)
        unclamped = {k: v for k, v in i.modifiers.items() if k != "clamp"}
        plain = Instruction(i.address, i.size, i.mnemonic, i.suffix, i.operands, unclamped, i.text)
        zero = arch.generation == 9 and result.bits == 16 and "op_sel" not in i.modifiers
        write = target(plain, result, zero)
        return lambda m: write(m, f(x(m)))

    return build


for _result, _given in (("I32", "F32"), ("U32", "F32"), ("I32", "F64"), ("U32", "F64"),
                        ("I16", "F16"), ("U16", "F16")):  # fmt: skip
    _clamped_integers(
        f"v_cvt_{_result.lower()}_{_given.lower()}", _result, _given,
        _integers(_same, KINDS[_result]),
    )  # fmt: skip
for _old, _new, _f in (
    ("rpi", "nearest", lambda x: np.floor(x + x.dtype.type(0.5))),
    ("flr", "floor", np.floor),
):
    for _name in (_old, _new):
        _clamped_integers(f"v_cvt_{_name}_i32_f32", "I32", "F32", _integers(_f, KINDS["I32"]))
vector("v_cvt_i32_i16", "I32 I16", lambda x: x.astype(np.int32))
vector("v_cvt_u32_u16", "U32 U16", lambda x: x.astype(np.uint32))


# Two results in one register


def _pack(low: Array, high: Array) -> Array:
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


def _two(mnemonics: str, given: str, f: Callable[[Array], Array]) -> None:
    """`f` makes 16 bits of each of two sources."""
    vector(mnemonics, f"B32 {given} {given}", lambda x, y: _pack(*np.broadcast_arrays(f(x), f(y))))


def _toward_zero(x: Array) -> Array:
    return rounded(x.astype(np.float64), np.float16, 3).view(np.uint16)


def _nearest(x: Array) -> Array:
    return rounded(x.astype(np.float64), np.float16, 0).view(np.uint16)


def _saturated(x: Array, low: int, high: int) -> Array:
    return np.clip(x.astype(np.int64), low, high).astype(np.uint16)


_two("v_cvt_pk_rtz_f16_f32 v_cvt_pkrtz_f16_f32", "F32", _toward_zero)
_two("v_cvt_pk_f16_f32", "F32", _nearest)
_two("v_cvt_pk_i16_i32", "I32", lambda x: _saturated(x, -(1 << 15), (1 << 15) - 1))
_two("v_cvt_pk_u16_u32", "U32", lambda x: _saturated(x, 0, (1 << 16) - 1))
_two("v_cvt_pk_i16_f32", "F32", lambda x: to_integer(x, KINDS["I16"]).view(np.uint16))
_two("v_cvt_pk_u16_f32", "F32", lambda x: to_integer(x, KINDS["U16"]))


def _byte_into(x: Array, position: Array, old: Array) -> Array:
    byte = np.clip(np.where(x == x, np.rint(x), 0), 0, 255).astype(np.uint32)
    shift = (position & np.uint32(3)) * np.uint32(8)
    return old & ~(np.uint32(255) << shift) | byte << shift


vector("v_cvt_pk_u8_f32", "U32 F32 U32 U32", _byte_into)


def _saturate_bytes(x: Array) -> Array:
    """Two signed 16-bit numbers to two unsigned bytes."""
    low = np.clip(x.astype(np.int16), 0, 255)
    high = np.clip((x >> np.uint32(16)).astype(np.int16), 0, 255)
    return (low | high << np.int16(8)).view(np.uint16)


vector("v_sat_pk_u8_i16", "B16 U32", _saturate_bytes)
