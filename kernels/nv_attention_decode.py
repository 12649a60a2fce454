"""Attention of one new token to each sequence's paged KV cache, by NVIDIA's `mma`, in one launch.

What `attention_decode_fragments` does, for 8 heads at a time, without what stands in the way of
bytes there: subgroups wait for none but their own copies (`nv_decode_keys`), and elements of 8 bits
are widened in the registers that the products take.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    Write,
    barrier,
    ceil_div,
    copy_commit,
    copy_wait,
    device,
    f16,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    num_groups,
    nv,
    registers,
    select,
    static_assert,
    static_range,
    subgroup_id,
    subgroup_lane,
    u32,
    workgroup_array,
)
from .attention_oracle import FRAGMENTS, LOWEST, SPECIAL, fragments_inputs, fragments_reference
from .attention_pages import find_pages, share
from .attention_parts import comes_last, merge_splits, write_rows, write_split
from .family import Args, Constexprs, Family
from .nv_decode_keys import attend, chunks, copy_slot, keep_sums, load_query

_ROWS = 8  # heads
_NAME = "nv_attention_decode"


@device
def take(ring, out, page, q, k_cache, v_cache, table, slopes, line, count, head, row, row_pages,
         key, steps, span, part, length, scale, cap, T, C, HEAD_DIM, PAGE, KEYS, STAGES,
         SPAN):  # fmt: skip
    """All keys of a subgroup: copied STAGES - 1 steps ahead, and their pages looked up one step
    before that. The sums of values in `out`; gives maxima and sums of weights as `attend` does."""
    EACH = chunks(C, HEAD_DIM, KEYS)
    first = i32(subgroup_id()) * (STAGES * EACH)
    for n in static_range(STAGES - 1):
        if n < steps:
            copy_slot(ring, first + n * EACH, k_cache, v_cache, page, key + n * SPAN, span, part,
                        C, HEAD_DIM, PAGE, KEYS, _NAME)  # fmt: skip
        copy_commit()
        find_pages(page, table, row, key + (n + 1) * SPAN, row_pages, PAGE, KEYS)
    query = load_query(q, line, count, C, T, HEAD_DIM)
    biased = len(slopes) > 0
    slope = f32(0)
    if biased:
        slope = slopes[head + min(i32(subgroup_lane()) // 4, max(count - 1, 0))]
    top, total = f32(LOWEST), f32(0)
    stage = i32(0)
    for step in range(steps):
        copy_wait(STAGES - 2)
        nv.named_barrier(1 + subgroup_id(), 32)  # what the subgroup has copied, and read before
        behind = stage + (STAGES - 1) if stage == 0 else stage - 1
        if step + STAGES - 1 < steps:
            copy_slot(ring, first + behind * EACH, k_cache, v_cache, page,
                        key + (STAGES - 1) * SPAN, span, part, C, HEAD_DIM, PAGE, KEYS,
                        _NAME)  # fmt: skip
        copy_commit()
        find_pages(page, table, row, key + STAGES * SPAN, row_pages, PAGE, KEYS)
        top, total = attend(query, ring, first + stage * EACH, out, top, total, key, span, length,
                            scale, cap, slope, biased, C, T, HEAD_DIM, KEYS)  # fmt: skip
        key += SPAN
        stage = stage + 1 if stage < STAGES - 1 else i32(0)
    copy_wait()
    return top, total


@device
def meet(parts, side, y, partial, stats, arrived, line, rows, splits, held, v_scale, T, WARPS,
         HEAD_DIM):  # fmt: skip
    """What a workgroup has, to y: of one split, or of all by the workgroup that comes last."""
    last = workgroup_array(i32, 1)
    split, batch = i32(group_id(0)), i32(group_id(2))
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
        merge_splits(partial, stats, y, line, rows, splits, v_scale, T, WARPS, HEAD_DIM)


@kernel(
    workgroup=lambda: (WARPS * 32, 1, 1),
    grid=lambda: (
        max(splits, 1),
        kv_heads * ceil_div(heads, 8 * max(kv_heads, 1)),
        len(lengths),
    ),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def nv_attention_decode(
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
    STAGES: int = 2,
    SUBGROUP: int = 32,
    EARLY: bool = False,
    FAST: bool = False,
):
    """y[b, h, :] as `attention_decode_fragments`, whose arguments these are, makes it; arrived has
    a number for each workgroup of a split, which take 8 heads each.

    C is T, or an element of 8 bits beside f16. KEYS: that a subgroup takes at a time; STAGES: steps
    that copies are ahead and the one that is computed. EARLY: launches that depend on this one may
    begin before it ends, and this one before those that it depends on.
    """
    static_assert(KEYS % 16 == 0 and PAGE % 16 == 0, "KEYS and PAGE are multiples of 16")
    static_assert(HEAD_DIM in (64, 128, 256), "HEAD_DIM is 64, 128 or 256")
    static_assert(HEAD_DIM * C.bytes % 128 == 0, "rows of the cache are multiples of 128 bytes")
    static_assert(C == T or (C.bytes == 1 and T == f16), "C is T, or of 8 bits beside f16")
    static_assert(STAGES > 1 and WARPS < 16, "STAGES is 2 or more, WARPS 15 or fewer")
    if EARLY:
        nv.launch_next()
    SPAN = WARPS * KEYS
    ring = workgroup_array(C, WARPS * STAGES * chunks(C, HEAD_DIM, KEYS) * (16 // C.bytes))
    parts = workgroup_array(f32, (WARPS, _ROWS, HEAD_DIM + 8))
    side = workgroup_array(f32, (WARPS, _ROWS, 2))
    own = i32(subgroup_id()) * KEYS
    split, batch = i32(group_id(0)), i32(group_id(2))
    row_pages = i32(len(table)) // max(i32(len(lengths)), 1)
    row = batch * row_pages
    if EARLY:
        nv.wait_for_previous()
    page = registers(i32, KEYS // 16, 0)
    if row_pages > 0:  # while the length is on its way
        find_pages(page, table, row, split * chunk * PAGE + own, row_pages, PAGE, KEYS)
    line, count, length, part, begin, span, held = share(
        k_cache, table, lengths, i32(lengths[batch]), partial, stats, arrived, heads, kv_heads,
        splits, chunk, window, PAGE, HEAD_DIM, _ROWS, _NAME)  # fmt: skip
    steps = ceil_div(max(span[1] - begin, 0), SPAN)
    out = registers(f32, (HEAD_DIM // 8, 4), 0.0)
    top, total = f32(LOWEST), f32(0)
    if steps > 0:
        if window > 0:
            find_pages(page, table, row, begin + own, row_pages, PAGE, KEYS)
        top, total = take(
            ring, out, page, q, k_cache, v_cache, table, slopes, line, count, line - batch * heads,
            row, row_pages, begin + own, steps, span, part, length, scale * k_scale, cap, T, C,
            HEAD_DIM, PAGE, KEYS, STAGES, SPAN)  # fmt: skip
    keep_sums(parts, side, out, top, total, C, HEAD_DIM)
    barrier()
    rows = count if held else i32(0)
    meet(parts, side, y, partial, stats, arrived, line, rows, splits, held, v_scale, T, WARPS,
         HEAD_DIM)  # fmt: skip


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    """Those of `attention_decode_fragments`, whose workgroups have more heads each."""
    for args in fragments_inputs(rng, constexprs):
        groups = args["kv_heads"] * -(-args["heads"] // (_ROWS * args["kv_heads"]))
        count = len(args["lengths"]) * groups if args["arrived"].size else 0
        yield {**args, "arrived": np.zeros(count, np.uint32)}


FAMILIES = (
    Family(
        nv_attention_decode,
        _inputs,
        fragments_reference,
        "f32 inside, weights rounded to T; products summed in any order, splits in a fixed one;"
        " rounded once",
        {"": FRAGMENTS},
        SPECIAL,
    ),
)
