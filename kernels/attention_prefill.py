"""Attention of many tokens at once to each sequence's paged KV cache, on matrix fragments.

The cache is that of `attention_decode`. A workgroup takes ROWS queries of one head, each subgroup
16 of them, and goes through their keys BK at a time: scores, a running maximum, weights, which
become the left operand of the product with the values (Dao 2023, "FlashAttention-2"). Scores never
leave the subgroup.
"""

from __future__ import annotations

from ..ir.lang import (
    DType,
    Read,
    Write,
    barrier,
    ceil_div,
    convert,
    copy_async,
    copy_commit,
    copy_wait,
    device,
    exp2,
    f16,
    f32,
    fragment,
    fragment_column,
    fragment_load,
    fragment_row,
    fragment_store,
    i32,
    kernel,
    local_id,
    mma,
    registers,
    row_add,
    row_max,
    select,
    static_assert,
    static_range,
    subgroup_id,
    subgroup_lane,
    tanh,
    workgroup_array,
)
from .attention_oracle import LOWEST, PREFILL, SPECIAL_PREFILL, prefill_inputs, prefill_reference
from .attention_prompt import extent, place
from .family import Family

_LOG2_E = 1.4426950408889634


@device
def load_queries(tile, q, first, count, head, heads, HEAD_DIM, ROWS, THREADS, RUN):
    """The ROWS queries from token `first` on, of which `count` there are; zeros for the others."""
    for at in range(local_id(0) * RUN, ROWS * HEAD_DIM, THREADS * RUN):
        row = at // HEAD_DIM
        start = ((first + (row if row < count else 0)) * heads + head) * HEAD_DIM + at % HEAD_DIM
        copy_async(tile, (row, at % HEAD_DIM), q, start, RUN, RUN if row < count else 0)


@device
def load_keys(tile, stage, cache, table, begin, end, row_pages, batch, kv_head, kv_heads,
              HEAD_DIM, PAGE, BK, THREADS, RUN):  # fmt: skip
    """tile[stage] = the BK keys (or values) from `begin` on; zeros from `end` on."""
    pages = len(cache) // (max(kv_heads, 1) * (PAGE * HEAD_DIM))
    for at in range(local_id(0) * RUN, BK * HEAD_DIM, THREADS * RUN):
        row = at // HEAD_DIM
        key = begin + row
        page = table[batch * row_pages + min(key, end - 1) // PAGE]
        inside = page >= 0 and page < pages
        assert inside, "attention_prefill: page number outside the cache"
        line = ((page if inside else i32(0)) * kv_heads + kv_head) * PAGE + key % PAGE
        given = RUN if inside and key < end else 0
        copy_async(tile, (stage, row, at % HEAD_DIM), cache, line * HEAD_DIM + at % HEAD_DIM, RUN,
                   given)  # fmt: skip


@device
def score(tile_q, tile_k, stage, row, T, HEAD_DIM, BK):
    """q @ k^T of the 16 queries from `row` on and BK keys, 16 x 16 at a time."""
    scores = registers(fragment(f32, "acc"), BK // 16, 0.0)
    for d in range(0, HEAD_DIM, 16):
        left = fragment_load(fragment(T, "a"), tile_q, (row, d))
        for j in static_range(BK // 16):
            at = (stage, 16 * j, d)
            right = fragment_load(fragment(T, "b"), tile_k, at, layout="column")
            scores[j] = mma(left, right, scores[j])
    return scores


@device
def hidden(value, key, position, ahead, end, window):
    """The scores of 16 x 16 from key and position on, with -inf for keys that a query does not see:
    those more than `ahead` behind its own, and those from `end` on."""
    at = fragment_column(fragment(f32, "acc")) + key
    own = fragment_row(fragment(f32, "acc")) + position
    seen = at <= min(own + ahead, end - 1)
    if window > 0:
        seen = seen & (at > own - window)
    return select(seen, value, f32(float("-inf")))


@device
def store_rows(y, out, first, count, head, heads, row, T, HEAD_DIM, SUBGROUP, WAVES):
    """The results of a subgroup: whole fragments, or through workgroup memory at the last rows."""
    line = ((first + row) * heads + head) * HEAD_DIM
    if row + 16 <= count:
        for n in static_range(HEAD_DIM // 16):
            part = convert(out[n], fragment(T, "acc"))
            fragment_store(y, line + 16 * n, part, heads * HEAD_DIM)
    parts = workgroup_array(f32, (WAVES, 16, 20))
    if count % 16 != 0:
        for n in static_range(HEAD_DIM // 16):
            fragment_store(parts, (subgroup_id(), 0, 0), out[n])
            barrier()
            for at in range(subgroup_lane(), 256, SUBGROUP):
                if row + 16 > count and row + at // 16 < count:
                    value = parts[subgroup_id(), at // 16, at % 16]
                    y[line + at // 16 * heads * HEAD_DIM + 16 * n + at % 16] = convert(value, T)
            barrier()


@kernel(
    workgroup=lambda: (ROWS // 16 * SUBGROUP, 1, 1),
    grid=lambda: (ceil_div(most, ROWS), heads, len(lengths)),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def attention_prefill(
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
    T: DType = f16,
    HEAD_DIM: int = 128,
    PAGE: int = 16,
    ROWS: int = 64,
    BK: int = 32,
    SUBGROUP: int = 32,
    FAST: bool = False,
):
    """y[t, h, :] = softmax(scores of the keys that token t sees) @ values: q and y are [tokens,
    heads, HEAD_DIM]; tokens starts[b] to starts[b + 1] - 1, at most `most`, are the last ones of
    the lengths[b] keys of sequence b. A token sees all keys up to its own, where causal is 0 those
    behind it as well, and of those before it only the last `window`, its own included, where window
    > 0. One that sees none, as the first of more tokens than keys, gives zeros. heads / kv_heads
    heads read the same head of the cache. A score is scale * q . k, or cap * tanh of that over cap
    where cap > 0.

    The cache is [pages, kv_heads, PAGE, HEAD_DIM], table [batch, pages of a sequence]; a page
    number outside the cache is a fault, and so are more keys than there are pages for. Rows of
    queries and keys are copied 16 bytes at a time.
    """
    RUN = 16 // T.bytes
    WAVES = ROWS // 16
    THREADS = WAVES * SUBGROUP
    static_assert(BK % 16 == 0 and HEAD_DIM % 16 == 0, "BK and HEAD_DIM are multiples of 16")
    tile_q = workgroup_array(T, (ROWS, HEAD_DIM + RUN))
    tile_k = workgroup_array(T, (2, BK, HEAD_DIM + RUN))
    tile_v = workgroup_array(T, (2, BK, HEAD_DIM + RUN))
    at = place()
    _, head, batch = at
    kv_head, row_pages, first, count, position, ahead, begin, end = extent(
        at, k_cache, table, lengths, starts, heads, kv_heads, window, causal, PAGE, ROWS, BK,
        "attention_prefill")  # fmt: skip
    row = subgroup_id() * 16
    if count > 0:
        load_queries(tile_q, q, first, count, head, heads, HEAD_DIM, ROWS, THREADS, RUN)
        if begin < end:
            load_keys(tile_k, 0, k_cache, table, begin, end, row_pages, batch, kv_head, kv_heads,
                      HEAD_DIM, PAGE, BK, THREADS, RUN)  # fmt: skip
            load_keys(tile_v, 0, v_cache, table, begin, end, row_pages, batch, kv_head, kv_heads,
                      HEAD_DIM, PAGE, BK, THREADS, RUN)  # fmt: skip
        copy_commit()
        out = registers(fragment(f32, "acc"), HEAD_DIM // 16, 0.0)
        total = fragment(f32, "acc")(0.0)
        top = fragment(f32, "row")(LOWEST)
        stage = i32(0)
        for key in range(begin, end, BK):
            copy_wait()
            barrier()
            if key + BK < end:
                load_keys(tile_k, 1 - stage, k_cache, table, key + BK, end, row_pages, batch,
                          kv_head, kv_heads, HEAD_DIM, PAGE, BK, THREADS, RUN)  # fmt: skip
                load_keys(tile_v, 1 - stage, v_cache, table, key + BK, end, row_pages, batch,
                          kv_head, kv_heads, HEAD_DIM, PAGE, BK, THREADS, RUN)  # fmt: skip
            copy_commit()
            scores = score(tile_q, tile_k, stage, row, T, HEAD_DIM, BK)
            now = top
            for j in static_range(BK // 16):
                value = scores[j] * scale
                if cap > 0:
                    value = cap * tanh(value / cap)
                value = value * f32(_LOG2_E)
                # A tile that all queries see whole needs no mask.
                if key + BK > min(position + row + ahead + 1, end) or window > 0:
                    value = hidden(value, key + 16 * j, position + row, ahead, end, window)
                scores[j] = value
                now = max(now, row_max(value))
            shrink = exp2(top - now)
            top = now
            total = total * shrink
            for n in static_range(HEAD_DIM // 16):
                out[n] = out[n] * shrink
            for j in static_range(BK // 16):
                weight = exp2(scores[j] - now)
                total = total + weight
                left = convert(weight, fragment(T, "a"))
                for n in static_range(HEAD_DIM // 16):
                    right = fragment_load(fragment(T, "b"), tile_v, (stage, 16 * j, 16 * n))
                    out[n] = mma(left, right, out[n])
            stage = 1 - stage
        copy_wait()
        whole = row_add(total)
        factor = select(whole == 0, f32(0), 1 / whole)
        for n in static_range(HEAD_DIM // 16):
            out[n] = out[n] * factor
        store_rows(y, out, first, count, head, heads, row, T, HEAD_DIM, SUBGROUP, WAVES)


FAMILIES = (
    Family(
        attention_prefill,
        prefill_inputs,
        prefill_reference,
        "f32 inside, weights rounded to T; products summed in any order; rounded once",
        {"": PREFILL},
        SPECIAL_PREFILL,
    ),
)
