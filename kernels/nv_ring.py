"""A ring of tiles in workgroup memory, which one warp fills and others read (Hopper)."""

from __future__ import annotations

from ..ir.lang import device, i32

__all__ = ["next_stage"]


@device
def next_stage(stage, turn, STAGES):
    """The stage behind one of a ring of STAGES, and the parity of its phase."""
    stage += 1
    if stage == STAGES:
        stage = i32(0)
        turn ^= 1
    return stage, turn
