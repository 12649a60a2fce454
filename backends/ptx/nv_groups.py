"""Barriers of clusters and of some subgroups; roles; registers; dependent launches."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Kernel, Op, ops_named
from ...ir.dtypes import i32
from ..simt.grid import emit_grid_barrier
from ..simt.ids import linear_id
from .lowering import Lowering

_REGISTERS = 65536  # of a multiprocessor
_MOST = 255  # of a thread
_ROLES = frozenset(("nv_role", "nv_warpgroup"))
_EVERYONE = ("i32", "-1")


def start_registers(kernel: Kernel) -> int:
    """Registers that a thread begins with where one workgroup has a multiprocessor for itself."""
    return min(_MOST, _REGISTERS // kernel.workgroup_count) // 8 * 8


def find_warp(x: Lowering) -> None:
    """Define the number of the warp, if the kernel has roles. Through a shuffle, so that the
    assembler knows it to be the same for all lanes; all of them are here still."""
    if ops_named(x.kernel.body, *_ROLES):
        own = x.f.value(f"lshr i32 {linear_id(x)}, 5")
        name = "llvm.nvvm.shfl.sync.idx.i32"
        x.warp = x.f.call(name, "i32", _EVERYONE, ("i32", own), ("i32", "0"), ("i32", "31"))


def emit_role(x: Lowering, op: Op) -> None:
    f, first, count = x.f, op.attr("first"), op.attr("count")
    away = f.value(f"sub i32 {x.warp}, {first}") if first else x.warp
    x.set(op.result, [f.value(f"icmp ult i32 {away}, {count}")])


def emit_warpgroup(x: Lowering, op: Op) -> None:
    x.set(op.result, [x.as_index(x.f.value(f"lshr i32 {x.warp}, 2"))])


def emit_named_barrier(x: Lowering, op: Op) -> None:
    kind = "arrive" if op.name == "nv_named_arrive" else "sync"
    name = f"llvm.nvvm.barrier.cta.{kind}.aligned.count"
    t, text = x.type_of(op.operands[0]), x.scalar(op.operands[0])
    number = x.arith.converter.convert(text, t, i32)
    x.f.call(name, "void", ("i32", number), ("i32", str(op.attr("count"))))


def emit_set_max_registers(x: Lowering, op: Op) -> None:
    count = int(op.attr("count"))  # type: ignore[arg-type]
    word = "inc" if count > start_registers(x.kernel) else "dec"
    x.f.call(f"llvm.nvvm.setmaxnreg.{word}.sync.aligned.u32", "void", ("i32", str(count)))


def emit_cluster_rank(x: Lowering, op: Op) -> None:
    from ...ir.extensions import cluster

    x.set(op.result, [x.as_index(x.register("cluster.ctarank", 0, cluster(x.kernel)))])


def _calls(*names: str) -> Callable[[Lowering, Op], None]:
    def emit(x: Lowering, op: Op) -> None:
        for name in names:
            x.f.call(f"llvm.nvvm.{name}", "void")

    return emit


EMIT: dict[str, Callable[[Lowering, Op], None]] = {
    "grid_barrier": emit_grid_barrier,
    "nv_role": emit_role,
    "nv_warpgroup": emit_warpgroup,
    "nv_named_barrier": emit_named_barrier,
    "nv_named_arrive": emit_named_barrier,
    "nv_set_max_registers": emit_set_max_registers,
    "nv_cluster_rank": emit_cluster_rank,
    "nv_cluster_barrier": _calls("barrier.cluster.arrive", "barrier.cluster.wait"),
    "nv_wait_for_previous": _calls("griddepcontrol.wait"),
    "nv_launch_next": _calls("griddepcontrol.launch.dependents"),
}
