"""The control rule of the language for subgroup ops."""

from __future__ import annotations

import pytest

from gristmill.ir.lang import (
    Diagnostic,
    DType,
    ReadWrite,
    barrier,
    global_id,
    i32,
    kernel,
    local_id,
    subgroup_add,
    subgroup_and_,
    subgroup_broadcast,
    subgroup_id,
    subgroup_inclusive_or_,
    workgroup_array,
)
from gristmill.ir.uniformity import check_control


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
def divergent_scan(x: ReadWrite[i32], *, SUBGROUP: int = 16):
    if local_id(0) > 3:
        x[0] = subgroup_inclusive_or_(x[0])


@kernel(workgroup=lambda: 64)
def divergent_and(x: ReadWrite[i32], *, SUBGROUP: int = 16):
    if local_id(0) > 3:
        x[0] = subgroup_and_(x[0])


@kernel(workgroup=lambda: 64)
def varying_lane(x: ReadWrite[i32], *, SUBGROUP: int = 16):
    x[0] = subgroup_broadcast(x[1], local_id(0))


@kernel(workgroup=lambda: 64)
def subgroup_barrier(x: ReadWrite[i32], *, SUBGROUP: int = 16):
    if subgroup_id() == 0:
        barrier()


def test_subgroup_ops_need_control_uniform_in_the_subgroup() -> None:
    assert check_control(second_stage.trace("s"), fragments=False) == []
    with pytest.raises(Diagnostic, match="subgroup_add under a condition that differs"):
        divergent_add.trace("s")
    with pytest.raises(Diagnostic, match="subgroup_inclusive_or_ under a condition"):
        divergent_scan.trace("s")
    with pytest.raises(Diagnostic, match="subgroup_and_ under a condition"):
        divergent_and.trace("s")
    with pytest.raises(Diagnostic, match="from a lane that differs"):
        varying_lane.trace("s")
    with pytest.raises(Diagnostic, match="barrier under a condition"):
        subgroup_barrier.trace("s")
