"""`print` and `breakpoint` act in the interpreter only; every other target drops them."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Region, with_body
from .effects import op_names

_DEBUG = frozenset({"print", "breakpoint"})


@dataclass(frozen=True)
class DropDebug:
    """Remove debug ops."""

    name: str = "drop_debug"

    def __call__(self, kernel: Kernel) -> Kernel:
        if _DEBUG.isdisjoint(op_names(kernel)):
            return kernel
        body = _region(kernel.body)
        return kernel if body is kernel.body else with_body(kernel, body)


def _region(region: Region) -> Region:
    ops = []
    changed = False
    for op in region.ops:
        if op.name in _DEBUG:
            changed = True
            continue
        if op.regions:
            regions = tuple([_region(r) for r in op.regions])
            if any(a is not b for a, b in zip(regions, op.regions, strict=True)):
                op = Op(op.name, op.operands, op.results, op.attrs, regions, op.loc)
                changed = True
        ops.append(op)
    return Region(region.args, tuple(ops)) if changed else region
