"""Folding and identities: exact for every operand, and they fire."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.core import Value
from gristmill.ir.dtypes import DTYPES, DType, bool_, with_element
from gristmill.ir.ops import ROWS
from gristmill.ir.passes import run
from gristmill.ir.passes.dce import Dce
from gristmill.ir.passes.fold import Fold, from_array, to_array
from gristmill.ir.passes.simplify import Simplify
from pass_check import count, same
from pass_kernels import elementwise, patterns, special_bits, text_kernel

NUMBERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64")
BINARY = [
    "add",
    "sub",
    "mul",
    "min",
    "max",
    "floordiv",
    "mod",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "mul_high",
    "div",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "copysign",
]
UNARY = [
    "neg",
    "abs",
    "sign",
    "not",
    "sqrt",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "isnan",
    "isinf",
    "isfinite",
    "popcount",
    "clz",
    "ctz",
]


def takes(name: str, t: DType) -> bool:
    arity = ROWS[name].arity
    try:
        ROWS[name].rule((t,) * arity, {}, None)
    except TypeError:
        return False
    return True


def constants(t: DType) -> list[int]:
    if t.is_float:
        values = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -4.0, 1024.0, 2.0**-14, np.inf, np.nan)
        return [special_bits(v, t) for v in values]
    mask = (1 << t.bits) - 1
    return [v & mask for v in (0, 1, 2, 3, 4, 8, 64, t.bits - 1, t.bits, -1, -2, t.min, t.max)]


def const(b, bits: int, t: DType) -> Value:
    return b.emit("const", type=t, bits=bits)


@pytest.mark.parametrize("name", NUMBERS)
def test_an_op_with_a_constant_operand_keeps_its_value_for_every_other_operand(name, rng) -> None:
    t = DTYPES[name]
    x = patterns(t, rng, 40)
    for op in BINARY:
        if not takes(op, t):
            continue
        for bits in constants(t):
            for flip in (False, True):

                def build(b, v, op=op, bits=bits, flip=flip):
                    c = const(b, bits, t)
                    r = b.emit(op, c, v) if flip else b.emit(op, v, c)
                    return r if r.type == t else b.emit("convert", r, type=t)

                kernel = elementwise(build, [t], t)
                same(kernel, [Simplify(strength=True), Dce()], [x, x.copy()], (len(x), 1, 1))


@pytest.mark.parametrize("name", NUMBERS)
def test_chains_of_ops_keep_their_value(name, rng) -> None:
    t = DTYPES[name]
    x = patterns(t, rng, 40)
    chains = [(a, b) for a in UNARY for b in UNARY + BINARY if takes(a, t) and takes(b, t)]
    chains = [c for c in chains if c[0] not in ("isnan", "isinf", "isfinite")]
    for first, second in chains:

        def build(b, v, first=first, second=second):
            w = b.emit(first, v)
            r = b.emit(second, v, w) if ROWS[second].arity == 2 else b.emit(second, w)
            return r if r.type == t else b.emit("convert", r, type=t)

        same(elementwise(build, [t], t), [Simplify()], [x, x.copy()], (len(x), 1, 1))


@pytest.mark.parametrize("name", ["u8", "u16", "u32", "u64"])
def test_the_absolute_value_of_a_negated_unsigned_number_is_the_negated_one(name: str, rng) -> None:
    t = DTYPES[name]
    x = patterns(t, rng, 40)

    def build(b, v):
        return b.emit("abs", b.emit("neg", v))

    for passes in ([Simplify()], [Fold()], [Simplify(strength=True), Dce()]):
        same(elementwise(build, [t], t), passes, [x, x.copy()], (len(x), 1, 1))


@pytest.mark.parametrize("name", NUMBERS)
def test_two_conversions_in_a_row_keep_their_value(name, rng) -> None:
    t = DTYPES[name]
    x = patterns(t, rng, 80)
    for middle in (*NUMBERS, "bool"):
        for last in (*NUMBERS, "bool"):
            out = DTYPES[last]

            def build(b, v, middle=middle, out=out):
                return b.emit("convert", b.emit("convert", v, type=DTYPES[middle]), type=out)

            y = np.zeros(len(x), out.storage)
            same(elementwise(build, [t], out), [Fold()], [x, y], (len(x), 1, 1))


@pytest.mark.parametrize("name", NUMBERS)
def test_folding_constants_gives_what_the_interpreter_computes(name, rng) -> None:
    t = DTYPES[name]
    words = patterns(t, rng, 3).view(f"u{t.bytes}")
    words = [int(w) for w in rng.permutation(words)[:24]]
    for op in (o for o in BINARY + UNARY if takes(o, t)):
        arity = ROWS[op].arity
        for n, bits in enumerate(words):

            def build(b, v, op=op, operands=(bits, words[n - 1])[:arity]):
                r = b.emit(op, *[const(b, k, t) for k in operands])
                return r if r.type == t else b.emit("convert", r, type=t)

            x = np.zeros(1, t.storage)
            after = same(elementwise(build, [t], t), [Fold(), Dce()], [x, x.copy()])
            assert count(after, op) == (0 if ROWS[op].fold else 1)


def test_bit_patterns_pass_through_arrays_unchanged(rng) -> None:
    for name in (*NUMBERS, "bool"):
        t = DTYPES[name]
        for bits in patterns(t, rng).view(f"u{t.bytes}"):
            back = from_array(to_array(int(bits), t), t)
            value = to_array(int(bits), t)[0]
            assert back == int(bits) or np.isnan(value)


IDENTITIES = [
    ("i32", "%3 = const 0 : i32\n%4 = add %2, %3 : i32\n", "add"),
    ("i32", "%3 = const 1 : i32\n%4 = mul %2, %3 : i32\n", "mul"),
    ("i32", "%4 = sub %2, %2 : i32\n", "sub"),
    ("f32", "%3 = const 1.0 : f32\n%4 = mul %2, %3 : f32\n", "mul"),
    ("f32", "%3 = const -0.0 : f32\n%4 = add %2, %3 : f32\n", "add"),
    ("f32", "%3 = const 0.0 : f32\n%4 = sub %2, %3 : f32\n", "sub"),
    ("f32", "%3 = const 4.0 : f32\n%4 = div %2, %3 : f32\n", "div"),
    ("f32", "%3 = neg %2 : f32\n%4 = neg %3 : f32\n", "neg"),
    ("f32", "%3 = const true : bool\n%4 = select %3, %2, %2 : f32\n", "select"),
    ("f16", "%3 = convert %2 : f32\n%4 = convert %3 : f16\n", "convert"),
    ("bf16", "%3 = convert %2 : f32\n%4 = convert %3 : bf16\n", "convert"),
    ("u8", "%3 = convert %2 : u32\n%4 = convert %3 : u8\n", "convert"),
    ("f32", "%3 = bitcast %2 : u32\n%4 = bitcast %3 : f32\n", "bitcast"),
    ("i32", "%3 = not %2 : i32\n%4 = not %3 : i32\n", "not"),
    ("f32", "%3 = splat %2 : f32x4\n%4 = extract %3 {lane=2} : f32\n", "extract"),
    ("f32", "%3 = vector %2, %2 : f32x2\n%4 = extract %3 {lane=1} : f32\n", "extract"),
]


def around(body: str, dtype: str) -> str:
    """x[i] = what `body` makes of %2 = x[i], in %4."""
    head = f"%1 = global_id {{dim=0}} : i32\n%2 = load %x.0, %1 : {dtype}\n"
    return f"{head}{body}store %x.0, %1, %4\nreturn\n"


@pytest.mark.parametrize(("dtype", "body", "gone"), IDENTITIES)
def test_an_identity_removes_its_op(dtype: str, body: str, gone: str, rng) -> None:
    kernel = text_kernel(around(body, dtype), [f"x {dtype} readwrite"])
    x = patterns(DTYPES[dtype], rng)
    after = same(kernel, [Fold(), Dce()], [x], (len(x), 1, 1))
    assert count(after, gone) == 0


NOT_IDENTITIES = [
    "%3 = const 0.0 : f32\n%4 = add %2, %3 : f32\n",
    "%3 = const 0.0 : f32\n%4 = mul %2, %3 : f32\n",
    "%4 = sub %2, %2 : f32\n",
    "%4 = div %2, %2 : f32\n",
    "%3 = const 3.0 : f32\n%4 = div %2, %3 : f32\n",
]


@pytest.mark.parametrize("body", NOT_IDENTITIES)
def test_what_is_not_exact_for_floats_stays(body: str) -> None:
    kernel = text_kernel(around(body, "f32"), ["x f32 readwrite"])
    assert count(run(kernel, [Simplify(strength=True)]), "add", "sub", "mul", "div") == 1


def test_a_transcendental_of_a_constant_is_not_folded() -> None:
    text = (
        "%1 = const 0 : i32\n%2 = const 1.0 : f32\n%3 = exp %2 : f32\nstore %x.0, %1, %3\nreturn\n"
    )
    kernel = text_kernel(text, ["x f32 write"])
    assert count(run(kernel, [Simplify(), Dce()]), "exp") == 1


def test_the_quotient_times_the_divisor_plus_the_remainder_is_the_number(rng) -> None:
    for c in (1, 3, 7, -5, -1):

        def build(b, v, c=c):
            k = b.const(c, v.type)
            product = b.emit("mul", b.emit("floordiv", v, k), k)
            return b.emit("add", product, b.emit("mod", v, k))

        t = DTYPES["i32"]
        x = patterns(t, rng)
        kernel = elementwise(build, [t], t)
        after = same(kernel, [Simplify(), Dce()], [x, x.copy()], (len(x), 1, 1))
        assert count(after, "floordiv", "mod", "mul") == 0


def test_a_number_over_itself_is_not_divided(rng) -> None:
    for name in ("i32", "u8", "i64", "u64"):
        t = DTYPES[name]
        x = patterns(t, rng)
        x[:2] = 0, t.min
        for op in ("floordiv", "mod"):
            kernel = elementwise(lambda b, v, op=op: b.emit(op, v, v), [t], t)
            after = same(kernel, [Simplify(), Dce()], [x, x.copy()], (len(x), 1, 1))
            assert count(after, "floordiv", "mod") == 0


def test_nothing_is_divided(rng) -> None:
    """0 // x and 0 % x are 0, for x = 0 as well."""
    for name in ("i32", "u8", "i64", "u64"):
        t = DTYPES[name]
        x = patterns(t, rng)
        x[:2] = 0, t.min
        for op in ("floordiv", "mod"):
            kernel = elementwise(lambda b, v, op=op: b.emit(op, b.const(0, v.type), v), [t], t)
            after = same(kernel, [Simplify(), Dce()], [x, x.copy()], (len(x), 1, 1))
            assert count(after, "floordiv", "mod") == 0


def test_vectors_fold_like_scalars(rng) -> None:
    t = DTYPES["f32"]
    x = patterns(t, rng, 4 * 16)
    x = x[: len(x) // 4 * 4]

    def build(b, v):
        two = b.const(2.0, v.type)
        return b.emit("mul", v, b.emit("mul", two, b.emit("add", two, two)))

    kernel = elementwise(build, [t], t, lanes=4)
    after = same(kernel, [Simplify(), Dce()], [x, x.copy()], (len(x) // 4, 1, 1))
    assert (count(after, "mul"), count(after, "add")) == (1, 0)


def test_select_of_truth_values_is_logic(rng) -> None:
    body = (
        "%1 = global_id {dim=0} : i32\n%2 = load %x.0, %1 : bool\n%3 = const true : bool\n"
        "%4 = const false : bool\n%5 = select %2, %4, %3 : bool\nstore %x.0, %1, %5\nreturn\n"
    )
    kernel = text_kernel(body, ["x bool readwrite"])
    after = same(kernel, [Fold(), Dce()], [np.array([True, False])], (2, 1, 1))
    assert (count(after, "select"), count(after, "not")) == (0, 1)
    assert with_element(bool_, bool_) == bool_
