"""Chains of values that parameters alone decide are cut, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.core import Kernel, walk
from gristmill.ir.passes.chains import CutChains
from gristmill.ir.text import parse_kernel
from gristmill.ir.verify import verify

HEAD = """kernel chain test
param y: {0} buffer write
param n: i32 scalar
workgroup 4 1 1
index i32
body(%y.0: buffer<{0},write>, %n.1: i32) {{
"""


def chain(
    steps: int, start: str = "%1", t: str = "i32", *, stores: int = 0, splat: str = ""
) -> Kernel:
    """v * (v + k), again and again: twice as many ways to `start` with each step. With `stores`, it
    goes as often to a private array and from there to the buffer; `splat`: a type to make of it."""
    lines, value = ["%2 = const 0 : i32", f"%3 = convert %1 : {t}"], "%3"
    if start != "%1":
        lines.append(f"%4 = {start}")
        value = "%4"
    for n in range(steps):
        at = 10 + 3 * n
        lines += [
            f"%{at} = const {2 * n + 1} : {t}",
            f"%{at + 1} = add {value}, %{at} : {t}",
            f"%{at + 2} = mul {value}, %{at + 1} : {t}",
        ]
        value = f"%{at + 2}"
    if stores:
        lines.append(f'%5 = alloc {{name="p"}} : private<{t},4>')
        lines += [f"store %5, %2, {value}"] * stores
        lines.append(f"%6 = load %5, %2 : {t}")
        value = "%6"
    if splat:
        lines += [f"%6 = neg {value} : {t}", f"%7 = neg %6 : {t}", f"%8 = neg %7 : {t}"]
        lines.append(f"%9 = splat %8 : {splat}")
    lines.append(f"store %0, %2, {value}")
    return parse_kernel(HEAD.format(t) + "\n".join(lines) + "\nreturn\n}\n", "chain.kir")


def selections(made: Kernel) -> int:
    return sum(op.name == "select" for op in walk(made.body))


@pytest.mark.parametrize("t", ["i32", "i64", "f32", "f64"])
def test_what_many_ways_lead_to_is_cut_and_keeps_its_value(t: str) -> None:
    made = chain(40, t=t)
    cut = CutChains()(made)
    verify(cut)
    assert selections(cut) == 1  # no later one is decided by parameters alone
    outs = [np.zeros(1, t.replace("i", "int").replace("f", "float")) for _ in range(2)]
    for k, out in zip((made, cut), outs, strict=True):
        interp.run(k, [out, 5], (1, 1, 1))
    np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize(
    ("steps", "stores"), [(11, 4), (3, 9000), (8, 9000), (10, 9000), (12, 9000), (13, 9000)]
)
def test_of_an_array_at_the_end_of_many_ways_the_loads_are_cut(steps: int, stores: int) -> None:
    made = chain(steps, "const 5 : i32", stores=stores)
    cut = CutChains()(made)
    verify(cut)
    assert selections(cut) == 1
    outs = [np.zeros(1, np.int32) for _ in range(2)]
    for k, out in zip((made, cut), outs, strict=True):
        interp.run(k, [out, 5], (1, 1, 1))
    np.testing.assert_array_equal(outs[0], outs[1])


def test_a_fragment_at_the_end_of_many_ways_stays() -> None:
    """Where a splat to a vector is cut, one to a fragment is not: no driver follows it."""
    shapes = ("f16x8", "fragment<f16,acc,16x16>")
    vector, fragment = (chain(11, "const 5 : f16", "f16", splat=t) for t in shapes)
    assert selections(CutChains()(vector)) == 1
    assert CutChains()(fragment) is fragment


def test_a_short_chain_stays() -> None:
    made = chain(8)
    assert CutChains()(made) is made


def test_what_an_invocation_decides_stays() -> None:
    made = chain(40, start="local_id {dim=0} : i32")
    assert CutChains()(made) is made


LOOP = """%2 = const 0 : i32
%3 = const {turns} : i32
{before}
%5 = for %2, %3, %1 : i32 body(%6: i32, %7: i32) {{
{body}
}}
store %0, %2, %5
return
}}
"""


def looping(body: str, before: str = "", turns: int = 30) -> Kernel:
    text = HEAD.format("i32") + LOOP.format(body=body, before=before, turns=turns)
    return parse_kernel(text, "loop.kir")


GROWING = {
    "a product of what a turn starts with": ("", "%8 = mul %7, %7 : i32\ncontinue %8"),
    "a sum of what two arms make of it": (
        "",
        "%8 = lt %7, %6 : bool\n%9 = if %8 : i32 {\nyield %7\n} else {\n%10 = add %7, %6 : i32\n"
        "yield %10\n}\ncontinue %9",
    ),
    "what an array holds": (
        '%4 = alloc {name="p"} : private<i32,4>',
        "%8 = load %4, %2 : i32\n%9 = mul %8, %8 : i32\nstore %4, %2, %9\ncontinue %7",
    ),
    "a loop in the loop": (
        "",
        "%8 = for %2, %3, %7 : i32 body(%9: i32, %10: i32) {\n%11 = mul %10, %10 : i32\n"
        "continue %11\n}\ncontinue %8",
    ),
}


@pytest.mark.parametrize(("before", "body"), GROWING.values(), ids=list(GROWING))
def test_a_loop_that_doubles_the_ways_is_cut_in_each_turn(before: str, body: str) -> None:
    made = looping(body, before, turns=3)
    cut = CutChains()(made)
    verify(cut)
    assert selections(cut) >= 1
    outs = [np.zeros(1, np.int32) for _ in range(2)]
    for k, out in zip((made, cut), outs, strict=True):
        interp.run(k, [out, 5], (1, 1, 1))
    np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize(
    "body",
    [
        "%8 = add %7, %6 : i32\ncontinue %8",
        "%8 = const 9 : i32\n%9 = xor %7, %8 : i32\ncontinue %9",
        "%8 = load %0, %6 : i32\n%9 = mul %7, %8 : i32\n%10 = mul %9, %9 : i32\ncontinue %10",
    ],
)
def test_a_loop_that_adds_a_way_stays(body: str) -> None:
    made = looping(body.replace("load %0", "load %4"), '%4 = alloc {name="s"} : workgroup<i32,32>')
    assert CutChains()(made) is made


def test_stores_of_what_an_invocation_decides_add_no_ways() -> None:
    stores = "store %4, %2, %9\n" * 300
    body = f"%8 = load %4, %2 : i32\n{stores}%10 = add %6, %8 : i32\ncontinue %10"
    before = '%4 = alloc {name="p"} : private<i32,4>\n%9 = local_id {dim=0} : i32'
    made = looping(body, before)
    assert CutChains()(made) is made


def test_the_only_place_along_a_dimension_is_known() -> None:
    made = chain(40, start="local_id {dim=1} : i32")
    assert CutChains()(made) is not made


def test_what_is_rounded_by_hand_counts_for_more() -> None:
    """Eight steps of f32 are not too many, of bf16 they are."""
    made = chain(8, t="f32")
    assert CutChains()(made) is made
    assert selections(CutChains()(chain(8, t="bf16"))) >= 1
