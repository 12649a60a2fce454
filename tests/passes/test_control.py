"""Control flow: simplified, unrolled, and invariant code taken out of loops."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.core import walk
from gristmill.ir.passes import run
from gristmill.ir.passes.dce import Dce
from gristmill.ir.passes.fold import Fold
from gristmill.ir.passes.licm import Licm
from gristmill.ir.passes.simplify import Simplify
from gristmill.ir.passes.unroll import Unroll
from pass_check import count, same
from pass_kernels import text_kernel

I = "%i.1 = global_id {dim=0} : i32\n"
X = ["x f32 readwrite"]


def x8() -> list[np.ndarray]:
    return [np.arange(1, 9, dtype=np.float32)]


@pytest.mark.parametrize("truth", ["true", "false"])
def test_an_if_of_a_constant_is_its_arm(truth: str) -> None:
    body = I + (
        f"%2 = const {truth} : bool\n%3 = load %x.0, %i.1 : f32\n"
        "%4 = if %2 : f32 {\n  %5 = add %3, %3 : f32\n  store %x.0, %i.1, %5\n  yield %5\n"
        "} else {\n  %6 = neg %3 : f32\n  yield %6\n}\nstore %x.0, %i.1, %4\nreturn\n"
    )
    after = same(text_kernel(body, X), [Fold()], x8(), (8, 1, 1))
    assert (count(after, "if"), count(after, "neg")) == (0, int(truth == "false"))


def test_an_arm_that_returns_ends_the_block_that_it_replaces() -> None:
    body = I + (
        "%2 = const true : bool\n%3 = load %x.0, %i.1 : f32\n"
        "if %2 {\n  return\n} else {\n  yield\n}\n%4 = neg %3 : f32\n"
        "store %x.0, %i.1, %4\nreturn\n"
    )
    after = same(text_kernel(body, X), [Fold()], x8(), (8, 1, 1))
    assert count(after, "store") == 0


def test_a_switch_of_a_constant_is_its_case() -> None:
    case = "  %{0} = const {1}.0 : f32\n  yield %{0}\n"
    for number in (-1, 3, 7):
        body = I + (
            f"%2 = const {number} : i32\n%3 = switch %2 {{cases=[-1, 3]}} : f32 case {{\n"
            + case.format(10, 1)
            + "} case {\n"
            + case.format(11, 2)
            + "} default {\n"
            + case.format(12, 3)
            + "}\nstore %x.0, %i.1, %3\nreturn\n"
        )
        after = same(text_kernel(body, X), [Fold()], x8(), (8, 1, 1))
        assert count(after, "switch") == 0


def test_a_condition_is_known_inside_its_arms() -> None:
    body = I + (
        "%2 = const 3 : i32\n%3 = lt %i.1, %2 : bool\n%4 = load %x.0, %i.1 : f32\n"
        "if %3 {\n  %5 = lt %i.1, %2 : bool\n  if %5 {\n    %6 = neg %4 : f32\n"
        "    store %x.0, %i.1, %6\n    yield\n  } else {\n    yield\n  }\n  yield\n"
        "} else {\n  if %3 {\n    store %x.0, %2, %4\n    yield\n  } else {\n    yield\n  }\n"
        "  yield\n}\nreturn\n"
    )
    after = same(text_kernel(body, X), [Simplify()], x8(), (8, 1, 1))
    assert (count(after, "if"), count(after, "store")) == (1, 1)


def test_arms_of_values_become_selects() -> None:
    body = I + (
        "%2 = const 3 : i32\n%3 = lt %i.1, %2 : bool\n%4 = load %x.0, %i.1 : f32\n"
        "%5 = if %3 : f32 {\n  %6 = neg %4 : f32\n  yield %6\n} else {\n  yield %4\n}\n"
        "store %x.0, %i.1, %5\nreturn\n"
    )
    kernel = text_kernel(body, X)
    after = same(kernel, [Simplify()], x8(), (8, 1, 1))
    assert (count(after, "if"), count(after, "select")) == (0, 1)
    assert count(run(kernel, [Simplify(convert_ifs=0)]), "if") == 1


def test_a_costly_arm_stays_conditional() -> None:
    body = I + (
        "%2 = const 3 : i32\n%3 = lt %i.1, %2 : bool\n%4 = load %x.0, %i.1 : f32\n"
        "%5 = if %3 : f32 {\n  %6 = sqrt %4 : f32\n  yield %6\n} else {\n  yield %4\n}\n"
        "store %x.0, %i.1, %5\nreturn\n"
    )
    assert count(run(text_kernel(body, X), [Simplify()]), "if") == 1


def test_a_loop_without_turns_gives_its_initial_values() -> None:
    for low, high in ((4, 4), (5, 2), (0, -3)):
        body = I + (
            f"%2 = const {low} : i32\n%3 = const {high} : i32\n%4 = load %x.0, %i.1 : f32\n"
            "%5 = for %2, %3, %4 : f32 body(%6: i32, %7: f32) {\n  %8 = neg %7 : f32\n"
            "  continue %8\n}\n%9 = add %5, %5 : f32\nstore %x.0, %i.1, %9\nreturn\n"
        )
        assert count(same(text_kernel(body, X), [Fold()], x8(), (8, 1, 1)), "for") == 0


def test_a_while_that_is_never_true_runs_its_condition_once() -> None:
    body = I + (
        "%2 = load %x.0, %i.1 : f32\n%3 = while %2 : f32 cond(%4: f32) {\n"
        "  %5 = add %4, %4 : f32\n  store %x.0, %i.1, %5\n  %6 = const false : bool\n"
        "  condition %6\n} body(%7: f32) {\n  %8 = neg %7 : f32\n  continue %8\n}\n"
        "%9 = load %x.0, %i.1 : f32\n%10 = add %3, %9 : f32\nstore %x.0, %i.1, %10\nreturn\n"
    )
    assert count(same(text_kernel(body, X), [Fold()], x8(), (8, 1, 1)), "while") == 0


def test_a_carried_value_that_never_changes_is_its_initial_value() -> None:
    body = (
        "%i.20 = global_id {dim=0} : i32\n%2 = const 0 : i32\n%3 = load %x.0, %i.20 : f32\n"
        "%4, %5 = for %2, %n.1, %3, %3 : f32, f32 body(%6: i32, %7: f32, %8: f32) {\n"
        "  %9 = add %7, %8 : f32\n  continue %7, %9\n}\n"
        "%10 = add %4, %5 : f32\nstore %x.0, %i.20, %10\nreturn\n"
    )
    kernel = text_kernel(body, X, scalars="n i32")
    after = same(kernel, [Simplify(), Dce()], [*x8(), 3], (8, 1, 1))
    (loop,) = [o for o in walk(after.body) if o.name == "for"]
    assert len(loop.results) == 1


# unrolling


def loop(low: int, high: int, inside: str) -> str:
    return I + (
        f"%2 = const {low} : i32\n%3 = const {high} : i32\n%4 = load %x.0, %i.1 : f32\n"
        f"%5 = for %2, %3, %4 : f32 body(%6: i32, %7: f32) {{\n{inside}}}\n"
        "store %x.0, %i.1, %5\nreturn\n"
    )


PLAIN = "  %8 = convert %6 : f32\n  %9 = mul %7, %8 : f32\n  continue %9\n"
LEAVES = (
    "  %8 = const 2 : i32\n  %9 = eq %6, %8 : bool\n  if %9 {\n    break %7\n  } else {\n"
    "    yield\n  }\n  %10 = add %7, %7 : f32\n  continue %10\n"
)


@pytest.mark.parametrize(("low", "high"), [(0, 4), (-2, 3), (3, 4), (7, 2)])
def test_a_short_loop_unrolls(low: int, high: int) -> None:
    after = same(text_kernel(loop(low, high, PLAIN), X), [Unroll()], x8(), (8, 1, 1))
    assert (count(after, "for"), count(after, "mul")) == (0, max(high - low, 0))


def test_a_loop_that_is_left_early_does_not_unroll() -> None:
    after = same(text_kernel(loop(0, 4, LEAVES), X), [Unroll()], x8(), (8, 1, 1))
    assert count(after, "for") == 1


def test_a_loop_over_its_budget_does_not_unroll() -> None:
    kernel = text_kernel(loop(0, 9, PLAIN), X)
    assert count(run(kernel, [Unroll()]), "for") == 1
    assert count(run(kernel, [Unroll(16, 8)]), "for") == 1
    assert count(run(kernel, [Unroll(16, 64)]), "for") == 0


def test_nested_loops_unroll_from_the_inside() -> None:
    inner = (
        "  %8 = for %2, %3, %7 : f32 body(%9: i32, %10: f32) {\n    %11 = add %10, %7 : f32\n"
        "    continue %11\n  }\n  continue %8\n"
    )
    after = same(text_kernel(loop(0, 3, inner), X), [Unroll()], x8(), (8, 1, 1))
    assert (count(after, "for"), count(after, "add")) == (0, 9)


# invariant code


def outside(kernel) -> set[str]:
    return {o.name for o in kernel.body.ops}


def test_invariant_ops_leave_the_loop() -> None:
    inside = (
        "  %8 = mul %4, %4 : f32\n  %9 = div %8, %4 : f32\n  %10 = add %7, %9 : f32\n"
        "  continue %10\n"
    )
    after = same(text_kernel(loop(0, 40, inside), X), [Licm()], x8(), (8, 1, 1))
    assert {"mul", "div"} <= outside(after)
    assert "add" not in outside(after)


def test_a_costly_op_under_a_condition_stays_there() -> None:
    inside = (
        "  %8 = eq %6, %2 : bool\n  %9 = if %8 : f32 {\n    %10 = mul %4, %4 : f32\n"
        "    %11 = div %10, %4 : f32\n    yield %11\n  } else {\n    yield %7\n  }\n  continue %9\n"
    )
    after = same(text_kernel(loop(0, 40, inside), X), [Licm()], x8(), (8, 1, 1))
    assert "mul" in outside(after)
    assert "div" not in outside(after)


LOADS = [  # loop bounds, body, whether the load of y[1] may leave
    ("const 4", "  %8 = load %y.1, %3 : f32\n  %9 = add %7, %8 : f32\n  continue %9\n", True),
    ("const 0", "  %8 = load %y.1, %3 : f32\n  %9 = add %7, %8 : f32\n  continue %9\n", False),
    (
        "const 4",
        "  %10 = eq %6, %3 : bool\n  if %10 {\n    break %7\n  } else {\n    yield\n  }\n"
        "  %8 = load %y.1, %3 : f32\n  %9 = add %7, %8 : f32\n  continue %9\n",
        False,
    ),
    (
        "const 4",
        "  %8 = load %y.1, %3 : f32\n  %9 = add %7, %8 : f32\n  store %y.1, %3, %9\n"
        "  continue %9\n",
        False,
    ),
]


@pytest.mark.parametrize(("high", "inside", "leaves"), LOADS)
def test_a_load_leaves_only_a_loop_that_surely_runs_it(high, inside: str, leaves: bool) -> None:
    body = (
        "%i.2 = global_id {dim=0} : i32\n%3 = const 0 : i32\n%4 = " + high + " : i32\n"
        "%12 = const 1.0 : f32\n"
        "%5 = for %3, %4, %12 : f32 body(%6: i32, %7: f32) {\n" + inside + "}\n"
        "store %x.0, %i.2, %5\nreturn\n"
    )
    kernel = text_kernel(body, [*X, "y f32 readwrite"])
    after = same(kernel, [Licm()], [*x8(), np.full(2, 3, np.float32)])
    assert ("load" in outside(after)) == leaves


def test_a_load_does_not_leave_a_loop_that_its_own_loop_may_skip() -> None:
    body = (
        "%i.2 = global_id {dim=0} : i32\n%3 = const 0 : i32\n%4 = const 4 : i32\n"
        "%5 = const 1.0 : f32\n"
        "%6 = for %3, %4, %5 : f32 body(%7: i32, %8: f32) {\n"
        "  %9 = gt %7, %4 : bool\n  %10 = if %9 : f32 {\n"
        "    %11 = for %3, %4, %8 : f32 body(%12: i32, %13: f32) {\n"
        "      %14 = load %y.1, %4 : f32\n      %15 = add %13, %14 : f32\n      continue %15\n"
        "    }\n    yield %11\n  } else {\n    yield %8\n  }\n  continue %10\n}\n"
        "store %x.0, %i.2, %6\nreturn\n"
    )
    kernel = text_kernel(body, [*X, "y f32 read"])
    after = same(kernel, [Licm()], [*x8(), np.ones(1, np.float32)])  # y[4] is out of bounds
    assert "load" not in outside(after)


def test_an_if_whose_arms_all_come_to_leave_has_no_results(monkeypatch) -> None:
    monkeypatch.setenv("GRISTMILL_VERIFY", "1")
    kernel = text_kernel(
        f"{I}%2 = const true : bool\n%3 = const 4 : i32\n%4 = lt %i.1, %3 : bool\n"
        "%5 = if %4 : i32 {\nif %2 {\nreturn\n} else {\nyield\n}\nyield %i.1\n"
        "} else {\nreturn\n}\n"
        "%6 = convert %5 : f32\nstore %x.0, %5, %6\nreturn\n",
        X,
    )
    after = same(kernel, [Simplify()], x8(), (8, 1, 1))
    assert all(not op.results for op in walk(after.body) if op.name == "if")
