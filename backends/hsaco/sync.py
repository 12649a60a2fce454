"""Barriers, and the memory that they order.

From gfx10 on a barrier that orders buffers waits for all stores and throws the caches of the
workgroup's compute units away; one that orders LDS alone need not, which a note on its fences says
(LLVM's "User Guide for AMDGPU Backend", "Memory Model").

Where a fence is, LLVM waits for what may be outstanding. What that is it asks on its first way
through the code, when it has not yet seen what the end of a loop leaves outstanding for the top: a
barrier there would not wait for the stores of the turn before (release 22). So a loop with barriers
or fences has a fence at its end as well.
"""

from __future__ import annotations

from ...ir.core import Op, walk
from ..llvm.fences import emit_fence
from ..simt.lowering import GLOBAL, SHARED, Lowering

# Named in the module by `kernel`.
LOCAL = '!{!"amdgpu-synchronize-as", !"local"}'
_NOTE = ", !mmra !1"


def emit_barrier(x: Lowering, buffers: bool) -> None:
    """Wait for all invocations of the workgroup. buffers: they are ordered as LDS is."""
    note, scope = "" if buffers else _NOTE, x.scopes[SHARED]
    emit_fence(x.f, scope, "release", note)
    x.f.call("llvm.amdgcn.s.barrier", "void")
    emit_fence(x.f, scope, "acquire", note)


def emit_turn_end(x: Lowering, loop: Op, ordering: frozenset[int]) -> None:
    """What a turn of a loop wrote is done before a barrier or a fence of the next. ordering: `id`
    of the barriers that order buffers."""
    inner = (op for region in loop.regions for op in walk(region))
    found = {_reach(op, ordering) for op in inner} - {""}
    if "device" in found:
        emit_fence(x.f, x.scopes[GLOBAL], "release")
    elif found:
        emit_fence(x.f, x.scopes[SHARED], "release", "" if "buffers" in found else _NOTE)


def _reach(op: Op, ordering: frozenset[int]) -> str:
    """How far an op makes writes be seen; "" for one that does not."""
    if op.name == "barrier":
        return "buffers" if id(op) in ordering else "workgroup memory"
    if op.name == "fence" and op.attr("order") != "acquire":
        return "device" if op.attr("scope") == "device" else "buffers"
    return "device" if op.name == "grid_barrier" else ""
