"""Asynchronous copies: cp.async, its groups and waits."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import i32
from ..llvm.types import Ty
from ..simt.memory import folded_place, place
from .lowering import GLOBAL, SHARED, Lowering


def emit_copy(x: Lowering, op: Op) -> None:
    """Past the L1 cache where the instruction can: 16 bytes at a time."""
    target, source = (x.memory[op.operands[n].id] for n in (0, 2))
    to = folded_place(x, target, op.operands[1])
    # A copy of no elements may name any place.
    start = place(x, source, op.operands[3], certain=len(op.operands) == 4)
    count = op.attr("count")
    assert isinstance(count, int)
    bytes_ = source.type.element.bytes
    size = count * bytes_
    name = f"llvm.nvvm.cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}"
    arguments = [(SHARED, to), (GLOBAL, start)]
    if len(op.operands) == 5:
        name += ".s"
        given = x.arith.converter.convert(x.scalar(op.operands[4]), x.type_of(op.operands[4]), i32)
        low = x.arith.op("max", Ty(i32), [given, "0"], i32)
        least = x.arith.op("min", Ty(i32), [low, str(count)], i32)
        arguments.append(("i32", x.f.value(f"mul i32 {least}, {bytes_}")))
    x.f.call(name, "void", *arguments)


def emit_commit(x: Lowering, op: Op) -> None:
    x.f.call("llvm.nvvm.cp.async.commit.group", "void")


def emit_wait(x: Lowering, op: Op) -> None:
    x.f.call("llvm.nvvm.cp.async.wait.group", "void", ("i32", str(op.attr("pending"))))


EMIT: dict[str, Callable[[Lowering, Op], None]] = {
    "copy_async": emit_copy,
    "copy_commit": emit_commit,
    "copy_wait": emit_wait,
}
