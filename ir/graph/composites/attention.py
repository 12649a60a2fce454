"""Attention: of many tokens at once, and of one token over a cache of pages."""

from __future__ import annotations

from ...dtypes import i32
from ..array import Array
from ..composite import composite
from ..functions import arange, concat, take, tanh, where, widened
from ..table import AttrRow, require
from .normalization import softmax

SCALE, WINDOW, CAP = AttrRow(float), AttrRow(int, 0), AttrRow(float, 0.0)


@composite("attention_prefill", 3, scale=SCALE, causal=AttrRow(bool, True), window=WINDOW, cap=CAP)
def attention_prefill(
    q: Array, k: Array, v: Array, *, scale: float, causal: bool, window: int, cap: float
) -> Array:
    """q[tokens, heads, columns] over k and v[keys, groups, columns], `heads / groups` heads a
    group: softmax of the products times `scale`, through cap * tanh(x / cap) where there is a cap.
    The last token stands at the last key; a causal one sees the keys up to its own, with a window
    of `window` only as many (Dao et al., arXiv:2205.14135, for kernels of it)."""
    _heads(q, k, v)
    tokens, keys = q.shape[0], k.shape[0]
    require(not causal or keys >= tokens, f"{tokens} tokens stand at {keys} keys")
    last = arange(q, tokens).reshape(tokens, 1) + (keys - tokens)
    place = arange(q, keys).reshape(1, keys)
    seen = _seen(last, place, window) if causal else place >= 0
    return _attend(q, k, v, seen.broadcast_to(tokens, keys), scale, cap)


@composite("attention_decode", 5, scale=SCALE, window=WINDOW, cap=CAP)
def attention_decode(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    pages: Array,
    lengths: Array,
    *,
    scale: float,
    window: int,
    cap: float,
) -> Array:
    """q[batch, heads, columns], each row over its own keys: the first lengths[row] rows of its
    pages pages[row, :] of the caches [pages, rows of a page, groups, columns] (Kwon et al.,
    arXiv:2309.06180). Scale, window and cap as of `attention_prefill`. A length of 0 gives
    zeros."""
    shaped = k_cache.rank == 4 and k_cache.shape == v_cache.shape
    require(shaped, "the caches have one shape of four dimensions")
    batch = q.shape[0]
    require(pages.rank == 2 and pages.shape[0] == batch, "there is a row of pages for each of q")
    require(lengths.shape == (batch,), "there is a length for each row of q")
    groups, columns = k_cache.shape[2:]
    keys = pages.shape[1] * k_cache.shape[1]
    rows = []
    for row in range(batch):
        k, v = (
            take(cache, pages[row]).reshape(keys, groups, columns) for cache in (k_cache, v_cache)
        )
        length = lengths[row].cast(i32).reshape(1, 1)
        place = arange(q, keys).reshape(1, keys)
        seen = _seen(length - 1, place, window)
        _heads(q[row : row + 1], k, v)
        found = _attend(q[row : row + 1], k, v, seen, scale, cap)
        rows.append(where((length > 0).reshape(1, 1, 1), found, 0.0))
    return concat(rows, 0)


def _heads(q: Array, k: Array, v: Array) -> None:
    require(q.rank == 3 and k.rank == 3, "q, k and v are [tokens, heads, columns]")
    require(k.shape == v.shape, f"k and v differ: {k.type} and {v.type}")
    require(q.shape[2] == k.shape[2], f"q has {q.shape[2]} columns, k {k.shape[2]}")
    require(q.shape[1] % k.shape[1] == 0, f"{q.shape[1]} heads share {k.shape[1]} groups unequally")


def _seen(last: Array, place: Array, window: int) -> Array:
    """Whether the token that stands at `last` sees the key at `place`."""
    seen = place <= last
    return seen & (place > last - window) if window else seen


def _attend(q: Array, k: Array, v: Array, seen: Array, scale: float, cap: float) -> Array:
    """In f32: [tokens, heads, columns] of the type of q."""
    (tokens, heads, columns), (keys, groups, _) = q.shape, k.shape
    each = heads // groups
    wide_q = widened(q).reshape(tokens, groups, each, columns).transpose(1, 2, 0, 3)
    wide_k = widened(k).transpose(1, 2, 0).reshape(groups, 1, columns, keys)
    wide_v = widened(v).transpose(1, 0, 2).reshape(groups, 1, keys, columns)
    scores = (wide_q @ wide_k) * scale
    if cap:
        scores = cap * tanh(scores / cap)
    scores = where(seen, scores, float("-inf"))
    sums: Array = softmax(scores, axis=3) @ wide_v
    return sums.transpose(2, 0, 1, 3).reshape(tokens, heads, columns).cast(q.dtype)
