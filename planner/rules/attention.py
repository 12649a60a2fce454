"""Attention over caches of pages, their rows, and rotary embedding."""

from __future__ import annotations

import numpy as np

from ...ir.dtypes import DTYPES
from ...ir.graph.core import Node
from ...ir.graph.types import TensorType
from ...kernels.rotary import frequencies, table
from ..lowering import Lowering
from ..refusal import Missing
from ..view import View
from .copies import copied
from .elementwise import cast

PAGE = 16  # keys of a page, in every kernel


def _numbers(node: Node, *names: str) -> list[int | float]:
    return [int(v) if isinstance(v := node.attr(n), bool) else v for n in names]  # type: ignore[misc]


def _rotary(c: Lowering, node: Node) -> tuple[View, ...]:
    x, positions = map(c.view, node.operands)
    base, width, most = _numbers(node, "base", "width", "most")
    if not most:
        raise Missing("a bound of the positions (`most`), for the table of a kernel")
    layout = {"halves": "half", "pairs": "interleaved"}[str(node.attr("layout"))]
    angles = table(frequencies(int(width), float(base)), int(most))
    y = c.make(x.type)
    c.launch(
        "rotary",
        f"{layout}_{x.dtype}",
        x,
        cast(c, positions, DTYPES["i32"]),
        c.pool.array(angles, "f32"),
        y,
        x.shape[1],
        x.shape[2],
        width,
    )
    return (y,)


def _kv_append(c: Lowering, node: Node) -> tuple[View, ...]:
    """Keys and values in one launch: this append and the one before it that waits."""
    for other in c.waiting("kv_append"):
        if other.operands[2:] == node.operands[2:]:
            break
    else:
        raise Missing("a kernel that appends to one cache alone")
    (k_cache, k), (v_cache, v) = ([c.view(t) for t in n.operands[:2]] for n in (other, node))
    if k_cache.type != v_cache.type or k.type != v.type:
        raise Missing("a kernel for keys and values of different types")
    table_, sequences, positions = (cast(c, c.view(t), DTYPES["i32"]) for t in node.operands[2:])
    c.claim(other)
    given = [x.storage for x in (k_cache, v_cache, k, v)]
    caches = [
        x if c.owned(x, n) and given.count(x.storage) == 1 else copied(c, x, c.make(x.type))
        for x, n in ((k_cache, other), (v_cache, node))
    ]
    name = str(k.dtype) if k.dtype == k_cache.dtype else f"{k.dtype}_{k_cache.dtype}"
    _, heads, page, head = k_cache.shape
    sizes = heads, head, page, table_.shape[1]
    c.launch("cache_append", name, k, v, *caches, table_, sequences, positions, *sizes, 1.0, 1.0)
    c.bind(other.results[0], caches[0])
    return (caches[1],)


def _decode(c: Lowering, node: Node) -> tuple[View, ...]:
    q, k_cache, v_cache, table_, lengths = map(c.view, node.operands)
    scale, window, cap = _numbers(node, "scale", "window", "cap")
    _, groups, page, head = k_cache.shape
    if k_cache.dtype.bytes > 1 and k_cache.dtype != q.dtype:
        raise Missing(f"attention of {q.dtype} over a cache of {k_cache.dtype}")
    name = _attention_name(q, k_cache, page, head)
    y = c.make(q.type)
    empty = c.pool.array(np.empty(0), "f32")
    nothing = [c.make(TensorType(DTYPES["f32"], (0,))) for _ in range(2)]
    c.launch(
        "attention_decode", name, q, k_cache, v_cache, *_indices(c, table_, lengths), empty, y,
        *nothing, q.shape[1], groups, 1, table_.shape[1], window, scale, cap, 1.0, 1.0,
    )  # fmt: skip
    return (y,)


def _attention_name(q: View, cache: View, page: int, head: int) -> str:
    if page != PAGE:
        raise Missing(f"attention over pages of {page} keys: kernels have {PAGE}")
    return f"{cache.dtype if cache.dtype.bytes < 2 else q.dtype}_{head}"


def _indices(c: Lowering, *views: View) -> list[View]:
    return [cast(c, view, DTYPES["i32"]) for view in views]


def _paged(c: Lowering, node: Node) -> tuple[View, ...]:
    q, k_cache, v_cache, table_, lengths, starts = map(c.view, node.operands)
    scale, window, cap, causal = _numbers(node, "scale", "window", "cap", "causal")
    _, groups, page, head = k_cache.shape
    if k_cache.dtype != q.dtype:
        raise Missing(f"attention of {q.dtype} over a cache of {k_cache.dtype}")
    name = _attention_name(q, k_cache, page, head)
    y = c.make(q.type)
    sizes = q.shape[1], groups, q.shape[0], window, causal
    indices = _indices(c, table_, lengths, starts)
    c.launch("attention_prefill_tiles", name, q, k_cache, v_cache, *indices, y, *sizes, scale, cap)
    return (y,)


RULES = {
    "rotary": (_rotary,),
    "kv_append": (_kv_append,),
    "attention_decode": (_decode,),
    "attention_paged": (_paged,),
}
