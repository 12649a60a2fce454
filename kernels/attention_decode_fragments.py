"""Attention of one new token to each sequence's paged KV cache, on matrix fragments, in one launch.

The cache is that of `attention_decode`. The heads of the query that share a head of the cache, 16
at a time, are the rows of two products: scores with the keys, then weights with the values. Each
subgroup takes KEYS keys of a step; a workgroup takes one split of the keys, and the one of a head's
splits that comes last brings all of them together (splits as in Flash-Decoding).
"""

from __future__ import annotations

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
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
    group_id,
    i32,
    kernel,
    local_id,
    mma,
    num_groups,
    nv,
    registers,
    row_max,
    select,
    static_assert,
    static_range,
    subgroup_id,
    tanh,
    u32,
    workgroup_array,
)
from .attention_oracle import FRAGMENTS, LOWEST, SPECIAL, fragments_inputs, fragments_reference
from .attention_pages import copy_keys, find_pages, keep_keys, read_keys, share
from .attention_parts import comes_last, gather_splits, spread, write_rows, write_split
from .family import Family

_LOG2_E = 1.4426950408889634


@device
def load_queries(tile, q, line, count, T, HEAD_DIM, THREADS):
    """The queries of `count` heads from row `line` of q on; zeros for the rest of 16."""
    RUN = 16 // T.bytes
    for at in range(i32(local_id(0)) * RUN, 16 * HEAD_DIM, THREADS * RUN):
        row = at // HEAD_DIM
        start = (line + (row if row < count else 0)) * HEAD_DIM + at % HEAD_DIM
        copy_async(tile, (row, at % HEAD_DIM), q, start, RUN, RUN if row < count else 0)


@device
def weigh(query, tile_q, tile_k, tile_v, biases, out, top, total, stage, key, span, length, scale,
          cap, biased, T, HEAD_DIM, KEYS, HOLD):  # fmt: skip
    """Take in the KEYS keys of a subgroup from `key` on: the sums of values in `out`, the maximum
    `top` of the scores in units of ln 2, and the parts of the sum of weights in `total`."""
    first = i32(subgroup_id()) * KEYS
    oldest, end = span
    scores = registers(fragment(f32, "acc"), KEYS // 16, 0.0)
    for d in static_range(HEAD_DIM // 16):
        left = query[d]
        if not HOLD:
            left = fragment_load(fragment(T, "a"), tile_q, (0, 16 * d))
        for j in static_range(KEYS // 16):
            at = (stage, first + 16 * j, 16 * d)
            right = fragment_load(fragment(T, "b"), tile_k, at, layout="column")
            scores[j] = mma(left, right, scores[j])
    now = top
    for j in static_range(KEYS // 16):
        value = scores[j] * scale
        place = fragment_column(fragment(f32, "acc")) + (key + 16 * j)
        if cap > 0:
            value = cap * tanh(value / cap)
        if biased:
            slope = fragment_load(fragment(f32, "acc"), biases, (0, 0))
            value = value + slope * convert(place - (length - 1), fragment(f32, "acc"))
        value = value * f32(_LOG2_E)
        if key + 16 * j < oldest or key + 16 * j + 16 > end:
            value = select((place >= oldest) & (place < end), value, f32(float("-inf")))
        scores[j] = value
        now = max(now, row_max(value))
    shrink = exp2(top - now)
    total = total * shrink
    for n in static_range(HEAD_DIM // 16):
        out[n] = out[n] * shrink
    for j in static_range(KEYS // 16):
        weight = exp2(scores[j] - now)
        total = total + weight
        left = convert(weight, fragment(T, "a"))
        for n in static_range(HEAD_DIM // 16):
            at = (stage, first + 16 * j, 16 * n)
            out[n] = mma(left, fragment_load(fragment(T, "b"), tile_v, at), out[n])
    return out, now, total


@device
def take_copied(tile_q, tile_k, tile_v, biases, out, page, k_cache, v_cache, table, row, row_pages,
                key, steps, span, part, length, scale, cap, biased, T, HEAD_DIM, PAGE, KEYS,
                STAGES, SPAN):  # fmt: skip
    """All keys of a subgroup, of a cache of the type of the queries: copied STAGES - 1 steps ahead,
    and their pages looked up one step before that."""
    for n in static_range(STAGES - 1):
        if n < steps:
            copy_keys(tile_k, tile_v, n, k_cache, v_cache, page, key + n * SPAN, span, part,
                      T, HEAD_DIM, PAGE, KEYS)  # fmt: skip
        copy_commit()
        find_pages(page, table, row, key + (n + 1) * SPAN, row_pages, PAGE, KEYS)
    query = registers(fragment(T, "a"), HEAD_DIM // 16, 0)
    top, total = fragment(f32, "row")(LOWEST), fragment(f32, "acc")(0.0)
    stage = i32(0)
    for step in range(steps):
        copy_wait(STAGES - 2)
        barrier()
        behind = stage + (STAGES - 1) if stage == 0 else stage - 1
        if step + STAGES - 1 < steps:
            copy_keys(tile_k, tile_v, behind, k_cache, v_cache, page, key + (STAGES - 1) * SPAN,
                      span, part, T, HEAD_DIM, PAGE, KEYS)  # fmt: skip
        copy_commit()
        find_pages(page, table, row, key + STAGES * SPAN, row_pages, PAGE, KEYS)
        out, top, total = weigh(query, tile_q, tile_k, tile_v, biases, out, top, total, stage, key,
                                span, length, scale, cap, biased, T, HEAD_DIM, KEYS,
                                False)  # fmt: skip
        key += SPAN
        stage = stage + 1 if stage < STAGES - 1 else i32(0)
    return top, total


@device
def take_read(tile_q, tile_k, tile_v, biases, out, page, k_cache, v_cache, table, row, row_pages,
              key, steps, span, part, length, scale, cap, biased, T, C, HEAD_DIM, PAGE, KEYS,
              SPAN):  # fmt: skip
    """The same of a cache of 8 bits: read to registers a step ahead, and stored as T. What passes
    through workgroup memory bounds it, so that the queries are held in registers."""
    keys = registers(u32, KEYS * HEAD_DIM // 128, 0)
    values = registers(u32, KEYS * HEAD_DIM // 128, 0)
    read_keys(keys, k_cache, page, key, span, part, HEAD_DIM, PAGE, KEYS)
    read_keys(values, v_cache, page, key, span, part, HEAD_DIM, PAGE, KEYS)
    find_pages(page, table, row, key + SPAN, row_pages, PAGE, KEYS)
    copy_wait()
    barrier()
    query = registers(fragment(T, "a"), HEAD_DIM // 16, 0)
    for d in static_range(HEAD_DIM // 16):
        query[d] = fragment_load(fragment(T, "a"), tile_q, (0, 16 * d))
    top, total = fragment(f32, "row")(LOWEST), fragment(f32, "acc")(0.0)
    for step in range(steps):
        stage = step % 2
        keep_keys(tile_k, stage, keys, key, span, T, C, HEAD_DIM, KEYS)
        keep_keys(tile_v, stage, values, key, span, T, C, HEAD_DIM, KEYS)
        barrier()
        if step + 1 < steps:
            read_keys(keys, k_cache, page, key + SPAN, span, part, HEAD_DIM, PAGE, KEYS)
            read_keys(values, v_cache, page, key + SPAN, span, part, HEAD_DIM, PAGE, KEYS)
        find_pages(page, table, row, key + 2 * SPAN, row_pages, PAGE, KEYS)
        out, top, total = weigh(query, tile_q, tile_k, tile_v, biases, out, top, total, stage, key,
                                span, length, scale, cap, biased, T, HEAD_DIM, KEYS,
                                True)  # fmt: skip
        key += SPAN
    return top, total


@kernel(
    workgroup=lambda: (WARPS * 32, 1, 1),
    grid=lambda: (
        max(splits, 1),
        kv_heads * ceil_div(heads, 16 * max(kv_heads, 1)),
        len(lengths),
    ),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def attention_decode_fragments(
    q: Read[T],
    k_cache: Read[C],
    v_cache: Read[C],
    table: Read[i32],
    lengths: Read[i32],
    slopes: Read[f32],
    y: Write[T],
    partial: ReadWrite[f32],
    stats: ReadWrite[f32],
    arrived: ReadWrite[u32],
    heads: i32,
    kv_heads: i32,
    splits: i32,
    chunk: i32,
    window: i32,
    scale: f32,
    cap: f32,
    k_scale: f32,
    v_scale: f32,
    *,
    T: DType = f16,
    C: DType = f16,
    HEAD_DIM: int = 128,
    PAGE: int = 16,
    WARPS: int = 4,
    KEYS: int = 16,
    STAGES: int = 3,
    SUBGROUP: int = 32,
    EARLY: bool = False,
    FAST: bool = False,
):
    """y[b, h, :] as `attention_decode`, whose arguments these are, makes it with `attention_merge`,
    for any number of heads that share one of the cache.

    partial [batch, heads, splits, HEAD_DIM] and stats [batch, heads, splits, 2] are for the kernel
    itself where splits > 1, and so is arrived, a number for each workgroup of a split: zeros before
    the first launch, which each launch leaves. C is T, or an element of 8 bits. KEYS: that a
    subgroup takes at a time; STAGES: steps that copies are ahead and the one that is computed.
    EARLY: launches that depend on this one may begin before it ends, and this one before those that
    it depends on.
    """
    static_assert(KEYS % 16 == 0 and PAGE % 16 == 0, "KEYS and PAGE are multiples of 16")
    static_assert(HEAD_DIM in (64, 128, 256), "HEAD_DIM is 64, 128 or 256")
    static_assert(SUBGROUP == 32, "subgroups are of 32")
    if EARLY:
        nv.launch_next()
        nv.wait_for_previous()
    THREADS = WARPS * 32
    SPAN = WARPS * KEYS
    tile_q = workgroup_array(T, (16, HEAD_DIM + 8))
    AHEAD = STAGES if C == T else 2
    tile_k = workgroup_array(T, (AHEAD, SPAN, HEAD_DIM + 8))
    tile_v = workgroup_array(T, (AHEAD, SPAN, HEAD_DIM + 8))
    parts = workgroup_array(f32, (WARPS, 16, HEAD_DIM + 8))
    side = workgroup_array(f32, (WARPS, 16, 24))
    biases = workgroup_array(f32, (16, 24))
    last = workgroup_array(i32, 1)
    own = i32(subgroup_id()) * KEYS
    split = i32(group_id(0))
    batch = i32(group_id(2))
    row_pages = i32(len(table)) // max(i32(len(lengths)), 1)
    row = batch * row_pages
    page = registers(i32, KEYS // 16, 0)
    if row_pages > 0:  # while the length is on its way
        find_pages(page, table, row, split * chunk * PAGE + own, row_pages, PAGE, KEYS)
    line, count, length, part, begin, span, held = share(
        k_cache, table, lengths, i32(lengths[batch]), partial, stats, arrived, heads, kv_heads,
        splits, chunk, window, PAGE, HEAD_DIM, 16, "attention_decode_fragments")  # fmt: skip
    biased = len(slopes) > 0
    if biased:
        for at in range(i32(local_id(0)), 256, THREADS):
            head = line - batch * heads + min(at // 16, count - 1)
            biases[at // 16, at % 16] = slopes[max(head, 0)]
    steps = ceil_div(max(span[1] - begin, 0), SPAN)
    out = registers(fragment(f32, "acc"), HEAD_DIM // 16, 0.0)
    top, total = fragment(f32, "row")(LOWEST), fragment(f32, "acc")(0.0)
    if steps > 0:
        load_queries(tile_q, q, line, count, T, HEAD_DIM, THREADS)
        copy_commit()
        if window > 0:
            find_pages(page, table, row, begin + own, row_pages, PAGE, KEYS)
        if C == T:
            top, total = take_copied(
                tile_q, tile_k, tile_v, biases, out, page, k_cache, v_cache, table, row, row_pages,
                begin + own, steps, span, part, length, scale * k_scale, cap, biased, T, HEAD_DIM,
                PAGE, KEYS, STAGES, SPAN)  # fmt: skip
        else:
            top, total = take_read(
                tile_q, tile_k, tile_v, biases, out, page, k_cache, v_cache, table, row, row_pages,
                begin + own, steps, span, part, length, scale * k_scale, cap, biased, T, C,
                HEAD_DIM, PAGE, KEYS, SPAN)  # fmt: skip
    copy_wait()
    barrier()
    spread(parts, side, out, top, total, HEAD_DIM)
    barrier()
    rows = count if held else i32(0)
    if splits < 2:
        write_rows(parts, side, y, line, rows, v_scale, T, WARPS, HEAD_DIM)
    else:
        write_split(parts, side, partial, stats, line, rows, splits, split, WARPS, HEAD_DIM)
        barrier()
        if local_id(0) == 0:
            last[0] = 0
            if held:
                group = batch * i32(num_groups(1)) + i32(group_id(1))
                last[0] = select(comes_last(arrived, group, splits), i32(1), i32(0))
        barrier()
        rows = rows if last[0] != 0 else i32(0)
        gather_splits(parts, side, partial, stats, line, rows, splits, WARPS, HEAD_DIM)
        barrier()
        write_rows(parts, side, y, line, rows, v_scale, T, WARPS, HEAD_DIM)


FAMILIES = (
    Family(
        attention_decode_fragments,
        fragments_inputs,
        fragments_reference,
        "f32 inside, weights rounded to T; products summed in any order, splits in a fixed one;"
        " rounded once",
        {"": FRAGMENTS},
        SPECIAL,
    ),
)
