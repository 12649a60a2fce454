"""Attention of many tokens at once without matrix units: `attention_prefill` for every device.

A workgroup takes ROWS queries of one head and goes through their keys BK at a time, in workgroup
memory: each invocation makes scores of two queries and two keys, then keeps a part of one query's
sum of values, whose TEAM = BLOCK // ROWS invocations know the maximum of all its scores so far
(Dao 2023, "FlashAttention-2").
"""

from __future__ import annotations

from ..ir.lang import (
    DType,
    Read,
    Write,
    barrier,
    ceil_div,
    convert,
    device,
    exp2,
    f32,
    fma,
    i32,
    kernel,
    load_vector,
    local_id,
    registers,
    static_assert,
    static_range,
    store_vector,
    tanh,
    vec,
    workgroup_array,
)
from .attention_oracle import LOWEST, PREFILL, SPECIAL_PREFILL, prefill_inputs, prefill_reference
from .attention_prompt import extent, place
from .family import Family

_LOG2_E = 1.4426950408889634


@device
def load_queries(tile, q, first, count, head, heads, HEAD_DIM, ROWS, BLOCK):
    """tile = the ROWS queries from token `first` on; of those from `count` on, the first one."""
    for at in range(local_id(0), ROWS * HEAD_DIM // 4, BLOCK):
        row = at // (HEAD_DIM // 4)
        line = (first + (row if row < count else 0)) * heads + head
        value = load_vector(q, line * (HEAD_DIM // 4) + at % (HEAD_DIM // 4), 4)
        store_vector(tile, (row, at % (HEAD_DIM // 4)), convert(value, f32))


@device
def load_keys(tile_k, tile_v, k_cache, v_cache, table, key, end, row_pages, batch, kv_head,
              kv_heads, HEAD_DIM, PAGE, BK, BLOCK):  # fmt: skip
    """The BK keys from `key` on and their values; zeros from `end` on."""
    pages = len(k_cache) // (max(kv_heads, 1) * (PAGE * HEAD_DIM))
    for at in range(local_id(0), BK * HEAD_DIM // 4, BLOCK):
        row, col = at // (HEAD_DIM // 4), at % (HEAD_DIM // 4)
        page = table[batch * row_pages + min(key + row, end - 1) // PAGE]
        inside = page >= 0 and page < pages
        assert inside, "attention_prefill_tiles: page number outside the cache"
        k, v = vec(f32, 4)(0), vec(f32, 4)(0)
        if inside and key + row < end:
            line = (page * kv_heads + kv_head) * PAGE + (key + row) % PAGE
            k = convert(load_vector(k_cache, line * (HEAD_DIM // 4) + col, 4), f32)
            v = convert(load_vector(v_cache, line * (HEAD_DIM // 4) + col, 4), f32)
        store_vector(tile_k, (row, col), k)
        store_vector(tile_v, (row, col), v)


@device
def dots(tile_q, tile_k, row, col, HEAD_DIM):
    """q . k of two queries and two keys."""
    sums = registers(f32, (2, 2), 0)
    for d in range(HEAD_DIM // 4):
        for i in static_range(2):
            left = load_vector(tile_q, (row + i, d), 4)
            for j in static_range(2):
                right = load_vector(tile_k, (col + j, d), 4)
                for lane in static_range(4):
                    sums[i, j] = fma(left[lane], right[lane], sums[i, j])
    return sums


@device
def score(value, key, own, ahead, end, window, scale, cap):
    """A score in units of ln 2; -inf for a key that the query at `own` does not see."""
    value = value * scale
    if cap > 0:
        value = cap * tanh(value / cap)
    seen = key <= min(own + ahead, end - 1) and (window <= 0 or key > own - window)
    return value * f32(_LOG2_E) if seen else f32(float("-inf"))


@kernel(
    workgroup=lambda: (ROWS * BK // 4, 1, 1),
    grid=lambda: (ceil_div(most, ROWS), heads, len(lengths)),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def attention_prefill_tiles(
    q: Read[T],
    k_cache: Read[T],
    v_cache: Read[T],
    table: Read[i32],
    lengths: Read[i32],
    starts: Read[i32],
    y: Write[T],
    heads: i32,
    kv_heads: i32,
    most: i32,
    window: i32,
    causal: i32,
    scale: f32,
    cap: f32,
    *,
    T: DType = f32,
    HEAD_DIM: int = 128,
    PAGE: int = 16,
    ROWS: int = 16,
    BK: int = 16,
    SUBGROUP: int = 1,
    FAST: bool = False,
):
    """y[t, h, :] = softmax(scores of the keys that token t sees) @ values, as `attention_prefill`,
    whose arguments these are. Rows of queries and keys are read 4 elements at a time.
    """
    BLOCK = ROWS * BK // 4
    TEAM = BLOCK // ROWS
    PARTS = HEAD_DIM // 4 // TEAM
    static_assert(HEAD_DIM % (4 * TEAM) == 0, "a team shares HEAD_DIM in vectors of 4")
    tile_q = workgroup_array(f32, (ROWS, HEAD_DIM + 4))
    tile_k = workgroup_array(f32, (BK, HEAD_DIM + 4))
    tile_v = workgroup_array(f32, (BK, HEAD_DIM))
    scores = workgroup_array(f32, (ROWS, BK + 1))
    lid = local_id(0)
    at = place()
    _, head, batch = at
    kv_head, row_pages, first, count, position, ahead, begin, end = extent(
        at, k_cache, table, lengths, starts, heads, kv_heads, window, causal, PAGE, ROWS, BK,
        "attention_prefill_tiles")  # fmt: skip
    row, lane = lid // TEAM, lid % TEAM
    pair, twin = lid // (BK // 2) * 2, lid % (BK // 2) * 2
    if count > 0:
        load_queries(tile_q, q, first, count, head, heads, HEAD_DIM, ROWS, BLOCK)
        out = registers(vec(f32, 4), PARTS, 0)
        total = f32(0)
        top = f32(LOWEST)
        for key in range(begin, end, BK):
            barrier()
            load_keys(tile_k, tile_v, k_cache, v_cache, table, key, end, row_pages, batch, kv_head,
                      kv_heads, HEAD_DIM, PAGE, BK, BLOCK)  # fmt: skip
            barrier()
            sums = dots(tile_q, tile_k, pair, twin, HEAD_DIM)
            for i in static_range(2):
                for j in static_range(2):
                    scores[pair + i, twin + j] = sums[i, j]
            barrier()
            own = position + row
            for j in range(lane, BK, TEAM):
                value = scores[row, j]
                scores[row, j] = score(value, key + j, own, ahead, end, window, scale, cap)
            barrier()
            now = top
            for j in range(BK):
                now = max(now, scores[row, j])
            shrink = exp2(top - now)
            top = now
            total = total * shrink
            for n in static_range(PARTS):
                out[n] = out[n] * vec(f32, 4)(shrink)
            for j in range(BK):
                weight = exp2(scores[row, j] - now)
                total = total + weight
                for n in static_range(PARTS):
                    value = load_vector(tile_v, (j, n * TEAM + lane), 4)
                    out[n] = fma(value, vec(f32, 4)(weight), out[n])
        factor = 1 / total if total != 0 else f32(0)
        if row < count:
            line = ((first + row) * heads + head) * (HEAD_DIM // 4)
            for n in static_range(PARTS):
                value = convert(out[n] * vec(f32, 4)(factor), T)
                store_vector(y, line + n * TEAM + lane, value)


FAMILIES = (
    Family(
        attention_prefill_tiles,
        prefill_inputs,
        prefill_reference,
        "f32 inside; products and weights summed in order; rounded once",
        {"": PREFILL},
        SPECIAL_PREFILL,
    ),
)
