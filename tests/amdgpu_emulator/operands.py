"""Reading and writing operands: closures made once per instruction, typed and with modifiers.

read = source(i, 1, F32)         # m -> float32 array that broadcasts to [count, lanes]
write = target(i, F32)           # (m, value) -> None, applies clamp, mul, div
read = scalar_source(i, 1, U32)  # m -> uint32[count]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .decode import NULL, Instruction, Operand
from .state import ACCUMULATION, Machine

Array = np.ndarray[Any, Any]
Read = Callable[[Machine], Array]
Write = Callable[[Machine, Array], None]


@dataclass(frozen=True)
class Kind:
    """How bits are seen: F32 is arithmetic (denormals may be flushed), B32 raw bits."""

    name: str
    dtype: type[Any]
    bits: int

    @property
    def is_float(self) -> bool:
        return self.name[0] == "F"

    @property
    def is_signed(self) -> bool:
        return self.name[0] == "I"


F16, F32, F64 = (
    Kind("F16", np.float16, 16),
    Kind("F32", np.float32, 32),
    Kind("F64", np.float64, 64),
)
U16, U32, U64 = Kind("U16", np.uint16, 16), Kind("U32", np.uint32, 32), Kind("U64", np.uint64, 64)
I16, I32, I64 = Kind("I16", np.int16, 16), Kind("I32", np.int32, 32), Kind("I64", np.int64, 64)
B16, B32, B64 = Kind("B16", np.uint16, 16), Kind("B32", np.uint32, 32), Kind("B64", np.uint64, 64)
KINDS = {k.name: k for k in (F16, F32, F64, U16, U32, U64, I16, I32, I64, B16, B32, B64)}
RAW = {16: np.uint16, 32: np.uint32, 64: np.uint64}

OUTPUT_MODIFIERS = frozenset(("clamp", "mul", "div", "op_sel"))


def constant_bits(o: Operand, kind: Kind) -> int:
    """The bits of an inline constant or literal, seen as `kind`."""
    all_bits = (1 << kind.bits) - 1
    if o.kind == "int":
        return int(o.value) & all_bits
    if o.kind == "literal":
        value = int(o.value)
        if kind.bits == 64 and kind.is_float:
            return value << 32
        if kind.bits == 64 and kind.is_signed and value >> 31 & 1 and value >> 32 == 0:
            value -= 1 << 32
        return value & all_bits
    value = float(o.value)
    if math.isclose(value, 0.15915494309189532, rel_tol=1e-6):
        return {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}[kind.bits]
    dtype = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bits]
    return int(np.array(value, dtype).view(RAW[kind.bits]))


def vector_index(o: Operand) -> int:
    """The number in `Machine.V` of a vector or accumulation register."""
    return o.index + (ACCUMULATION if o.kind == "a" else 0)


_SPECIAL_NAMES = ("src_shared_base", "src_shared_limit", "src_private_base", "src_private_limit")
SHARED_APERTURE, PRIVATE_APERTURE = 0x0001_0000, 0x0002_0000  # upper words of flat addresses


def _named(i: Instruction, o: Operand, kind: Kind) -> Callable[[Machine], Array]:
    """Scalar sources that are no register: uint of `kind.bits`, shape [count]."""
    raw = RAW[kind.bits]
    aperture = {"src_shared_base": SHARED_APERTURE, "src_private_base": PRIVATE_APERTURE}
    if o.text in aperture:
        value = aperture[o.text] << 32 if kind.bits == 64 else 0
        return lambda m: np.full(m.count, value, raw)
    if o.text in ("src_scc", "scc"):
        return lambda m: m.get_scc().astype(raw)
    raise i.unknown(f"operand {o.text}")


def raw_scalar(i: Instruction, o: Operand, kind: Kind) -> Read:
    """Bits of a scalar operand: uint16/32/64 of shape [count]."""
    raw = RAW[kind.bits]
    if o.kind == "s":
        n = o.index
        if kind.bits == 32:
            return lambda m: m.scalar(n)
        if kind.bits == 16:
            shift = np.uint32(16 if o.half == "h" else 0)
            return lambda m: (m.scalar(n) >> shift).astype(np.uint16)
        if n == NULL:
            return lambda m: np.zeros(m.count, np.uint64)
        return lambda m: join(m.scalar(n), m.scalar(n + 1))
    if o.kind in ("int", "float", "literal"):
        bits = constant_bits(o, kind)
        return lambda m: np.full(m.count, bits, raw)
    return _named(i, o, kind)


def join(low: Array, high: Array) -> Array:
    """uint64 from two uint32 arrays of one shape."""
    out = np.empty((*low.shape, 2), np.uint32)
    out[..., 0] = low
    out[..., 1] = high
    return out.view(np.uint64)[..., 0]


def words(value: Array) -> tuple[Array, Array]:
    """(low, high) uint32 of an array of 64-bit elements."""
    pairs = np.ascontiguousarray(value).view(np.uint32).reshape(*np.shape(value), 2)
    return pairs[..., 0], pairs[..., 1]


def raw_source(i: Instruction, o: Operand, kind: Kind) -> Read:
    """Bits of any operand as uint16/32/64 that broadcast to [count, lanes]; no sign modifiers."""
    if o.is_vector:
        n = vector_index(o)
        if kind.bits == 32:
            return lambda m: m.read(n)
        if kind.bits == 64:
            return lambda m: join(m.read(n), m.read(n + 1))
        if o.half == "h":
            return lambda m: (m.read(n) >> np.uint32(16)).astype(np.uint16)
        return lambda m: m.read(n).astype(np.uint16)
    if o.kind in ("int", "float", "literal"):
        fixed = np.array([[constant_bits(o, kind)]], RAW[kind.bits])
        return lambda m: fixed
    inner = raw_scalar(i, o, kind)
    return lambda m: inner(m)[:, None]


def with_signs(read: Read, o: Operand, kind: Kind) -> Read:
    """abs, then neg, on the sign bit."""
    if not (o.neg or o.abs):
        return read
    raw = RAW[kind.bits]
    sign = raw(1 << kind.bits - 1)
    keep = raw((1 << kind.bits - 1) - 1)
    if o.abs and o.neg:
        return lambda m: read(m) | sign
    if o.abs:
        return lambda m: read(m) & keep
    return lambda m: read(m) ^ sign


def half_of(i: Instruction, position: int, o: Operand) -> Operand:
    """The operand with the half that `op_sel` (not of packed instructions) selects for it.

    Bit k of op_sel belongs to source k, the last one to the destination.
    """
    if o.half is not None or "op_sel" not in i.modifiers:
        return o
    bits = i.bits("op_sel", (0,) * 4)
    last = len(str(i.modifiers["op_sel"]).split(",")) - 1
    chosen = bits[last] if position == 0 else bits[position - 1]
    return Operand(
        o.kind, o.text, o.index, o.count, o.value, "h" if chosen else "l", o.neg, o.abs, o.sext
    )


def flush(value: Array) -> Array:
    """Denormals to zeros of their sign."""
    tiny = np.finfo(value.dtype).smallest_normal
    return np.where(np.abs(value) < tiny, np.copysign(value.dtype.type(0), value), value)


def _flushed_inputs(read: Read, kind: Kind) -> Read:
    """Denormal inputs become zero where MODE says so."""
    if kind.bits == 32:
        return lambda m: read(m) if m.mode.denormal_32 & 1 else flush(read(m))
    return lambda m: read(m) if m.mode.denormal_16_64 & 1 else flush(read(m))


def typed_source(i: Instruction, o: Operand, kind: Kind) -> Read:
    """An operand as `kind`, with its own modifiers."""
    raw = with_signs(raw_source(i, o, kind), o, kind)
    if kind.name[0] in "UB":
        return raw
    dtype = kind.dtype
    if not kind.is_float:
        return lambda m: raw(m).view(dtype)
    return _flushed_inputs(lambda m: raw(m).view(dtype), kind)


def source(i: Instruction, position: int, kind: Kind) -> Read:
    """Operand `position` (0 is the destination) as `kind`, broadcastable to [count, lanes]."""
    o = i.operands[position]
    return typed_source(i, half_of(i, position, o) if kind.bits == 16 else o, kind)


def scalar_source(i: Instruction, position: int, kind: Kind) -> Read:
    """Operand `position` of a scalar instruction: [count] of `kind.dtype`."""
    o = i.operands[position]
    if o.is_vector:
        raise i.unknown(f"vector operand {o.text} of a scalar instruction")
    raw, dtype = raw_scalar(i, o, kind), kind.dtype
    if kind.name[0] == "U" and not (o.neg or o.abs):
        return raw
    return (
        with_signs(lambda m: raw(m).view(dtype), o, kind)
        if kind.name[0] == "U"
        else (lambda m: raw(m).view(dtype))
    )


def lane_mask(i: Instruction, o: Operand) -> Read:
    """A scalar operand as a mask of lanes: bool[count, lanes]."""
    if o.kind == "s":
        n = o.index
        return lambda m: m.lane_bits(n)
    bits = constant_bits(o, U64)
    return lambda m: np.broadcast_to(
        np.array([bits >> k & 1 for k in range(m.lanes)], np.bool_), (m.count, m.lanes)
    )


def mask_target(i: Instruction, o: Operand) -> Write:
    """Write bool broadcastable to [count, lanes]; inactive lanes get 0, as compares do."""
    if o.kind != "s":
        raise i.unknown(f"{o.text} cannot hold a mask of lanes")
    n = o.index
    return lambda m, value: m.write_lane_bits(n, value & m.mask)


def raw_target(i: Instruction, o: Operand, kind: Kind, zero_upper: bool = False) -> Write:
    """Write bits (uint16/32/64). 16 bits leave the other half alone unless `zero_upper`."""
    if not o.is_vector:
        raise i.unknown(f"destination {o.text} is no vector register")
    n = vector_index(o)
    if kind.bits == 32:
        return lambda m, value: m.write(n, value)
    if kind.bits == 64:

        def write_pair(m: Machine, value: Array) -> None:
            low, high = words(value)
            m.write(n, low)
            m.write(n + 1, high)

        return write_pair
    if zero_upper:
        return lambda m, value: m.write(n, value.astype(np.uint32))
    high, low_bits = o.half == "h", np.uint32(0xFFFF)

    def write_half(m: Machine, value: Array) -> None:
        old, new = m.read(n), value.astype(np.uint32)
        m.write(n, old & low_bits | new << np.uint32(16) if high else old & ~low_bits | new)

    return write_half


def clamped(value: Array) -> Array:
    """[0, 1], NaN to 0 (DX10_CLAMP is set on all that LLVM compiles)."""
    one, zero = value.dtype.type(1), value.dtype.type(0)
    return np.where(value > zero, np.minimum(value, one), zero)


def _modified(i: Instruction, kind: Kind) -> Callable[[Array], Array] | None:
    """Output modifiers of a float result: scaling, then clamping."""
    scale = {"2": 2.0, "4": 4.0}.get(str(i.modifiers.get("mul")), 1.0)
    scale *= 0.5 if "div" in i.modifiers else 1.0
    clamp = "clamp" in i.modifiers
    if (clamp or scale != 1.0) and not kind.is_float:
        raise i.unknown("clamp or scaling of a result that is not float")
    if scale == 1.0:
        return clamped if clamp else None
    factor = kind.dtype(scale)
    return lambda v: clamped(v * factor) if clamp else v * factor


def target(
    i: Instruction, kind: Kind, zero_upper: bool = False, any_rounding: bool = False
) -> Write:
    """The destination, operand 0: takes an array of `kind.dtype`.

    `any_rounding`: the caller rounds by MODE; others are known for nearest even only.
    """
    o = half_of(i, 0, i.operands[0]) if kind.bits == 16 else i.operands[0]
    write, raw = raw_target(i, o, kind, zero_upper), RAW[kind.bits]
    if not kind.is_float:
        _modified(i, kind)
        return lambda m, value: write(m, value.view(raw))
    change = _modified(i, kind)

    def write_float(m: Machine, value: Array) -> None:
        mode = m.mode
        if (mode.round_32 or mode.round_16_64) and not any_rounding:
            raise i.unknown("it rounds to nearest even only")
        if change is not None:
            value = change(value)
        lives = mode.denormal_32 if kind.bits == 32 else mode.denormal_16_64
        if not lives & 2:
            value = flush(value)
        write(m, np.ascontiguousarray(value).view(raw))

    return write_float


def scalar_target(i: Instruction, kind: Kind) -> Write:
    """Operand 0 of a scalar instruction: takes [count] of `kind.dtype`."""
    o = i.operands[0]
    if o.kind != "s":
        raise i.unknown(f"destination {o.text} is no scalar register")
    n, raw = o.index, RAW[kind.bits]
    if kind.bits <= 32:
        return lambda m, value: m.write_scalar(n, value.view(raw))

    def write_pair(m: Machine, value: Array) -> None:
        low, high = words(value)
        if n != NULL:
            m.write_scalar(n, low)
            m.write_scalar(n + 1, high)

    return write_pair
