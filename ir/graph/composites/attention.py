"""Attention: of many tokens at once, and of one or many tokens over a cache of pages."""

from __future__ import annotations

import math

from ...dtypes import i32, i64
from ..array import Array
from ..composite import composite
from ..functions import iota, take, tanh, where, widened
from ..table import AttrRow, require, require_dtype, require_float
from ..types import TensorType
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
    _numbers(scale, window, cap)
    require(q.rank == 3 and k.rank == 3, "q, k and v are [tokens, heads, columns]")
    require(k.type == v.type, f"k and v differ: {k.type} and {v.type}")
    require(causal or not window, "a window is of causal attention")
    _heads(q.type, k.shape[1:])
    tokens, keys = q.shape[0], k.shape[0]
    require(not causal or keys >= tokens, f"{tokens} tokens stand at {keys} keys")
    last = iota(q, (tokens, keys), 0) + (keys - tokens)
    place = iota(q, (tokens, keys), 1)
    seen = _seen(last, place, window) if causal else place >= 0
    one, of_k, of_v, all_seen = (x.reshape(1, *x.shape) for x in (q, k, v, seen))
    return _attend(one, of_k, of_v, all_seen, scale, cap).reshape(*q.shape)


@composite("attention_decode", 5, scale=SCALE, window=WINDOW, cap=CAP)
def attention_decode(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    table: Array,
    lengths: Array,
    *,
    scale: float,
    window: int,
    cap: float,
) -> Array:
    """q[batch, heads, head], each row over its own keys: the first lengths[row] positions of its
    sequence, of which position n lies in page table[row, n // page] of the caches [pages, kv_heads,
    page, head] (Kwon et al., arXiv:2309.06180). Scale, window and cap as of `attention_prefill`. A
    length of 0 gives zeros, one beyond the table all of it; pages behind the length may be any
    number."""
    _numbers(scale, window, cap)
    require(q.rank == 3, f"q is [batch, heads, head], not {q.type}")
    _caches(k_cache, v_cache)
    batch, (groups, rows, columns) = q.shape[0], k_cache.shape[1:]
    listed = table.rank == 2 and table.shape[0] == batch
    require(listed, "the table has a row of pages for each of q")
    require_dtype(table.type, "a page", i32, i64)
    require(lengths.shape == (batch,), "there is a length for each row of q")
    require_dtype(lengths.type, "a length", i32, i64)
    _heads(q.type, (groups, columns))
    keys = table.shape[1] * rows
    length = lengths.reshape(batch, 1)
    place = iota(lengths, (batch, keys), 1, lengths.dtype)
    seen = _seen(length - 1, place, window)
    # Pages behind the length need not be there.
    first = iota(lengths, table.shape, 1, lengths.dtype) * rows
    used = where(first < length, table, 0)
    # [batch, pages of it, kv_heads, page, head] with the positions in a row
    k, v = (
        take(cache, used).transpose(0, 1, 3, 2, 4).reshape(batch, keys, groups, columns)
        for cache in (k_cache, v_cache)
    )
    found = _attend(
        q.reshape(batch, 1, *q.shape[1:]), k, v, seen.reshape(batch, 1, keys), scale, cap
    )
    return where((length > 0).reshape(batch, 1, 1), found.reshape(*q.shape), 0.0)


@composite("attention_paged", 6, scale=SCALE, causal=AttrRow(bool, True), window=WINDOW, cap=CAP)
def attention_paged(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    table: Array,
    lengths: Array,
    starts: Array,
    *,
    scale: float,
    causal: bool,
    window: int,
    cap: float,
) -> Array:
    """q[tokens, heads, head], of which sequence b has tokens starts[b] to starts[b + 1] - 1: they
    stand at the last of its lengths[b] keys, in the pages of caches and table as of
    `attention_decode`. Scale, causal, window and cap as of `attention_prefill`. A token that sees
    no key gives zeros, such as the first ones where there are more tokens than keys; one that is
    not causal sees all keys, wherever it stands. What is behind the length may be anything. starts,
    i32[batch + 1], rise from 0 to the number of tokens; others, a length beyond the table, and a
    page below the length outside of the cache, are faults."""
    _numbers(scale, window, cap)
    require(q.rank == 3, f"q is [tokens, heads, head], not {q.type}")
    _caches(k_cache, v_cache)
    require(causal or not window, "a window is of causal attention")
    require(table.rank == 2, f"a table is [batch, pages of a sequence], not {table.type}")
    tokens, batch, (groups, rows, columns) = q.shape[0], table.shape[0], k_cache.shape[1:]
    require(lengths.shape == (batch,), f"there is a length a sequence, not {lengths.type}")
    require(starts.shape == (batch + 1,), f"there are batch + 1 starts, not {starts.type}")
    for t, what in ((table, "a page"), (lengths, "a length"), (starts, "a start")):
        require_dtype(t.type, what, i32)
    _heads(q.type, (groups, columns))
    keys = table.shape[1] * rows
    own = _sequence(starts, lengths, tokens, keys)
    length = take(lengths, own).reshape(tokens, 1, 1)
    behind = take(starts, own + 1).reshape(tokens, 1, 1)
    # Keys of all sequences in a row, of which a token sees those of its own.
    shape = (tokens, batch, keys)
    place = iota(q, shape, 2)
    last = length - behind + iota(q, (tokens, 1, 1), 0)
    seen = _seen(last, place, window) if causal else place < length
    seen = (seen & (iota(q, shape, 1) == own.reshape(tokens, 1, 1))).reshape(tokens, batch * keys)
    first = iota(q, table.shape, 1) * rows
    used = where(first < lengths.reshape(batch, 1), table, 0)
    k, v = (
        take(cache, used).transpose(0, 1, 3, 2, 4).reshape(1, batch * keys, groups, columns)
        for cache in (k_cache, v_cache)
    )
    found = _attend(q.reshape(1, *q.shape), k, v, seen.reshape(1, *seen.shape), scale, cap)
    any_seen = seen.cast(i32).max(1) > 0
    return where(any_seen.reshape(tokens, 1, 1), found.reshape(*q.shape), 0.0)


def _sequence(starts: Array, lengths: Array, tokens: int, keys: int) -> Array:
    """i32[tokens]: the sequence of each token, or one that is not there where starts do not rise
    from 0 to `tokens` or a length is more than `keys`."""
    batch = lengths.shape[0]
    begin, end = starts[:-1], starts[1:]
    wrong = ((begin > end) | (lengths > keys)).cast(i32).sum()
    wrong = wrong + ((starts[0] != 0) | (starts[batch] != tokens)).cast(i32)
    passed = end <= iota(starts, (tokens, batch), 0)
    return where(wrong > 0, batch, passed.cast(i32).sum(1))


def _numbers(scale: float, window: int, cap: float) -> None:
    require(window >= 0, f"a window has keys, or is 0: not {window}")
    require(cap >= 0, f"a cap is a number from 0 on, not {cap}")
    require(math.isfinite(scale), f"the scale is a number, not {scale}")


def _caches(k: Array, v: Array) -> None:
    shaped = k.rank == 4 and k.type == v.type
    require(shaped, "the caches are of one type, of four dimensions")


def _heads(q: TensorType, each: tuple[int, ...]) -> None:
    """q, whose last dimensions are heads and columns, and groups and columns of keys."""
    require_float(q, "attention")
    require(q.shape[-1] == each[1], f"q has {q.shape[-1]} columns, k {each[1]}")
    shared = each[0] > 0 and q.shape[-2] % each[0] == 0
    require(shared, f"{q.shape[-2]} heads share {each[0]} groups unequally")


def _seen(last: Array, place: Array, window: int) -> Array:
    """Whether the token that stands at `last` sees the key at `place`."""
    seen = place <= last
    return seen & (place > last - window) if window else seen


def _attend(q: Array, k: Array, v: Array, seen: Array, scale: float, cap: float) -> Array:
    """Of q[batch, tokens, heads, columns], k and v[batch, keys, groups, columns] and seen[batch,
    tokens, keys]; in f32, of the type of q. What no token sees may be anything, also no number."""
    (batch, tokens, heads, columns), (keys, groups) = q.shape, k.shape[1:3]
    each = heads // groups
    wide_q = widened(q).reshape(batch, tokens, groups, each, columns).transpose(0, 2, 3, 1, 4)
    wide_k = widened(k).transpose(0, 2, 3, 1).reshape(batch, groups, 1, columns, keys)
    looked_at = seen.cast(i32).max(1).reshape(batch, keys, 1, 1) > 0
    wide_v = where(looked_at, widened(v), 0.0)
    wide_v = wide_v.transpose(0, 2, 1, 3).reshape(batch, groups, 1, keys, columns)
    scores = (wide_q @ wide_k) * scale
    if cap:
        scores = cap * tanh(scores / cap)
    scores = where(seen.reshape(batch, 1, 1, tokens, keys), scores, float("-inf"))
    sums: Array = softmax(scores, axis=4) @ wide_v
    return sums.transpose(0, 3, 1, 2, 4).reshape(*q.shape).cast(q.dtype)
