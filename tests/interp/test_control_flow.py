"""Structured control flow: values that travel through break, continue, return and merges."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region, Value
from gristmill.ir.dtypes import Access, MemType, Space, bool_, i32, u8
from gristmill.ir.interp import InterpOptions, run

N = 24


class Author:
    """A kernel over N invocations that stores one i32 each: `i` is the invocation's number."""

    def __init__(self) -> None:
        self.b = Builder()
        self.out = self.b.value(MemType(Space.BUFFER, i32, None, Access.READWRITE), "out")
        self.i = self.b.emit("global_id", type=i32, dim=0)

    def c(self, value: int, t=i32) -> Value:
        return self.b.const(value, t)

    def run(self, result: Value | None = None, lanes: int = 1 << 16) -> list[int]:
        if result is not None:
            self.b.do("store", self.out, self.i, result)
            self.b.do("return")
        params = (Param("out", "buffer", i32, Access.READWRITE),)
        body = Region((self.out,), tuple(self.b.ops))
        kernel = Kernel("k", "test", params, (8, 1, 1), i32, body)
        y = np.full(N, -1, np.int32)
        report = run(kernel, [y], (N // 8, 1, 1), options=InterpOptions(lanes=lanes))
        assert report.problems == ()
        return y.tolist()


def test_if_merges_values_of_both_arms() -> None:
    a = Author()
    odd = a.b.emit("ne", a.b.emit("and", a.i, a.c(1)), a.c(0))
    with a.b.region() as then:
        a.b.do("yield", a.b.emit("mul", a.i, a.c(10)))
    with a.b.region() as other:
        a.b.do("yield", a.c(7))
    op = a.b.op("if", (odd,), {}, (i32,), (then.region, other.region))
    assert a.run(op.result) == [i * 10 if i % 2 else 7 for i in range(N)]


def test_return_in_one_arm_leaves_the_rest_to_the_others() -> None:
    a = Author()
    with a.b.region() as then:
        a.b.do("store", a.out, a.i, a.c(99))
        a.b.do("return")
    with a.b.region() as other:
        a.b.do("yield", a.i)
    small = a.b.emit("lt", a.i, a.c(5))
    op = a.b.op("if", (small,), {}, (i32,), (then.region, other.region))
    assert a.run(op.result) == [99] * 5 + list(range(5, N))


def test_switch_takes_the_case_or_the_default() -> None:
    a = Author()
    regions = []
    for value in (10, 20, 30):
        with a.b.region() as case:
            a.b.do("yield", a.c(value))
        regions.append(case.region)
    selector = a.b.emit("mod", a.i, a.c(5))
    op = a.b.op("switch", (selector,), {"cases": (3, 0)}, (i32,), tuple(regions))
    assert a.run(op.result) == [{3: 10, 0: 20}.get(i % 5, 30) for i in range(N)]


def test_for_break_and_continue_carry_their_values() -> None:
    a = Author()
    with a.b.region(i32, i32, i32) as body:
        k, total, last = body.args
        done = a.b.emit("eq", k, a.i)
        with a.b.region() as stop:
            a.b.do("break", a.b.emit("mul", total, a.c(100)), k)
        with a.b.region() as go:
            a.b.do("yield")
        a.b.op("if", (done,), {}, (), (stop.region, go.region))
        odd = a.b.emit("ne", a.b.emit("and", k, a.c(1)), a.c(0))
        with a.b.region() as skip:
            a.b.do("continue", total, last)
        with a.b.region() as go:
            a.b.do("yield")
        a.b.op("if", (odd,), {}, (), (skip.region, go.region))
        a.b.do("continue", a.b.emit("add", total, k), k)
    start = (a.c(0), a.c(10), a.c(0), a.c(-5))
    op = a.b.op("for", start, {}, (i32, i32), (body.region,))
    result = a.b.emit("add", a.b.emit("mul", op.results[0], a.c(1000)), op.results[1])

    def expected(i: int) -> int:
        total, last = 0, -5
        for k in range(10):
            if k == i:
                total, last = total * 100, k
                break
            if k % 2:
                continue
            total, last = total + k, k
        return total * 1000 + last

    for lanes in (1, 1 << 16):
        assert a.run(result if lanes == 1 else None, lanes) == [expected(i) for i in range(N)]


def test_for_bounds_differ_between_invocations_and_may_be_empty() -> None:
    a = Author()
    with a.b.region(i32, i32) as body:
        k, total = body.args
        a.b.do("continue", a.b.emit("add", total, k))
    op = a.b.op("for", (a.c(4), a.i, a.c(0)), {}, (i32,), (body.region,))
    assert a.run(op.result) == [sum(range(4, i)) for i in range(N)]


def test_for_up_to_the_greatest_value_of_its_type_ends() -> None:
    a = Author()
    with a.b.region(u8, i32) as body:
        a.b.do("continue", a.b.emit("add", body.args[1], a.c(1)))
    op = a.b.op("for", (a.c(250, u8), a.c(255, u8), a.c(0)), {}, (i32,), (body.region,))
    assert a.run(op.result) == [5] * N


def test_while_leaves_with_the_values_its_condition_saw() -> None:
    a = Author()
    with a.b.region(i32, i32) as test:
        n, _ = test.args
        a.b.do("condition", a.b.emit("ne", n, a.c(1)))
    with a.b.region(i32, i32) as body:
        n, steps = body.args
        even = a.b.emit("eq", a.b.emit("and", n, a.c(1)), a.c(0))
        half = a.b.emit("shr", n, a.c(1))
        more = a.b.emit("add", a.b.emit("mul", n, a.c(3)), a.c(1))
        following = a.b.emit("select", even, half, more)
        a.b.do("continue", following, a.b.emit("add", steps, a.c(1)))
    start = (a.b.emit("add", a.i, a.c(1)), a.c(0))
    op = a.b.op("while", start, {}, (i32, i32), (test.region, body.region))

    def collatz(n: int) -> int:
        steps = 0
        while n != 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    assert a.run(op.results[1]) == [collatz(i + 1) for i in range(N)]


@pytest.mark.parametrize("way", ["break", "return"])
def test_leaving_an_inner_loop_does_not_leave_the_outer_one_but_returning_does(way: str) -> None:
    a = Author()
    with a.b.region(i32, i32) as outer:
        with a.b.region(i32, i32) as inner:
            k, total = inner.args
            with a.b.region() as stop:
                a.b.do(way, *([total] if way == "break" else []))
            with a.b.region() as go:
                a.b.do("yield")
            a.b.op("if", (a.b.emit("eq", k, a.i),), {}, (), (stop.region, go.region))
            grown = a.b.emit("add", total, a.c(1))
            a.b.do("store", a.out, a.i, grown)
            a.b.do("continue", grown)
        start = (a.c(0), a.c(4), outer.args[1])
        op = a.b.op("for", start, {}, (i32,), (inner.region,))
        a.b.do("continue", op.result)
    op = a.b.op("for", (a.c(0), a.c(3), a.c(0)), {}, (i32,), (outer.region,))
    got = a.run(op.result)
    if way == "break":
        assert got == [3 * min(i, 4) for i in range(N)]
    else:
        assert got == [-1, 1, 2, 3] + [12] * (N - 4)


def test_both_arms_leave_and_nothing_follows() -> None:
    a = Author()
    with a.b.region(i32, i32) as body:
        k, total = body.args
        with a.b.region() as then:
            a.b.do("break", total)
        with a.b.region() as other:
            a.b.do("continue", a.b.emit("add", total, a.c(2)))
        a.b.op("if", (a.b.emit("ge", k, a.i),), {}, (), (then.region, other.region))
        a.b.do("return")
    op = a.b.op("for", (a.c(0), a.c(100), a.c(0)), {}, (i32,), (body.region,))
    assert a.run(op.result) == [2 * i for i in range(N)]


def test_values_that_are_equal_for_all_merge_with_those_that_are_not() -> None:
    a = Author()
    flags = a.b.emit("const", type=bool_, bits=1)
    with a.b.region(i32, bool_) as body:
        k, seen = body.args
        hit = a.b.emit("ne", k, a.i)
        a.b.do("continue", a.b.emit("and", seen, hit))
    op = a.b.op("for", (a.c(3), a.c(9), flags), {}, (bool_,), (body.region,))
    result = a.b.emit("select", op.result, a.c(1), a.c(0))
    assert a.run(result) == [int(not 3 <= i < 9) for i in range(N)]
