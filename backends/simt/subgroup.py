"""Subgroup operations, in which all lanes take part: the language guarantees it.

Values travel in 32-bit words: 64-bit ones as two, narrower ones widened.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import DType, element_of, i32
from ..llvm.types import Ty
from .ids import lane
from .lowering import Lowering, LoweringError


def emit_subgroup(x: Lowering, op: Op) -> None:
    """Define the result of a subgroup op."""
    if x.kernel.subgroup != x.lanes:
        message = f"a subgroup has {x.lanes} invocations here: give the kernel SUBGROUP = {x.lanes}"
        raise x.fail(op, f"{message} (it has {x.kernel.subgroup})")
    try:
        _emit(x, op)
    except LoweringError as error:  # of a target, which sees words and not the op
        raise x.fail(op, error.message) from error


def _emit(x: Lowering, op: Op) -> None:
    match op.name.removeprefix("subgroup_"):
        case "reduce":
            _each(x, op, _reduce)
        case "scan":
            _each(x, op, _scan)
        case "ballot":
            votes = x.vote("ballot", x.scalar(op.operands[0]))
            wide = element_of(op.result.type).bits > x.lanes
            x.set(op.result, [x.f.value(f"zext i32 {votes} to i64") if wide else votes])
        case "any" | "all" as kind:
            x.set(op.result, [x.vote(kind, x.scalar(op.operands[0]))])
        case "elect":
            x.set(op.result, [x.f.value(f"icmp eq i32 {lane(x)}, 0")])
        case _:
            _shuffle(x, op)


def _each(x: Lowering, op: Op, one: Callable[[Lowering, Op, str, Ty], str]) -> None:
    t = x.type_of(op.operands[0])
    x.set(op.result, [one(x, op, part, t) for part in x.parts(op.operands[0])])


def move(x: Lowering, mode: str, part: str, t: Ty, operand: str) -> str:
    """A value as another lane has it (`Lowering.move`)."""
    whole = x.exchange(mode, part, t, operand)
    return whole or by_words(x, part, t, lambda word: x.move(mode, word, operand))


def by_words(x: Lowering, part: str, t: Ty, word: Callable[[str], str]) -> str:
    """What becomes of a value whose 32-bit words `word` moves among the lanes."""
    f, bits = x.f, t.dtype.bits
    if t.dtype.is_bool:
        moved = word(f.value(f"zext i1 {part} to i32"))
        return f.value(f"icmp ne i32 {moved}, 0")
    whole = f"i{bits}"
    real = t.text != whole
    if real:
        part = f.value(f"bitcast {t.text} {part} to {whole}")
    if bits < 32:
        moved = f.value(f"trunc i32 {word(f.value(f'zext {whole} {part} to i32'))} to {whole}")
    elif bits == 32:
        moved = word(part)
    else:
        high = f.value(f"trunc i64 {f.value(f'lshr i64 {part}, 32')} to i32")
        low, high = word(f.value(f"trunc i64 {part} to i32")), word(high)
        high = f.value(f"shl i64 {f.value(f'zext i32 {high} to i64')}, 32")
        moved = f.value(f"or i64 {f.value(f'zext i32 {low} to i64')}, {high}")
    return f.value(f"bitcast {whole} {moved} to {t.text}") if real else moved


def _reduce(x: Lowering, op: Op, part: str, t: Ty) -> str:
    """The target's own way, or a butterfly: each lane ends with the same bits."""
    total = x.reduce(op, part, t)
    if total is not None:
        return total
    kind, step = str(op.attr("kind")), x.lanes // 2
    while step:
        other = move(x, "bfly", part, t, str(step))
        part = x.arith.op(kind, t, [part, other], t.dtype)
        step //= 2
    return part


def _scan(x: Lowering, op: Op, part: str, t: Ty) -> str:
    """Hillis and Steele: lane i takes in what lane i - n has gathered, for n = 1, 2, 4, ..."""
    done = x.scan(op, part, t)
    if done is not None:
        return done
    f, kind, own = x.f, str(op.attr("kind")), lane(x)
    step = 1
    while step < x.lanes:
        other = move(x, "up", part, t, str(step))
        joined = x.arith.op(kind, t, [other, part], t.dtype)
        inside = f.value(f"icmp uge i32 {own}, {step}")
        part = f.value(f"select i1 {inside}, {t.text} {joined}, {t.text} {part}")
        step *= 2
    if op.attr("inclusive"):
        return part
    before = move(x, "up", part, t, "1")
    first = f.value(f"icmp eq i32 {own}, 0")
    start = t.const(identity(kind, t.dtype))
    return f.value(f"select i1 {first}, {t.text} {start}, {t.text} {before}")


def identity(kind: str, dtype: DType) -> int:
    """The bits that an exclusive scan begins with."""
    if kind in ("add", "or", "xor"):
        return 0
    if dtype.is_float:
        one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF << 52}
        infinity = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}
        sign = 1 << (dtype.bits - 1) if kind == "max" else 0
        return one[dtype.name] if kind == "mul" else infinity[dtype.name] | sign
    return {"mul": 1, "and": -1, "min": dtype.max, "max": dtype.min}[kind]


def _shuffle(x: Lowering, op: Op) -> None:
    source, number = op.operands
    mode, operand = _source(x, op, x.constant(number))
    t = x.type_of(source)
    x.set(op.result, [move(x, mode, part, t, operand) for part in x.parts(source)])


def _source(x: Lowering, op: Op, known: int | None) -> tuple[str, str]:
    """Mode and operand of `Lowering.move`; a lane is read modulo the size."""
    f, name = x.f, op.name.removeprefix("subgroup_")
    relative = {"shuffle_up": "up", "shuffle_down": "down"}.get(name)
    if known is not None and (relative is None or 0 <= known < x.lanes):
        return relative or ("bfly" if name == "shuffle_xor" else "idx"), str(known % x.lanes)
    dtype = element_of(op.operands[1].type)
    if relative is None:
        lanes = x.arith.converter.convert(x.scalar(op.operands[1]), Ty(dtype), i32)
        lanes = f.value(f"and i32 {lanes}, {x.lanes - 1}")
        return "bfly" if name == "shuffle_xor" else "idx", lanes
    # Any distance: a lane outside, on either side, stands for the own one.
    wide, own = Ty(dtype).text, lane(x)
    distance = x.scalar(op.operands[1])
    if dtype.bits < 64:
        word = "sext" if dtype.is_signed else "zext"
        distance = f.value(f"{word} {wide} {distance} to i64")
    start = f.value(f"zext i32 {own} to i64")
    there = f.value(f"{'sub' if relative == 'up' else 'add'} i64 {start}, {distance}")
    inside = f.value(f"icmp ult i64 {there}, {x.lanes}")
    lanes = f.value(f"trunc i64 {there} to i32")
    return "idx", f.value(f"select i1 {inside}, i32 {lanes}, i32 {own}")
