"""Keys and values of new tokens go into a cache of pages."""

from __future__ import annotations

from ..array import Array
from ..composite import composite
from ..functions import scatter
from ..table import require


@composite("kv_append", 3, updates=True)
def kv_append(cache: Array, values: Array, places: Array) -> Array:
    """The cache [pages, rows of a page, groups, columns] with values[tokens, groups, columns] as
    its rows places[tokens], counted over all pages; a place of -1 drops its token. Values become
    the cache's type."""
    require(cache.rank == 4, f"a cache is [pages, rows, groups, columns], not {cache.type}")
    rows = cache.shape[0] * cache.shape[1]
    wanted = f"[tokens, {cache.shape[2]}, {cache.shape[3]}]"
    fits = values.rank == 3 and values.shape[1:] == cache.shape[2:]
    require(fits, f"values {wanted} go into {cache.type}, not {values.type}")
    flat = cache.reshape(rows, *cache.shape[2:])
    return scatter(flat, places, values.cast(cache.dtype)).reshape(*cache.shape)
