"""Levels of values for emitters, and the control rule of the language for subgroup ops."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.ir.core import walk
from gristmill.ir.lang import (
    Diagnostic,
    DType,
    Read,
    ReadWrite,
    barrier,
    global_id,
    group_id,
    i32,
    kernel,
    local_id,
    subgroup_add,
    subgroup_broadcast,
    subgroup_id,
    workgroup_array,
)
from gristmill.ir.uniformity import Level, analyze, check_control


def levels(traced: Any) -> dict[str, Level]:
    """Levels by the name in the source."""
    found = analyze(traced)
    values = [v for op in walk(traced.body) for v in op.results]
    return {v.hint: found.level(v) for v in values if v.hint}


@kernel(workgroup=lambda: (16, 4))
def straight(x: Read[i32], y: ReadWrite[i32], n: i32, *, SUBGROUP: int = 8):
    g = group_id(0)
    lid = local_id(0)
    row = local_id(1)
    depth = local_id(2)
    a = x[g] + n
    b = x[lid]
    c = y[g]
    s = subgroup_add(lid)
    wave = subgroup_id()
    if lid > 3:
        inside = n + 1
        y[inside] = 1
    picked = 1
    if lid > 3:
        picked = n
    y[picked + a + b + c + s + wave + row + depth] = 1


def test_levels_of_straight_code() -> None:
    found = levels(straight.trace("s"))
    uniform = {"g", "depth", "a", "inside"}
    subgroup = {"row", "c", "s", "wave"}
    assert {k for k, v in found.items() if v is Level.UNIFORM} >= uniform
    assert {k for k, v in found.items() if v is Level.SUBGROUP} >= subgroup
    assert {found[k] for k in ("lid", "b", "picked")} == {Level.VARYING}


@kernel(workgroup=lambda: 64)
def loops(x: ReadWrite[i32], n: i32):
    lid = local_id(0)
    i = 0
    while i < n:
        i += 1
        if i > lid:
            break
    behind = i
    total = 0
    for k in range(n):
        total += k
        if lid > k:
            continue
        x[k] = 1
    skew = 0
    for k in range(n):
        if lid > k:
            skew += 1
            continue
        x[k] = 1
    x[behind + total + skew] = 1


def test_levels_in_and_behind_loops() -> None:
    traced = loops.trace("s")
    found = analyze(traced)
    first = next(op for op in walk(traced.body) if op.name == "while")
    counter = next(v for v in first.regions[1].args if v.hint == "i")
    assert found.is_uniform(counter)  # those who still run have counted alike
    assert found.level(first.results[0]) is Level.VARYING  # they left at different times
    _, total, skew = [op for op in walk(traced.body) if op.name in ("for", "while")]
    assert found.is_uniform(total.results[0])
    assert found.level(skew.results[0]) is Level.VARYING


@kernel(workgroup=lambda: 64)
def second_stage(x: ReadWrite[i32], *, SUBGROUP: int = 16, T: DType = i32):
    part = workgroup_array(T, 4)
    total = subgroup_add(x[global_id(0)])
    part[subgroup_id()] = total
    barrier()
    if subgroup_id() == 0:
        x[0] = subgroup_add(part[local_id(0) % 4])


@kernel(workgroup=lambda: 64)
def divergent_add(x: ReadWrite[i32], *, SUBGROUP: int = 16):
    if local_id(0) > 3:
        x[0] = subgroup_add(x[0])


@kernel(workgroup=lambda: 64)
def varying_lane(x: ReadWrite[i32], *, SUBGROUP: int = 16):
    x[0] = subgroup_broadcast(x[1], local_id(0))


@kernel(workgroup=lambda: 64)
def subgroup_barrier(x: ReadWrite[i32], *, SUBGROUP: int = 16):
    if subgroup_id() == 0:
        barrier()


def test_subgroup_ops_need_control_uniform_in_the_subgroup() -> None:
    assert check_control(second_stage.trace("s")) == []
    with pytest.raises(Diagnostic, match="subgroup_reduce under a condition that differs"):
        divergent_add.trace("s")
    with pytest.raises(Diagnostic, match="from a lane that differs"):
        varying_lane.trace("s")
    with pytest.raises(Diagnostic, match="barrier under a condition"):
        subgroup_barrier.trace("s")
