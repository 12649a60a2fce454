"""Legalization: exact for every value, and nothing unsupported is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gristmill.ir.core import Kernel, walk
from gristmill.ir.dtypes import DTYPES, MemType, Space, element_of, i32, with_element
from gristmill.ir.ops import ROWS
from gristmill.ir.passes import as_held, run
from gristmill.ir.passes.dce import Dce
from gristmill.ir.passes.legalize import Legalize
from gristmill.ir.passes.support import ALL, OPTIONAL, Support
from gristmill.ir.verify import verify
from pass_check import count, execute, same
from pass_kernels import elementwise, pairs, patterns, text_kernel

WIDE = frozenset(["bool", "i32", "u32", "i64", "u64", "f32", "f64"])
BARE = Support(WIDE, WIDE - {"bool"}, frozenset(), max_lanes=4, subgroup_vectors=False)
STORES = Support(WIDE, ALL - {"bool", "bf16"}, frozenset({"fma"}), max_lanes=4)
NO_BF16 = Support(ALL - {"bf16"}, ALL - {"bool", "bf16"}, OPTIONAL, max_lanes=4)
TARGETS = {"bare": BARE, "stores": STORES, "no_bf16": NO_BF16}
NARROW = ("i8", "u8", "i16", "u16", "f16", "bf16")
NUMBERS = (*NARROW, "i32", "u32", "i64", "u64", "f32", "f64")
EXACT = [n for n, r in ROWS.items() if r.exact and r.meaning and r.arity in (1, 2)]
SKIPPED = {"convert", "bitcast", "ldexp"}  # tested apart


def check_supported(kernel: Kernel, support: Support) -> None:
    """Nothing in a kernel is beyond what the target has."""
    moved = {"load", "store", "convert", "bitcast", "vector"}
    for op in walk(kernel.body):
        for v in (*op.operands, *op.results):
            t = v.type
            if isinstance(t, MemType):
                allowed = support.storage if t.space is Space.BUFFER else support.arithmetic
            else:
                allowed = support.arithmetic | (support.storage if op.name in moved else set())
            assert element_of(t).name in allowed, f"{op.name}: {t}"
            assert getattr(t, "lanes", 1) <= support.max_lanes, f"{op.name}: {t}"
        if op.operands:
            assert support.has(op.name, op.operands[0].type), f"{op.name} is left"


def takes(name: str, t) -> bool:
    try:
        ROWS[name].rule((t,) * ROWS[name].arity, {}, None)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_exact_ops_keep_their_value(target: str, name: str, lanes: int, rng) -> None:
    support, t = TARGETS[target], DTYPES[name]
    a = patterns(t, rng, 24)
    x, y = pairs(a, a[:40])
    size = len(x) // 8 * 8
    x, y = x[:size], y[:size]
    for op in EXACT:
        if op in SKIPPED or not takes(op, t):
            continue

        def build(b, v, w, op=op):
            r = b.emit(op, *(v, w)[: ROWS[op].arity])
            return r if r.type == v.type else b.emit("convert", r, type=v.type)

        kernel = elementwise(build, [t, t], t, lanes)
        after = same(kernel, [Legalize(support), Dce()], [x, y, x.copy()], (size // lanes, 1, 1))
        check_supported(after, support)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [*NUMBERS, "bool"])
def test_every_conversion_keeps_its_value(target: str, source: str, rng) -> None:
    support, s = TARGETS[target], DTYPES[source]
    if s.bits == 16:  # all of them
        x = np.arange(1 << 16, dtype=np.uint16).view(s.storage)
    else:
        x = patterns(s, rng, 500)
    x = x[: len(x) // 2 * 2]
    for name in (*NUMBERS, "bool"):
        t = DTYPES[name]
        for lanes in (1, 2):
            kernel = elementwise(
                lambda b, v, t=t: b.emit("convert", v, type=with_element(v.type, t)), [s], t, lanes
            )
            out = np.zeros(len(x), t.storage)
            after = same(kernel, [Legalize(support), Dce()], [x, out], (len(x) // lanes, 1, 1))
            check_supported(after, support)


@pytest.mark.parametrize("target", TARGETS)
def test_every_bitcast_keeps_its_bits(target: str, rng) -> None:
    support = TARGETS[target]
    shapes = [(n, k) for n in NUMBERS for k in (1, 2, 4, 8)]
    for source, a in shapes:
        for result, b in shapes:
            s, t = DTYPES[source], DTYPES[result]
            if s.bits * a != t.bits * b:
                continue
            x = np.frombuffer(rng.bytes(s.bytes * a * 16), s.storage).copy()
            if s.is_float or t.is_float:  # the bits of a NaN are not kept
                x = np.frombuffer(
                    (rng.integers(0, 0x3C, s.bytes * a * 16)).astype(np.uint8), s.storage
                ).copy()
            kernel = cast_kernel(s, a, t, b)
            out = np.zeros(len(x) * s.bits // t.bits, t.storage)
            check_supported(same(kernel, [Legalize(support), Dce()], [x, out], (16, 1, 1)), support)


def cast_kernel(s, a: int, t, b: int) -> Kernel:
    body = "%2 = global_id {dim=0} : i32\n"
    for n, (dtype, lanes) in enumerate(((s, a), (t, b))):
        wide = f"{dtype}x{lanes}" if lanes > 1 else f"{dtype}"
        if n == 0:
            attrs = f" {{lanes={lanes}}}" if lanes > 1 else ""
            body += f"%3 = load %x.0, %2{attrs} : {wide}\n"
        else:
            body += f"%4 = bitcast %3 : {wide}\n"
    return text_kernel(body + "store %y.1, %2, %4\nreturn\n", [f"x {s} read", f"y {t} write"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_arithmetic_is_rounded_after_every_op(target: str, name: str, rng) -> None:
    support, t = TARGETS[target], DTYPES[name]
    a = patterns(t, rng, 100)
    x, y = pairs(a, a)
    for op in ("add", "sub", "mul", "div"):

        def build(b, v, w, op=op):
            return b.emit("add", b.emit(op, v, w), w)

        kernel = elementwise(build, [t, t], t)
        after = same(kernel, [Legalize(support), Dce()], [x, y, x.copy()], (len(x), 1, 1))
        check_supported(after, support)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_ldexp_and_fmod_keep_their_value(target: str, name: str, rng) -> None:
    support, t = TARGETS[target], DTYPES[name]
    a = patterns(t, rng, 60)
    n = np.array([0, 1, -1, 10, -10, -24, -150, 150, 2000, -2000, 2**31 - 1, -(2**31)], np.int32)
    x, y = pairs(a, n)
    kernel = elementwise(lambda b, v, w: b.emit("ldexp", v, w), [t, i32], t)
    same(kernel, [Legalize(support)], [x, y, x.copy()], (len(x), 1, 1))
    x, y = pairs(a, a)
    kernel = elementwise(lambda b, v, w: b.emit("fmod", v, w), [t, t], t)
    same(kernel, [Legalize(support)], [x, y, x.copy()], (len(x), 1, 1))


def test_dot_products_of_all_signs_keep_their_value(rng) -> None:
    for a, b in (("i32", "i32"), ("u32", "u32"), ("i32", "u32"), ("u32", "i32")):
        s, t = DTYPES[a], DTYPES[b]
        acc = DTYPES["u32" if (a, b) == ("u32", "u32") else "i32"]
        kernel = elementwise(lambda k, *v: k.emit("dot4", *v), [s, t, acc], acc)
        args = [patterns(d, rng) for d in (s, t, acc, acc)]
        same(kernel, [Legalize(BARE)], args, (len(args[0]), 1, 1))


@pytest.mark.parametrize("size", [4, 8, 32])
def test_subgroup_ops_made_of_shuffles_keep_their_value(size: int, rng) -> None:
    names = ["shuffle", "shuffle_xor", "shuffle_up", "shuffle_down"]
    for name in rng.permutation([*NARROW, "i32", "f32"])[:3]:
        t = DTYPES[str(name)]
        for lanes in (1, 8):
            x = np.tile(patterns(DTYPES["i8"], rng, 4 * size * lanes), 2)[: 4 * size * lanes]
            x = (
                x.astype(np.float32).astype(t.storage)
                if t.name != "bf16"
                else (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            )
            ops = [(f"subgroup_{n}", {}) for n in names]
            kinds = ["min", "max"] + ([] if t.is_float else ["add", "mul", "and", "or", "xor"])
            ops += [("subgroup_reduce", {"kind": k}) for k in kinds]
            ops += [
                ("subgroup_scan", {"kind": k, "inclusive": i}) for k in kinds for i in (True, False)
            ]
            for op, attrs in ops:
                kernel = subgroup_kernel(op, attrs, t, lanes, size)
                args = [x, x.copy()]
                check_supported(same(kernel, [Legalize(BARE), Dce()], args, (4, 1, 1)), BARE)


def subgroup_kernel(op: str, attrs: dict, t, lanes: int, size: int) -> Kernel:
    wide = f"{t}x{lanes}" if lanes > 1 else f"{t}"
    parts = {True: "true", False: "false"}
    words = [
        f'{k}="{v}"' if isinstance(v, str) else f"{k}={parts[v]}"
        for k, v in sorted(attrs.items(), reverse=True)
    ]
    text = " {" + ", ".join(sorted(words)) + "}" if words else ""
    other = "" if attrs else ", %4"
    loading = f" {{lanes={lanes}}}" if lanes > 1 else ""
    body = (
        f"%2 = global_id {{dim=0}} : i32\n%3 = load %x.0, %2{loading} : {wide}\n"
        f"%4 = const 1 : i32\n%5 = {op} %3{other}{text} : {wide}\nstore %y.1, %2, %5\nreturn\n"
    )
    return text_kernel(body, [f"x {t} read", f"y {t} write"], size=size, extra=f"subgroup {size}\n")


def test_a_kernel_that_a_target_has_everything_for_stays_as_it_is() -> None:
    kernel = elementwise(lambda b, v: b.emit("sqrt", v), [DTYPES["f32"]], DTYPES["f32"])
    assert Legalize(BARE)(kernel) is kernel
    kernel = elementwise(lambda b, v: b.emit("exp", v), [DTYPES["bf16"]], DTYPES["bf16"], 8)
    assert Legalize(Support())(kernel) is kernel


def test_neighbours_in_a_word_survive_a_store_by_another_invocation() -> None:
    kernel = text_kernel(
        "%1 = global_id {dim=0} : i32\n%2 = const 2 : i32\n%3 = mul %1, %2 : i32\n"
        "%4 = const -3 : i8\nstore %x.0, %3, %4\nreturn\n",
        ["x i8 write"],
    )
    after = same(kernel, [Legalize(BARE)], [np.arange(-8, 8, dtype=np.int8)], (8, 1, 1))
    assert (count(after, "store"), count(after, "atomic")) == (0, 2)
    assert str(after.body.args[0].type) == "buffer<u32,readwrite>"
    assert after.params == kernel.params


def test_scalars_arrive_as_words() -> None:
    for name, value in (("i8", -5), ("u16", 65000), ("f16", 1.5), ("bf16", -3.0), ("i16", -300)):
        kernel = text_kernel(
            f"%2 = const 0 : i32\n%3 = add %a.1, %a.1 : {name}\n%4 = convert %3 : f32\n"
            "store %x.0, %2, %4\nreturn\n",
            ["x f32 write"],
            scalars=f"a {name}",
        )
        after = same(kernel, [Legalize(BARE)], [np.zeros(1, np.float32), value])
        assert str(after.body.args[1].type) == "u32"


@pytest.mark.parametrize(
    "use",
    [
        "%6 = bitcast %5 : u64\n%7 = bitcast %6 : f64\n%8 = bitcast %7 : i64",
        "%8 = not %5 : i64",
        '%8 = subgroup_reduce %5 {kind="add"} : i64',
        "%6 = convert %5 : u64\n%7 = shr %6, %6 : u64\n%8 = bitcast %7 : i64",
    ],
)
@pytest.mark.parametrize("index", ["u16", "i8"])
def test_wide_values_loaded_by_a_narrow_index_keep_their_upper_half(
    index: str, use: str, rng
) -> None:
    kernel = text_kernel(
        f"%2 = local_id {{dim=0}} : i32\n%4 = convert %2 : {index}\n%5 = load %x.0, %4 : i64\n"
        f"{use}\nstore %y.1, %2, %8\nreturn\n",
        ["x i64 read", "y i64 write"],
        size=8,
    )
    kernel = replace(kernel, subgroup=4)
    x = rng.integers(-(1 << 63), 1 << 63, 8)
    check_supported(same(kernel, [Legalize(BARE)], [x, np.zeros(8, np.int64)]), BARE)


def test_private_and_workgroup_arrays_keep_their_contents(rng) -> None:
    for name in (*NARROW, "bool"):
        t = DTYPES[name]
        for space in ("private", "workgroup"):
            kernel = text_kernel(
                f'%1 = alloc {{name="a"}} : {space}<{t},8>\n%2 = local_id {{dim=0}} : i32\n'
                f"%3 = load %x.0, %2 : {t}\nstore %1, %2, %3\n%4 = load %1, %2 : {t}\n"
                f"%5 = vector %4, %4 : {t}x2\n%6 = const 0 : i32\n%7 = mul %2, %6 : i32\n"
                f"store %x.0, %2, %4\nreturn\n",
                [f"x {t} readwrite"],
                size=8,
            )
            x = patterns(t, rng, 8)[:8]
            x = np.resize(x, 8)
            check_supported(same(kernel, [Legalize(BARE), Dce()], [x]), BARE)


def test_wrong_support_is_refused() -> None:
    with pytest.raises(ValueError, match="not an optional op or element type: add"):
        Support(native=frozenset({"add"}))
    with pytest.raises(ValueError, match="every target has"):
        Support(arithmetic=frozenset({"bool", "u32", "f32"}))


def test_an_expansion_stands_at_the_place_of_its_op() -> None:
    body = "%1 = const 0 : i32\n%2 = load %x.0, %1 : f32\n%3 = exp %2 : f32\n%4 = exp %3 : f32\n"
    kernel = text_kernel(body + "store %x.0, %1, %4\nreturn\n", ["x f32 readwrite"])
    after = Legalize(STORES)(kernel)
    assert count(after, "exp") == 0
    assert all(o.loc is not None for o in walk(after.body))
    lines = {o.loc.line for o in walk(kernel.body) if o.loc}
    assert {o.loc.line for o in walk(after.body) if o.loc} == lines


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_maths_come_out_near_the_reference(name: str) -> None:
    t = DTYPES[name]
    x = np.linspace(0.25, 0.75, 64).astype(np.float32)
    x = (x.view(np.uint32) >> 16).astype(np.uint16) if name == "bf16" else x.astype(t.storage)
    names = [n for n in sorted(OPTIONAL) if ROWS[n].ulp is not None and ROWS[n].arity == 1]
    for op in names:
        kernel = elementwise(lambda b, v, op=op: b.emit(op, v), [t], t)
        after = run(kernel, [Legalize(BARE)])
        check_supported(after, BARE)
        args = [x, np.zeros_like(x)]
        expected = execute(kernel, kernel, args, (64, 1, 1))[1]
        actual = execute(as_held(after), kernel, args, (64, 1, 1))[1]
        whole = f"i{t.bytes}"
        apart = np.abs(actual.view(whole).astype(np.int64) - expected.view(whole).astype(np.int64))
        apart = apart[~(np.isnan(values(actual, t)) & np.isnan(values(expected, t)))]
        bound = 64 if name == "f64" else (ROWS[op].ulp or 0) + 1  # rows bound f32; ir.maths f64
        assert apart.max(initial=0) <= bound, op


def values(array: np.ndarray, t) -> np.ndarray:
    return (array.astype(np.uint32) << 16).view(np.float32) if t.name == "bf16" else array


def test_copies_of_a_lowering_share_constants_but_not_across_arms() -> None:
    """Constants made in one arm are of no use in the other, where they are not defined."""
    chain = "%6 = exp %5 : f32\n%7 = exp %6 : f32\n"
    arms = (
        "%8 = lt %5, %6 : bool\n%9 = if %8 : f32 {\n  %10 = erf %7 : f32\n  yield %10\n"
        "} else {\n  %11 = erf %5 : f32\n  yield %11\n}\n"
    )
    found = {}
    for name, middle, last in (
        ("one", "%7 = exp %5 : f32\n", 7),
        ("two", chain, 7),
        ("arms", chain + arms, 9),
    ):
        body = f"%4 = const 0 : i32\n%5 = load %x.0, %4 : f32\n{middle}"
        body += f"store %y.1, %4, %{last}\nreturn\n"
        found[name] = Legalize(BARE)(text_kernel(body, ["x f32 read", "y f32 write"]))
        verify(found[name])
    constants = {n: [op.name for op in k.body.ops].count("const") for n, k in found.items()}
    assert constants["one"] == constants["two"] == constants["arms"]
