"""Ids of groups and invocations, and grids that a launch had to fold.

A grid beyond the hardware's limits is launched as (min(total, 65535), rest, 1) groups. The kernel
finds that out from the true grid of its parameters, decodes the linear number of its group then,
and the surplus groups leave at once, as whole groups.
"""

from __future__ import annotations

from ...ir.core import Op, ops_named
from .lowering import Lowering

_GROUP_IDS = ("group_id", "global_id")


def place_group(x: Lowering) -> None:
    """Leave surplus groups; define the group's ids."""
    f, (gx, gy, gz) = x.f, x.grid
    used = set(map(_dim, ops_named(x.kernel.body, *_GROUP_IDS)))
    row = x.row()
    raw = {d: x.group_word(d) for d in sorted(used | {0, 1})}
    is_folded = x.folded()
    folded, surplus, inside, go = (f.label(w) for w in ("folded", "surplus", "inside", "go"))
    before = f.current
    f.branch_if(is_folded, folded, go)
    f.block(folded)
    linear = f.value(f"add i32 {raw[0]}, {f.value(f'mul i32 {raw[1]}, {row}')}")
    total = f.value(f"mul i32 {f.value(f'mul i32 {gx}, {gy}')}, {gz}")
    f.branch_if(f.value(f"icmp uge i32 {linear}, {total}"), surplus, inside)
    f.block(surplus)
    f.ret()
    f.block(inside)
    decoded = {d: _decoded(x, linear, d) for d in sorted(used)}
    f.branch(go)
    f.block(go)
    phis = {d: f.phi("i32") for d in sorted(used)}
    for d, phi in phis.items():
        phi.edges += [(raw[d], before), (decoded[d], inside)]
        x.group[d] = x.as_index(phi.name)


def _decoded(x: Lowering, linear: str, d: int) -> str:
    """The group id along `d` of the group with this linear number."""
    f, (gx, gy, _) = x.f, x.grid
    if d == 0:
        return f.value(f"urem i32 {linear}, {gx}")
    rows = f.value(f"udiv i32 {linear}, {gx}")
    return f.value(f"{'urem' if d == 1 else 'udiv'} i32 {rows}, {gy}")


def _dim(op: Op) -> int:
    d = op.attr("dim")
    assert isinstance(d, int)
    return d


def emit_id(x: Lowering, op: Op) -> None:
    """Define the result of an id op."""
    x.set(op.result, [_id(x, op)])


def _id(x: Lowering, op: Op) -> str:
    f, t = x.f, x.index
    match op.name:
        case "count":
            return _count(x, op)
        case "num_groups":
            return x.as_index(x.grid[_dim(op)])
        case "group_id":
            return x.group[_dim(op)]
        case "local_id":
            return x.as_index(_local(x, _dim(op)))
        case "global_id":
            size, local = x.kernel.workgroup[_dim(op)], _local(x, _dim(op))
            scaled = f.value(f"mul {t.text} {x.group[_dim(op)]}, {size}")
            return f.value(f"add {t.text} {scaled}, {x.as_index(local)}")
        case "local_linear_id":
            return x.as_index(linear_id(x))
        case "num_subgroups":
            return str(-(-x.kernel.workgroup_count // _subgroup(x, op)))
        case "subgroup_id":
            _subgroup(x, op)
            return x.as_index(x.subgroup_number())
        case "subgroup_lane":
            return x.as_index(f.value(f"urem i32 {linear_id(x)}, {_subgroup(x, op)}"))
    raise x.fail(op, f"op {op.name} has no code here")


def _subgroup(x: Lowering, op: Op) -> int:
    if x.kernel.subgroup is None:
        message = f"{op.name} needs a subgroup size: give the kernel SUBGROUP = {x.lanes}"
        raise x.fail(op, message)
    return x.kernel.subgroup


def _count(x: Lowering, op: Op) -> str:
    memory = x.memory[op.operands[0].id]
    if memory.type.count is not None:
        return str(memory.type.count)
    return x.counts[op.operands[0].id]


def _local(x: Lowering, d: int) -> str:
    """local_id along `d` as i32."""
    size = x.kernel.workgroup[d]
    return "0" if size == 1 else x.local_word(d)


def linear_id(x: Lowering) -> str:
    """The number of the invocation in its workgroup, as i32: subgroups are made in this order."""
    f, below, total = x.f, 1, "0"
    for d, size in enumerate(x.kernel.workgroup):
        if size > 1:
            part = _local(x, d)
            part = f.value(f"mul i32 {part}, {below}") if below > 1 else part
            total = f.value(f"add i32 {total}, {part}") if below > 1 else part
        below *= size
    return total


def lane(x: Lowering) -> str:
    """The lane within the hardware's subgroup, as i32."""
    return x.f.value(f"and i32 {linear_id(x)}, {x.lanes - 1}")
