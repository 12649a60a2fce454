"""Barriers order buffers where one is shared across them, and nowhere else."""

from __future__ import annotations

import pytest

from gristmill.backends.ordering import ordering_barriers
from gristmill.backends.usage import scan
from gristmill.ir.core import Kernel
from kernel_text import kernel

TWO = "x: i32 buffer read, y: i32 buffer readwrite"


def orders(k: Kernel) -> bool:
    """Whether the one barrier of a kernel does; both walks of the analysis agree."""
    found = ordering_barriers(k)
    assert scan(k).ordered == found
    return bool(found)


def around(before: str, after: str, params: str = TWO) -> Kernel:
    """A barrier between two ops."""
    body = f"""
    %2 = local_linear_id : i32
    {before}
    barrier
    {after}
    return"""
    return kernel(params, body)


READ, WRITE = "%{0} = load %1, %2 : i32", "store %1, %2, %2"
ADD = '%{0} = atomic %1, %2, %2 {{kind="add"}} : i32'


@pytest.mark.parametrize(
    ("before", "after", "ordered"),
    [
        ("", "", False),
        (READ, READ, False),
        (READ, "", False),
        ("", WRITE, False),
        (WRITE, "", False),
        (ADD, "", False),
        (WRITE, READ, True),
        (READ, WRITE, True),
        (WRITE, WRITE, True),
        (ADD, READ, True),
        (READ, ADD, True),
        (WRITE, "%{0} = load %0, %2 : i32", False),
    ],
)
def test_a_buffer_on_both_sides_of_a_barrier_is_ordered_if_written(
    before: str, after: str, ordered: bool
) -> None:
    assert orders(around(before.format(10), after.format(11))) == ordered


def test_buffers_that_may_overlap_are_one() -> None:
    load, store = "%3 = load %0, %2 : i32", "store %1, %2, %3"
    assert not orders(around(load, store, "x: i32 buffer read, y: i32 buffer write"))
    params = "x: i32 buffer read may_alias, y: i32 buffer write may_alias"
    assert orders(around(load, store, params))


LOOPED = (
    "%1 = local_linear_id : i32",
    "%2 = const 0 : i32\n%9 = const 4 : i32",
    "",
    "for %2, %9 body(%3: i32) {",
    "",
    "for %2, %9 body(%4: i32) {",
    "barrier",
    "continue",
    "}",
    "",
    "continue",
    "}",
    "",
    "return",
)


@pytest.mark.parametrize(("place", "ordered"), [(2, False), (4, True), (9, True), (12, False)])
def test_what_a_loop_does_is_on_both_sides_of_its_barrier(place: int, ordered: bool) -> None:
    """The barrier stands in the inner of two loops; a store before, in or behind the outer one."""
    lines = [*LOOPED]
    lines[place] = "store %0, %1, %1"
    assert orders(kernel("x: i32 buffer readwrite", "\n".join(lines))) == ordered


def test_a_fence_of_the_device_publishes_what_others_wrote_before_a_barrier() -> None:
    """One invocation tells other workgroups that all of its own have written; who reads it there
    has not come to the barrier yet."""

    def told(fence: str) -> Kernel:
        return around(WRITE, fence)

    assert orders(told('fence {order="release", scope="device"}'))
    assert not orders(told('fence {order="release", scope="workgroup"}'))
