"""Vectorizing, bounds checks, contraction and strength reduction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.core import walk
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.passes import run
from gristmill.ir.passes.checks import Checks
from gristmill.ir.passes.contract import Contract
from gristmill.ir.passes.dce import Dce
from gristmill.ir.passes.debug import DropDebug
from gristmill.ir.passes.simplify import Simplify
from gristmill.ir.passes.strength import Strength
from gristmill.ir.passes.vectorize import Vectorize
from pass_check import count, same
from pass_kernels import elementwise, patterns, text_kernel

BUFFERS = ["x f32 read", "y f32 readwrite"]


def rows(offsets: list[int], scale: str = "mul", extra: str = "", factor: int = 4) -> str:
    """Loads x[factor*i + o] for each offset, stores their doubles to y at the same places."""
    lines = ["%i.2 = global_id {dim=0} : i32", f"%3 = const {factor} : i32"]
    lines.append(f"%4 = {scale} %i.2, %3 : i32")
    n = 5
    values = []
    for o in offsets:
        lines += [f"%{n} = const {o} : i32", f"%{n + 1} = add %4, %{n} : i32"]
        lines.append(f"%{n + 2} = load %x.0, %{n + 1} : f32")
        values.append(n)
        n += 3
    for k, at in enumerate(values):
        lines.append(f"%{n} = add %{at + 2}, %{at + 2} : f32")
        lines.append(f"store %y.1, %{at + 1}, %{n}")
        if k == 0 and extra:
            lines.append(extra)
        n += 1
    return "\n".join([*lines, "return", ""])


def data(count: int = 64) -> list[np.ndarray]:
    return [np.arange(1, count + 1, dtype=np.float32), np.zeros(count, np.float32)]


def accesses(kernel) -> list[int]:
    """Lanes of every load and store, in order."""
    out = []
    for op in walk(kernel.body):
        if op.name in ("load", "store"):
            t = (op.operands[2] if op.name == "store" else op.results[0]).type
            out.append(getattr(t, "lanes", 1))
    return out


@pytest.mark.parametrize(
    ("offsets", "scale", "factor", "expected"),
    [
        ([0, 1, 2, 3], "mul", 4, [4, 4]),
        ([3, 1, 0, 2], "mul", 4, [4, 4]),
        ([4, 5, 6, 7], "mul", 4, [4, 4]),
        ([0, 1, 2, 3], "shl", 2, [4, 4]),
        ([0, 1], "mul", 6, [2, 2]),
        ([2, 3, 0, 1, 4, 5], "mul", 8, [4, 2, 4, 2]),
        ([1, 2, 3, 4], "mul", 4, [2, 1, 1, 1, 2, 1]),
        ([0, 1], "mul", 3, [1, 1, 1, 1]),
        ([0, 2], "mul", 4, [1, 1, 1, 1]),
        ([0, 1, 2], "mul", 4, [2, 1, 2, 1]),
    ],
)
def test_neighbours_join_where_they_are_aligned(offsets, scale, factor, expected) -> None:
    kernel = text_kernel(rows(offsets, scale, factor=factor), BUFFERS)
    after = same(kernel, [Vectorize(), Simplify()], data(), (4, 1, 1))
    assert sorted(accesses(after)) == sorted(expected)


@pytest.mark.parametrize(
    ("extra", "stores"),
    [
        ("", [4]),
        ("barrier", [1, 2, 1]),
        ("%90 = load %y.1, %4 : f32", [1, 2, 1]),
        ("%90 = load %x.0, %4 : f32", [4]),
        ("%91 = gt %i.2, %3 : bool\nif %91 {\n  return\n} else {\n  yield\n}", [1, 2, 1]),
    ],
)
def test_stores_join_only_where_nothing_looks_in_between(extra: str, stores: list[int]) -> None:
    kernel = text_kernel(rows([0, 1, 2, 3], extra=extra), BUFFERS)
    after = same(kernel, [Vectorize()], data(), (4, 1, 1))
    got = [getattr(o.operands[2].type, "lanes", 1) for o in walk(after.body) if o.name == "store"]
    assert sorted(got) == sorted(stores)


def test_loads_do_not_move_over_a_store_to_their_buffer() -> None:
    body = (
        "%2 = global_id {dim=0} : i32\n%3 = const 2 : i32\n%4 = mul %2, %3 : i32\n"
        "%5 = const 1 : i32\n%6 = add %4, %5 : i32\n%7 = load %y.1, %4 : f32\n"
        "store %y.1, %6, %7\n%8 = load %y.1, %6 : f32\n%9 = add %7, %8 : f32\n"
        "store %y.1, %4, %9\nreturn\n"
    )
    kernel = text_kernel(body, BUFFERS)
    x, _ = data()
    after = same(kernel, [Vectorize()], [x, x.copy()], (4, 1, 1))
    assert accesses(after) == [1, 1, 1, 1]


def test_buffers_that_may_alias_are_taken_for_one() -> None:
    body = rows([0, 1, 2, 3])
    mixed = body.splitlines()
    first_store = next(n for n, line in enumerate(mixed) if line.startswith("store"))
    load = next(n for n, line in enumerate(mixed) if "load" in line and n > 6)
    mixed.insert(load, "store %y.1, %4, %7")
    kernel = text_kernel("\n".join([*mixed, ""]), BUFFERS)
    assert first_store
    plain = run(kernel, [Vectorize()])
    params = tuple(replace(p, may_alias=True) for p in kernel.params)
    aliased = run(replace(kernel, params=params), [Vectorize()])
    assert 4 in accesses(plain)
    assert accesses(aliased).count(4) == 1  # the stores; the loads stay apart


def test_vectors_are_at_most_as_long_as_asked() -> None:
    kernel = text_kernel(rows([0, 1, 2, 3]), BUFFERS)
    assert accesses(run(kernel, [Vectorize(widths=(2,))])) == [2, 2, 2, 2]
    assert accesses(run(kernel, [Vectorize(max_bytes=8)])) == [2, 2, 2, 2]


# bounds checks


def test_an_access_out_of_bounds_has_no_effect_and_sets_its_fault() -> None:
    body = (
        "%i.2 = global_id {dim=0} : i32\n%3 = const 2 : i32\n%4 = sub %i.2, %3 : i32\n"
        "%5 = load %x.0, %4 : f32\n%6 = const 1.0 : f32\n%7 = add %5, %6 : f32\n"
        "store %y.1, %i.2, %7\nreturn\n"
    )
    kernel = text_kernel(body, BUFFERS)
    after = run(kernel, [Checks()])
    assert after.sites == ("index out of bounds: x", "index out of bounds: y")
    locs = {o.attr("site"): o.loc for o in walk(after.body) if o.name == "assert"}
    original = {o.name: o.loc for o in walk(kernel.body)}
    assert locs == {0: original["load"], 1: original["store"]}
    x, y = np.arange(1, 4, dtype=np.float32), np.zeros(4, np.float32)
    args = [x, y]
    report = interp.run(after, args, (6, 1, 1))
    assert list(y) == [1, 1, 2, 3]
    assert (report.faults, report.problems) == ({0, 1}, ())


@pytest.mark.parametrize("index", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_every_index_type_is_checked(index: str) -> None:
    t = DTYPES[index]
    x = np.arange(1, 6, dtype=np.float32)
    at = np.array([0, 4, 5, t.max, t.min, t.max - 1], t.storage)
    body = (
        f"%3 = global_id {{dim=0}} : i32\n%4 = load %a.1, %3 : {index}\n"
        "%5 = load %x.0, %4 : f32\nstore %y.2, %3, %5\nreturn\n"
    )
    kernel = text_kernel(body, ["x f32 read", f"a {index} read", "y f32 write"])
    y = np.full(len(at), 9, np.float32)
    report = interp.run(run(kernel, [Checks(), Simplify()]), [x, at, y], (len(at), 1, 1))
    assert not report.problems
    expected = [x[i] if 0 <= int(i) < 5 else 0 for i in at]
    assert list(y) == expected


def test_vectors_and_atomics_are_checked_as_a_whole() -> None:
    body = (
        "%2 = global_id {dim=0} : i32\n%3 = load %x.0, %2 {lanes=4} : f32x4\n"
        "store %x.0, %2, %3\n%4 = const 1 : i32\n"
        '%5 = atomic %n.1, %2, %4 {kind="add"} : i32\nreturn\n'
    )
    kernel = text_kernel(body, ["x f32 readwrite", "n i32 readwrite"])
    x, n = np.arange(7, dtype=np.float32), np.zeros(2, np.int32)
    report = interp.run(run(kernel, [Checks()]), [x, n], (4, 1, 1))
    assert list(n) == [1, 1]
    assert (report.faults, report.problems) == ({0, 1, 2}, ())


def test_a_constant_index_within_an_array_needs_no_check() -> None:
    body = (
        '%1 = alloc {name="tile"} : private<f32,4>\n%2 = const 3 : i32\n%3 = const 4 : i32\n'
        "%4 = load %1, %2 : f32\n%5 = load %1, %3 : f32\n%6 = add %4, %5 : f32\n"
        "store %x.0, %2, %6\nreturn\n"
    )
    after = run(text_kernel(body, ["x f32 readwrite"]), [Checks()])
    assert after.sites == ("index out of bounds: tile", "index out of bounds: x")


def test_a_guard_in_the_source_makes_its_check_free() -> None:
    body = (
        "%1 = global_id {dim=0} : i32\n%2 = count %x.0 : i32\n%3 = convert %1 : u32\n"
        "%4 = convert %2 : u32\n%5 = lt %3, %4 : bool\nif %5 {\n  %6 = load %x.0, %1 : f32\n"
        "  %7 = neg %6 : f32\n  store %x.0, %1, %7\n  yield\n} else {\n  yield\n}\nreturn\n"
    )
    kernel = text_kernel(body, ["x f32 readwrite"])
    after = same(kernel, [Checks(), Simplify(), Dce()], [np.ones(5, np.float32)], (8, 1, 1))
    assert (count(after, "if"), count(after, "assert")) == (1, 0)


# contraction, strength, debug ops


def test_contraction_needs_the_kernel_to_allow_it() -> None:
    body = (
        "%2 = global_id {dim=0} : i32\n%3 = load %x.0, %2 : f32\n%4 = load %y.1, %2 : f32\n"
        "%5 = mul %3, %4 : f32\n%6 = add %5, %3 : f32\n%7 = mul %3, %3 : f32\n"
        "%8 = sub %7, %6 : f32\n%9 = mul %3, %3 : f32\n%10 = sub %8, %9 : f32\n"
        "%11 = mul %10, %10 : f32\n%12 = add %11, %11 : f32\nstore %y.1, %2, %12\nreturn\n"
    )
    kernel = text_kernel(body, BUFFERS)
    assert run(kernel, [Contract()]) is kernel
    after = run(replace(kernel, fast=("contract",)), [Contract(), Dce()])
    assert (count(after, "fma"), count(after, "mul"), count(after, "neg")) == (3, 1, 2)
    x, y = np.array([3, 5], np.float32), np.array([2, 7], np.float32)
    out = [x.copy(), y.copy()]
    interp.run(after, out, (2, 1, 1))
    exact = (x * x - (x * y + x) - x * x) ** 2 * 2
    assert np.array_equal(out[1], exact)


def test_a_product_outside_a_loop_stays_there() -> None:
    body = (
        "%2 = const 0 : i32\n%3 = const 9 : i32\n%4 = load %x.0, %2 : f32\n%5 = mul %4, %4 : f32\n"
        "%6 = for %2, %3, %4 : f32 body(%7: i32, %8: f32) {\n  %9 = add %8, %5 : f32\n"
        "  continue %9\n}\nstore %y.1, %2, %6\nreturn\n"
    )
    kernel = replace(text_kernel(body, BUFFERS), fast=("contract",))
    assert count(run(kernel, [Contract()]), "fma") == 0


@pytest.mark.parametrize("name", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_powers_of_two_become_shifts_and_masks(name: str, rng) -> None:
    t = DTYPES[name]
    x = patterns(t, rng)
    for op in ("mul", "floordiv", "mod"):
        for k in (2, 4, 1 << (t.bits - 2)):
            kernel = elementwise(lambda b, v, op=op, k=k: b.emit(op, v, b.const(k, t)), [t], t)
            after = same(kernel, [Strength()], [x, x.copy()], (len(x), 1, 1))
            assert count(after, op) == 0


def test_debug_ops_go() -> None:
    body = (
        '%1 = const 0 : i32\n%2 = load %x.0, %1 : f32\nprint %2 {format="{}"}\n'
        "%3 = gt %2, %2 : bool\nif %3 {\n  breakpoint {names=[]}\n  yield\n} else {\n  yield\n}\n"
        "store %x.0, %1, %2\nreturn\n"
    )
    after = run(text_kernel(body, ["x f32 readwrite"]), [DropDebug()])
    assert count(after, "print", "breakpoint") == 0
