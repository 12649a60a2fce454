"""Fences that nothing passes which must not.

LLVM's code generator moves a load down to the one arm of a branch that reads it. Neither a fence on
the way stops it (release 22, machine-sink: x86-64, NVPTX, AMDGPU) nor AMDGPU's barriers: it would
read what others wrote behind them. An instruction that may write memory does.
"""

from __future__ import annotations

from .text import Function

# No instruction at all, of which LLVM knows only that it may write memory.
_WRITES = 'call void asm sideeffect "", "~{memory}"()'


def emit_fence(f: Function, scope: str, order: str, note: str = "") -> None:
    """Order the memory of a thread as others in the scope see it. scope: LLVM's `syncscope`, ""
    for that of the system. note: metadata of the fence."""
    if order != "acquire":
        f.do(_WRITES)
    f.do(" ".join(filter(None, ("fence", scope, order))) + note)
