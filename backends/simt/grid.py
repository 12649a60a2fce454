"""A barrier of all workgroups of a launch."""

from __future__ import annotations

from ...ir.core import Op
from ..llvm.fences import emit_fence
from .ids import linear_id
from .lowering import GLOBAL, Lowering


def emit_grid_barrier(x: Lowering, op: Op) -> None:
    """One counter for all barriers of all launches, one after the other. The first workgroup adds
    2**31 less than the number of the others, each of those adds one: together that turns the
    highest bit, which all wait for, and leaves the rest as it was."""
    f, (gx, gy, gz), scope = x.f, x.grid, x.scopes[GLOBAL]
    x.barrier()
    one, again, over, done = (f.label(w) for w in ("arrive", "await", "over", "together"))
    f.branch_if(f.value(f"icmp eq i32 {linear_id(x)}, 0"), one, done)
    f.block(one)
    where = "0"
    for d in range(3):
        where = f.value(f"or i32 {where}, {x.group_word(d)}")
    total = f.value(f"mul i32 {f.value(f'mul i32 {gx}, {gy}')}, {gz}")
    rest = f.value(f"sub i32 {-(2**31) + 1}, {total}")
    first = f.value(f"icmp eq i32 {where}, 0")
    added = f.value(f"select i1 {first}, i32 {rest}, i32 1")
    emit_fence(f, scope, "acq_rel")
    counter = f"{GLOBAL} {x.grid_counter}"
    before = f.value(f"atomicrmw add {counter}, i32 {added} {scope} monotonic")
    f.block(again)
    now = f.value(f"load atomic i32, {counter} {scope} monotonic, align 4")
    turned = f.value(f"icmp slt i32 {f.value(f'xor i32 {before}, {now}')}, 0")
    f.branch_if(turned, over, again)
    f.block(over)
    emit_fence(f, scope, "acq_rel")
    f.branch(done)
    f.block(done)
    x.barrier()
