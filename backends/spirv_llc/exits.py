"""How control may leave a construct of kernel IR other than by its end."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Region

LOOPS = ("for", "while")


def exits(regions: Sequence[Region]) -> set[str]:
    """How control may leave the construct that these regions belong to (a selection, or the inside
    of a loop) other than by its end."""
    found = set()
    for region in regions:
        for op in region.ops:
            if op.name in ("break", "continue", "return"):
                found.add(op.name)
            elif op.regions:
                inner = exits(op.regions)
                found |= inner & {"return"} if op.name in LOOPS else inner
    return found


def loop_exits(regions: Sequence[Region]) -> set[str]:
    """The same of the inside of a loop, but for the `continue` that ends its body."""
    found = set()
    for region in regions:
        last = region.ops[-1:] if region.terminator.name != "continue" else ()
        found |= exits([Region((), (*region.ops[:-1], *last))])
    return found


def leaves(op: Op) -> bool:
    """Whether control may go from within an op to elsewhere than behind it."""
    found = exits(op.regions)
    return "return" in found if op.name in LOOPS else bool(found)


def ends(region: Region) -> bool:
    """Whether control may reach the end of a region of a selection."""
    if region.terminator.name != "yield":
        return False
    return all(passes(op) for op in region.ops[:-1] if op.regions)


def passes(op: Op) -> bool:
    """Whether control may go on behind an op that has regions."""
    return op.name in LOOPS or any(map(ends, op.regions))
