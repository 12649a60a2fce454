"""Conversions and bit casts, defined for every input.

Every conversion from or to an 8- or 16-bit type passes through 32 bits, so that a kernel which only
loads, converts and stores narrow values needs no narrow arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import DType, element_of, f16, f32, f64, lanes_of
from .emitter import Emitter
from .memory import bf16_from_word, bf16_word, bool_word
from .opcodes import Glsl
from .opcodes import Op as S

_EXACT = (f16, f32)  # one instruction converts between them


def round_bf16(e: Emitter, x: int, lanes: int) -> int:
    """An f32 rounded to the nearest bf16, ties to even; a NaN stays one."""
    t = e.ints(32, lanes)
    word = e.ins(S.BITCAST, t, x)
    upper = e.ins(S.SHIFT_RIGHT_LOGICAL, t, word, e.int_const(16, 32, lanes))
    odd = e.ins(S.BITWISE_AND, t, upper, e.int_const(1, 32, lanes))
    half = e.ins(S.I_ADD, t, odd, e.int_const(0x7FFF, 32, lanes))
    rounded = e.ins(S.I_ADD, t, word, half)
    kept = e.ins(S.BITWISE_AND, t, rounded, e.int_const(0xFFFF0000, 32, lanes))
    magnitude = e.ins(S.BITWISE_AND, t, word, e.int_const(0x7FFFFFFF, 32, lanes))
    infinity = e.int_const(0x7F800000, 32, lanes)
    nan = e.ins(S.U_GREATER_THAN, e.bools(lanes), magnitude, infinity)
    result = e.ins(S.SELECT, t, nan, e.int_const(0x7FC00000, 32, lanes), kept)
    return e.ins(S.BITCAST, e.floats(32, lanes), result)


def convert(e: Emitter, op: Op) -> int:
    """`convert` as meaning.convert defines it."""
    if op.attrs:
        names = ", ".join(name for name, _ in op.attrs)
        raise e.fail(f"convert has the attribute {names}, which this target does not know")
    source, target = element_of(op.operands[0].type), element_of(op.results[0].type)
    lanes, x = lanes_of(op.results[0].type), e.use(op.operands[0])
    if source == target:
        return x
    if source.is_bool:
        return _from_word(e, bool_word(e, x, lanes), target, lanes)
    if target.is_bool:
        return _to_bool(e, x, source, lanes)
    if source.is_int:
        if target.is_int:
            if not source.is_signed and source.bits < 32:
                e.small.add(op.results[0].id)
            return _int_to_int(e, x, source, target, lanes)
        small = source.bits < 32 or op.operands[0].id in e.small
        return _int_to_float(e, x, source, target, lanes, small=small)
    if target.is_int:
        return _float_to_int(e, x, source, target, lanes)
    if source in _EXACT and target in _EXACT:
        return e.plain(op, S.F_CONVERT, e.floats(target.bits, lanes))
    return _float_to_float(e, x, source, target, lanes)


def _from_word(e: Emitter, word: int, target: DType, lanes: int) -> int:
    """0 or 1 as any number."""
    if target.is_int:
        return word if target.bits == 32 else e.ins(S.U_CONVERT, e.ints(target.bits, lanes), word)
    bits = 64 if target == f64 else 32
    real = e.ins(S.CONVERT_U_TO_F, e.floats(bits, lanes), word)
    return e.ins(S.F_CONVERT, e.floats(16, lanes), real) if target == f16 else real


def _to_bool(e: Emitter, x: int, source: DType, lanes: int) -> int:
    if source.is_float:
        bits = 32 if source.bits == 16 else source.bits
        wide = _widen_float(e, x, source, lanes)
        return e.ins(S.F_UNORD_NOT_EQUAL, e.bools(lanes), wide, e.float_const(0.0, bits, lanes))
    bits = max(source.bits, 32)
    wide = e.ins(S.U_CONVERT, e.ints(32, lanes), x) if source.bits < 32 else x
    return e.ins(S.I_NOT_EQUAL, e.bools(lanes), wide, e.int_const(0, bits, lanes))


def _int_to_int(e: Emitter, x: int, source: DType, target: DType, lanes: int) -> int:
    if source.bits == target.bits:
        return x
    if target.bits > source.bits:
        return e.widen(x, source, lanes, target.bits)
    return e.ins(S.U_CONVERT, e.ints(target.bits, lanes), x)


# integer to float


def _int_to_float(
    e: Emitter, x: int, source: DType, target: DType, lanes: int, *, small: bool
) -> int:
    if source.bits < 32:
        x = e.widen(x, source, lanes)
    if target.bits >= 32:
        real = e.floats(target.bits, lanes)
        if source.is_signed:
            return e.signed_to_float(real, x, max(source.bits, 32), lanes)
        if target == f32 and source.bits == 32 and not small:
            return _word_to_f32(e, x, lanes)
        return e.ins(S.CONVERT_U_TO_F, real, x)
    # To 16 bits: first an f32 rounded to odd, so that the second rounding is the only one.
    odd = _odd_f32(e, x, source, lanes)
    return _float_to_float(e, odd, f32, target, lanes)


def _word_to_f32(e: Emitter, x: int, lanes: int) -> int:
    """A u32 by its halves, rounded once: SwiftShader rounds values from 2**31 on wrongly."""
    t, real = e.ints(32, lanes), e.floats(32, lanes)
    upper = e.ins(S.SHIFT_RIGHT_LOGICAL, t, x, e.int_const(16, 32, lanes))
    lower = e.ins(S.BITWISE_AND, t, x, e.int_const(0xFFFF, 32, lanes))
    high, low = (e.ins(S.CONVERT_U_TO_F, real, half) for half in (upper, lower))
    scaled = e.ins(S.F_MUL, real, high, e.float_const(65536.0, 32, lanes))
    return e.ins(S.F_ADD, real, scaled, low)


def _odd_f32(e: Emitter, x: int, source: DType, lanes: int) -> int:
    bits = max(source.bits, 32)
    t, real = e.ints(bits, lanes), e.floats(32, lanes)
    if source.bits < 32:  # exact
        if source.is_signed:
            return e.signed_to_float(real, x, 32, lanes)
        return e.ins(S.CONVERT_U_TO_F, real, x)
    magnitude, negative = x, 0
    if source.is_signed:
        negative = e.negative(x, source, lanes)
        magnitude = e.ins(S.SELECT, t, negative, e.ins(S.S_NEGATE, t, x), x)
    # Each step leaves 24 significant bits with the last one sticky, below any 16-bit rounding bit.
    for top in range(24, bits, 8):
        magnitude = _sticky(e, magnitude, bits, 1 << top, top - 16, lanes)
    result = e.ins(S.CONVERT_U_TO_F, real, magnitude)
    if not source.is_signed:
        return result
    return e.ins(S.SELECT, real, negative, e.ins(S.F_NEGATE, real, result), result)


def _sticky(e: Emitter, x: int, bits: int, least: int, places: int, lanes: int) -> int:
    """`x` with its low `places` bits gathered into the next one, where x >= least."""
    t, flags = e.ints(bits, lanes), e.bools(lanes)
    zero = e.int_const(0, bits, lanes)
    low = e.ins(S.BITWISE_AND, t, x, e.int_const((1 << places) - 1, bits, lanes))
    some = e.ins(S.I_NOT_EQUAL, flags, low, zero)
    bit = e.ins(S.SELECT, t, some, e.int_const(1 << places, bits, lanes), zero)
    kept = e.ins(S.BITWISE_AND, t, x, e.int_const(-(1 << places), bits, lanes))
    gathered = e.ins(S.BITWISE_OR, t, kept, bit)
    big = e.ins(S.U_GREATER_THAN_EQUAL, flags, x, e.int_const(least, bits, lanes))
    return e.ins(S.SELECT, t, big, gathered, x)


# float to integer


def _widen_float(e: Emitter, x: int, source: DType, lanes: int) -> int:
    return e.ins(S.F_CONVERT, e.floats(32, lanes), x) if source == f16 else x


def _float_to_int(e: Emitter, x: int, source: DType, target: DType, lanes: int) -> int:
    """Truncated and saturated, NaN to 0; the plain instruction is undefined out of range."""
    bits = 64 if source == f64 else 32
    x = _widen_float(e, x, source, lanes)
    real, flags = e.floats(bits, lanes), e.bools(lanes)
    zero = e.float_const(0.0, bits, lanes)
    low, high = float(target.min), float(target.max + 1)
    above = e.ins(S.F_ORD_GREATER_THAN, flags, x, e.float_const(low, bits, lanes))
    below = e.ins(S.F_ORD_LESS_THAN, flags, x, e.float_const(high, bits, lanes))
    inside = e.ins(S.LOGICAL_AND, flags, above, below)
    safe = e.ins(S.SELECT, real, inside, x, zero)
    wide = max(target.bits, 32)
    t = e.ints(wide, lanes)
    if target.is_signed:
        result = e.float_to_signed(safe, wide, lanes)
    else:
        result = e.ins(S.CONVERT_F_TO_U, t, safe)
    over = e.ins(S.F_ORD_GREATER_THAN_EQUAL, flags, x, e.float_const(high, bits, lanes))
    result = e.ins(S.SELECT, t, over, e.int_const(target.max, wide, lanes), result)
    if target.is_signed:
        lowest = e.float_const(low, bits, lanes)
        under = e.ins(S.F_ORD_LESS_THAN_EQUAL, flags, x, lowest)
        result = e.ins(S.SELECT, t, under, e.int_const(target.min, wide, lanes), result)
    return result if wide == target.bits else e.ins(S.U_CONVERT, e.ints(target.bits, lanes), result)


# float to float


def _float_to_float(e: Emitter, x: int, source: DType, target: DType, lanes: int) -> int:
    if target.name == "bf16":
        if source == f64:
            x = _f64_to_odd_f32(e, x, lanes)
        return round_bf16(e, _widen_float(e, x, source, lanes), lanes)
    if target == f16:
        if source == f64:
            x = _f64_to_odd_f32(e, x, lanes)
        return e.ins(S.F_CONVERT, e.floats(16, lanes), x)
    if source.name == "bf16" and target == f32:
        return x
    return e.ins(S.F_CONVERT, e.floats(target.bits, lanes), x)


def _f64_to_odd_f32(e: Emitter, x: int, lanes: int) -> int:
    """An f32 next to each f64, odd where inexact, so that rounding it again rounds once."""
    t, flags = e.ints(32, lanes), e.bools(lanes)
    single, double = e.floats(32, lanes), e.floats(64, lanes)
    near = e.ins(S.F_CONVERT, single, x)
    back = e.ins(S.F_CONVERT, double, near)
    word = e.ins(S.BITCAST, t, near)
    inexact = e.ins(S.F_UNORD_NOT_EQUAL, flags, back, x)
    infinity = e.float_const(math.inf, 32, lanes)
    finite = e.ins(S.F_ORD_LESS_THAN, flags, e.glsl(single, Glsl.F_ABS, near), infinity)
    odd = e.ins(S.BITWISE_AND, t, word, e.int_const(1, 32, lanes))
    even = e.ins(S.I_EQUAL, flags, odd, e.int_const(0, 32, lanes))
    move = e.ins(S.LOGICAL_AND, flags, e.ins(S.LOGICAL_AND, flags, inexact, finite), even)
    sizes = (e.glsl(double, Glsl.F_ABS, v) for v in (x, back))
    away = e.ins(S.F_ORD_GREATER_THAN, flags, *sizes)
    step = e.ins(S.SELECT, t, away, e.int_const(1, 32, lanes), e.int_const(-1, 32, lanes))
    step = e.ins(S.SELECT, t, move, step, e.int_const(0, 32, lanes))
    return e.ins(S.BITCAST, single, e.ins(S.I_ADD, t, word, step))


# bits


def bitcast(e: Emitter, op: Op) -> int:
    x, source, target = e.use(op.operands[0]), op.operands[0].type, op.results[0].type
    if element_of(source).name == "bf16":
        lanes = lanes_of(source)
        x = e.ins(S.U_CONVERT, e.ints(16, lanes), bf16_word(e, x, lanes))
        from_type = e.ints(16, lanes)
    else:
        from_type = e.type(source)
    if element_of(target).name == "bf16":
        lanes = lanes_of(target)
        if from_type != e.ints(16, lanes):
            x = e.ins(S.BITCAST, e.ints(16, lanes), x)
        return bf16_from_word(e, e.ins(S.U_CONVERT, e.ints(32, lanes), x), lanes)
    to_type = e.type(target)
    if to_type == from_type:
        return x
    if element_of(source).name == "bf16":
        return e.ins(S.BITCAST, to_type, x)
    return e.plain(op, S.BITCAST, to_type)


LOWERINGS: dict[str, Callable[[Emitter, Op], int]] = {"convert": convert, "bitcast": bitcast}
