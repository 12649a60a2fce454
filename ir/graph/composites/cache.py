"""Keys and values of new tokens go into a cache of pages, by a block table."""

from __future__ import annotations

import math

from ...dtypes import i32, i64
from ..array import Array
from ..composite import composite
from ..functions import iota, scatter, take, where
from ..table import require, require_dtype


@composite("kv_append", 5, updates=True)
def kv_append(
    cache: Array, values: Array, table: Array, sequences: Array, positions: Array
) -> Array:
    """The cache [pages, kv_heads, page, head] with values[tokens, kv_heads, head] in the rows of
    their positions[tokens]: position n of a sequence lies in page table[sequence, n // page].
    Values become the cache's type. A sequence or position outside of the table, and a page outside
    of the cache, is a fault."""
    require(cache.rank == 4, f"a cache is [pages, kv_heads, page, head], not {cache.type}")
    _, kv_heads, page, head = cache.shape
    wanted = f"[tokens, {kv_heads}, {head}]"
    fits = values.rank == 3 and values.shape[1:] == (kv_heads, head)
    require(fits, f"values {wanted} go into {cache.type}, not {values.type}")
    require(table.rank == 2, f"a table is [sequences, pages of each], not {table.type}")
    require(page > 0, "a page has rows")
    tokens = values.shape[0]
    for t, what in ((sequences, "a sequence"), (positions, "a position")):
        require(t.shape == (tokens,), f"there is {what} a token, not {t.type}")
    for t, what in ((table, "a page"), (sequences, "a sequence"), (positions, "a position")):
        require_dtype(t.type, what, i32, i64)
    count, each = table.shape
    row, at = sequences.cast(i64), positions.cast(i64)
    listed = (row >= 0) & (row < count) & (at >= 0) & (at < each * page)
    number = take(table.reshape(count * each), where(listed, row * each + at // page, -1)).cast(i64)
    first = where(number >= 0, number * (kv_heads * page) + at % page, -(page * kv_heads) - 1)
    heads = iota(values, (tokens, kv_heads), 1, i64) * page
    places = (first.reshape(tokens, 1) + heads).reshape(tokens * kv_heads)
    flat = cache.reshape(math.prod(cache.shape[:3]), head)
    rows = values.cast(cache.dtype).reshape(tokens * kv_heads, head)
    return scatter(flat, places, rows).reshape(*cache.shape)
