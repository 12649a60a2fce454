"""What each function of `nv` traces to; `HANDLERS` by name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from . import nv as nv  # fills the table
from . import nv_copies, nv_products
from .nv_copies import Handler, int_of
from .nv_products import whole_warpgroups
from .values import Entry

if TYPE_CHECKING:
    from .tracer import Tracer


def _role(t: Tracer, node: ast.AST, first: Entry, count: Entry) -> Entry:
    low, number = (t.static_int(node, e, "a number of subgroups") for e in (first, count))
    most = -(-t.workgroup[0] * t.workgroup[1] * t.workgroup[2] // 32)
    if low < 0 or number < 1 or low + number > most:
        t.fail(node, f"a workgroup has subgroups 0 to {most - 1}, found {number} from {low} on")
    return t.emit(node, "nv_role", first=low, count=number)


def _warpgroup(t: Tracer, node: ast.AST) -> Entry:
    whole_warpgroups(t, node)
    return t.emit(node, "nv_warpgroup", type=t.index)


def _named(name: str) -> Handler:
    def handler(t: Tracer, node: ast.AST, id_: Entry, count: Entry) -> Entry:
        if isinstance(id_, int) and not 1 <= id_ <= 15:
            t.fail(node, f"named barriers are 1 to 15, found {id_}")
        number = int_of(t, node, id_, "the number of a barrier")
        size = t.static_int(node, count, "the number of invocations")
        if size % 32 or not 32 <= size <= 1024:
            t.fail(node, f"whole subgroups wait at a named barrier, found {size} invocations")
        t.op(node, name, (number,), {"count": size})
        return None

    return handler


def _plain(name: str) -> Handler:
    def handler(t: Tracer, node: ast.AST) -> Entry:
        t.op(node, name)
        return None

    return handler


HANDLERS: dict[str, Handler] = {
    **nv_copies.HANDLERS,
    **nv_products.HANDLERS,
    "grid_barrier": _plain("grid_barrier"),
    "nv.bulk_commit": _plain("nv_bulk_commit"),
    "nv.fence_async": _plain("nv_fence_async"),
    "nv.wgmma_fence": _plain("nv_wgmma_fence"),
    "nv.wgmma_commit": _plain("nv_wgmma_commit"),
    "nv.role": _role,
    "nv.warpgroup": _warpgroup,
    "nv.named_barrier": _named("nv_named_barrier"),
    "nv.named_arrive": _named("nv_named_arrive"),
    "nv.cluster_rank": lambda t, node: t.emit(node, "nv_cluster_rank", type=t.index),
    "nv.cluster_barrier": _plain("nv_cluster_barrier"),
    "nv.wait_for_previous": _plain("nv_wait_for_previous"),
    "nv.launch_next": _plain("nv_launch_next"),
}
