"""Workgroup arrays: the module declares one each, or one block where arrays share bytes."""

from __future__ import annotations

from ...ir.dtypes import MemType
from ...ir.passes.overlap import Block, place_arrays
from ..llvm.types import memory_type
from .lowering import SHARED, Lowering, Memory

__all__ = ["Block", "declare_arrays", "place_arrays"]


def declare_arrays(x: Lowering, block: Block) -> str:
    """Define the workgroup arrays; the declarations of the module.

    LoweringError, at the array that does not fit any more, with the bytes that there are.
    """
    lines, limit = [], x.arch.processor.lds
    name = f"@{x.kernel.name}_lds"
    for n, array in enumerate(block.arrays):
        memory = array.op.result.type
        assert isinstance(memory, MemType)
        if array.at + array.bytes > limit:
            message = (
                f"workgroup arrays of {block.bytes} bytes exceed the limit of {limit} bytes of "
                f"{x.arch.cpu}; give this target a variant with smaller arrays "
                f"(variants: hsaco-{x.arch.cpu} in configs/kernels)"
            )
            raise x.fail(array.op, message)
        kind = f"[{memory.count} x {memory_type(memory.element)}]"
        place = f"{name}{n}"
        if block.shared:
            if array.at:
                place = f"getelementptr inbounds (i8, {SHARED} {name}, i32 {array.at})"
            else:
                place = name
        else:
            lines.append(_declared(place, kind, array.align))
        x.memory[array.op.result.id] = Memory(memory, place, SHARED)
    if block.shared:
        align = max(array.align for array in block.arrays)
        lines.append(_declared(name, f"[{block.bytes} x i8]", align))
    return "".join(lines)


def _declared(name: str, kind: str, align: int) -> str:
    return f"{name} = internal addrspace(3) global {kind} poison, align {align}\n"
