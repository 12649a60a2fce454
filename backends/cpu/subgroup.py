"""Subgroup operations: the lanes of a vector exchange values directly."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op, Value, const_value
from ...ir.dtypes import DType, element_of, i32, i64, lanes_of, u8
from ..llvm.types import Ty
from .lanes import SCALAR
from .lowering import Lowering

_IDENTITY = {"add": 0, "or": 0, "xor": 0, "and": -1}


def emit_subgroup(x: Lowering, op: Op) -> None:
    """Define the result of a subgroup op."""
    match op.name.removeprefix("subgroup_"):
        case "reduce":
            _each_part(x, op, _reduce)
        case "scan":
            _each_part(x, op, _scan)
        case "ballot":
            _ballot(x, op)
        case "any":
            votes = x.masks.both(x.mask, x.masks.from_bools(x.lanes.vector(op.operands[0])))
            x.lanes.set(op.result, x.masks.any(votes))
        case "all":
            against = x.masks.without(x.mask, x.masks.from_bools(x.lanes.vector(op.operands[0])))
            x.lanes.set(op.result, x.f.value(f"xor i1 {x.masks.any(against)}, true"))
        case "elect":
            first = ["true", *["false"] * (x.width - 1)]
            x.lanes.set(op.result, "<" + ", ".join(f"i1 {b}" for b in first) + ">")
        case _:
            _shuffle(x, op)


def _each_part(x: Lowering, op: Op, one: Callable[[Lowering, Op, str], str]) -> None:
    value = op.operands[0]
    parts = [one(x, op, x.lanes.vector(value, n)) for n in range(lanes_of(value.type))]
    x.lanes.set(op.result, *parts)


def identity(kind: str, dtype: DType) -> int:
    """The bits of the value that a reduction leaves alone."""
    if kind in _IDENTITY and not dtype.is_float:
        return _IDENTITY[kind] & ((1 << dtype.bits) - 1)
    if dtype.is_float:
        one = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF << 52}
        infinity = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}
        sign = 1 << (dtype.bits - 1)
        table = {"add": sign, "mul": one[dtype.name]}
        return {**table, "min": infinity[dtype.name], "max": infinity[dtype.name] | sign}[kind]
    bits = {"mul": 1, "min": dtype.max, "max": dtype.min}[kind]
    return bits & ((1 << dtype.bits) - 1)


def _masked(x: Lowering, kind: str, value: str, t: Ty) -> str:
    return x.masks.blend(x.mask, t.text, value, t.const(identity(kind, t.dtype)))


def _reduce(x: Lowering, op: Op, value: str) -> str:
    """Halves are combined until one lane is left."""
    kind, dtype, f = str(op.attr("kind")), element_of(op.operands[0].type), x.f
    value, width = _masked(x, kind, value, Ty(dtype, x.width)), x.width
    while width > 1:
        t, half = Ty(dtype, width), width // 2
        pieces = (f"<{half} x i32> <{_range(a, a + half)}>" for a in (0, half))
        whole = f"{t.text} {value}, {t.text} poison"
        low, high = (f.value(f"shufflevector {whole}, {piece}") for piece in pieces)
        value, width = x.arith.op(kind, Ty(dtype, half), [low, high], dtype), half
    return f.value(f"extractelement {Ty(dtype, 1).text} {value}, i64 0")


def _range(a: int, b: int) -> str:
    return ", ".join(f"i32 {n}" for n in range(a, b))


def _scan(x: Lowering, op: Op, value: str) -> str:
    kind, dtype = str(op.attr("kind")), element_of(op.operands[0].type)
    t = Ty(dtype, x.width)
    value = _masked(x, kind, value, t)
    neutral = t.const(identity(kind, dtype))
    step = 1
    while step < x.width:
        # The first lanes take nothing in: a least or greatest value may meet itself, and must not
        # meet the identity, which would replace a NaN.
        fill = value if kind in ("min", "max") else neutral
        moved = _moved(x, value, fill, t, step)
        value = x.arith.op(kind, t, [moved, value], dtype)
        step *= 2
    if op.attr("inclusive"):
        return value
    start = t.const(0) if kind == "add" and dtype.is_float else neutral
    return _moved(x, value, start, t, 1)


def _moved(x: Lowering, value: str, fill: str, t: Ty, step: int) -> str:
    """The value of lane own - step; `fill` in the first lanes."""
    lanes = ", ".join(f"i32 {n - step if n >= step else x.width + n}" for n in range(x.width))
    return x.f.value(
        f"shufflevector {t.text} {value}, {t.text} {fill}, <{x.width} x i32> <{lanes}>"
    )


def _ballot(x: Lowering, op: Op) -> None:
    f, result = x.f, Ty(element_of(op.result.type))
    votes = x.masks.both(x.mask, x.masks.from_bools(x.lanes.vector(op.operands[0])))
    bits = x.masks.bits_of(x.masks.to_bools(votes))
    if x.width < result.dtype.bits:
        bits = f.value(f"zext i{x.width} {bits} to {result.text}")
    elif x.width > result.dtype.bits:
        bits = f.value(f"trunc i{x.width} {bits} to {result.text}")
    x.lanes.set(op.result, bits)


def _constant(x: Lowering, value: Value) -> int | None:
    op = x.defs.get(value.id)
    return int(const_value(op)) if op is not None and op.name == "const" else None


def _shuffle(x: Lowering, op: Op) -> None:
    source, lane = op.operands
    dtype, count = element_of(source.type), lanes_of(source.type)
    if x.lanes.form(source) == SCALAR:
        x.lanes.set(op.result, *x.lanes.parts(source, SCALAR))
        return
    parts = [x.lanes.vector(source, n) for n in range(count)]
    if x.lanes.form(op.result) == SCALAR:  # one lane for all
        t = Ty(dtype, x.width)
        at = _wrapped(
            x, x.lanes.scalar(lane) if x.lanes.form(lane) == SCALAR else _first(x, lane), lane
        )
        x.lanes.set(
            op.result, *(x.f.value(f"extractelement {t.text} {p}, i64 {at}") for p in parts)
        )
        return
    number = _constant(x, lane)
    if number is not None:
        x.lanes.set(op.result, *(_fixed(x, op.name, p, dtype, number) for p in parts))
        return
    index = _lane_index(x, op)
    x.lanes.set(op.result, *(_permute(x, p, dtype, index) for p in parts))


def _first(x: Lowering, lane: Value) -> str:
    """A lane number that the kernel promises to be the same for all lanes."""
    t = Ty(element_of(lane.type), x.width)
    return x.f.value(f"extractelement {t.text} {x.lanes.vector(lane)}, i64 0")


def _wrapped(x: Lowering, lane: str, value: Value) -> str:
    """A lane number modulo the size, as i64."""
    t = Ty(element_of(value.type))
    low = x.f.value(f"and {t.text} {lane}, {x.width - 1}")
    return x.arith.converter.convert(low, t, i64)


def _fixed(x: Lowering, name: str, part: str, dtype: DType, n: int) -> str:
    width, lanes = x.width, range(x.width)
    match name:
        case "subgroup_shuffle_xor":
            chosen = [(lane ^ n) % width for lane in lanes]
        case "subgroup_shuffle_up":
            chosen = [lane - n if 0 <= lane - n < width else lane for lane in lanes]
        case "subgroup_shuffle_down":
            chosen = [lane + n if 0 <= lane + n < width else lane for lane in lanes]
        case _:
            chosen = [n % width for _ in lanes]
    t, order = Ty(dtype, width), ", ".join(f"i32 {c}" for c in chosen)
    return x.f.value(f"shufflevector {t.text} {part}, {t.text} poison, <{width} x i32> <{order}>")


def _lane_index(x: Lowering, op: Op) -> str:
    """The lane to read from, as i32 in 0 .. W-1."""
    lane, f, t = op.operands[1], x.f, Ty(i32, x.width)
    source = Ty(element_of(lane.type), x.width)
    n = x.lanes.vector(lane)
    own, top = x.lanes.numbers(i32), t.const(x.width - 1)
    if op.name in ("subgroup_shuffle_up", "subgroup_shuffle_down"):
        wide = source.of(i64)
        n = x.arith.converter.convert(n, source, i64)
        word = "sub" if op.name.endswith("up") else "add"
        n = f.value(f"{word} {wide.text} {x.lanes.numbers(i64)}, {n}")
        inside = f.value(f"icmp ult {wide.text} {n}, {wide.const(x.width)}")
        n = x.arith.converter.convert(n, wide, i32)
        return f.value(f"select {x.masks.bools} {inside}, {t.text} {n}, {t.text} {own}")
    n = x.arith.converter.convert(n, source, i32)
    if op.name == "subgroup_shuffle_xor":
        n = f.value(f"xor {t.text} {n}, {own}")
    return f.value(f"and {t.text} {n}, {top}")


def _permute(x: Lowering, part: str, dtype: DType, index: str) -> str:
    """part[index] lane by lane."""
    f, width, t = x.f, x.width, Ty(dtype, x.width)
    if dtype.is_bool:
        as_bytes = x.arith.converter.convert(part, t, u8)
        moved = _permute(x, as_bytes, u8, index)
        return x.arith.converter.convert(moved, t.of(u8), dtype)
    if width <= 16:  # LLVM makes one permutation of this where the target has one
        out = "poison"
        for lane in range(width):
            at = f.value(f"extractelement <{width} x i32> {index}, i64 {lane}")
            one = f.value(f"extractelement {t.text} {part}, i32 {at}")
            out = f.value(f"insertelement {t.text} {out}, {Ty(dtype).text} {one}, i64 {lane}")
        return out
    block = f.alloca(t.text, 64)
    f.do(f"store {t.text} {part}, ptr {block}")
    scalar = Ty(dtype).text
    pointers = f.value(f"getelementptr {scalar}, ptr {block}, <{width} x i32> {index}")
    name = f"llvm.masked.gather.{t.suffix}.v{width}p0"
    args = (
        (f"<{width} x ptr>", f"align {dtype.bytes} {pointers}"),
        (x.masks.bools, "splat (i1 true)"),
    )
    f.declarations[name] = f"declare {t.text} @{name}(<{width} x ptr>, {x.masks.bools}, {t.text})"
    given = ", ".join(f"{a} {b}" for a, b in args)
    return f.value(f"call {t.text} @{name}({given}, {t.text} zeroinitializer)")
