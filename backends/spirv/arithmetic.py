"""Arithmetic, comparison, selection and classification."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op, bits_float
from ...ir.dtypes import DType, Type, VectorType, element_of, lanes_of
from . import integer
from .conversions import round_bf16
from .emitter import Emitter
from .opcodes import Glsl
from .opcodes import Op as S

Lowering = Callable[[Emitter, Op], int]

_FLOAT = {"add": S.F_ADD, "sub": S.F_SUB, "mul": S.F_MUL}
_INT = {"add": S.I_ADD, "sub": S.I_SUB, "mul": S.I_MUL}
_BITS = {"and": S.BITWISE_AND, "or": S.BITWISE_OR, "xor": S.BITWISE_XOR}
_LOGIC = {"and": S.LOGICAL_AND, "or": S.LOGICAL_OR, "xor": S.LOGICAL_NOT_EQUAL}
_COMPARE = {  # float, signed, unsigned
    "eq": (S.F_ORD_EQUAL, S.I_EQUAL, S.I_EQUAL),
    "ne": (S.F_UNORD_NOT_EQUAL, S.I_NOT_EQUAL, S.I_NOT_EQUAL),
    "lt": (S.F_ORD_LESS_THAN, S.S_LESS_THAN, S.U_LESS_THAN),
    "le": (S.F_ORD_LESS_THAN_EQUAL, S.S_LESS_THAN_EQUAL, S.U_LESS_THAN_EQUAL),
    "gt": (S.F_ORD_GREATER_THAN, S.S_GREATER_THAN, S.U_GREATER_THAN),
    "ge": (S.F_ORD_GREATER_THAN_EQUAL, S.S_GREATER_THAN_EQUAL, S.U_GREATER_THAN_EQUAL),
}
_GLSL_ANY = {  # for every float width
    "floor": Glsl.FLOOR,
    "ceil": Glsl.CEIL,
    "trunc": Glsl.TRUNC,
    "rint": Glsl.ROUND_EVEN,
    "sqrt": Glsl.SQRT,
    "rsqrt": Glsl.INVERSE_SQRT,
    "fma": Glsl.FMA,
}
_GLSL_APPROXIMATE = {  # f32 and f16 only; legalize leaves them where the kernel allows
    "exp": Glsl.EXP,
    "exp2": Glsl.EXP2,
    "log": Glsl.LOG,
    "log2": Glsl.LOG2,
    "sin": Glsl.SIN,
    "cos": Glsl.COS,
    "tan": Glsl.TAN,
    "asin": Glsl.ASIN,
    "acos": Glsl.ACOS,
    "atan": Glsl.ATAN,
    "sinh": Glsl.SINH,
    "cosh": Glsl.COSH,
    "tanh": Glsl.TANH,
    "asinh": Glsl.ASINH,
    "acosh": Glsl.ACOSH,
    "atanh": Glsl.ATANH,
    "pow": Glsl.POW,
    "atan2": Glsl.ATAN2,
}
_LARGE = 2.0**126
APPROXIMATE = frozenset(_GLSL_APPROXIMATE)


def _float_result(e: Emitter, op: Op, result: int) -> int:
    """bf16 results are rounded after every op."""
    t = op.results[0].type
    return round_bf16(e, result, lanes_of(t)) if element_of(t).name == "bf16" else result


def _operands(e: Emitter, op: Op) -> list[int]:
    """The operands, hidden where drivers may know them to be 0 (see `folds`)."""
    if op.results[0].id not in e.folds or (op.name == "sub" and op.operands[0] is op.operands[1]):
        return e.operands(op)  # x - x, which NO_CONTRACTION keeps
    return [e.no_zero(v) if element_of(v.type).is_float else e.values[v.id] for v in op.operands]


def binary(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    dtype = element_of(t)
    if dtype.name == "bf16" or (e.folds and dtype.is_float):
        return _float_result(e, op, e.rounded(_FLOAT[op.name], e.type(t), *_operands(e, op)))
    if dtype.is_float:
        return e.plain(op, _FLOAT[op.name], e.type(t), exact=True)
    return e.plain(op, _INT[op.name], e.type(t))


def bitwise(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    if element_of(t).is_bool:
        return e.plain(op, _LOGIC[op.name], e.type(t))
    if op.name != "and":
        return e.plain(op, _BITS[op.name], e.type(t))
    for v in op.operands:
        if e.constants.get(v.id, -1) >> 31 == 0:
            e.small.add(op.results[0].id)
    return e.ins(S.BITWISE_AND, e.type(t), *e.operands(op))


def invert(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    return e.plain(op, S.LOGICAL_NOT if element_of(t).is_bool else S.NOT, e.type(t))


def negate(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    opcode = S.F_NEGATE if element_of(t).is_float else S.S_NEGATE
    return e.plain(op, opcode, e.type(t))


def divide(e: Emitter, op: Op) -> int:
    """a / b within 2.5 ulp for every divisor.

    Vulkan promises that only for divisors up to 2**14 (f16) and 2**126 (f32), and NVIDIA's
    quotients are 0 beyond: f16 divides as f32, and a larger f32 divisor is scaled down.
    """
    t, (a, b) = op.results[0].type, (e.no_zero(v) for v in op.operands)
    dtype, lanes, type_ = element_of(t), lanes_of(t), e.type(t)
    if dtype.bits == 64 or "approximate" in e.kernel.fast:
        return _float_result(e, op, e.rounded(S.F_DIV, type_, a, b))
    real = e.floats(32, lanes)
    if dtype.name == "f16":
        wide = (e.ins(S.F_CONVERT, real, v) for v in (a, b))
        return e.ins(S.F_CONVERT, type_, e.rounded(S.F_DIV, real, *wide))
    known = e.constants.get(op.operands[1].id)
    if known is not None and abs(bits_float(known, dtype)) <= _LARGE:
        return _float_result(e, op, e.rounded(S.F_DIV, real, a, b))
    size = e.glsl(real, Glsl.F_ABS, b)
    large = e.ins(S.F_ORD_GREATER_THAN, e.bools(lanes), size, e.float_const(_LARGE, 32, lanes))
    quarter, one = (e.float_const(v, 32, lanes) for v in (0.25, 1.0))
    scale = e.ins(S.SELECT, real, large, quarter, one)
    quotient = e.rounded(S.F_DIV, real, a, e.rounded(S.F_MUL, real, b, scale))
    return _float_result(e, op, e.rounded(S.F_MUL, real, quotient, scale))


def builtin(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    if element_of(t).name != "bf16" and not (e.folds and op.name == "fma"):
        return e.plain_glsl(op, e.type(t), _GLSL_ANY[op.name])
    return _float_result(e, op, e.glsl(e.type(t), _GLSL_ANY[op.name], *_operands(e, op)))


def approximate(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    if element_of(t).bits == 64:
        raise e.fail(f"{op.name} of {t} has no native form: legalize expands it")
    return _float_result(e, op, e.glsl(e.type(t), _GLSL_APPROXIMATE[op.name], *e.operands(op)))


def absolute(e: Emitter, op: Op) -> int:
    t, (x,) = op.results[0].type, e.operands(op)
    dtype, lanes = element_of(t), lanes_of(t)
    if dtype.is_float:
        return e.plain_glsl(op, e.type(t), Glsl.F_ABS)
    if not dtype.is_signed:
        return x
    negative = e.negative(x, dtype, lanes)
    return e.ins(S.SELECT, e.type(t), negative, e.ins(S.S_NEGATE, e.type(t), x), x)


def _integer_sign(e: Emitter, x: int, dtype: DType, lanes: int) -> int:
    type_, flags = e.ints(dtype.bits, lanes), e.bools(lanes)
    if dtype.is_signed and dtype.bits >= 32:
        # By bits: NVIDIA's compiler (580.159) fails at signs made by selections beside a loop or
        # 64-bit integers.
        last = e.int_const(dtype.bits - 1, dtype.bits, lanes)
        below = e.ins(S.SHIFT_RIGHT_ARITHMETIC, type_, x, last)
        above = e.ins(S.SHIFT_RIGHT_LOGICAL, type_, e.ins(S.S_NEGATE, type_, x), last)
        return e.ins(S.BITWISE_OR, type_, below, above)
    zero, one = (e.int_const(n, dtype.bits, lanes) for n in (0, 1))
    some = e.ins(S.SELECT, type_, e.ins(S.I_NOT_EQUAL, flags, x, zero), one, zero)
    if not dtype.is_signed:
        return some
    below = e.negative(x, dtype, lanes)
    return e.ins(S.SELECT, type_, below, e.int_const(-1, dtype.bits, lanes), some)


def sign(e: Emitter, op: Op) -> int:
    t, (x,) = op.results[0].type, e.operands(op)
    dtype, lanes, type_ = element_of(t), lanes_of(t), e.type(t)
    flags = e.bools(lanes)
    if dtype.is_int:
        return _integer_sign(e, x, dtype, lanes)
    bits = 32 if dtype.name == "bf16" else dtype.bits
    zero, one, less = (e.float_const(v, bits, lanes) for v in (0.0, 1.0, -1.0))
    rest = e.ins(S.SELECT, type_, e.ins(S.F_ORD_EQUAL, flags, x, zero), zero, x)
    rest = e.ins(S.SELECT, type_, e.ins(S.F_ORD_LESS_THAN, flags, x, zero), less, rest)
    return e.ins(S.SELECT, type_, e.ins(S.F_ORD_GREATER_THAN, flags, x, zero), one, rest)


def least(e: Emitter, op: Op) -> int:
    """min and max; a NaN loses, which the N forms promise."""
    t, lesser = op.results[0].type, op.name == "min"
    if element_of(t).is_float:
        return e.plain_glsl(op, e.type(t), Glsl.N_MIN if lesser else Glsl.N_MAX)
    return least_of(e, t, lesser, *e.operands(op))


def least_of(e: Emitter, t: Type, lesser: bool, a: int, b: int) -> int:
    """The lesser (or greater) of two values of type `t`."""
    dtype = element_of(t)
    if dtype.is_float:
        return e.glsl(e.type(t), Glsl.N_MIN if lesser else Glsl.N_MAX, a, b)
    if dtype.is_signed:
        function = Glsl.S_MIN if lesser else Glsl.S_MAX
        return e.signed_glsl(function, dtype.bits, lanes_of(t), a, b)
    return e.glsl(e.type(t), Glsl.U_MIN if lesser else Glsl.U_MAX, a, b)


def compare(e: Emitter, op: Op) -> int:
    t = op.operands[0].type
    dtype, lanes = element_of(t), lanes_of(t)
    flags = e.bools(lanes)
    if dtype.is_bool:
        return e.plain(op, S.LOGICAL_EQUAL if op.name == "eq" else S.LOGICAL_NOT_EQUAL, flags)
    of_floats, of_signed, of_unsigned = _COMPARE[op.name]
    opcode = of_floats if dtype.is_float else of_signed if dtype.is_signed else of_unsigned
    if dtype.is_signed and dtype.bits < 32:
        return e.ins(opcode, flags, *(e.ordered(v, dtype, lanes) for v in e.operands(op)))
    if dtype.bits == 64:
        return e.narrow_flag(e.ins(opcode, flags, *e.operands(op)), lanes)
    return e.plain(op, opcode, flags)


def select(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    if not isinstance(t, VectorType) or isinstance(op.operands[0].type, VectorType):
        if e.folds and element_of(t).is_float:
            return e.ins(S.SELECT, e.type(t), *_operands(e, op))
        return e.plain(op, S.SELECT, e.type(t))
    condition, a, b = _operands(e, op)
    condition = e.splat(condition, e.module.bool_, t.lanes)
    return e.ins(S.SELECT, e.type(t), condition, a, b)


# classification and sign bits, on the bits: drivers may assume that there are no NaNs


def _magnitude32(e: Emitter, x: int, t: Type) -> int:
    """The bits without the sign of floats of 32 or 16 bits, as f32."""
    lanes = lanes_of(t)
    if element_of(t).name == "f16":
        x = e.ins(S.F_CONVERT, e.floats(32, lanes), x)
    type_ = e.ints(32, lanes)
    word = e.ins(S.BITCAST, type_, x)
    return e.ins(S.BITWISE_AND, type_, word, e.int_const(0x7FFFFFFF, 32, lanes))


def _magnitude64(e: Emitter, x: int, lanes: int) -> int:
    """The upper words of doubles without the sign, with a low bit set where the lower is not 0."""
    words = []
    for lane in e.per_lane(x, e.floats(64), lanes):
        pair = e.ins(S.BITCAST, e.ints(32, 2), lane)
        low, high = (e.ins(S.COMPOSITE_EXTRACT, e.module.u32, pair, n) for n in (0, 1))
        high = e.ins(S.BITWISE_AND, e.module.u32, high, e.int_const(0x7FFFFFFF))
        some = e.ins(S.I_NOT_EQUAL, e.module.bool_, low, e.int_const(0))
        sticky = e.ins(S.SELECT, e.module.u32, some, e.int_const(1), e.int_const(0))
        words.append(e.ins(S.BITWISE_OR, e.module.u32, high, sticky))
    return e.gather(words, e.module.u32)


def classify(e: Emitter, op: Op) -> int:
    t, (x,) = op.operands[0].type, e.operands(op)
    lanes = lanes_of(t)
    if element_of(t).bits == 64:
        magnitude, infinity = _magnitude64(e, x, lanes), e.int_const(0x7FF00000, 32, lanes)
    else:
        magnitude, infinity = _magnitude32(e, x, t), e.int_const(0x7F800000, 32, lanes)
    opcode = {"isnan": S.U_GREATER_THAN, "isinf": S.I_EQUAL, "isfinite": S.U_LESS_THAN}[op.name]
    return e.ins(opcode, e.bools(lanes), magnitude, infinity)


def copysign(e: Emitter, op: Op) -> int:
    t, (a, b) = op.results[0].type, e.operands(op)
    dtype, lanes, type_ = element_of(t), lanes_of(t), e.type(t)
    magnitude = e.glsl(type_, Glsl.F_ABS, a)
    if dtype.bits == 64:
        signs = []
        for lane in e.per_lane(b, e.floats(64), lanes):
            pair = e.ins(S.BITCAST, e.ints(32, 2), lane)
            signs.append(e.ins(S.COMPOSITE_EXTRACT, e.module.u32, pair, 1))
        word = e.gather(signs, e.module.u32)
    else:
        wide = e.ins(S.F_CONVERT, e.floats(32, lanes), b) if dtype.name == "f16" else b
        word = e.ins(S.BITCAST, e.ints(32, lanes), wide)
    zero, top = e.int_const(0, 32, lanes), e.int_const(0x80000000, 32, lanes)
    masked = e.ins(S.BITWISE_AND, e.ints(32, lanes), word, top)
    negative = e.ins(S.I_NOT_EQUAL, e.bools(lanes), masked, zero)
    return e.ins(S.SELECT, type_, negative, e.ins(S.F_NEGATE, type_, magnitude), magnitude)


LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(_INT, binary),
    **dict.fromkeys(_BITS, bitwise),
    **dict.fromkeys(_COMPARE, compare),
    **dict.fromkeys(_GLSL_ANY, builtin),
    **dict.fromkeys(_GLSL_APPROXIMATE, approximate),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), classify),
    "not": invert,
    "neg": negate,
    "abs": absolute,
    "sign": sign,
    "min": least,
    "max": least,
    "div": divide,
    "copysign": copysign,
    "select": select,
    **integer.LOWERINGS,
}
