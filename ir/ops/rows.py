"""The rows of the op table, by family."""

from __future__ import annotations

from typing import Any

from . import fragment_rules as fr
from . import meaning as m
from . import rules as r
from .table import Effect, OpRow, define


def _row(name: str, arity: int, rule: Any, meaning: Any = None, **facts: Any) -> None:
    define(OpRow(name, arity, rule, meaning=meaning, **facts))


def _exact(name: str, arity: int, rule: Any, meaning: Any, doc: str, **facts: Any) -> None:
    _row(name, arity, rule, meaning, exact=True, fold=True, doc=doc, **facts)


def _arithmetic() -> None:
    number, integer, flt, bits = r.same("number"), r.same("int"), r.same("float"), r.same("bits")
    _exact("add", 2, number, m.add, "a + b; integers wrap", commutative=True)
    _exact("sub", 2, number, m.sub, "a - b; integers wrap")
    _exact("mul", 2, number, m.mul, "a * b; integers wrap", commutative=True)
    _exact("neg", 1, number, m.neg, "-a; the sign bit of a float is flipped")
    _exact("abs", 1, number, m.absolute, "|a|; abs(MIN) = MIN")
    _exact("sign", 1, number, m.sign, "-1, 0 or 1; NaN stays NaN")
    _exact("min", 2, number, m.minimum, "the lesser; a NaN loses", commutative=True)
    _exact("max", 2, number, m.maximum, "the greater; a NaN loses", commutative=True)
    _exact("floordiv", 2, integer, m.floordiv, "floor of the quotient; x//0 = x, MIN//-1 = MIN")
    _exact("mod", 2, integer, m.mod, "remainder with the divisor's sign; x%0 = 0")
    _exact("and", 2, bits, m.and_, "bitwise or logical and", commutative=True)
    _exact("or", 2, bits, m.or_, "bitwise or logical or", commutative=True)
    _exact("xor", 2, bits, m.xor, "bitwise or logical exclusive or", commutative=True)
    _exact("not", 1, bits, m.invert, "bitwise or logical complement")
    _exact("shl", 2, integer, m.shift_left, "shift left; the count is modulo the width")
    _exact("shr", 2, integer, m.shift_right, "shift right (arithmetic if signed), as shl")
    _exact("popcount", 1, integer, m.popcount, "number of set bits")
    _exact("clz", 1, integer, m.clz, "leading zeros; the width for 0")
    _exact("ctz", 1, integer, m.ctz, "trailing zeros; the width for 0")
    _exact("reverse_bits", 1, integer, m.reverse_bits, "bits in reverse order")
    _exact("mul_high", 2, integer, m.mul_high, "upper half of the product", commutative=True)
    _exact("dot4", 3, r.dot4_rule, m.dot4, "acc + products of four packed 8-bit lanes; wraps")
    _row("div", 2, flt, m.div, fold=True, ulp=2.5, doc="a / b")
    _row("sqrt", 1, flt, m.sqrt, fold=True, ulp=3.0, doc="square root")
    _row("rsqrt", 1, flt, m.rsqrt, ulp=2.5, ulp64=2.5, doc="1 / sqrt(a)")
    _row("fma", 3, flt, m.fma, ulp=1.0, doc="a * b + c; fused on every target but Vulkan and WGSL")


def _compare_and_convert() -> None:
    compare = r.same("any", "bool")
    order = r.same("number", "bool")
    _exact("eq", 2, compare, m.eq, "a == b; false on NaN", commutative=True)
    _exact("ne", 2, compare, m.ne, "a != b; true on NaN", commutative=True)
    for name, fn in (("lt", m.lt), ("le", m.le), ("gt", m.gt), ("ge", m.ge)):
        _exact(name, 2, order, fn, f"a {name} b; false on NaN")
    _exact("select", 3, r.select_rule, m.select, "a where the condition holds, else b")
    _exact("convert", 1, r.convert_rule, m.convert, "to another type; see meaning.convert")
    _row("bitcast", 1, r.bitcast_rule, exact=True, doc="the same bits as another type")
    flt, test = r.same("float"), r.same("float", "bool")
    _exact("floor", 1, flt, m.floor, "round towards minus infinity")
    _exact("ceil", 1, flt, m.ceil, "round towards infinity")
    _exact("trunc", 1, flt, m.trunc, "round towards zero")
    _exact("rint", 1, flt, m.rint, "round to nearest, ties to even")
    _exact("copysign", 2, flt, m.copysign, "magnitude of a, sign of b")
    _exact("isnan", 1, test, m.isnan, "whether a is a NaN")
    _exact("isinf", 1, test, m.isinf, "whether a is an infinity")
    _exact("isfinite", 1, test, m.isfinite, "whether a is neither infinite nor a NaN")


# name, meaning, bounds in ulp of f32 and f64 over the whole range (tests/maths proves each)
_MATHS_UNARY = (
    ("exp", m.exp, 1.5, 1.5), ("exp2", m.exp2, 1.5, 1.5), ("expm1", m.expm1, 2.5, 2.5),
    ("log", m.log, 1.0, 1.0), ("log2", m.log2, 1.5, 1.5), ("log10", m.log10, 1.5, 1.5),
    ("log1p", m.log1p, 3.0, 3.0), ("sin", m.sin, 2.0, 2.0), ("cos", m.cos, 2.0, 2.0),
    ("tan", m.tan, 3.0, 3.0), ("asin", m.asin, 2.5, 2.5), ("acos", m.acos, 1.5, 1.5),
    ("atan", m.atan, 2.5, 2.5), ("sinh", m.sinh, 2.0, 2.0), ("cosh", m.cosh, 2.0, 2.0),
    ("tanh", m.tanh, 1.5, 1.5), ("asinh", m.asinh, 3.5, 3.5), ("acosh", m.acosh, 3.5, 3.5),
    ("atanh", m.atanh, 4.0, 4.0), ("erf", m.erf, 2.0, 2.0), ("erfc", m.erfc, 5.0, 5.0),
    ("cbrt", m.cbrt, 1.0, 1.0), ("gamma", m.gamma, 8.0, 8.0), ("lgamma", m.lgamma, 8.0, 8.0),
)  # fmt: skip


def _maths() -> None:
    flt = r.same("float")
    for name, fn, ulp, ulp64 in _MATHS_UNARY:
        _row(name, 1, flt, fn, ulp=ulp, ulp64=ulp64, doc=f"{name}, as in Python's math")
    _row("pow", 2, flt, m.pow_, ulp=1.5, ulp64=1.5, doc="a ** b, as C's pow")
    _row("atan2", 2, flt, m.atan2, ulp=2.5, ulp64=2.5, doc="angle of the point (b, a)")
    _row("hypot", 2, flt, m.hypot, ulp=1.5, ulp64=1.5, doc="sqrt(a*a + b*b) without overflow")
    _row("fmod", 2, flt, m.fmod, exact=True, doc="remainder with the dividend's sign; exact")
    _row("ldexp", 2, r.ldexp_rule, m.ldexp, exact=True, doc="a * 2**n, rounded once")


def _vectors() -> None:
    _row("const", 0, r.wanted_scalar, exact=True, doc="a constant; attr bits is its pattern")
    _row("vector", -1, r.vector_rule, exact=True, doc="a vector of scalars")
    _row("splat", 1, r.splat_rule, exact=True, doc="a vector of one scalar in every lane")
    _row("extract", 1, r.extract_rule, exact=True, doc="attr lane of a vector")
    _row("insert", 2, r.insert_rule, exact=True, doc="a vector with attr lane replaced")
    _row("shuffle", 2, r.shuffle_rule, exact=True, doc="attr lanes of two vectors in a row")


def _ids() -> None:
    for name in ("global_id", "local_id", "group_id", "num_groups"):
        _row(name, 0, r.index_result, effect=Effect.ID, doc=f"{name} along attr dim (0, 1, 2)")
    for name in ("local_linear_id", "subgroup_id", "subgroup_lane", "num_subgroups"):
        _row(name, 0, r.index_result, effect=Effect.ID, doc=name.replace("_", " "))
    _row("count", 1, r.count_rule, effect=Effect.ID, doc="elements of a buffer or array")


def _memory() -> None:
    _row("alloc", 0, r.alloc_rule, effect=Effect.ALLOC, doc="an array; attr name")
    _row("load", 2, r.load_rule, effect=Effect.READ,
         doc="memory[i]; attr lanes n > 1: elements n*i .. n*i+n-1 as a vector")  # fmt: skip
    _row("store", 3, r.store_rule, effect=Effect.WRITE,
         doc="memory[i] = v; a vector v of n lanes goes to elements n*i .. n*i+n-1")  # fmt: skip
    _row("atomic", 3, r.atomic_rule, effect=Effect.ATOMIC,
         doc="attr kind: add min max and or xor exchange; relaxed; gives the old")  # fmt: skip
    _row("compare_exchange", 4, r.atomic_rule, effect=Effect.ATOMIC,
         doc="memory, i, expected, desired; relaxed; gives the old value")  # fmt: skip
    _row("barrier", 0, r.nothing, effect=Effect.SYNC,
         doc="a workgroup waits; orders its memory and buffers")  # fmt: skip
    _row("copy_async", -1, r.copy_rule, effect=Effect.WRITE,
         doc="workgroup array, i, buffer, j[, given]: attr count elements from buffer[j ...] to"
         " array[i ...], zeros behind the first `given`; done at the copy_wait that covers it;"
         " i and j are multiples of count")  # fmt: skip
    _row("copy_commit", 0, r.nothing, effect=Effect.SYNC,
         doc="the copies issued since the last one become a group")  # fmt: skip
    _row("copy_wait", 0, r.nothing, effect=Effect.SYNC,
         doc="all groups but the last attr pending are done, for this invocation")  # fmt: skip
    _row("fence", 0, r.nothing, effect=Effect.SYNC,
         doc="attr scope workgroup|device, attr order acquire|release|acq_rel")  # fmt: skip


def _subgroups() -> None:
    def op(name: str, arity: int, rule: Any, doc: str) -> None:
        _row(name, arity, rule, effect=Effect.CONVERGENT, doc=doc)

    op("subgroup_reduce", 1, r.subgroup_reduce_rule, "attr kind over all invocations of a subgroup")
    op(
        "subgroup_scan",
        1,
        r.subgroup_reduce_rule,
        "attr kind, inclusive; exclusive: from the identity",
    )
    op("subgroup_shuffle", 2, r.shuffle_lane_rule, "the value of lane n modulo the subgroup size")
    op("subgroup_shuffle_xor", 2, r.shuffle_lane_rule, "the value of lane (own ^ n) mod the size")
    op("subgroup_shuffle_up", 2, r.shuffle_lane_rule, "the value of lane own - n; else own")
    op("subgroup_shuffle_down", 2, r.shuffle_lane_rule, "the value of lane own + n; else own")
    op("subgroup_broadcast", 2, r.shuffle_lane_rule, "the value of a lane that is the same for all")
    op("subgroup_ballot", 1, r.ballot_rule, "bit i: the vote of lane i; u64 where the size is 64")
    op("subgroup_any", 1, r.vote_rule, "whether any vote is true")
    op("subgroup_all", 1, r.vote_rule, "whether all votes are true")
    op("subgroup_elect", 0, r.elect_rule, "true in lane 0 only")
    _row("subgroup_barrier", 0, r.nothing, effect=Effect.SYNC,
         doc="a subgroup waits; orders workgroup memory; made by passes only")  # fmt: skip


def _fragments() -> None:
    def op(name: str, arity: int, rule: Any, doc: str, effect: Effect = Effect.CONVERGENT) -> None:
        _row(name, arity, rule, effect=effect, doc=doc)

    op("fragment_load", -1, fr.load_rule,
       "memory, index, stride[, column]: element (r, c) is at index + r * stride + c, or in attr"
       ' layout "column" at index + r + c * stride; with a column, in swizzled rows: at index +'
       " r * stride + ((column + c) ^ u * ((index // stride + r) % 8)), u elements in 16 bytes",
       Effect.READ)  # fmt: skip
    op("fragment_store", 4, fr.store_rule, "memory, index, stride, value; as fragment_load",
       Effect.WRITE)  # fmt: skip
    op("fragment_mma", 3, fr.mma_rule,
       "a @ b + c; exact products; f32 sums in any order, each rounded or cut off: within"
       " (K + 1) * 2**-23 of |c| + |a| @ |b| (f16 sums: 2**-10; f8 operands: 2**-13); f32 operands"
       " may be rounded to 11 bits first; integers wrap")  # fmt: skip
    op("fragment_reduce", 1, fr.reduce_rule, "attr kind add, max or min along each row")
    op("fragment_broadcast", 1, fr.broadcast_rule, "one value per row, along the rows")
    op("fragment_cast", 1, fr.cast_rule, "an accumulator as the a of a product")
    op("fragment_coordinate", 0, fr.coordinate_rule, "the row (attr dim 0) or column (1)")
    op("nv_mma", 3, fr.nv_mma_rule,
       "mma.sync of PTX: attr shape, attrs a and b (element types); packed words")  # fmt: skip
    op("nv_unpack_f8", 1, fr.nv_unpack_rule,
       "cvt.rn.f16x2 of PTX: two 8-bit floats (attr element) as two f16 in a word",
       Effect.PURE)  # fmt: skip
    op("nv_pack_f8", 2, fr.nv_pack_rule,
       "cvt.rn.satfinite of PTX: two 8-bit floats (attr element), the first one low; saturates",
       Effect.PURE)  # fmt: skip
    op("nv_ldmatrix", 2, fr.nv_ldmatrix_rule,
       "ldmatrix.x4 of PTX: memory, index of this lane's row of 16 bytes; attr transposed",
       Effect.READ)  # fmt: skip


def _control() -> None:
    terminators = ("yield", "continue", "break", "condition", "return")
    for name in ("if", "switch", "for", "while", *terminators):
        _row(name, -1, r.nothing, effect=Effect.CONTROL, doc="see ir.core")
    _row(
        "assert",
        1,
        r.assert_rule,
        effect=Effect.FAULT,
        doc="false: sets the fault bit of attr site",
    )
    _row("print", -1, r.nothing, effect=Effect.DEBUG, doc="attr format; interpreter only")
    _row("breakpoint", -1, r.nothing, effect=Effect.DEBUG, doc="attr names; interpreter only")


_arithmetic()
_compare_and_convert()
_maths()
_vectors()
_ids()
_memory()
_subgroups()
_fragments()
_control()
