"""Conversions of 8-bit floats, two at a time (sm_89 and later), as passes ask for them
(`ir.passes.float8`)."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Kernel, Op, ops_named
from ...ir.dtypes import element_of
from .lowering import Lowering

_NAMES = {"f8e4m3": "e4m3x2", "f8e5m2": "e5m2x2"}
_OPS = frozenset({"nv_unpack_f8", "nv_pack_f8"})
_ISA = "8.1"  # of PTX: the least with them on sm_89


def isa(kernel: Kernel, native: bool) -> str:
    """The least version of PTX for a kernel's conversions, before or after its passes; empty if it
    has none that the architecture does."""

    if not native:
        return ""
    for op in ops_named(kernel.body, "convert", *_OPS):
        values = (*op.operands, *op.results)
        if op.name in _OPS or not all(element_of(v.type).computes for v in values):
            return _ISA
    return ""


def emit_unpack(x: Lowering, op: Op) -> None:
    name = f"llvm.nvvm.{_NAMES[str(op.attr('element'))]}.to.f16x2.rn"
    pair = x.f.call(name, "<2 x half>", ("i16", x.scalar(op.operands[0])))
    x.set(op.result, [x.f.value(f"bitcast <2 x half> {pair} to i32")])


def emit_pack(x: Lowering, op: Op) -> None:
    """The instruction takes the upper one first."""
    name = f"llvm.nvvm.ff.to.{_NAMES[str(op.attr('element'))]}.rn"
    low, high = (("float", x.scalar(v)) for v in op.operands)
    x.set(op.result, [x.f.call(name, "i16", high, low)])


EMIT: dict[str, Callable[[Lowering, Op], None]] = {
    "nv_unpack_f8": emit_unpack,
    "nv_pack_f8": emit_pack,
}
