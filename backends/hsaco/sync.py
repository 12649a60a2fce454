"""Barriers, and the memory that they order.

From gfx10 on a barrier that orders buffers waits for all stores and throws the caches of the
workgroup's compute units away; one that orders LDS alone need not, which a note on its fences says
(LLVM's "User Guide for AMDGPU Backend", "Memory Model").
"""

from __future__ import annotations

from ..simt.lowering import Lowering

# Named in the module by `kernel`.
LOCAL = '!{!"amdgpu-synchronize-as", !"local"}'
_NOTE = ", !mmra !1"


def emit_barrier(x: Lowering, buffers: bool) -> None:
    """Wait for all invocations of the workgroup. buffers: they are ordered as LDS is."""
    note, scope = "" if buffers else _NOTE, 'syncscope("workgroup")'
    x.f.do(f"fence {scope} release{note}")
    x.f.call("llvm.amdgcn.s.barrier", "void")
    x.f.do(f"fence {scope} acquire{note}")
