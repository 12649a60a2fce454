"""A device function that is called again: the copy of its ops is what tracing it again gives."""

from __future__ import annotations

import pytest

from gristmill.ir.core import Kernel, walk
from gristmill.ir.lang import (
    Read,
    Write,
    again,
    barrier,
    device,
    f16,
    f32,
    global_id,
    i32,
    kernel,
    local_id,
    private_array,
    registers,
    static_range,
    workgroup_array,
)
from gristmill.ir.lang.decorator import KernelFunction
from gristmill.ir.text import print_kernel


@device
def exchanged(value, combine, COUNT):
    """Through a workgroup array, with a loop and a branch."""
    cells = workgroup_array(f32, COUNT)
    lid = local_id(0)
    cells[lid] = value
    barrier()
    half = COUNT // 2
    while half > 0:
        if lid < half:
            cells[lid] = combine(cells[lid], cells[lid + half])
        barrier()
        half = half // 2
    return cells[0], half


@device
def add(a, b):
    return a + b


@device
def chosen(a, b, first):
    """Where a and b are one value, the branch leaves nothing to choose."""
    picked = a
    if first > 0:
        picked = b
    return picked


@device
def scratch(value):
    """A private array, which is cleared where control comes by again."""
    cells = private_array(f32, 4)
    cells[global_id(0) % 4] = value
    return cells[0]


@device
def checked(value):
    assert value > 0, "positive"
    return value * 2


@device
def bump(cells, n):
    """Changes an array of its caller."""
    cells[n] = cells[n] + 1
    return cells[n]


@device
def early(value, least):
    if value < least:
        return least
    return value


@device
def shifted(value, by):
    """1 and True are equal, but not the same."""
    if by is True:
        return value
    return value + by


@device
def held(value, n):
    """Registers of its own, which a loop carries on."""
    cells = registers(f32, 2, 0)
    for _ in range(n):
        cells[0] = cells[0] + value
    return cells[0]


@device
def every_other(x, n: i32):
    """How often the loop turns is computed from the constant that is given."""
    total = f32(0)
    for k in range(0, n, 2):
        total += x[k]
    return total


@device
def swizzled(tile, row, column):
    """Rows that are eight apart are swizzled alike, which is looked for in how `row` was made."""
    return tile[row, column]


@kernel(workgroup=lambda: (64, 1, 1))
def looks_behind(x: Read[f32], z: Read[f16], y: Write[f32]):
    i = global_id(0)
    y[i] = every_other(x, 10) + every_other(x, 20)
    tile = workgroup_array(f16, (16, 64), swizzle=True)
    for row in static_range(16):
        tile[row, i] = z[row * 64 + i]
    barrier()
    a = i % 4
    b = i % 3
    y[i + 64] = f32(swizzled(tile, a + 8, i)) + f32(swizzled(tile, b + 8, i))
    y[i + 128] = f32(swizzled(tile, b, i))


@kernel(workgroup=lambda: (64, 1, 1))
def repeats(x: Read[f32], n: i32, y: Write[f32]):
    i = global_id(0)
    a = x[i]
    b = x[i + n]
    total, left = exchanged(a, add, 64)
    other, _ = exchanged(b, add, 64)
    third, _ = exchanged(b, add, 32)
    y[i] = total + other + third + f32(left)
    y[i] = chosen(a, b, n) + chosen(b, a, n) + chosen(a, a, n)
    cells = registers(f32, 2, 0)
    for k in static_range(2):
        y[i] = bump(cells, k) + bump(cells, k)
    for k in range(n):
        y[k] = scratch(a) + scratch(b)
        y[k] = (
            early(a, 1.0)
            + early(b, 1.0)
            + early(b, 2.0)
            + early(b, 1)
            + early(b, 0.0)
            + early(b, -0.0)
        )
    y[i] = shifted(a, 1) + shifted(a, True)
    y[i] = checked(a) + checked(b) + checked(b)
    if n > 3:
        later, _ = exchanged(a + b, add, 64)
        y[i] = later


def traced(
    monkeypatch: pytest.MonkeyPatch, copies: bool, source: KernelFunction = repeats
) -> tuple[Kernel, int]:
    """The kernel, and how many calls were copied."""
    count = 0
    real = again.copied

    def copied(*args: object) -> object:
        nonlocal count
        count += 1
        return real(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(again, "copied", copied)
        if not copies:
            patch.setattr(again, "key_of", lambda *args: None)
        return source.trace("s"), count


def test_repeated_calls_give_what_tracing_them_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, none = traced(monkeypatch, copies=False)
    copied, some = traced(monkeypatch, copies=True)
    assert none == 0
    assert some == 6
    assert print_kernel(copied) == print_kernel(whole)
    places = [[op.loc for op in walk(made.body)] for made in (whole, copied)]
    assert places[0] == places[1]


def test_calls_that_look_behind_their_arguments_are_traced_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, _ = traced(monkeypatch, copies=False, source=looks_behind)
    copied, _ = traced(monkeypatch, copies=True, source=looks_behind)
    assert print_kernel(copied) == print_kernel(whole)


@kernel(workgroup=lambda: (64, 1, 1))
def holds(x: Read[f32], n: i32, y: Write[f32]):
    i = global_id(0)
    y[i] = held(x[i], n) + held(x[i + n], n)
    for k in range(n):
        y[k] = held(x[k], n) + held(x[k + n], n)


def test_a_call_that_leaves_registers_behind_is_traced_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, _ = traced(monkeypatch, copies=False, source=holds)
    copied, some = traced(monkeypatch, copies=True, source=holds)
    assert some == 0
    assert print_kernel(copied) == print_kernel(whole)
