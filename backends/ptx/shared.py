"""Workgroup arrays: where each lies, and how the module declares them.

Up to `STATIC_SHARED` bytes the module declares an array each; beyond, or where arrays share bytes
(`ir.passes.overlap`), one block whose size the launch states, with the arrays at offsets.
"""

from __future__ import annotations

from ...ir.dtypes import MemType
from ...ir.passes.overlap import Block, place_arrays
from ..llvm.types import memory_type
from .arch import STATIC_SHARED
from .lowering import SHARED, Lowering, Memory

__all__ = ["Block", "declare_shared", "dynamic_bytes", "place_arrays"]


def _dynamic(block: Block) -> bool:
    return block.shared or block.bytes > STATIC_SHARED


def dynamic_bytes(block: Block) -> int:
    """What a launch has to state; 0 where the module declares its arrays."""
    return block.bytes if _dynamic(block) else 0


def declare_shared(x: Lowering, block: Block) -> str:
    """Define the workgroup arrays; the declarations of the module."""
    dynamic = _dynamic(block)
    # The kernel's own name in front: no kernel can have that name.
    whole = f"@{x.kernel.name}_shared"
    lines, limit = [], x.arch.shared_bytes
    for n, array in enumerate(block.arrays):
        memory = array.op.result.type
        assert isinstance(memory, MemType)
        if array.at + array.bytes > limit:
            message = (
                f"workgroup arrays of {block.bytes} bytes exceed the limit of {limit} bytes of "
                f"{x.arch.name}; give this target a variant with smaller arrays "
                f"(variants: ptx-{x.arch.name} in configs/kernels)"
            )
            raise x.fail(array.op, message)
        name = f"{whole}{n}"
        if dynamic:
            name = x.f.value(f"getelementptr i8, {SHARED} {whole}, i64 {array.at}")
        else:
            kind = f"[{memory.count} x {memory_type(memory.element)}]"
            lines.append(
                f"{name} = internal addrspace(3) global {kind} undef, align {array.align}\n"
            )
        x.memory[array.op.result.id] = Memory(memory, name, SHARED)
    if dynamic:
        most = max(array.align for array in block.arrays)
        lines.append(f"{whole} = external addrspace(3) global [0 x i8], align {most}\n")
    return "".join(lines)
