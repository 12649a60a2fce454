"""Which values may take over the place of what a loop with barriers carries.

A loop that goes on with `v` in place of the carried `c` would store v in scratch memory, and copy
it to the place of c at the end of the iteration. Where nothing asks for c once v is there, v goes
to the place of c at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.core import Op, Region, Value
from .phase_values import can_be_remade, uses


def heirs(
    region: Region, carried: Sequence[Value], outer: Callable[[Op], bool]
) -> list[tuple[Value, Value]]:
    """Pairs (carried, heir) of the body of a loop.

    outer: whether an op stands between phases. An heir is the result of an op directly in the
    body, is carried on once, and belongs to a phase behind which neither the carried value nor
    anything that a later phase may compute again from it is used.
    """
    terminator = region.terminator
    if terminator.name != "continue":
        return []
    phase_of, phase = {}, 0
    phases: list[tuple[int, Op]] = []
    for op in region.ops[:-1]:
        if outer(op):
            phase += 1
            phases.append((phase, op))
            phase += 1
        else:
            phases.append((phase, op))
            phase_of.update({v.id: phase for v in op.results})
    found = []
    for position, (value, heir) in enumerate(zip(carried, terminator.operands, strict=True)):
        others = [v.id for n, v in enumerate(terminator.operands) if n != position]
        if heir.id not in phase_of or heir.id in others:
            continue
        tainted = {value.id}
        for at, op in phases:
            if tainted.intersection(v.id for v in uses([op], ())):
                if at > phase_of[heir.id]:
                    break
                if can_be_remade(op):
                    tainted.update(v.id for v in op.results if v.id != heir.id)
        else:
            if not tainted.intersection(others):
                found.append((value, heir))
    return found
