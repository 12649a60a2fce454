"""Algebraic identities that hold bit for bit (DESIGN: Numerics), as rules of the `Rewriter`.

For floats "bit for bit" counts every NaN as equal and leaves nothing else: x + 0 is not x for
x = -0, x * 0 is not 0, x - x is not 0. A rule answers with the value that the op equals, with a
cheaper op for the same results, or with None.
"""

from __future__ import annotations

from ..core import Op, Value, float_bits
from ..dtypes import DType, bool_, element_of, with_element
from .conversions import bitcast, convert
from .fold import FOLDED, fold_op
from .rewrite import Answer, Rewriter, Rule, Rules, RuleSet
from .selects import compare, logic_not, order, select
from .vectors import VECTOR_RULES


def _same(op: Op, name: str, *operands: Value) -> Op:
    """`op` with another name and operands."""
    return Op(name, operands, op.results, (), (), op.loc)


def constant_right(rw: Rewriter, op: Op) -> Answer:
    """Commutative ops keep a constant as their second operand."""
    a, b = op.operands
    if rw.bits.get(a.id) is not None and rw.bits.get(b.id) is None:
        return _same(op, op.name, b, a)
    return None


def _bits(value: float, t: DType) -> int:
    return float_bits(value, t)


def _definition(rw: Rewriter, value: Value, name: str) -> Op | None:
    op = rw.defs.get(value.id)
    return op if op is not None and op.name == name else None


def _with_constant(rw: Rewriter, value: Value, name: str) -> tuple[Value, int] | None:
    """(x, c) where `value` is x `name` c with c constant."""
    op = rw.defs.get(value.id)
    if op is not None and op.name == name:
        bits = rw.bits.get(op.operands[1].id)
        if bits is not None:
            return op.operands[0], bits
    return None


def add(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    t = element_of(a.type)
    c = rw.bits.get(b.id)
    if t.is_float:
        if c == _bits(-0.0, t):
            return a
        if (inner := _definition(rw, b, "neg")) is not None:
            return _same(op, "sub", a, inner.operands[0])
        if (inner := _definition(rw, a, "neg")) is not None:
            return _same(op, "sub", b, inner.operands[0])
        return None
    if c == 0:
        return a
    if c is not None and (inner_pair := _with_constant(rw, a, "add")) is not None:
        x, d = inner_pair
        return _same(op, "add", x, rw.const(c + d, a.type))
    return None


def add_values(rw: Rewriter, op: Op) -> Answer:
    """The same where neither operand is a constant."""
    a, b = op.operands
    x, y = rw.defs.get(a.id), rw.defs.get(b.id)
    if x is None or y is None:
        one = x or y
        return add(rw, op) if one is not None and one.name == "neg" else None
    if x.name == "neg" or y.name == "neg":
        return add(rw, op)
    return remainder_sum(rw, op) if x.name == "mod" or y.name == "mod" else None


def sub(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    t = element_of(a.type)
    c = rw.bits.get(b.id)
    if t.is_float:
        if c == 0:  # x - (+0) is x for both zeros
            return a
        if rw.bits.get(a.id) == _bits(-0.0, t):
            return _same(op, "neg", b)
        if (inner := _definition(rw, b, "neg")) is not None:
            return _same(op, "add", a, inner.operands[0])
        return None
    if a.id == b.id:
        return rw.const(0, a.type)
    if c is not None:
        return a if c == 0 else _same(op, "add", a, rw.const(-c, a.type))
    if rw.bits.get(a.id) == 0:
        return _same(op, "neg", b)
    return None


def mul(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    t = element_of(a.type)
    c = rw.bits.get(b.id)
    if c is None:
        return None
    if t.is_float:
        if c == _bits(1.0, t):
            return a
        return _same(op, "neg", a) if c == _bits(-1.0, t) else None
    if c == 0:
        return b
    if c == 1:
        return a
    if (inner := _with_constant(rw, a, "mul")) is not None:
        x, d = inner
        return _same(op, "mul", x, rw.const(c * d, a.type))
    return None


def div(rw: Rewriter, op: Op) -> Answer:
    """x / 2**k is x * 2**-k wherever that factor is a normal number, and x / 0 is x * infinity.

    The latter is not only cheaper: llvmpipe (Mesa 22.3) takes a quotient by 0 for undefined.
    """
    a, b = op.operands
    t = element_of(a.type)
    c = rw.bits.get(b.id)
    if c is None:
        return None
    mantissa, bias = _MANTISSA[t.name]
    exponent = (c >> mantissa) & (2 * bias + 1)
    if not c & ~(1 << (t.bits - 1)):
        return _same(op, "mul", a, rw.const(c | (2 * bias + 1) << mantissa, b.type))
    if c & ((1 << mantissa) - 1) or not 1 <= 2 * bias - exponent <= 2 * bias or exponent < 1:
        return None
    inverse = (c & (1 << (t.bits - 1))) | (2 * bias - exponent) << mantissa
    return _same(op, "mul", a, rw.const(inverse, b.type))


def div_lanes(rw: Rewriter, op: Op) -> Answer:
    """By a vector of which some lanes are 0: there by 1, and times infinity, as `div` does it."""
    a, b = op.operands
    lanes = _definition(rw, b, "vector")
    bits = [rw.known.get(v.id) for v in lanes.operands] if lanes is not None else []
    t = element_of(b.type)
    some = [c for c in bits if c is not None]
    if len(some) < len(bits) or all(c & ~(1 << (t.bits - 1)) for c in some):
        return None
    one, infinity = _bits(1.0, t), _bits(float("inf"), t)
    zero = [not c & ~(1 << (t.bits - 1)) for c in some]
    divisors = [rw.const(one if z else c, t) for z, c in zip(zero, some, strict=True)]
    factors = [rw.const(c | infinity if z else one, t) for z, c in zip(zero, some, strict=True)]
    quotient = rw.emit("div", (a, rw.emit("vector", divisors, b.type)), b.type)
    return _same(op, "mul", quotient, rw.emit("vector", factors, b.type))


_MANTISSA = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}


def neg(rw: Rewriter, op: Op) -> Answer:
    inner = _definition(rw, op.operands[0], "neg")
    return inner.operands[0] if inner is not None else None


def absolute(rw: Rewriter, op: Op) -> Answer:
    a = op.operands[0]
    t = element_of(a.type)
    if t.is_int and not t.is_signed:
        return a
    inner = rw.defs.get(a.id)
    if inner is not None and inner.name == "abs":
        return a
    if inner is not None and inner.name == "neg":
        return _same(op, "abs", inner.operands[0])
    return None


def idempotent(rw: Rewriter, op: Op) -> Answer:
    """min, max: op(x, x) is x."""
    a, b = op.operands
    return a if a.id == b.id else None


def and_(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    t = element_of(a.type)
    if a.id == b.id:
        return a
    c = rw.bits.get(b.id)
    if c == 0:
        return b
    if c == _ones(t):
        return a
    if c is not None and (inner := _with_constant(rw, a, "and")) is not None:
        return _same(op, "and", inner[0], rw.const(c & inner[1], a.type))
    if c is not None and not t.is_bool and (wide := _definition(rw, a, "convert")) is not None:
        source = element_of(wide.operands[0].type)
        # A mask that covers every bit which a zero-extended value can have.
        if source.is_int and not source.is_signed and source.bits < t.bits:
            return a if c & _ones(source) == _ones(source) else None
    return None


def or_(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    if a.id == b.id:
        return a
    c = rw.bits.get(b.id)
    if c == 0:
        return a
    return b if c == _ones(element_of(a.type)) else None


def xor(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    if a.id == b.id:
        return rw.const(0, a.type)
    c = rw.bits.get(b.id)
    if c == 0:
        return a
    return _same(op, "not", a) if c == _ones(element_of(a.type)) else None


def _ones(t: DType) -> int:
    return 1 if t.is_bool else (1 << t.bits) - 1


def shift(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    c = rw.bits.get(b.id)
    t = element_of(a.type)
    if c is None:
        return None
    count = c & (t.bits - 1)
    if count == 0:
        return a
    if count != c:
        return _same(op, op.name, a, rw.const(count, b.type))
    inner = _with_constant(rw, a, op.name)
    if inner is not None and count + (inner[1] & (t.bits - 1)) < t.bits:
        total = rw.const(count + (inner[1] & (t.bits - 1)), b.type)
        return _same(op, op.name, inner[0], total)
    return None


def floordiv(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    if a.id == b.id:  # 1, but 0 // 0 is 0; NVIDIA's Vulkan compiler says 1 for 64 bits
        zero = rw.const(0, a.type)
        none = rw.emit("eq", (a, zero), with_element(a.type, bool_))
        return _same(op, "select", none, zero, rw.const(1, a.type))
    return a if rw.bits.get(b.id) in (0, 1) or rw.bits.get(a.id) == 0 else None  # x // 0 is x


def mod(rw: Rewriter, op: Op) -> Answer:
    a, b = op.operands
    nothing = a.id == b.id or rw.bits.get(b.id) in (0, 1) or rw.bits.get(a.id) == 0
    return rw.const(0, a.type) if nothing else None


def fma(rw: Rewriter, op: Op) -> Answer:
    a, b, c = op.operands
    one = _bits(1.0, element_of(a.type))
    if rw.bits.get(a.id) == one:
        return _same(op, "add", b, c)
    if rw.bits.get(b.id) == one:
        return _same(op, "add", a, c)
    return None


def remainder_sum(rw: Rewriter, op: Op) -> Answer:
    """(x // c) * c + x % c is x: integer wrap-around does not disturb it; c = 0 would."""
    outer, inner = (rw.defs.get(v.id) for v in op.operands)
    if outer is None or inner is None:
        return None
    if outer.name == "mod":
        outer, inner = inner, outer
    if outer.name != "mul" or inner.name != "mod" or not rw.bits.get(inner.operands[1].id):
        return None
    x, c = inner.operands
    quotient = _definition(rw, outer.operands[0], "floordiv")
    if outer.operands[1].id == c.id and quotient is not None and quotient.operands == (x, c):
        return x
    return None


def assertion(rw: Rewriter, op: Op) -> Answer:
    return () if rw.known.get(op.operands[0].id) == 1 else None


def _swap_first(*rules: Rule) -> tuple[Rule, ...]:
    return (constant_right, *rules)


RULES: Rules = {
    "add": _swap_first(add),
    "sub": (sub,),
    "mul": _swap_first(mul),
    "div": (div, div_lanes),
    "neg": (neg,),
    "abs": (absolute,),
    "min": _swap_first(idempotent),
    "max": _swap_first(idempotent),
    "and": _swap_first(and_),
    "or": _swap_first(or_),
    "xor": _swap_first(xor),
    "not": (logic_not,),
    "shl": (shift,),
    "shr": (shift,),
    "floordiv": (floordiv,),
    "mod": (mod,),
    "fma": (fma,),
    "assert": (assertion,),
    "eq": _swap_first(compare),
    "ne": _swap_first(compare),
    "lt": (order,),
    "le": (order,),
    "gt": (order,),
    "ge": (order,),
    "select": (select,),
    "convert": (convert,),
    "bitcast": (bitcast,),
    **VECTOR_RULES,
}

# Rules that say nothing of an op without a constant operand, beside folding and `constant_right`.
NEED_CONSTANT: frozenset[Rule] = frozenset({mul, div, shift, fma, assertion})


def _of_equals(rule: Rule) -> Rule:
    """A rule that says nothing of different operands, none of which is a constant."""

    def of_equals(rw: Rewriter, op: Op) -> Answer:
        a, b = op.operands
        return rule(rw, op) if a.id == b.id else None

    return of_equals


# What stands for a rule where no operand is a constant.
PLAIN: dict[Rule, Rule] = {add: add_values} | {
    rule: _of_equals(rule) for rule in (idempotent, and_, or_, xor, compare, order, floordiv, mod)
}


def folding(rules: Rules) -> Rules:
    """The rules, behind that which evaluates ops of constants."""
    return {n: (fold_op, *rules.get(n, ())) for n in sorted(FOLDED)} | {
        n: some for n, some in rules.items() if n not in FOLDED
    }


def rule_set(rules: Rules, late: Rules | None = None) -> RuleSet:
    """The identities and others, as a walk looks them up. late: those of them that need a constant
    and are also tried on settled ops."""
    more = {rule for some in (late or {}).values() for rule in some}
    return RuleSet.of(
        folding(rules),
        every={fold_op},
        first={constant_right},
        constant=NEED_CONSTANT | more,
        plain=PLAIN,
        late=late,
    )


SIMPLE = rule_set(RULES)
