"""Arithmetic, comparison, selection, conversion, bits and vectors: ops that are expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.core import Op, Value, bits_float
from ...ir.dtypes import (
    DType,
    VectorType,
    element_of,
    f16,
    f32,
    f64,
    i32,
    lanes_of,
    u32,
    with_element,
)
from .helpers import as_type, type_name, zero
from .support import APPROXIMATE
from .writer import Writer

Lowering = Callable[[Writer, Op], None]

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_FUNCTIONS = {  # of WGSL, as they are
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round", "sqrt": "sqrt",
    "rsqrt": "inverseSqrt", "fma": "fma", "popcount": "countOneBits", "clz": "countLeadingZeros",
    "ctz": "countTrailingZeros", "reverse_bits": "reverseBits",
    **{name: name for name in APPROXIMATE}, "atan2": "atan2",
}  # fmt: skip
_HELPERS = {
    "isnan": "is_nan",
    "isinf": "is_infinite",
    "isfinite": "is_finite",
    "copysign": "with_sign",
}
_LARGE = 2.0**126


def _operands(w: Writer, op: Op) -> list[str]:
    """The operands, hidden where drivers may know them to be 0 (see `folds`)."""
    texts = w.operands(op) if op.name != "select" else [w.use(v) for v in op.operands]
    if op.results[0].id not in w.folds:
        return texts
    hide = [v.id in w.zeros and element_of(v.type).is_float for v in op.operands]
    if op.name == "sub" and op.operands[0] is op.operands[1]:
        hide = [False, True]  # two that are hidden alike are one
    hide[-1] |= not any(hide)
    triples = zip(texts, op.operands, hide, strict=True)
    return [w.hidden(x, v.type) if hidden else x for x, v, hidden in triples]


def symbol(w: Writer, op: Op) -> None:
    a, b = _operands(w, op)
    w.type(op.results[0].type)
    different = op.name == "xor" and element_of(op.results[0].type).is_bool
    text = f"{a} {'!=' if different else _SYMBOLS[op.name]} {b}"
    w.define(op, w.guard(op, text) if op.results[0].id in w.guarded else text)


def compare(w: Writer, op: Op) -> None:
    a, b = w.operands(op)
    dtype = element_of(op.operands[0].type)
    text = f"{a} {_SYMBOLS[op.name]} {b}"
    if op.name == "ne" and dtype.is_float:
        text = f"!({a} == {b})"  # true on NaN, which compilers of != are known to forget
    w.define(op, _narrow_flag(w, op, text))


def _narrow_flag(w: Writer, op: Op, text: str) -> str:
    """A test, of which no compiler can tell that it is one of 64 bits. LLVM 15 with AVX2 ends where
    a selection of selections by such a mask, of narrower values, is widened."""
    if element_of(op.operands[0].type).bits < 64:
        return text
    word = with_element(op.results[0].type, u32)
    flag = f"select({zero(word)}, {type_name(word)}(1u), {text})"
    return f"{w.hidden(flag, word)} != {zero(word)}"


def function(w: Writer, op: Op) -> None:
    w.type(op.results[0].type)
    text = f"{_FUNCTIONS[op.name]}({', '.join(_operands(w, op))})"
    w.define(op, w.guard(op, text) if op.results[0].id in w.guarded else text, atom=True)


def helper(w: Writer, op: Op) -> None:
    name = w.helper(_HELPERS[op.name], op.operands[0].type)
    text = f"{name}({', '.join(w.operands(op))})"
    shown = _narrow_flag(w, op, text) if element_of(op.results[0].type).is_bool else text
    w.define(op, shown, atom=shown is text)


def negate(w: Writer, op: Op) -> None:
    t, (x,) = op.results[0].type, w.operands(op)
    unsigned = element_of(t).name in ("u32", "u64")
    w.define(op, f"{zero(t)} - {x}" if unsigned else f"-{x}")


def invert(w: Writer, op: Op) -> None:
    (x,) = w.operands(op)
    w.define(op, f"!{x}" if element_of(op.results[0].type).is_bool else f"~{x}")


def absolute(w: Writer, op: Op) -> None:
    (x,) = w.operands(op)
    unsigned = element_of(op.results[0].type).name in ("u32", "u64")
    w.define(op, x if unsigned else f"abs({x})", atom=True)


def sign(w: Writer, op: Op) -> None:
    t, (x,) = op.results[0].type, w.operands(op)
    if element_of(t).is_float:
        w.define(op, f"{w.helper('sign_of', t)}({x})", atom=True)
        return
    dtype = element_of(t)
    if not dtype.is_signed:
        w.define(op, f"select({zero(t)}, {w.splat(1, t)}, {x} != {zero(t)})", atom=True)
        return
    # By bits: NVIDIA's compiler (580.159) fails at signs made by selections beside a loop or 64-bit
    # integers.
    last = f"{dtype.bits - 1}u"
    places = last if lanes_of(t) == 1 else f"{as_type(t, 'u32')}({last})"
    words = as_type(t, "u64" if dtype.bits == 64 else "u32")
    x = w.let(x)
    above = f"bitcast<{type_name(t)}>(bitcast<{words}>(-{x}) >> {places})"
    w.define(op, f"(({x} >> {places}) | {above})", atom=True)


def extreme(w: Writer, op: Op) -> None:
    t, (a, b) = op.results[0].type, w.operands(op)
    if element_of(t).is_float:
        name = w.helper("least" if op.name == "min" else "greatest", t)
        w.define(op, f"{name}({a}, {b})", atom=True)
    else:
        w.define(op, f"{op.name}({a}, {b})", atom=True)


def divide(w: Writer, op: Op) -> None:
    """a / b within 2.5 ulp for every divisor."""
    t, (a, b) = op.results[0].type, w.operands(op)
    w.type(t)
    known = w.bits.get(op.operands[1].id)
    if op.operands[0].id in w.zeros:
        a = w.hidden(a, t)
    if known is None and (op.operands[1].id in w.zeros or op.operands[0] is op.operands[1]):
        b = w.hidden(b, t)  # x / x is not 1 of a 0, an infinity or a NaN
    small = known is not None and abs(bits_float(known, element_of(t))) <= _LARGE
    if element_of(t) == f16:
        wide = as_type(t, "f32")
        w.define(op, f"{type_name(t)}({wide}({a}) / {wide}({b}))", atom=True)
    elif element_of(t) == f64 or small or "approximate" in w.kernel.fast:
        if known == 0:
            b = w.runtime(b)
        w.define(op, f"{a} / {b}")
    else:
        w.define(op, f"{w.helper('divide', t)}({a}, {b})", atom=True)


def integer_divide(w: Writer, op: Op) -> None:
    t, (a, b) = op.results[0].type, w.operands(op)
    if element_of(t).bits > 32:
        raise w.fail(f"{op.name} of {t} is not for drivers: legalize expands it")
    known = w.bits.get(op.operands[1].id)
    if w.values[op.operands[1].id].constant and not known:
        b = w.runtime(b)  # WGSL divides by 0, but not by a constant of which a lane is 0
    # llvmpipe knows the lanes, and gives 0 for a quotient by -1 of those that it knows.
    seen = element_of(t).is_signed and w.sees_lanes
    if known is None and (seen or op.operands[1].id in w.divisors):
        b = w.hidden(b, t)
    if element_of(t).is_signed:
        name = w.helper("floor_div" if op.name == "floordiv" else "floor_mod", t)
        w.define(op, f"{name}({a}, {b})", atom=True)
    else:
        w.type(t)
        w.define(op, f"{a} {'/' if op.name == 'floordiv' else '%'} {b}")


def shift(w: Writer, op: Op) -> None:
    t = op.results[0].type
    (a, count), bits = w.operands(op), element_of(t).bits
    counts = as_type(t, "u32")
    known = w.bits.get(op.operands[1].id)
    if known is not None:
        count = f"{known % bits}u"
    else:
        if w.values[op.operands[1].id].constant:
            count = w.runtime(count)
        if element_of(op.operands[1].type) != u32:
            count = f"{counts}({count})"
        mask = f"{bits - 1}u" if lanes_of(t) == 1 else f"{counts}({bits - 1}u)"
        count = f"({count} & {mask})"
    w.define(op, f"{a} {'<<' if op.name == 'shl' else '>>'} {count}")


def select(w: Writer, op: Op) -> None:
    condition, a, b = _operands(w, op)
    t = op.results[0].type
    if isinstance(t, VectorType) and not isinstance(op.operands[0].type, VectorType):
        condition = f"vec{t.lanes}<bool>({condition})"
    w.type(t)
    w.define(op, f"select({b}, {a}, {condition})", atom=True)


def dot4(w: Writer, op: Op) -> None:
    a, b, acc = w.operands(op)
    signed = [element_of(v.type).is_signed for v in op.operands[:2]]
    if signed[0] != signed[1]:
        raise w.fail("a packed product of a signed and an unsigned operand has no WGSL form")
    w.language.add("packed_4x8_integer_dot_product")
    w.requires.add("dot4")
    words = (f"bitcast<u32>({x})" if s else x for x, s in zip((a, b), signed, strict=True))
    product = f"{'dot4I8Packed' if signed[0] else 'dot4U8Packed'}({', '.join(words)})"
    w.define(op, f"{acc} + {type_name(op.results[0].type)}({product})")


# conversions


def convert(w: Writer, op: Op) -> None:
    """As ir.ops.meaning.convert defines it."""
    (x,), t = w.operands(op), op.results[0].type
    source, target = element_of(op.operands[0].type), element_of(t)
    name = w.type(t)
    w.type(op.operands[0].type)
    if op.attrs:
        raise w.fail("a convert with attributes: legalize expands it")
    if source == target:
        w.define(op, x, atom=True)
    elif source.is_float and target.is_int:
        _float_to_int(w, op, x)
    elif source.is_float and target.is_bool:
        w.define(op, f"!({x} == {zero(op.operands[0].type)})")
    elif source == u32 and target == f32:
        w.define(op, f"{w.helper('to_f32', t)}({x})", atom=True)
    elif target == f16 and source.bits > 16 and not source.is_bool:
        raise w.fail("rounding to f16 has no exact WGSL form: legalize holds f16 in f32")
    elif source.is_int and target.is_int and source.bits < target.bits:
        _widen(w, op, x)
    else:
        w.define(op, f"{name}({x})", atom=True)


def _widen(w: Writer, op: Op, x: str) -> None:
    """An integer as one of 64 bits, as its own sign says: naga extends as the target's does."""
    t, signed = op.results[0].type, element_of(op.operands[0].type).is_signed
    words = as_type(t, "u64")
    if signed:
        # By a difference of unsigned integers. Mesa's compiler (22.3) takes an ordering of an i32
        # as an i64 with a constant for known, whatever it is.
        narrow = as_type(t, "u32")
        x = f"bitcast<{narrow}>({x}) ^ {narrow}({1 << 31}u)"
    text = f"{words}({x})"
    if element_of(t).is_signed:
        text = f"{type_name(t)}({text})"
    if signed:
        text = f"({text} - {w.splat(1 << 31, t)})"
    w.define(op, text, atom=True)


def _float_to_int(w: Writer, op: Op, x: str) -> None:
    """Truncated and saturated, NaN to 0."""
    t, source = op.results[0].type, op.operands[0].type
    target, x = element_of(t), w.let(x)
    low, high = w.splat(float(target.min), source), w.splat(float(target.max + 1), source)
    inside = f"({x} > {low}) & ({x} < {high})"
    safe = f"select({zero(source)}, {x}, {inside})"
    result = f"{type_name(t)}({safe})"
    result = f"select({result}, {w.splat(target.max, t)}, {x} >= {high})"
    if target.is_signed:
        result = f"select({result}, {w.splat(target.min, t)}, {x} <= {low})"
    w.define(op, result, atom=True)


def bitcast(w: Writer, op: Op) -> None:
    (x,), t, source = w.operands(op), op.results[0].type, op.operands[0].type
    name = w.type(t)
    w.type(source)
    wide, whole = element_of(source).bits == 64, element_of(t).bits == 64
    if source == t:
        w.define(op, x, atom=True)
    elif whole and not wide:  # of pairs of words
        x = w.let(x if element_of(source) == u32 else f"bitcast<{as_type(source, 'u32')}>({x})")
        parts = ["xy", "zw"][: lanes_of(t)]
        joined = [w.join(f"{x}.{part}", element_of(t)) for part in parts]
        w.define(op, joined[0] if len(joined) == 1 else f"{name}({', '.join(joined)})", atom=True)
    elif wide and not whole:
        lanes = [f"{w.let(x)}.{c}" for c in "xy"] if lanes_of(source) > 1 else [x]
        words = [w.split(lane, element_of(source)) for lane in lanes]
        text = words[0] if len(words) == 1 else f"vec4<u32>({', '.join(words)})"
        w.define(op, text if element_of(t) == u32 else f"bitcast<{name}>({text})", atom=True)
    else:
        w.define(op, f"bitcast<{name}>({x})", atom=True)


# vectors


def const(w: Writer, op: Op) -> None:
    bits = op.attr("bits")
    assert isinstance(bits, int)
    w.constant(op.results[0], bits)


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of a vector: its text, and which constant it is if it is one."""

    text: str
    constant: int | None


def _lanes(w: Writer, vector: Value) -> list[Lane]:
    """The lanes of a vector, which gets a name. Those of one made of constants are the constants:
    Chromium on SwiftShader gives 0 for ~x where x is a lane of a vector of zeros."""
    if (known := w.lanes.get(vector.id)) is not None:
        return [Lane(w.values[n].text, n) for n in known]
    name = w.let(w.use(vector))
    return [Lane(f"{name}.{c}", None) for c in "xyzw"[: lanes_of(vector.type)]]


def _scalar(w: Writer, value: Value) -> Lane:
    return Lane(w.use(value), value.id if value.id in w.bits else None)


def _build(w: Writer, op: Op, lanes: Sequence[Lane]) -> None:
    """A vector of some lanes, or of one repeated."""
    result = op.results[0]
    constants = [lane.constant for lane in lanes if lane.constant is not None]
    whole = len(constants) == len(lanes)
    if whole:
        w.lanes[result.id] = constants * (lanes_of(result.type) // len(lanes))
    fixed = whole and all(w.values[n].constant for n in constants)
    texts = ", ".join(lane.text for lane in lanes)
    w.define(op, f"{w.type(result.type)}({texts})", atom=True, constant=fixed)


def construct(w: Writer, op: Op) -> None:
    _build(w, op, [_scalar(w, v) for v in op.operands])


def _lane(op: Op) -> int:
    lane = op.attr("lane")
    assert isinstance(lane, int)
    return lane


def extract(w: Writer, op: Op) -> None:
    vector, lane = op.operands[0], _lane(op)
    if (lanes := w.lanes.get(vector.id)) is not None:
        result = op.results[0].id
        w.values[result], w.bits[result] = w.values[lanes[lane]], w.bits[lanes[lane]]
    else:
        w.define(op, f"{w.use(vector)}.{'xyzw'[lane]}", atom=True)


def insert(w: Writer, op: Op) -> None:
    lanes = _lanes(w, op.operands[0])
    lanes[_lane(op)] = _scalar(w, op.operands[1])
    _build(w, op, lanes)


def shuffle(w: Writer, op: Op) -> None:
    lanes = [lane for vector in op.operands for lane in _lanes(w, vector)]
    picked = op.attr("lanes")
    assert isinstance(picked, tuple)
    _build(w, op, [lanes[n] for n in picked if isinstance(n, int)])


def index(w: Writer, text: str, dtype: DType) -> str:
    """An index as WGSL takes it."""
    return text if dtype in (i32, u32) else f"u32({text})"


LOWERINGS: dict[str, Lowering] = {
    **dict.fromkeys(("add", "sub", "mul", "and", "or", "xor"), symbol),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), compare),
    **dict.fromkeys(_FUNCTIONS, function),
    **dict.fromkeys(_HELPERS, helper),
    **dict.fromkeys(("min", "max"), extreme),
    **dict.fromkeys(("floordiv", "mod"), integer_divide),
    **dict.fromkeys(("shl", "shr"), shift),
    **dict.fromkeys(("vector", "splat"), construct),
    "neg": negate, "not": invert, "abs": absolute, "sign": sign, "div": divide, "select": select,
    "dot4": dot4, "convert": convert, "bitcast": bitcast, "const": const, "extract": extract,
    "insert": insert, "shuffle": shuffle,
}  # fmt: skip
