"""The cost model: which of several variants takes a problem of given sizes, if none was measured.

It compares only what differs in its constexprs alone, and only by what is certain about it:

    cost = work x unevenness
    work        max(operations, BALANCE x bytes) where the kernel declares them (`tune.cost`), with
                what a variant does for elements that are none; else how much more than the problem
                its workgroups cover, by the divisions that round up in its grid
    unevenness  workgroups of the busiest compute unit over their mean, ceil(g / units) x units / g;
                1 where the number of units is unknown

A variant goes before the declared order only where its cost is below MARGIN of that of the first
one: what a model of four numbers knows is no reason to change much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.abi import evaluate
from ..store.manifest import expression

if TYPE_CHECKING:
    from ..ir.targets import Capabilities
    from ..store.manifest import Manifest
    from .bundle import Artifact

BALANCE = 16  # operations that take as long as a byte of memory
MARGIN = 0.9
_UNITS = ("multiprocessors", "processors")  # facts of a device: its compute units


def cheapest(
    fitting: Sequence[Artifact], capabilities: Capabilities, sizes: Mapping[str, int]
) -> Artifact:
    """Of the variants that fit a device, in declared order, the one to take."""
    first = fitting[0]
    cost = estimate(first.manifest, capabilities, sizes)
    if cost is None:
        return first
    best, least = first, cost * MARGIN
    for artifact in fitting[1:]:
        if not alike(artifact.manifest, first.manifest):
            continue
        other = estimate(artifact.manifest, capabilities, sizes)
        if other is not None and other < least:
            best, least = artifact, other
    return best


def alike(a: Manifest, b: Manifest) -> bool:
    """Whether two variants use the same of a device, so that their costs are of one kind."""
    return (a.target, a.requires, a.subgroup, a.params) == (
        b.target,
        b.requires,
        b.subgroup,
        b.params,
    )


def estimate(
    manifest: Manifest, capabilities: Capabilities, sizes: Mapping[str, int]
) -> float | None:
    """The cost of a variant, in no unit; None where the sizes do not tell."""
    try:
        groups = _groups(manifest.grid, sizes)
        work = _work(manifest, sizes)
    except (ValueError, TypeError, LookupError, ZeroDivisionError, OverflowError):
        return None  # sizes that the expressions need are not given, or they are none
    return work * _unevenness(groups, capabilities)


def _groups(grid: Any, sizes: Mapping[str, int]) -> int:
    return math.prod(max(0, evaluate(part, sizes, sizes)) for part in grid)


def _work(manifest: Manifest, sizes: Mapping[str, int]) -> float:
    cost = manifest.facts.get("cost")
    if not cost:
        return math.prod(_padding(part, sizes) for part in manifest.grid or ())
    operations, moved = (
        evaluate(expression(cost.get(name, 0)), sizes, sizes) for name in ("operations", "bytes")
    )
    return float(max(operations, BALANCE * moved))


def _padding(part: Any, sizes: Mapping[str, int]) -> float:
    """How much more than all of it the divisions of an expression that round up cover."""
    if not isinstance(part, tuple) or len(part) != 3:
        return 1.0
    factor = _padding(part[1], sizes) * _padding(part[2], sizes)
    if part[0] == "ceil_div":
        whole, by = (evaluate(p, sizes, sizes) for p in part[1:])
        if whole > 0 and by > 0:
            factor *= -(-whole // by) * by / whole
    return factor


def _unevenness(groups: int, capabilities: Capabilities) -> float:
    units = next((capabilities.facts[u] for u in _UNITS if u in capabilities.facts), 0)
    if not groups or not isinstance(units, int) or units < 1:
        return 1.0
    return -(-groups // units) * units / groups
