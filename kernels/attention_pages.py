"""Keys and values of a paged cache [pages, kv_heads, PAGE, HEAD_DIM] on their way to workgroup
memory: each subgroup brings KEYS keys, 16 at a time, to its own rows of a tile.

`part` is (pages of the cache, head of the cache, heads of the cache), `span` the first key that
counts and the end of those that do.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    clamp,
    convert,
    copy_async,
    device,
    i32,
    load_vector,
    select,
    static_range,
    store_vector,
    subgroup_id,
    subgroup_lane,
    u32,
    vec,
)

__all__ = ["copy_keys", "find_pages", "keep_keys", "read_keys"]


@device
def find_pages(page, table, row, key, row_pages, PAGE, KEYS):
    """page = those of KEYS keys from `key` on; behind the row of the table, its last one."""
    for n in static_range(KEYS // 16):
        page[n] = table[row + clamp((key + 16 * n) // PAGE, 0, row_pages - 1)]


@device
def line_of(page, key, span, part, PAGE):
    """The row of the cache that key `key`, the first of 16, lies in, and whether its page exists:
    a fault where it does not and any of them counts."""
    pages, kv_head, kv_heads = part
    oldest, end = span
    inside = page >= 0 and page < pages
    counts = key < end and key + 16 > oldest
    assert inside or not counts, "attention_decode_fragments: page number outside the cache"
    return ((page if inside else i32(0)) * kv_heads + kv_head) * PAGE + key % PAGE, inside


@device
def copy_keys(tile_k, tile_v, stage, k_cache, v_cache, page, key, span, part,
              C, HEAD_DIM, PAGE, KEYS):  # fmt: skip
    """Copy keys from `key` on and their values to the subgroup's rows of both tiles; zeros for
    those that do not count."""
    RUN = 16 // C.bytes
    ACROSS = HEAD_DIM // RUN
    row = i32(subgroup_lane()) // ACROSS
    col = i32(subgroup_lane()) % ACROSS * RUN
    oldest, end = span
    for n in static_range(KEYS // 16):
        line, inside = line_of(page[n], key + 16 * n, span, part, PAGE)
        for i in static_range(ACROSS // 2):
            place = i * (32 // ACROSS) + row
            own = key + 16 * n + place
            given = RUN if inside and own >= oldest and own < end else 0
            at = (stage, i32(subgroup_id()) * KEYS + 16 * n + place, col)
            source = (line + place) * HEAD_DIM + col
            copy_async(tile_k, at, k_cache, source, RUN, given)
            copy_async(tile_v, at, v_cache, source, RUN, given)


@device
def read_keys(kept, cache, page, key, span, part, HEAD_DIM, PAGE, KEYS):
    """kept = keys or values from `key` on, 4 elements of 8 bits a register, for `keep_keys`:
    whatever there is for those that do not count."""
    ACROSS = HEAD_DIM // 4
    for n in static_range(KEYS // 16):
        line, _ = line_of(page[n], key + 16 * n, span, part, PAGE)
        for i in static_range(ACROSS // 2):
            at = (line + i * 32 // ACROSS) * ACROSS + i * 32 % ACROSS + i32(subgroup_lane())
            kept[n * (ACROSS // 2) + i] = bitcast(load_vector(cache, at, 4), u32)


@device
def keep_keys(tile, stage, kept, key, span, T, C, HEAD_DIM, KEYS):
    """What `read_keys` has read as T, to the subgroup's rows of a tile; zeros for keys that do not
    count."""
    ACROSS = HEAD_DIM // 4
    oldest, end = span
    for n in static_range(KEYS * ACROSS // 32):
        at = n * 32 % ACROSS + i32(subgroup_lane())
        place = n * 32 // ACROSS + at // ACROSS
        counts = key + place >= oldest and key + place < end
        value = bitcast(select(counts, kept[n], u32(0)), vec(C, 4))
        row = i32(subgroup_id()) * KEYS + place
        store_vector(tile, (stage, row, at % ACROSS), convert(value, T))
