"""What a workgroup of a prefill has to do: the queries it takes, and the keys that they see."""

from __future__ import annotations

from ..ir.lang import device, group_id, i32, num_groups

__all__ = ["extent", "place"]


@device
def place():
    """Tile, head and sequence of a workgroup: the last queries see most keys, and come first."""
    return num_groups(0) - 1 - group_id(0), group_id(1), group_id(2)


@device
def extent(at, k_cache, table, lengths, starts, heads, kv_heads, window, causal, PAGE, ROWS, BK,
           NAME):  # fmt: skip
    """Of ROWS queries of a head, `at` being tile, head and sequence: the head of the cache, pages
    of a row of the table, the first query and how many there are, its place among the keys, how far
    behind its own a token sees keys, and the first key, a multiple of BK, and the end of those that
    any of them sees.

    Faults, which begin with NAME: heads that do not share those of the cache evenly, more keys than
    there are pages for.
    """
    tile, head, batch = at
    shared = kv_heads > 0 and heads % kv_heads == 0
    assert shared, NAME + ": heads that do not share those of the cache evenly"
    kv_head = min(head // max(heads // max(kv_heads, 1), 1), max(kv_heads - 1, 0))
    row_pages = len(table) // max(len(lengths), 1)
    length = i32(lengths[batch])
    room = row_pages * PAGE if len(k_cache) > 0 else i32(0)
    assert length <= room, NAME + ": more keys than there are pages for"
    length = min(length, room)
    start, behind = i32(starts[batch]), i32(starts[batch + 1])
    first = start + tile * ROWS
    count = min(behind - first, ROWS)
    position = length - (behind - first)
    # The first of more queries than keys stand before the first key.
    ahead = i32(0) if causal != 0 else length + (behind - start)
    end = min(position + count + ahead, length)
    begin = max(position + 1 - window, 0) // BK * BK if window > 0 else i32(0)
    return kv_head, row_pages, first, count, position, ahead, begin, end
