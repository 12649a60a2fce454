"""Copies of ops with fresh value numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core import Op, Region, Value, replaced
from ..dtypes import Type

Fresh = Callable[[Type, str], Value]


def clone_ops(ops: Sequence[Op], names: dict[int, Value], fresh: Fresh) -> list[Op]:
    """Copies of `ops`; operands go through `names`, which gains an entry per value defined."""
    out = []
    for op in ops:
        operands = replaced(op.operands, names)
        regions: tuple[Region, ...] = ()
        if op.regions:
            regions = tuple([clone_region(r, names, fresh) for r in op.regions])
        results = []
        for v in op.results:
            new = fresh(v.type, v.hint)
            names[v.id] = new
            results.append(new)
        out.append(Op(op.name, operands, tuple(results), op.attrs, regions, op.loc))
    return out


def clone_region(region: Region, names: dict[int, Value], fresh: Fresh) -> Region:
    """A copy of a region with arguments of its own."""
    args = []
    for v in region.args:
        names[v.id] = new = fresh(v.type, v.hint)
        args.append(new)
    return Region(tuple(args), tuple(clone_ops(region.ops, names, fresh)))
