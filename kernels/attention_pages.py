"""Keys and values of a paged cache [pages, kv_heads, PAGE, HEAD_DIM] on their way to workgroup
memory: each subgroup brings KEYS keys, 16 at a time, to its own rows of a tile.

`part` is (pages of the cache, head of the cache, heads of the cache), `span` the first key that
counts and the end of those that do.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    ceil_div,
    clamp,
    convert,
    copy_async,
    device,
    group_id,
    i32,
    load_vector,
    num_groups,
    select,
    static_range,
    store_vector,
    subgroup_id,
    subgroup_lane,
    u32,
    vec,
)

__all__ = ["copy_keys", "find_pages", "keep_keys", "line_of", "read_keys", "share"]

_FRAGMENTS = "attention_decode_fragments"


@device
def share(k_cache, table, lengths, length, partial, stats, arrived, heads, kv_heads, splits, chunk,
          window, PAGE, HEAD_DIM, ROWS, NAME):  # fmt: skip
    """What a workgroup has to do in a sequence of `length` keys: the first row of q and how many,
    ROWS at most, the keys that there are, `part` and `span`, the first key, a multiple of 16, and
    whether there is room for all splits."""
    batch = i32(group_id(2))
    split = i32(group_id(0))
    group = heads // max(kv_heads, 1)  # heads that share one of the cache
    shared = kv_heads > 0 and heads % kv_heads == 0
    assert shared, NAME + ": heads that do not share those of the cache evenly"
    each = max(ceil_div(group, ROWS), 1)  # workgroups that share a head of the cache
    kv_head = min(i32(group_id(1)) // each, max(kv_heads - 1, 0))
    first = i32(group_id(1)) % each * ROWS
    count = clamp(group - first, 0, ROWS)
    line = batch * heads + kv_head * group + first
    row_pages = i32(len(table)) // max(i32(len(lengths)), 1)
    pages = i32(len(k_cache) // (max(kv_heads, 1) * (PAGE * HEAD_DIM)))
    room = row_pages * PAGE if pages > 0 else i32(0)
    assert length <= room, NAME + ": more keys than there are pages for"
    length = min(length, room)
    assert splits > 0, NAME + ": no split"
    fits = splits <= (2**31 // PAGE - 1) // max(chunk, 1)
    assert fits, NAME + ": splits of more keys than have numbers"
    assert ceil_div(length, PAGE) <= splits * chunk or not fits, NAME + ": keys of no split"
    rows = heads * i32(len(lengths)) * max(splits, 1)
    held = rows <= len(stats) // 2 and rows <= len(partial) // HEAD_DIM
    held = held and i32(num_groups(1)) * i32(len(lengths)) <= len(arrived)
    held = splits < 2 or held
    assert held, NAME + ": partial, stats or arrived without room for all splits"
    oldest = max(length - window, 0) if window > 0 else i32(0)
    begin = max(split * chunk * PAGE, oldest // 16 * 16)
    end = min((split + 1) * chunk * PAGE, length)
    part = (pages, kv_head, kv_heads)
    return line, count, length, part, begin, (oldest, end), held and count > 0 and shared


@device
def find_pages(page, table, row, key, row_pages, PAGE, KEYS):
    """page = those of KEYS keys from `key` on; behind the row of the table, its last one."""
    for n in static_range(KEYS // 16):
        page[n] = table[row + clamp((key + 16 * n) // PAGE, 0, row_pages - 1)]


@device
def line_of(page, key, span, part, PAGE, NAME):
    """The row of the cache that key `key`, the first of 16, lies in, and whether its page exists:
    a fault where it does not and any of them counts."""
    pages, kv_head, kv_heads = part
    oldest, end = span
    inside = page >= 0 and page < pages
    counts = key < end and key + 16 > oldest
    assert inside or not counts, NAME + ": page number outside the cache"
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
        line, inside = line_of(page[n], key + 16 * n, span, part, PAGE, _FRAGMENTS)
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
        line, _ = line_of(page[n], key + 16 * n, span, part, PAGE, _FRAGMENTS)
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
