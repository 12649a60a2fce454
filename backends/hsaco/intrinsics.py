"""The intrinsics of LLVM that this emitter may use, and no other.

LLVM ends its process on one that the processor cannot select, and takes an unknown name for a
function of another module, so a name is looked up here before the text reaches LLVM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..simt.intrinsics import COMMON, alternatives
from .fragments import INTRINSICS

AMDGCN: dict[str, str] = {
    "workitem.id.{x,y,z}": "local id",
    "workgroup.id.{x,y,z}": "group id",
    "dispatch.ptr": "the packet of the launch",
    "s.barrier": "all waves of a workgroup wait",
    "s.nop": "wait states pass",
    "ballot.{i32,i64}": "by the size of a wave",
    "readlane.i32": "word, lane",
    "readfirstlane.i32": "word of the first lane that runs",
    "ds.bpermute": "four times the lane, word; within 32 lanes on gfx10 and gfx11",
    "ds.swizzle": "word, pattern; within 32 lanes",
    "update.dpp.i32": "old, word, control, rows, banks, edge; within 16 lanes",
    "permlanex16.i32": "old, word, places of low and high lanes, flags; gfx10 on",
    "permlane64.i32": "word of the other half of a wave of 64; gfx11 on",
    "{exp2,log,sin,cos,rsq,fract}.f32": "`fast` only",
    "{sdot4,udot4,sudot4}": "words, sum; not on gfx9-generic; of both kinds from gfx11 on",
    **INTRINSICS,
}

_ALLOWED = re.compile(
    "|".join(
        (
            *COMMON,
            r"llvm\.fma\.v[248]f16",
            r"llvm\.(?:exp|exp2|log2)\.f32",
            r"llvm\.memset\.p5\.i64",
            *(r"llvm\.amdgcn\." + alternatives(name) for name in AMDGCN),
        )
    )
)


def unknown(names: Iterable[str]) -> list[str]:
    """Those of the names that the tables lack."""
    return sorted(name for name in names if not _ALLOWED.fullmatch(name))
