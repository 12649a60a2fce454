"""A whole kernel as one LLVM function: the loop over workgroups around its body."""

from __future__ import annotations

from ...ir.core import Kernel
from ...ir.dtypes import i64
from ..llvm.text import Function
from ..llvm.types import Ty
from . import body
from .analysis import analyze
from .arch import Arch
from .loops import emit_leave
from .lowering import Lowering, allocate, load_arguments
from .phases import each_subgroup, emit_phased, has_barriers

_PARAMS = ("ptr noalias readonly %args", "i32 %first", "i32 %last", "ptr noalias %scratch")
# no-builtins: a loop that copies or clears must not become a call of memcpy or memset.
_ATTRIBUTES = 'nounwind "no-builtins" "frame-pointer"="none"'


def lanes_for(kernel: Kernel, arch: Arch) -> int:
    """Invocations in a subgroup: what the kernel asks for, or what suits the architecture.

    A subgroup size of 1 says that the kernel has no use for subgroups.
    """
    if kernel.subgroup is not None and kernel.subgroup > 1:
        return kernel.subgroup
    lanes = arch.lanes
    while lanes > 1 and lanes // 2 >= kernel.workgroup_count:
        lanes //= 2
    return lanes


def write_kernel(kernel: Kernel, arch: Arch) -> tuple[str, int]:
    """The LLVM module of a legalized kernel and the scratch bytes that a worker needs."""
    f = Function(kernel.name, _PARAMS, _ATTRIBUTES)
    x = Lowering(kernel, arch, analyze(kernel, lanes_for(kernel, arch)), f)
    phased = x.subgroups > 1 and has_barriers(kernel.body)
    load_arguments(x)
    allocate(x, kernel.body, phased)
    slot = f.alloca("i32")
    f.do(f"store i32 %first, ptr {slot}")
    head, inside, latch, done = (f.label(w) for w in ("groups", "group", "groupend", "done"))
    f.block(head)
    group = f.value(f"load i32, ptr {slot}")
    f.branch_if(f.value(f"icmp ult i32 {group}, %last"), inside, done)
    f.block(inside)
    _place(x, group)
    if phased:
        emit_phased(x, latch)
    else:
        with each_subgroup(x):
            terminator = body.emit_region(x, kernel.body)
            if f.open:
                emit_leave(x, terminator)
    f.block(latch)
    f.do(f"store i32 {f.value(f'add nuw i32 {group}, 1')}, ptr {slot}")
    f.branch(head)
    f.block(done)
    f.ret()
    return f.text() + "\n!0 = !{}\n", x.scratch.size


def _place(x: Lowering, group: str) -> None:
    """The group's ids from its linear number x + y*gx + z*gx*gy."""
    f, i = x.f, Ty(x.index)
    if x.index == i64:
        group = f.value(f"zext i32 {group} to i64")
    gx, gy, _ = x.grid
    row = f.value(f"udiv {i.text} {group}, {gx}")
    x.groups = (
        f.value(f"urem {i.text} {group}, {gx}"),
        f.value(f"urem {i.text} {row}, {gy}"),
        f.value(f"udiv {i.text} {row}, {gy}"),
    )
