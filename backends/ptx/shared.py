"""Workgroup arrays: where each lies, and how the module declares them.

Up to `STATIC_SHARED` bytes the module declares an array each; beyond, one block whose size the
launch states, with the arrays at offsets.
"""

from __future__ import annotations

from ...ir.core import Kernel, Op, walk
from ...ir.dtypes import MemType, Space
from ..llvm.types import memory_type
from .arch import STATIC_SHARED
from .lowering import SHARED, Lowering, Memory

_ALIGN = 16  # of every array: what the widest access needs


def arrays(kernel: Kernel) -> list[tuple[Op, MemType, int]]:
    """The workgroup arrays: their ops, types and offsets in bytes."""
    found, at = [], 0
    for op in walk(kernel.body):
        memory = op.result.type if op.name == "alloc" else None
        if isinstance(memory, MemType) and memory.space is Space.WORKGROUP:
            found.append((op, memory, at))
            at += (_bytes(memory) + _ALIGN - 1) // _ALIGN * _ALIGN
    return found


def _bytes(memory: MemType) -> int:
    assert memory.count is not None
    return memory.count * memory.element.bytes


def shared_bytes(kernel: Kernel) -> int:
    """Workgroup memory of a kernel."""
    found = arrays(kernel)
    return found[-1][2] + _bytes(found[-1][1]) if found else 0


def dynamic_bytes(kernel: Kernel) -> int:
    """What a launch has to state; 0 where the module declares its arrays."""
    total = shared_bytes(kernel)
    return total if total > STATIC_SHARED else 0


def declare_shared(x: Lowering) -> str:
    """Define the workgroup arrays; the declarations of the module."""
    dynamic = dynamic_bytes(x.kernel) > 0
    lines, limit = [], x.arch.shared_bytes
    for n, (op, memory, at) in enumerate(arrays(x.kernel)):
        if at + _bytes(memory) > limit:
            total = shared_bytes(x.kernel)
            raise x.fail(op, f"workgroup arrays of {total} bytes exceed the limit of {limit} bytes")
        name = f"@{x.kernel.name}_shared{n}"
        if dynamic:
            name = x.f.value(f"getelementptr i8, {SHARED} @shared, i64 {at}")
        else:
            kind = f"[{memory.count} x {memory_type(memory.element)}]"
            lines.append(f"{name} = internal addrspace(3) global {kind} undef, align {_ALIGN}\n")
        x.memory[op.result.id] = Memory(memory, name, SHARED)
    if dynamic:
        lines.append(f"@shared = external addrspace(3) global [0 x i8], align {_ALIGN}\n")
    return "".join(lines)
