"""Hopper's mbarriers, bulk copies and tensor copies."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op, Value
from ...ir.dtypes import i32
from ...ir.extensions import map_of
from ..simt.memory import place
from .lowering import FLAT, GLOBAL, SHARED, Lowering

CLUSTER = "ptr addrspace(7)"
_NO_MASK, _NO_HINT = ("i16", "0"), ("i64", "0")
_YES, _NO = ("i1", "true"), ("i1", "false")


def _word(x: Lowering, value: Value) -> str:
    """An integer as i32."""
    return x.arith.converter.convert(x.scalar(value), x.type_of(value), i32)


def _at(x: Lowering, memory: Value, index: Value) -> str:
    return place(x, x.memory[memory.id], index)


def _to_cluster(x: Lowering, pointer: str) -> str:
    """An address of the own workgroup as one of the cluster's: it is the same one."""
    return x.f.value(f"addrspacecast {SHARED} {pointer} to {CLUSTER}")


def _bytes(x: Lowering, op: Op, count: Value, memory: Value) -> str:
    size = x.memory[memory.id].type.element.bytes
    known = x.constant(count)
    if known is not None:
        return str(known * size)
    return x.f.value(f"mul i32 {_word(x, count)}, {size}")


# mbarriers


def emit_init(x: Lowering, op: Op) -> None:
    pointer = _at(x, *op.operands[:2])
    arrivals = _word(x, op.operands[2])
    x.f.call("llvm.nvvm.mbarrier.init.shared", "void", (SHARED, pointer), ("i32", arrivals))
    # Other workgroups of a cluster, and the copy engine, see it from here on.
    x.f.call("llvm.nvvm.fence.mbarrier_init.release.cluster", "void")
    emit_fence(x, op)


def emit_arrive(x: Lowering, op: Op) -> None:
    pointer, count = _at(x, *op.operands[:2]), ("i32", str(op.attr("count")))
    if len(op.operands) == 2:
        name = "llvm.nvvm.mbarrier.arrive.scope.cta.space.cta"
        x.f.call(name, "i64", (SHARED, pointer), count)
        return
    rank = ("i32", _word(x, op.operands[2]))
    there = x.f.call("llvm.nvvm.mapa.shared.cluster", CLUSTER, (SHARED, pointer), rank)
    # Of the own workgroup's scope: a release to the cluster is a fence of the whole device.
    name = "llvm.nvvm.mbarrier.arrive.scope.cta.space.cluster"
    x.f.call(name, "void", (CLUSTER, there), count)


def emit_expect(x: Lowering, op: Op) -> None:
    name = "llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta"
    pointer = _at(x, *op.operands[:2])
    x.f.call(name, "i64", (SHARED, pointer), ("i32", _word(x, op.operands[2])))


def _tried(x: Lowering, op: Op) -> Callable[[], str]:
    name = "llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta"
    pointer, parity = _at(x, *op.operands[:2]), _word(x, op.operands[2])
    return lambda: x.f.call(name, "i1", (SHARED, pointer), ("i32", parity))


def emit_wait(x: Lowering, op: Op) -> None:
    f, tried = x.f, _tried(x, op)
    again, over = f.label("wait"), f.label("over")
    f.block(again)
    f.branch_if(tried(), over, again)
    f.block(over)


def emit_try_wait(x: Lowering, op: Op) -> None:
    x.set(op.result, [_tried(x, op)()])


# copies


def emit_bulk_load(x: Lowering, op: Op) -> None:
    target, to, source, start, count, barriers, number = op.operands
    name = "llvm.nvvm.cp.async.bulk.global.to.shared.cluster"
    x.f.call(
        name,
        "void",
        (CLUSTER, _to_cluster(x, _at(x, target, to))),
        (SHARED, _at(x, barriers, number)),
        (GLOBAL, _at(x, source, start)),
        ("i32", _bytes(x, op, count, source)),
        _NO_MASK,
        _NO_HINT,
        _NO,
        _NO,
    )


def emit_bulk_store(x: Lowering, op: Op) -> None:
    target, to, source, start, count = op.operands
    size = _bytes(x, op, count, source)
    there, here = (GLOBAL, _at(x, target, to)), (SHARED, _at(x, source, start))
    name = "llvm.nvvm.cp.async.bulk.shared.cta.to.global"
    x.f.call(name, "void", there, here, ("i32", size), _NO_HINT, _NO)


def _map(x: Lowering, op: Op) -> tuple[str, str]:
    return FLAT, x.maps[map_of(x.kernel, op)]


def _coordinates(x: Lowering, values: tuple[Value, ...]) -> list[tuple[str, str]]:
    """The last dimension, which is contiguous, comes first."""
    return [("i32", _word(x, v)) for v in reversed(values)]


def emit_tensor_load(x: Lowering, op: Op) -> None:
    target, to, _, barriers, number, *rest = op.operands
    box = op.attr("box")
    assert isinstance(box, tuple)
    rank = len(box)
    mask, flag = _NO_MASK, _NO
    if op.attr("multicast"):
        mask = ("i16", x.f.value(f"trunc i32 {_word(x, rest[rank])} to i16"))
        flag = _YES
    x.f.call(
        f"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{rank}d",
        "void",
        (CLUSTER, _to_cluster(x, _at(x, target, to))),
        (SHARED, _at(x, barriers, number)),
        _map(x, op),
        *_coordinates(x, tuple(rest[:rank])),
        mask,
        _NO_HINT,
        flag,
        _NO,
        ("i32", "0"),
    )


def emit_tensor_store(x: Lowering, op: Op) -> None:
    _, source, start, *at = op.operands
    name = f"llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{len(at)}d"
    here = (SHARED, _at(x, source, start))
    x.f.call(name, "void", here, _map(x, op), *_coordinates(x, tuple(at)), _NO_HINT, _NO)


def emit_tensor_prefetch(x: Lowering, op: Op) -> None:
    _, *at = op.operands
    name = f"llvm.nvvm.cp.async.bulk.tensor.prefetch.tile.{len(at)}d"
    x.f.call(name, "void", _map(x, op), *_coordinates(x, tuple(at)), _NO_HINT, _NO)


def emit_commit(x: Lowering, op: Op) -> None:
    x.f.call("llvm.nvvm.cp.async.bulk.commit.group", "void")


def emit_bulk_wait(x: Lowering, op: Op) -> None:
    tail = ".read" if op.attr("read") else ""
    name = f"llvm.nvvm.cp.async.bulk.wait.group{tail}"
    x.f.call(name, "void", ("i32", str(op.attr("pending"))))


def emit_fence(x: Lowering, op: Op) -> None:
    x.f.call("llvm.nvvm.fence.proxy.async.shared_cta", "void")


EMIT: dict[str, Callable[[Lowering, Op], None]] = {
    "nv_mbarrier_init": emit_init,
    "nv_mbarrier_arrive": emit_arrive,
    "nv_mbarrier_expect": emit_expect,
    "nv_mbarrier_wait": emit_wait,
    "nv_mbarrier_try_wait": emit_try_wait,
    "nv_bulk_load": emit_bulk_load,
    "nv_bulk_store": emit_bulk_store,
    "nv_tensor_load": emit_tensor_load,
    "nv_tensor_store": emit_tensor_store,
    "nv_tensor_prefetch": emit_tensor_prefetch,
    "nv_bulk_commit": emit_commit,
    "nv_bulk_wait": emit_bulk_wait,
    "nv_fence_async": emit_fence,
}
