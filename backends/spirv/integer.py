"""Integer division, shifts, bit counting and wide products, defined for every input.

Vulkan offers the bit instructions for 32-bit operands only: narrower operands are widened, 64-bit
ones are split into halves.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import DType, element_of, lanes_of
from .emitter import Emitter
from .native import DOT4
from .opcodes import Cap, Glsl
from .opcodes import Op as S


class Ints:
    """Integer instructions of one width and number of lanes."""

    def __init__(self, e: Emitter, bits: int, lanes: int) -> None:
        self.e, self.bits, self.lanes = e, bits, lanes
        self.type, self.bools = e.ints(bits, lanes), e.bools(lanes)

    def const(self, value: int) -> int:
        return self.e.int_const(value, self.bits, self.lanes)

    def do(self, opcode: int, *operands: int) -> int:
        return self.e.ins(opcode, self.type, *operands)

    def test(self, opcode: int, *operands: int) -> int:
        return self.e.ins(opcode, self.bools, *operands)

    def select(self, condition: int, a: int, b: int) -> int:
        return self.do(S.SELECT, condition, a, b)

    def shift(self, opcode: int, a: int, places: int) -> int:
        return self.do(opcode, a, self.const(places))


def _ints(e: Emitter, op: Op) -> tuple[Ints, DType]:
    t = op.results[0].type
    dtype = element_of(t)
    return Ints(e, dtype.bits, lanes_of(t)), dtype


def _signed_constant(e: Emitter, op: Op, operand: int, dtype: DType) -> int | None:
    bits = e.constants.get(op.operands[operand].id)
    if bits is None:
        return None
    return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits


def divide(e: Emitter, op: Op) -> int:
    """floordiv and mod of 32 bits at most: x//0 = x, x%0 = 0, MIN//-1 = MIN."""
    n, dtype = _ints(e, op)
    if dtype.bits > 32:
        raise e.fail(f"{op.name} of {dtype} is not for drivers: legalize expands it")
    a, b = e.operands(op)
    if dtype.bits < 32:  # no device divides narrower numbers
        wide = Ints(e, 32, n.lanes)
        a, b = (e.widen(x, dtype, n.lanes) for x in (a, b))
        return n.do(S.U_CONVERT, _divide(wide, op, a, b, dtype))
    return _divide(n, op, a, b, dtype)


def _divide(n: Ints, op: Op, a: int, b: int, dtype: DType) -> int:
    e = n.e
    constant = _signed_constant(e, op, 1, dtype)
    zero, one = n.const(0), n.const(1)
    # llvmpipe knows the lanes, and gives 0 for a quotient by -1 of those that it knows.
    seen = dtype.is_signed and e.usage.lanes
    if constant is None and (seen or op.operands[1].id in e.divisors):
        b = e.hidden(b, n.lanes)
    if constant in (None, 0):
        unsafe = n.test(S.I_EQUAL, b, zero)
        if dtype.is_signed:
            least = n.test(S.I_EQUAL, a, n.const(dtype.min))
            wraps = n.test(S.LOGICAL_AND, least, n.test(S.I_EQUAL, b, n.const(-1)))
            unsafe = n.test(S.LOGICAL_OR, unsafe, wraps)
        b = n.select(unsafe, one, b)
    elif constant == -1 and dtype.is_signed:
        return n.do(S.S_NEGATE, a) if op.name == "floordiv" else zero
    if not dtype.is_signed:
        return n.do(S.U_DIV if op.name == "floordiv" else S.U_MOD, a, b)
    quotient = n.do(S.S_DIV, a, b)
    rest = n.do(S.I_SUB, a, n.do(S.I_MUL, quotient, b))
    apart = n.test(S.S_LESS_THAN, n.do(S.BITWISE_XOR, rest, b), zero)
    fix = n.test(S.LOGICAL_AND, apart, n.test(S.I_NOT_EQUAL, rest, zero))
    if op.name == "floordiv":
        return n.do(S.I_ADD, quotient, n.select(fix, n.const(-1), zero))
    return n.do(S.I_ADD, rest, n.select(fix, b, zero))


def shift(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    dtype = element_of(t)
    a, count = e.operands(op)
    if op.name == "shl":
        opcode = S.SHIFT_LEFT_LOGICAL
    else:
        opcode = S.SHIFT_RIGHT_ARITHMETIC if dtype.is_signed else S.SHIFT_RIGHT_LOGICAL
    constant = e.constants.get(op.operands[1].id)
    if constant is not None and 0 < constant < dtype.bits and dtype.bits >= 32:
        if opcode == S.SHIFT_RIGHT_LOGICAL:
            e.small.add(op.results[0].id)
        return e.ins(opcode, e.type(t), a, count)
    n = Ints(e, dtype.bits, lanes_of(t))
    if constant is None:
        count = n.do(S.BITWISE_AND, count, n.const(dtype.bits - 1))
    else:
        if constant >= dtype.bits:
            count = n.const(constant % dtype.bits)
        if opcode == S.SHIFT_RIGHT_LOGICAL and constant % dtype.bits:
            e.small.add(op.results[0].id)
    if opcode == S.SHIFT_RIGHT_ARITHMETIC and dtype.bits < 32:
        word = Ints(e, 32, n.lanes)
        places = word.do(S.U_CONVERT, count)
        return n.do(S.U_CONVERT, word.do(opcode, e.widen(a, dtype, n.lanes), places))
    return n.do(opcode, a, count)


def _halves(e: Emitter, x: int, lanes: int) -> tuple[int, int]:
    """The lower and upper words of 64-bit integers."""
    narrow, wide = Ints(e, 32, lanes), Ints(e, 64, lanes)
    high = wide.shift(S.SHIFT_RIGHT_LOGICAL, x, 32)
    return narrow.do(S.U_CONVERT, x), narrow.do(S.U_CONVERT, high)


def _popcount(e: Emitter, n: Ints, x: int) -> int:
    return n.do(S.BIT_COUNT, x)


def _clz(e: Emitter, n: Ints, x: int) -> int:
    top = e.glsl(n.type, Glsl.FIND_U_MSB, x)  # -1 for 0
    return n.do(S.I_SUB, n.const(31), top)


def _ctz(e: Emitter, n: Ints, x: int) -> int:
    place = e.glsl(n.type, Glsl.FIND_I_LSB, x)
    return n.select(n.test(S.I_EQUAL, x, n.const(0)), n.const(32), place)


_COUNTS = {"popcount": _popcount, "clz": _clz, "ctz": _ctz}


def count(e: Emitter, op: Op) -> int:
    """popcount, clz and ctz of any width."""
    n, dtype = _ints(e, op)
    (x,) = e.operands(op)
    word = Ints(e, 32, n.lanes)
    on_words = _COUNTS[op.name]
    if dtype.bits == 64:
        low, high = _halves(e, x, n.lanes)
        if op.name == "popcount":
            total = word.do(S.I_ADD, on_words(e, word, low), on_words(e, word, high))
        else:
            first, second = (high, low) if op.name == "clz" else (low, high)
            empty = word.test(S.I_EQUAL, first, word.const(0))
            rest = word.do(S.I_ADD, on_words(e, word, second), word.const(32))
            total = word.select(empty, rest, on_words(e, word, first))
        return n.do(S.U_CONVERT, total)
    if dtype.bits == 32:
        return on_words(e, word, x)
    wide = word.do(S.U_CONVERT, x)
    if op.name == "ctz":  # a bit above the value stops the search at its width
        wide = word.do(S.BITWISE_OR, wide, word.const(1 << dtype.bits))
    total = on_words(e, word, wide)
    if op.name == "clz":
        total = word.do(S.I_SUB, total, word.const(32 - dtype.bits))
    return n.do(S.U_CONVERT, total)


def reverse_bits(e: Emitter, op: Op) -> int:
    n, dtype = _ints(e, op)
    (x,) = e.operands(op)
    word = Ints(e, 32, n.lanes)
    if dtype.bits == 32:
        return word.do(S.BIT_REVERSE, x)
    if dtype.bits < 32:
        reversed_ = word.do(S.BIT_REVERSE, word.do(S.U_CONVERT, x))
        shifted = word.shift(S.SHIFT_RIGHT_LOGICAL, reversed_, 32 - dtype.bits)
        return n.do(S.U_CONVERT, shifted)
    # Words, not shifts: LLVM 15 (llvmpipe) knows those for a reversal of 64 bits, and gets it wrong
    # where the processor has no AVX-512.
    pair, one = e.ints(32, 2), e.ints(64)
    found = []
    for lane in e.per_lane(x, one, n.lanes):
        words = e.ins(S.BIT_REVERSE, pair, e.ins(S.BITCAST, pair, lane))
        low, high = (e.ins(S.COMPOSITE_EXTRACT, e.ints(32), words, at) for at in (0, 1))
        found.append(e.ins(S.BITCAST, one, e.ins(S.COMPOSITE_CONSTRUCT, pair, high, low)))
    return e.gather(found, one)


def mul_high(e: Emitter, op: Op) -> int:
    """The upper half of the double-width product."""
    n, dtype = _ints(e, op)
    a, b = e.operands(op)
    if dtype.bits == 64:
        return _mul_high64(n, a, b, signed=dtype.is_signed)
    if dtype.bits == 32:
        pair = e.module.type(S.TYPE_STRUCT, n.type, n.type)
        opcode = S.S_MUL_EXTENDED if dtype.is_signed else S.U_MUL_EXTENDED
        return e.ins(S.COMPOSITE_EXTRACT, n.type, e.ins(opcode, pair, a, b), 1)
    word = Ints(e, 32, n.lanes)
    product = word.do(S.I_MUL, *(e.widen(x, dtype, n.lanes) for x in (a, b)))
    return n.do(S.U_CONVERT, word.shift(S.SHIFT_RIGHT_LOGICAL, product, dtype.bits))


def _mul_high64(n: Ints, a: int, b: int, *, signed: bool) -> int:
    """By four products of halves; a negative factor takes the other one off the upper half."""
    right, mask = S.SHIFT_RIGHT_LOGICAL, n.const(0xFFFFFFFF)
    a0, b0 = (n.do(S.BITWISE_AND, x, mask) for x in (a, b))
    a1, b1 = (n.shift(right, x, 32) for x in (a, b))
    low = n.do(S.I_MUL, a0, b0)
    middle = n.do(S.I_ADD, n.do(S.I_MUL, a1, b0), n.shift(right, low, 32))
    other = n.do(S.I_ADD, n.do(S.I_MUL, a0, b1), n.do(S.BITWISE_AND, middle, mask))
    high = n.do(S.I_ADD, n.do(S.I_MUL, a1, b1), n.shift(right, middle, 32))
    high = n.do(S.I_ADD, high, n.shift(right, other, 32))
    if signed:
        for x, y in ((a, b), (b, a)):
            sign = n.shift(S.SHIFT_RIGHT_ARITHMETIC, x, 63)
            high = n.do(S.I_SUB, high, n.do(S.BITWISE_AND, sign, y))
    return high


def dot4(e: Emitter, op: Op) -> int:
    """acc + the sum of four products of 8-bit lanes."""
    a, b, acc = e.operands(op)
    signs = [element_of(v.type).is_signed for v in op.operands[:2]]
    n = Ints(e, 32, 1)
    if DOT4 in e.native:
        return n.do(S.I_ADD, acc, _native_dot4(e, a, b, signs))
    for lane in range(4):
        x, y = (_byte(n, v, lane, signed=s) for v, s in zip((a, b), signs, strict=True))
        acc = n.do(S.I_ADD, acc, n.do(S.I_MUL, x, y))
    return acc


def _byte(n: Ints, word: int, lane: int, *, signed: bool) -> int:
    if signed:
        top = n.shift(S.SHIFT_LEFT_LOGICAL, word, 24 - 8 * lane) if lane < 3 else word
        return n.shift(S.SHIFT_RIGHT_ARITHMETIC, top, 24)
    low = n.shift(S.SHIFT_RIGHT_LOGICAL, word, 8 * lane) if lane else word
    return n.do(S.BITWISE_AND, low, n.const(0xFF))


def _native_dot4(e: Emitter, a: int, b: int, signs: list[bool]) -> int:
    e.module.capabilities |= {Cap.DOT_PRODUCT, Cap.DOT_PRODUCT_INPUT_4X8BIT_PACKED}
    e.module.extension_in("SPV_KHR_integer_dot_product", 0x00010600)
    e.requires.add(DOT4)
    packed = 0  # PackedVectorFormat4x8Bit
    if signs[0] == signs[1]:
        return e.ins(S.S_DOT if signs[0] else S.U_DOT, e.module.u32, a, b, packed)
    signed, unsigned = (a, b) if signs[0] else (b, a)
    return e.ins(S.SU_DOT, e.module.u32, signed, unsigned, packed)


LOWERINGS: dict[str, Callable[[Emitter, Op], int]] = {
    "floordiv": divide,
    "mod": divide,
    "shl": shift,
    "shr": shift,
    "popcount": count,
    "clz": count,
    "ctz": count,
    "reverse_bits": reverse_bits,
    "mul_high": mul_high,
    "dot4": dot4,
}
