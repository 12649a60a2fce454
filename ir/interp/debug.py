"""`print` and `breakpoint()` for the chosen invocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import Op
from .frame import Frame, widen
from .report import Stop

if TYPE_CHECKING:
    from .machine import Machine


def _position(machine: Machine, frame: Frame) -> int | None:
    """Where the chosen invocation stands in the frame; None where it is not there."""
    sizes, grid = machine.kernel.workgroup, machine.grid
    group, local = 0, 0
    for dim in (2, 1, 0):
        place, within = divmod(machine.options.invocation[dim], sizes[dim])
        if not 0 <= place < grid[dim]:
            return None
        group, local = group * grid[dim] + place, local * sizes[dim] + within
    lane = (group - machine.first) * machine.workgroup_count + local
    at = int(np.searchsorted(frame.lanes, lane))
    return at if at < frame.size and frame.lanes[at] == lane else None


def _values(frame: Frame, op: Op, position: int) -> list[Any]:
    return [widen(frame.get(v.id), frame.size)[position] for v in op.operands]


def print_values(machine: Machine, frame: Frame, op: Op) -> None:
    """Print attr format with the operands' values in its braces, for the chosen invocation."""
    position = _position(machine, frame)
    if position is not None:
        values = (v.tolist() for v in _values(frame, op, position))
        machine.options.printer(str(op.attr("format")).format(*values))


def stop(machine: Machine, frame: Frame, op: Op) -> None:
    """Call the breakpoint hook with the operands' values under the names of attr names."""
    position = _position(machine, frame)
    if position is None:
        return
    names = op.attr("names")
    assert isinstance(names, tuple)
    values = dict(zip(map(str, names), _values(frame, op, position), strict=True))
    params = zip(machine.kernel.params, machine.kernel.body.args, strict=True)
    buffers = {p.name: machine.memories[v.id].data for p, v in params if p.is_memory}
    options, kernel = machine.options, machine.kernel
    options.on_breakpoint(Stop(kernel.name, op.loc, options.invocation, values, buffers))
