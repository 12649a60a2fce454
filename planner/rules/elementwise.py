"""Elementwise ops, in a wider type where kernels of the type are missing.

f16, bf16 and 8-bit floats are computed in f32 and rounded once, as the kernels themselves do;
integers of 8 and 16 bits in i32, of which the low bits are kept. Nothing is computed in a narrower
type.
"""

from __future__ import annotations

from ...ir.dtypes import DTYPES, DType, bool_
from ...ir.graph.core import Node
from ...ir.graph.elementwise import ELEMENTWISE
from ..lowering import Lowering
from ..refusal import Missing
from ..view import View
from .copies import expanded

WIDER = {
    "f16": "f32",
    "bf16": "f32",
    "f8e4m3": "f32",
    "f8e5m2": "f32",
    "i8": "i32",
    "u8": "i32",
    "i16": "i32",
    "u16": "i32",
}
_BINARY = {
    "add", "sub", "mul", "div", "max", "min", "pow", "fmod", "mod", "and", "or", "xor", "shl", "shr"
}  # fmt: skip
_LOW_BITS = {"add", "sub", "mul", "and", "or", "xor", "shl"}  # follow from low bits
_COMPARE = {"lt", "le", "eq"}


def cast(c: Lowering, x: View, to: DType) -> View:
    """x as another type: floats round to nearest even, floats as integers truncate and saturate,
    integers keep their low bits, a bool is 0 or 1."""
    have, want = str(x.dtype), str(to)
    if have == want:
        return x
    if c.has("cast", f"{have}_{want}"):
        y = c.make(x.type.with_dtype(to))
        c.launch("cast", f"{have}_{want}", x, y)
        return y
    if {have, want} in ({"i32", "u32"}, {"i64", "u64"}):
        return x.seen_as(want)
    if want == "bool":
        return _inverted(c, compare(c, "eq", x, _constant(c, x, 0)))
    if have == "bool":
        return cast(c, x.seen_as("u8"), to)
    wider = WIDER.get(have)
    if wider and wider != want:
        return cast(c, cast(c, x, DTYPES[wider]), to)
    if have in ("i32", "u32") and want in ("i64", "u64"):
        return _extended(c, x, to)
    if have in ("i64", "u64") and want in ("i32", "u32"):
        return _low_words(c, x).seen_as(want)
    raise Missing(f"kernel cast {have}_{want}")


def _low_words(c: Lowering, x: View) -> View:
    from .copies import taken

    pairs = x.reshaped(*x.shape, 1).seen_as("i32")
    return taken(c, pairs, lambda v: v[..., 0])


def _extended(c: Lowering, x: View, to: DType) -> View:
    """32-bit integers as 64-bit ones: the words, and those of the sign."""
    from .copies import placed

    y = c.make(x.type.with_dtype(to))
    pairs = y.reshaped(*y.shape, 1).seen_as("i32")
    words = x.seen_as("i32")
    if x.dtype.is_signed:
        high = binary(c, "shr", words, _constant(c, words, 31))
    else:
        high = _constant(c, words, 0)
    placed(c, words, pairs, lambda v: v[..., 0])
    placed(c, high, pairs, lambda v: v[..., 1])
    return y


def _constant(c: Lowering, like: View, value: float) -> View:
    from .copies import full

    return full(c, like.type, value)


def unary(c: Lowering, op: str, x: View) -> View:
    """op of each element."""
    name = str(x.dtype)
    if c.has("unary", f"{op}_{name}"):
        y = c.make(x.type)
        c.launch("unary", f"{op}_{name}", x, y)
        return y
    if name in WIDER:
        return cast(c, unary(c, op, cast(c, x, DTYPES[WIDER[name]])), x.dtype)
    raise Missing(f"kernel unary {op}_{name}")


def binary(c: Lowering, op: str, a: View, b: View) -> View:
    """op of each pair of elements, of one shape and type."""
    name = str(a.dtype)
    if c.has("binary", f"{op}_{name}"):
        y = c.make(a.type)
        c.launch("binary", f"{op}_{name}", a, b, y)
        return y
    if name == "u32" and op in _LOW_BITS:
        return binary(c, op, a.seen_as("i32"), b.seen_as("i32")).seen_as("u32")
    if name in WIDER:
        wide = DTYPES[WIDER[name]]
        return cast(c, binary(c, op, cast(c, a, wide), cast(c, b, wide)), a.dtype)
    if name == "bool" and op in ("and", "or", "xor"):
        wide = DTYPES["i32"]
        return cast(c, binary(c, op, cast(c, a, wide), cast(c, b, wide)), a.dtype)
    raise Missing(f"kernel binary {op}_{name}")


def compare(c: Lowering, op: str, a: View, b: View) -> View:
    """op of each pair, as bools."""
    name = str(a.dtype)
    if c.has("compare", f"{op}_{name}"):
        y = c.make(a.type.with_dtype(bool_))
        c.launch("compare", f"{op}_{name}", a, b, y)
        return y
    if name == "bool":
        return compare(c, op, a.seen_as("u8"), b.seen_as("u8"))
    if name in WIDER:
        wide = DTYPES[WIDER[name]]
        return compare(c, op, cast(c, a, wide), cast(c, b, wide))
    if name == "u32" and op == "eq":
        return compare(c, op, a.seen_as("i32"), b.seen_as("i32"))
    raise Missing(f"kernel compare {op}_{name}")


def choose(c: Lowering, condition: View, a: View, b: View) -> View:
    """a where the condition holds, else b."""
    if a.dtype.bytes == 8:
        last = (*a.shape, 1)
        pairs = [v.reshaped(*last).seen_as("u32") for v in (a, b)]
        both = expanded(c, condition.reshaped(*last), pairs[0].shape)
        words = choose(c, both, *pairs)
        return words.seen_as(str(a.dtype)).reshaped(*a.shape)
    y = c.make(a.type)
    c.launch("where", f"b{8 * a.dtype.bytes}", condition, a.words, b.words, y.words)
    return y


def _inverted(c: Lowering, x: View) -> View:
    return choose(c, x, _constant(c, x, 0), _constant(c, x, 1))


def _unary(c: Lowering, node: Node) -> tuple[View, ...]:
    return (unary(c, node.op, c.view(node.operands[0])),)


def _binary(c: Lowering, node: Node) -> tuple[View, ...]:
    a, b = map(c.view, node.operands)
    return (binary(c, node.op, a, b),)


def _quotient(c: Lowering, node: Node) -> tuple[View, ...]:
    """The floor of integers' quotients, and what is divided by 0 as it is: one less than what is
    cut towards zero, where that leaves another rest than the floor does."""
    a, b = map(c.view, node.operands)
    cut = binary(c, "div", a, b)
    rest = binary(c, "sub", a, binary(c, "mul", cut, b))
    floored = compare(c, "eq", rest, binary(c, "mod", a, b))
    found = choose(c, floored, cut, binary(c, "sub", cut, _constant(c, cut, 1)))
    return (choose(c, compare(c, "eq", b, _constant(c, b, 0)), a, found),)


def _shift(c: Lowering, node: Node) -> tuple[View, ...]:
    """By a count modulo the width."""
    a, b = map(c.view, node.operands)
    count = binary(c, "and", b, _constant(c, b, a.dtype.bits - 1))
    return (binary(c, node.op, a, count),)


def _compare(c: Lowering, node: Node) -> tuple[View, ...]:
    a, b = map(c.view, node.operands)
    if node.op in _COMPARE:
        return (compare(c, node.op, a, b),)
    if node.op in ("gt", "ge"):
        return (compare(c, {"gt": "lt", "ge": "le"}[node.op], b, a),)
    return (_inverted(c, compare(c, "eq", a, b)),)


def _select(c: Lowering, node: Node) -> tuple[View, ...]:
    condition, a, b = map(c.view, node.operands)
    return (choose(c, condition, a, b),)


def _not(c: Lowering, node: Node) -> tuple[View, ...]:
    x = c.view(node.operands[0])
    if not x.dtype.is_bool:
        return (binary(c, "xor", x, _constant(c, x, -1 if x.dtype.is_signed else x.dtype.max)),)
    return (_inverted(c, x),)


def _isnan(c: Lowering, node: Node) -> tuple[View, ...]:
    x = c.view(node.operands[0])
    return (_inverted(c, compare(c, "eq", x, x)),)


def _isinf(c: Lowering, node: Node) -> tuple[View, ...]:
    x = c.view(node.operands[0])
    infinite = _constant(c, x, float("inf"))
    return (compare(c, "eq", unary(c, "abs", x), infinite),)


def _cast(c: Lowering, node: Node) -> tuple[View, ...]:
    return (cast(c, c.view(node.operands[0]), node.results[0].type.dtype),)


def _bitcast(c: Lowering, node: Node) -> tuple[View, ...]:
    return (c.view(node.operands[0]).seen_as(str(node.results[0].type.dtype)),)


def _gate(c: Lowering, node: Node) -> tuple[View, ...]:
    """silu(gate) * up in one launch."""
    for op, kind in (("silu", "swiglu"), ("gelu", "geglu")):
        for number, operand in enumerate(node.operands):
            gate = c.deferred(operand, op)
            name = f"{kind}_{node.results[0].type.dtype}"
            tanh = gate is not None and op == "gelu" and gate.attr("approximate") == "tanh"
            name = name.replace("geglu", "geglu_tanh") if tanh else name
            if gate is None or not c.has("gated", name):
                continue
            x, up = c.view(gate.operands[0]), c.view(node.operands[1 - number])
            c.claim(gate)
            y = c.make(node.results[0].type)
            c.launch("gated", name, x, up, y)
            return (y,)
    raise Missing("a gate")


_PLAIN = {
    op: (_binary if op in _BINARY else _unary,)
    for op in ELEMENTWISE - {"eq", "ne", "lt", "le", "gt", "ge", "fma", "select", "not"}
}

RULES = {
    **_PLAIN,
    "mul": (_gate, _binary),
    "floordiv": (_quotient,),
    "shl": (_shift,),
    "shr": (_shift,),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), (_compare,)),
    "select": (_select,),
    "not": (_not,),
    "isnan": (_isnan,),
    "isinf": (_isinf,),
    "cast": (_cast,),
    "bitcast": (_bitcast,),
    "sigmoid": (_unary,),
    "silu": (_unary,),
}


def _gelu(c: Lowering, node: Node) -> tuple[View, ...]:
    if node.attr("approximate") != "none":
        raise Missing("kernel unary gelu_tanh")
    return (unary(c, "gelu", c.view(node.operands[0])),)


RULES["gelu"] = (_gelu,)
