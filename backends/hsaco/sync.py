"""Barriers and the memory that they order.

A barrier orders workgroup arrays and buffers. Ordering buffers costs what LDS does not need: from
gfx10 on the caches of a workgroup's compute units are thrown away, and all stores are waited for.
So a barrier between whose two sides no buffer is shared orders LDS alone, unless a fence of the
device may tell other workgroups what lies before it: such a fence waits for its own wave's stores
only, so the barrier has to wait for those of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir.core import Kernel, Op
from ...ir.dtypes import MemType, Space
from ...ir.ops import ROWS, Effect
from ..simt.lowering import Lowering

_WRITES = (Effect.WRITE, Effect.ATOMIC)
# Named in the module by `kernel`.
LOCAL = '!{!"amdgpu-synchronize-as", !"local"}'
_NOTE = ", !mmra !1"


def emit_barrier(x: Lowering, local: bool) -> None:
    """Wait for all invocations of the workgroup. local: LDS alone is ordered."""
    note, scope = _NOTE if local else "", 'syncscope("workgroup")'
    x.f.do(f"fence {scope} release{note}")
    x.f.call("llvm.amdgcn.s.barrier", "void")
    x.f.do(f"fence {scope} acquire{note}")


def local_barriers(kernel: Kernel) -> frozenset[int]:
    """`id` of the barriers that need not order buffers: none is written on one side of them and
    written or read on the other. None where the kernel has a fence of the device.

    What happens in a loop around a barrier happens on both sides of it.
    """
    places = list(_places(kernel.body.ops, None))
    if any(op.name == "fence" and op.attr("scope") == "device" for op, _ in places):
        return frozenset()
    touched: dict[object, list[tuple[int, bool]]] = {}
    names = _names(kernel)
    for n, (op, _) in enumerate(places):
        writes = ROWS[op.name].effect in _WRITES
        for value in op.operands:
            if isinstance(value.type, MemType) and value.type.space is Space.BUFFER:
                touched.setdefault(names[value.id], []).append((n, writes))
    ends = _ends(places)
    found = set()
    for n, (op, loop) in enumerate(places):
        if op.name == "barrier":
            low, high = ends[id(loop)] if loop is not None else (n, n)
            if not any(_shared(uses, low, high) for uses in touched.values()):
                found.add(id(op))
    return frozenset(found)


def _names(kernel: Kernel) -> Mapping[int, object]:
    """By value: what tells a buffer from others. Those that may overlap are one."""
    pairs = zip(kernel.params, kernel.body.args, strict=True)
    return {v.id: "overlapping" if p.may_alias else v.id for p, v in pairs}


def _places(ops: tuple[Op, ...], loop: Op | None) -> Iterator[tuple[Op, Op | None]]:
    """All ops in order, each with the outermost loop around it."""
    for op in ops:
        yield op, loop
        around = loop or (op if op.name in ("for", "while") else None)
        for region in op.regions:
            yield from _places(region.ops, around)


def _ends(places: list[tuple[Op, Op | None]]) -> dict[int, tuple[int, int]]:
    """First and last place inside each outermost loop, by its `id`."""
    found: dict[int, tuple[int, int]] = {}
    for n, (_, loop) in enumerate(places):
        if loop is not None:
            low, _ = found.get(id(loop), (n, n))
            found[id(loop)] = low, n
    return found


def _shared(uses: list[tuple[int, bool]], low: int, high: int) -> bool:
    """Whether uses lie on both sides of a barrier that is repeated from `low` to `high`, one of
    them a write."""
    before = [writes for n, writes in uses if n <= high]
    after = [writes for n, writes in uses if n >= low]
    return bool(before and after) and (any(before) or any(after))
