"""What a workgroup of a prefill on Hopper does in which turn, and the copies to its rings."""

from __future__ import annotations

from ..ir.lang import (
    ceil_div,
    device,
    group_id,
    i32,
    load_vector,
    num_groups,
    nv,
    static_range,
    store_vector,
    subgroup_lane,
    vec,
)
from .attention_prompt import extent
from .nv_ring import next_stage

__all__ = ["fill", "queries_of", "tile_of", "turns_of"]


@device
def work_of(turn, most, heads, kv_heads, batches, keys, ROWS, KEYS):
    """Tile, head and sequence of a workgroup's turn, and whether there are any.

    As many heads go along as have their keys in the cache together, which holds KEYS. Of the last
    ones' tiles, those with most keys come first; of those before them, last; and so on in turns, so
    that each workgroup has about as many keys as the others at any time, and few at the end.
    """
    tiles = ceil_div(most, ROWS)
    number = turn * i32(num_groups(0)) + i32(group_id(0))
    pairs = heads * batches
    together = max(KEYS // max(keys, 1), 1) * max(heads // max(kv_heads, 1), 1)
    section = number // (tiles * together)
    wide = max(min(pairs - section * together, together), 1)
    rest = number - section * (tiles * together)
    pair = section * together + rest % wide
    behind = max(pairs - 1, 0) // together - section  # sections that follow
    tile = rest // wide
    if behind % 2 == 0:
        tile = tiles - 1 - tile
    return (tile, pair % heads, pair // heads), number < tiles * pairs


@device
def tile_of(turn, k_cache, table, lengths, starts, heads, kv_heads, most, window, causal, PAGE,
            ROWS, BK, KEYS):  # fmt: skip
    """Of a workgroup's turn: head, sequence and what `extent` says of them; no queries where there
    are no more turns."""
    batches = i32(len(lengths))
    keys = i32(len(table)) // max(batches, 1) * PAGE
    at, some = work_of(turn, most, heads, kv_heads, batches, keys, ROWS, KEYS)
    _, head, batch = at
    kv_head, row_pages, first, count = i32(0), i32(0), i32(0), i32(0)
    position, ahead, begin, end = i32(0), i32(0), i32(0), i32(0)
    if some:
        kv_head, row_pages, first, count, position, ahead, begin, end = extent(
            at, k_cache, table, lengths, starts, heads, kv_heads, window, causal, PAGE, ROWS, BK,
            "nv_attention_prefill")  # fmt: skip
    return head, batch, kv_head, row_pages, first, count, position, ahead, begin, end


@device
def turns_of(most, heads, batches, ROWS):
    """How many turns a workgroup has at most."""
    return ceil_div(ceil_div(most, ROWS) * heads * batches, i32(num_groups(0)))


@device
def queries_of(q, heads, HEAD_DIM):
    """Queries or results of one head, 64 tokens at a time, 64 elements of each together."""
    tokens = len(q) // (max(heads, 1) * HEAD_DIM)
    return nv.tensor_map(
        q, (heads, HEAD_DIM // 64, tokens, 64), (1, HEAD_DIM // 64, 64, 64),
        strides=(HEAD_DIM, 64, heads * HEAD_DIM))  # fmt: skip


@device
def page_of(table, key, end, batch, row_pages, pages, PAGE):
    """The page of a key; from `end` on one outside of the cache, which is copied as zeros."""
    found = i32(-1)
    if key < end:
        page = table[batch * row_pages + key // PAGE]
        inside = page >= 0 and page < pages
        assert inside, "nv_attention_prefill: page number outside the cache"
        if inside:
            found = page
    return found


@device
def load_queries(map_q, tile_q, full, free, side, phase, head, first, T, HEAD_DIM, CONSUMERS):
    """One invocation copies the queries of a tile, those of a warpgroup where it has done with
    others."""
    for part in static_range(CONSUMERS):
        place = side * CONSUMERS + part
        nv.wait(free, place, phase ^ 1)
        nv.expect(full, place, 64 * HEAD_DIM * T.bytes)
        at = (head, 0, first + 64 * part, 0)
        nv.tensor_load(map_q, at, tile_q, (place, 0, 0, 0), full, place)


@device
def load_rest(tile, stage, part, cache, page, kv_head, kv_heads, rows, T, HEAD_DIM, PAGE, BK):
    """A warp copies page number `part` of a stage, of which only `rows` rows count, with zeros for
    the others: what is there may be a NaN, which no weight of zero takes away."""
    for at in range(i32(subgroup_lane()), PAGE * HEAD_DIM // 8, 32):
        row, chunk = at // (HEAD_DIM // 8), at % (HEAD_DIM // 8)
        value = vec(T, 8)(0)
        if page >= 0 and row < rows:
            line = (page * kv_heads + kv_head) * PAGE + row
            value = load_vector(cache, line * (HEAD_DIM // 8) + chunk, 8)
        line = ((stage * (BK // PAGE) + part) * (HEAD_DIM // 64) + chunk // 8) * PAGE + row
        store_vector(tile, line * 8 + (chunk % 8 ^ row % 8), value)
    nv.fence_async()


@device
def fill(VALUES, q, k_cache, cache, table, lengths, starts, tile_q, ring, full_q, free_q, full,
         free, heads, kv_heads, most, window, causal, T, HEAD_DIM, PAGE, BK, STAGES, CONSUMERS,
         KEYS):  # fmt: skip
    """A warp fills the ring of the values, or that of the keys and the queries before them; each
    lane copies a page. cache: what it copies; k_cache alone says how many keys there are, as it
    does to those that wait for them."""
    ROWS = 64 * CONSUMERS
    HALVES = HEAD_DIM // 64
    lane = i32(subgroup_lane())
    copies = lane < BK // PAGE
    pages = len(cache) // (max(kv_heads, 1) * (PAGE * HEAD_DIM))
    if VALUES:
        map_c = nv.tensor_map(
            cache, (pages, kv_heads, HALVES, PAGE, 64), (1, 1, HALVES, PAGE, 64),
            strides=(kv_heads * (PAGE * HEAD_DIM), PAGE * HEAD_DIM, 64, HEAD_DIM))  # fmt: skip
    else:
        map_c = nv.tensor_map(cache, (pages, kv_heads, PAGE, HEAD_DIM), (1, 1, PAGE, 64))
        map_q = queries_of(q, heads, HEAD_DIM)
    side, phase_q = i32(0), i32(0)
    stage, phase = i32(0), i32(0)
    for turn in range(turns_of(most, heads, i32(len(lengths)), ROWS)):
        head, batch, kv_head, row_pages, first, count, _, _, begin, end = tile_of(
            turn, k_cache, table, lengths, starts, heads, kv_heads, most, window, causal, PAGE,
            ROWS, BK, KEYS)  # fmt: skip
        if count > 0:
            if not VALUES:
                if lane == 0:
                    load_queries(map_q, tile_q, full_q, free_q, side, phase_q, head, first, T,
                                 HEAD_DIM, CONSUMERS)  # fmt: skip
                side, phase_q = next_stage(side, phase_q, 2)
            for block in range(max(ceil_div(end - begin, BK), 1) - 1, -1, -1):
                key = begin + block * BK
                page = i32(-1)
                if copies:
                    page = page_of(table, key + lane * PAGE, end, batch, row_pages, pages, PAGE)
                nv.wait(free, stage, phase ^ 1)
                whole = copies
                if VALUES and end % PAGE != 0 and end > key and end < key + BK:
                    part = (end - key) // PAGE
                    odd = page_of(table, end - 1, end, batch, row_pages, pages, PAGE)
                    load_rest(ring, stage, part, cache, odd, kv_head, kv_heads, end % PAGE, T,
                              HEAD_DIM, PAGE, BK)  # fmt: skip
                    whole = copies and lane != part
                if whole:
                    nv.expect(full, stage, PAGE * HEAD_DIM * T.bytes)
                    if VALUES:
                        to = (stage, lane, 0, 0, 0)
                        nv.tensor_load(map_c, (page, kv_head, 0, 0, 0), ring, to, full, stage)
                    else:
                        for half in static_range(HALVES):
                            box = (page, kv_head, 0, 64 * half)
                            to = (stage, half, lane * PAGE, 0)
                            nv.tensor_load(map_c, box, ring, to, full, stage)
                else:
                    nv.arrive(full, stage)
                stage, phase = next_stage(stage, phase, STAGES)
