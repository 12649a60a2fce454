"""Each mistake that the interpreter can report, with the source line where it is made."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.core import Loc
from gristmill.ir.interp import InterpBudgetExceeded, InterpOptions, Problem, ProblemKind, run
from gristmill.ir.text import parse_kernel

HEAD = """kernel k test
param x: i32 buffer read
param y: i32 buffer readwrite
param n: i32 scalar
workgroup 8 1 1
index i32
"""
BODY = """body(%0: buffer<i32,read>, %1: buffer<i32,readwrite>, %2: i32) {
  %3 = local_linear_id : i32
  %4 = global_id {dim=0} : i32
  %5 = const 0 : i32
  %6 = const 1 : i32
"""


def lines(body: str, head: str = HEAD, allocs: str = "") -> str:
    text = head + BODY + body + "}\n"
    return text.replace("  %3 = local", allocs + "  %3 = local") if allocs else text


def problems(text: str, grid: int = 2, n: int = 0, size: int = 16, **options) -> list[Problem]:
    kernel = parse_kernel(text, "k.kir")
    args = [np.arange(size, dtype=np.int32), np.zeros(size, np.int32), n]
    report = run(kernel, args, (grid, 1, 1), options=InterpOptions(**options))
    return list(report.problems)


def line_of(text: str, marker: str) -> Loc:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if marker in line)
    return Loc("k.kir", number, 1)


def only(text: str, kind: ProblemKind, marker: str, **options) -> Problem:
    (problem,) = problems(text, **options)
    assert problem.kind == kind
    assert problem.loc == line_of(text, marker)
    return problem


SHARED = '  %90 = alloc {name="tile"} : workgroup<i32,8>\n'


def test_load_out_of_bounds_gives_zero_and_is_reported() -> None:
    text = lines(
        "  %7 = add %4, %6 : i32\n  %8 = load %0, %7 : i32\n  store %1, %4, %8\n  return\n"
    )
    kernel = parse_kernel(text, "k.kir")
    y = np.full(16, 7, np.int32)
    report = run(kernel, [np.arange(16, dtype=np.int32), y, 0], (2, 1, 1))
    assert y.tolist() == [*range(1, 16), 0]
    (problem,) = report.problems
    assert problem.kind is ProblemKind.OUT_OF_BOUNDS
    assert problem.loc == line_of(text, "load")
    assert problem.count == 1
    assert "x[16]" in problem.message
    assert "(7, 0, 0) of workgroup (1, 0, 0)" in problem.message


def test_store_out_of_bounds_is_dropped_and_counted() -> None:
    text = lines("  %7 = sub %4, %2 : i32\n  store %1, %7, %6\n  return\n")
    problem = only(text, ProblemKind.OUT_OF_BOUNDS, "store", n=3)
    assert problem.count == 3
    assert "y[-3]" in problem.message


def test_count_of_the_call_bounds_the_access_not_the_allocation() -> None:
    text = lines("  store %1, %4, %6\n  return\n")
    y = np.zeros(16, np.int32)
    x = np.zeros(16, np.int32)
    report = run(parse_kernel(text), [x, y, 0], (2, 1, 1), counts=(16, 5))
    assert y.sum() == 5
    assert report.problems[0].count == 11


def test_vector_access_that_is_partly_outside_is_outside() -> None:
    text = lines(
        "  %7 = load %0, %4 {lanes=4} : i32x4\n  %8 = extract %7 {lane=0} : i32\n"
        "  store %1, %4, %8\n  return\n"
    )
    problem = only(text, ProblemKind.OUT_OF_BOUNDS, "load", grid=1, size=14)
    assert problem.count == 5  # vectors 0, 1, 2 are whole


def test_huge_unsigned_index_is_out_of_bounds() -> None:
    text = lines(
        "  %7 = const 18446744073709551615 : u64\n  %8 = load %0, %7 : i32\n"
        "  store %1, %4, %8\n  return\n"
    )
    only(text, ProblemKind.OUT_OF_BOUNDS, "load")


def test_atomic_out_of_bounds_does_nothing_and_gives_zero() -> None:
    text = lines('  %7 = atomic %1, %2, %6 {kind="add"} : i32\n  store %1, %4, %7\n  return\n')
    only(text, ProblemKind.OUT_OF_BOUNDS, "atomic", n=99)


def test_empty_buffer_reads_zero() -> None:
    text = lines("  %7 = load %0, %5 : i32\n  return\n")
    args = [np.zeros(0, np.int32), np.zeros(1, np.int32), 0]
    report = run(parse_kernel(text), args, (1, 1, 1))
    assert [p.kind for p in report.problems] == [ProblemKind.OUT_OF_BOUNDS]


def test_read_of_an_unwritten_workgroup_cell() -> None:
    text = lines(
        "  %7 = eq %3, %6 : bool\n  if %7 {\n    store %90, %3, %6\n    yield\n  } else {\n"
        "    yield\n  }\n  %8 = load %90, %3 : i32\n  store %1, %4, %8\n  return\n",
        allocs=SHARED,
    )
    problem = only(text, ProblemKind.UNWRITTEN_READ, "load %90")
    assert problem.count == 14
    assert "tile[0]" in problem.message


def test_two_invocations_write_one_cell() -> None:
    text = lines("  store %90, %5, %3\n  return\n", allocs=SHARED)
    problem = only(text, ProblemKind.WRITE_WRITE_RACE, "store %90")
    assert "tile" in problem.message


def test_equal_values_written_by_two_invocations_still_race() -> None:
    text = lines("  store %90, %5, %6\n  return\n", allocs=SHARED)
    only(text, ProblemKind.WRITE_WRITE_RACE, "store %90")


NEIGHBOUR = (
    "  store %90, %3, %3\n{first}  %7 = add %3, %6 : i32\n  %8 = const 8 : i32\n"
    "  %9 = mod %7, %8 : i32\n  %10 = load %90, %9 : i32\n{second}  store %90, %9, %10\n  return\n"
)


def test_read_after_anothers_write_without_a_barrier() -> None:
    text = lines(NEIGHBOUR.format(first="", second="  barrier\n"), allocs=SHARED)
    only(text, ProblemKind.READ_WRITE_RACE, "load %90")


def test_write_after_anothers_read_without_a_barrier() -> None:
    body = NEIGHBOUR.format(first="  barrier\n", second="").replace(
        "store %90, %9, %10", "store %90, %3, %10"
    )
    only(lines(body, allocs=SHARED), ProblemKind.READ_WRITE_RACE, "store %90, %3, %10")


def test_barriers_on_both_sides_leave_no_race() -> None:
    text = lines(NEIGHBOUR.format(first="  barrier\n", second="  barrier\n"), allocs=SHARED)
    assert problems(text) == []


def test_races_can_be_switched_off() -> None:
    text = lines("  store %90, %5, %3\n  return\n", allocs=SHARED)
    assert problems(text, races=False) == []


def test_race_on_a_buffer_within_one_workgroup() -> None:
    text = lines("  %7 = group_id {dim=0} : i32\n  store %1, %7, %3\n  return\n")
    only(text, ProblemKind.WRITE_WRITE_RACE, "store %1")


def test_read_write_race_on_a_buffer() -> None:
    text = lines(
        "  store %1, %4, %3\n  %7 = xor %4, %6 : i32\n  %8 = load %1, %7 : i32\n"
        "  store %90, %3, %8\n  return\n",
        allocs=SHARED,
    )
    only(text, ProblemKind.READ_WRITE_RACE, "load %1")


def test_atomics_do_not_race_with_each_other_but_with_plain_access() -> None:
    atomic = '  %7 = atomic %1, %5, %6 {kind="add"} : i32\n'
    assert problems(lines(atomic + "  return\n")) == []
    text = lines(
        atomic + "  %8 = load %1, %5 : i32\n  store %90, %3, %8\n  return\n", allocs=SHARED
    )
    only(text, ProblemKind.READ_WRITE_RACE, "load %1")
    text = lines("  store %1, %3, %5\n" + atomic + "  return\n")
    only(text, ProblemKind.WRITE_WRITE_RACE, "atomic", grid=1)


def test_one_invocation_may_read_and_write_its_own_cell_again_and_again() -> None:
    text = lines(
        "  store %90, %3, %3\n  %7 = load %90, %3 : i32\n  store %90, %3, %7\n  return\n",
        allocs=SHARED,
    )
    assert problems(text) == []


def test_vector_stores_race_on_any_of_their_elements() -> None:
    text = lines(
        "  %7 = splat %3 : i32x2\n  %8 = const 1 : i32\n  %9 = shr %3, %8 : i32\n"
        "  store %1, %9, %7\n  return\n"
    )
    only(text, ProblemKind.WRITE_WRITE_RACE, "store %1", grid=1)


def test_barrier_that_some_do_not_reach() -> None:
    text = lines(
        "  %7 = lt %3, %2 : bool\n  if %7 {\n    barrier\n    yield\n  } else {\n    yield\n  }\n"
        "  return\n"
    )
    problem = only(text, ProblemKind.BARRIER_DIVERGENCE, "barrier", n=3)
    assert "3 of 8" in problem.message
    assert problem.count == 2


def test_barrier_after_an_early_return_of_some() -> None:
    text = lines(
        "  %7 = lt %3, %2 : bool\n  if %7 {\n    return\n  } else {\n    yield\n  }\n"
        "  barrier\n  return\n"
    )
    only(text, ProblemKind.BARRIER_DIVERGENCE, "barrier", n=3)


def test_barrier_that_whole_workgroups_skip_is_right() -> None:
    text = lines(
        "  %7 = group_id {dim=0} : i32\n  %8 = eq %7, %6 : bool\n  if %8 {\n    barrier\n"
        "    yield\n  } else {\n    yield\n  }\n  return\n"
    )
    assert problems(text) == []


def test_barrier_that_only_some_workgroups_reach_orders_memory_within_them() -> None:
    exchange = NEIGHBOUR.format(first="  barrier\n", second="  barrier\n").replace("  return\n", "")
    body = "  %20 = group_id {dim=0} : i32\n  %21 = eq %20, %6 : bool\n  if %21 {\n" + exchange
    text = lines(body + "    yield\n  } else {\n    yield\n  }\n  return\n", allocs=SHARED)
    assert problems(text) == []


def test_subgroup_op_that_a_part_of_a_subgroup_reaches() -> None:
    head = HEAD + "subgroup 4\n"
    body = (
        '  %7 = lt %3, %2 : bool\n  if %7 {{\n    %8 = subgroup_reduce %3 {{kind="add"}} : i32\n'
        "    store %1, %4, %8\n    yield\n  }} else {{\n    yield\n  }}\n  return\n"
    ).format()
    assert problems(lines(body, head), n=4) == []
    problem = only(lines(body, head), ProblemKind.SUBGROUP_DIVERGENCE, "subgroup_reduce", n=6)
    assert "2 of 4" in problem.message


NESTED = (
    "  %7 = for %5, %2, %5 : i32 body(%8: i32, %9: i32) {\n"
    "    %10 = for %5, %8, %9 : i32 body(%11: i32, %12: i32) {\n"
    "      %13 = add %12, %6 : i32\n      continue %13\n    }\n    continue %10\n  }\n"
    "  store %1, %4, %7\n  return\n"
)


def test_loop_trips_are_summed_over_all_loops_of_an_invocation() -> None:
    text = lines(NESTED)
    args = [np.zeros(16, np.int32), np.zeros(16, np.int32), 10]
    turns = 10 * (1 + 1) + 45  # ten times the inner loop with the pass that leaves it
    report = run(parse_kernel(text), args, (2, 1, 1), options=InterpOptions(loop_limit=turns))
    assert report.max_trips == turns + 1
    assert args[1].tolist() == [45] * 16
    assert report.problems == ()
    found = problems(text, n=10, loop_limit=turns - 1)
    assert {p.kind for p in found} == {ProblemKind.LOOP_LIMIT}
    assert found[0].loc == line_of(text, "%7 = for")
    assert f"{turns} loop turns" in found[0].message
    assert f"stops at {turns - 1}" in found[0].message


def test_endless_loop_is_stopped_with_its_place() -> None:
    text = lines(
        "  while cond {\n    %7 = const true : bool\n    condition %7\n  } body {\n    continue\n"
        "  }\n  return\n"
    )
    with pytest.raises(InterpBudgetExceeded, match="1000 iterations") as caught:
        problems(text, loop_budget=1000)
    assert caught.value.loc == line_of(text, "while")


def test_failed_assert_sets_its_site_and_goes_on() -> None:
    text = lines(
        "  %7 = lt %4, %2 : bool\n  assert %7 {site=1}\n  %8 = ge %4, %5 : bool\n"
        "  assert %8 {site=0}\n  store %1, %4, %6\n  return\n",
        HEAD + 'site "zero"\nsite "one"\n',
    )
    y = np.zeros(16, np.int32)
    report = run(parse_kernel(text), [y.copy(), y, 15], (2, 1, 1))
    assert report.faults == {1}
    assert report.fault_bitmap(31).tolist() == [0, 1]
    assert y.tolist() == [1] * 16


def test_problem_reads_as_a_sentence_with_its_place() -> None:
    text = lines("  store %90, %5, %3\n  return\n", allocs=SHARED)
    (problem,) = problems(text)
    assert str(problem).startswith(f"{problem.loc}: write-write-race: invocation (")
