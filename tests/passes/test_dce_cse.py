"""Dead code and common subexpressions."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.core import walk
from gristmill.ir.passes import run
from gristmill.ir.passes.cse import Cse
from gristmill.ir.passes.dce import Dce
from gristmill.ir.passes.number import Renumber
from pass_check import count, same
from pass_kernels import text_kernel

I = "%i.1 = global_id {dim=0} : i32\n"


def x4() -> list[np.ndarray]:
    return [np.arange(1, 9, dtype=np.float32)]


def test_a_carried_value_that_only_feeds_itself_goes() -> None:
    body = I + (
        "%2 = const 0 : i32\n%3 = const 4 : i32\n%4 = const 0.0 : f32\n"
        "%5, %6 = for %2, %3, %4, %4 : f32, f32 body(%7: i32, %8: f32, %9: f32) {\n"
        "  %10 = load %x.0, %7 : f32\n  %11 = add %8, %10 : f32\n  %12 = add %9, %10 : f32\n"
        "  continue %11, %12\n}\n"
        "store %x.0, %i.1, %5\nreturn\n"
    )
    after = same(text_kernel(body, ["x f32 readwrite"]), [Dce()], x4())
    (loop,) = [o for o in walk(after.body) if o.name == "for"]
    assert (len(loop.results), len(loop.regions[0].args), count(after, "add")) == (1, 2, 1)


def test_an_unused_result_of_an_if_goes_with_what_computed_it() -> None:
    body = I + (
        "%2 = const 3 : i32\n%3 = lt %i.1, %2 : bool\n%4 = load %x.0, %i.1 : f32\n"
        "%5, %6 = if %3 : f32, f32 {\n  %7 = mul %4, %4 : f32\n  %8 = sqrt %4 : f32\n"
        "  yield %7, %8\n} else {\n  yield %4, %4\n}\n"
        "store %x.0, %i.1, %5\nreturn\n"
    )
    after = same(text_kernel(body, ["x f32 readwrite"]), [Dce()], x4(), (8, 1, 1))
    assert (count(after, "sqrt"), count(after, "mul"), count(after, "if")) == (0, 1, 1)


def test_an_array_that_is_never_read_goes_with_its_stores() -> None:
    body = (
        '%1 = alloc {name="a"} : private<f32,4>\n%2 = alloc {name="b"} : private<f32,4>\n'
        "%3 = const 1 : i32\n%4 = load %x.0, %3 : f32\nstore %1, %3, %4\nstore %2, %3, %4\n"
        "%5 = load %2, %3 : f32\n%6 = const 0 : i32\nstore %x.0, %6, %5\nreturn\n"
    )
    after = same(text_kernel(body, ["x f32 readwrite"]), [Dce()], x4())
    assert (count(after, "alloc"), count(after, "store")) == (1, 2)


LOOP_WITH_EXIT = (
    "%2 = const 0 : i32\n%3 = const 4 : i32\n"
    "for %2, %3 body(%4: i32) {{\n"
    "  %5 = load %x.0, %4 : f32\n  %6 = const 2.5 : f32\n  %7 = gt %5, %6 : bool\n"
    "  if %7 {{\n    {exit}\n  }} else {{\n    yield\n  }}\n"
    "  {effect}\n  continue\n}}\n{after}return\n"
)


@pytest.mark.parametrize(
    ("exit", "effect", "after", "loops"),
    [
        ("break", "%8 = neg %5 : f32", "", 0),
        ("break", "%8 = neg %5 : f32\n  store %x.0, %4, %8", "", 1),
        ("continue", "%8 = neg %5 : f32\n  store %x.0, %4, %8", "", 1),
        ("return", "%8 = neg %5 : f32", "store %x.0, %2, %9\n", 1),
    ],
)
def test_a_loop_lives_only_by_its_effects(exit: str, effect: str, after: str, loops: int) -> None:
    tail = "%9 = const 7.0 : f32\n" + after
    body = I + LOOP_WITH_EXIT.format(exit=exit, effect=effect, after=tail)
    done = same(text_kernel(body, ["x f32 readwrite"]), [Dce()], x4())
    assert count(done, "for") == loops
    assert count(done, "if") == loops


def test_equal_values_merge_only_where_one_dominates_the_other() -> None:
    body = I + (
        "%2 = const 3 : i32\n%3 = lt %i.1, %2 : bool\n"
        "if %3 {\n  %4 = mul %i.1, %2 : i32\n  %5 = mul %2, %i.1 : i32\n  %6 = convert %4 : f32\n"
        "  %7 = convert %5 : f32\n  %8 = add %6, %7 : f32\n  store %x.0, %i.1, %8\n  yield\n"
        "} else {\n  %9 = mul %i.1, %2 : i32\n  %10 = convert %9 : f32\n"
        "  store %x.0, %i.1, %10\n  yield\n}\nreturn\n"
    )
    after = same(text_kernel(body, ["x f32 readwrite"]), [Cse()], x4(), (8, 1, 1))
    assert (count(after, "mul"), count(after, "convert")) == (2, 2)


LOADS = [  # what stands between two loads of x[i], and how many loads are left
    ("", 1),
    ("store %y.1, %3, %4", 1),
    ("store %x.0, %6, %4", 2),
    ("barrier", 2),
    ('fence {order="acquire", scope="workgroup"}', 2),
    ("if %7 {\n  store %x.0, %6, %4\n  yield\n} else {\n  yield\n}", 2),
    ("if %7 {\n  store %y.1, %3, %4\n  yield\n} else {\n  yield\n}", 1),
    ("for %5, %6 body(%9: i32) {\n  store %x.0, %9, %4\n  continue\n}", 2),
]


@pytest.mark.parametrize(("between", "left"), LOADS)
def test_a_load_is_repeated_only_after_a_write(between: str, left: int) -> None:
    body = (
        "%3 = const 2 : i32\n%4 = load %x.0, %3 : f32\n%5 = const 0 : i32\n%6 = const 3 : i32\n"
        "%7 = gt %6, %5 : bool\n" + between + "\n%10 = load %x.0, %3 : f32\n"
        "%11 = add %4, %10 : f32\nstore %y.1, %5, %11\nreturn\n"
    )
    kernel = text_kernel(body, ["x f32 readwrite", "y f32 readwrite"], scalars="n i32")
    x = np.arange(1, 9, dtype=np.float32)
    after = same(kernel, [Cse()], [x, x.copy(), 3])
    assert count(after, "load") == left


def test_a_read_only_buffer_is_read_once_whatever_is_written() -> None:
    body = (
        "%3 = const 2 : i32\n%4 = load %x.0, %3 : f32\nbarrier\nstore %y.1, %3, %4\n"
        "%5 = load %x.0, %3 : f32\n%6 = add %4, %5 : f32\nstore %y.1, %3, %6\nreturn\n"
    )
    kernel = text_kernel(body, ["x f32 read", "y f32 readwrite"], scalars="n i32")
    x = np.arange(1, 9, dtype=np.float32)
    assert count(same(kernel, [Cse()], [x, x.copy(), 3]), "load") == 1
    from dataclasses import replace

    params = tuple(replace(p, may_alias=p.is_memory) for p in kernel.params)
    assert count(run(replace(kernel, params=params), [Cse()]), "load") == 2


def test_a_load_takes_the_value_that_was_stored() -> None:
    body = (
        "%1 = const 2 : i32\n%2 = load %x.0, %1 : f32\n%3 = neg %2 : f32\nstore %x.0, %1, %3\n"
        "%4 = load %x.0, %1 : f32\n%5 = const 0 : i32\nstore %x.0, %5, %4\nreturn\n"
    )
    after = same(text_kernel(body, ["x f32 readwrite"]), [Cse()], x4())
    assert count(after, "load") == 1


def test_the_second_iteration_sees_what_the_first_one_wrote() -> None:
    body = (
        "%1 = const 0 : i32\n%2 = const 4 : i32\n%3 = load %x.0, %1 : f32\n"
        "%4 = for %1, %2, %3 : f32 body(%5: i32, %6: f32) {\n  %7 = load %x.0, %1 : f32\n"
        "  %8 = add %7, %6 : f32\n  store %x.0, %1, %8\n  continue %8\n}\n"
        "%9 = load %x.0, %1 : f32\n%10 = const 1 : i32\nstore %x.0, %10, %9\nreturn\n"
    )
    after = same(text_kernel(body, ["x f32 readwrite"]), [Cse()], x4())
    assert count(after, "load") == 3


def test_subgroup_ops_are_not_merged() -> None:
    body = I + (
        '%2 = load %x.0, %i.1 : f32\n%3 = subgroup_reduce %2 {kind="add"} : f32\n'
        '%4 = subgroup_reduce %2 {kind="add"} : f32\n%5 = add %3, %4 : f32\n'
        "store %x.0, %i.1, %5\nreturn\n"
    )
    kernel = text_kernel(body, ["x f32 readwrite"], size=8, extra="subgroup 8\n")
    assert count(same(kernel, [Cse()], x4()), "subgroup_reduce") == 2


def test_a_pass_that_changes_nothing_returns_its_kernel() -> None:
    body = I + "%2 = load %x.0, %i.1 : f32\n%3 = neg %2 : f32\nstore %x.0, %i.1, %3\nreturn\n"
    kernel = text_kernel(body, ["x f32 readwrite"])
    assert all(p(kernel) is kernel for p in (Cse(), Dce(), Renumber()))


@pytest.mark.parametrize("scope", ["workgroup", "device"])
def test_a_fence_stays(scope: str) -> None:
    body = I + (
        "%2 = load %x.0, %i.1 : f32\n"
        f'fence {{order="acq_rel", scope="{scope}"}}\n'
        "store %x.0, %i.1, %2\nreturn\n"
    )
    kernel = text_kernel(body, ["x f32 readwrite"])
    assert count(run(kernel, [Dce()]), "fence") == 1
    assert count(run(kernel, [Cse(), Dce(), Renumber()]), "fence") == 1
