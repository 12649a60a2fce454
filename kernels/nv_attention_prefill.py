"""Attention of many tokens at once on Hopper: tensor copies fill rings of keys and values,
warpgroups multiply them.

A workgroup takes 64 * CONSUMERS queries of one head and goes through their keys BK at a time, the
last ones first, as only those need a mask. Its warpgroups take turns: one issues the products of
its weights and of the next scores, while another makes weights of its scores (Shah et al. 2024,
"FlashAttention-3").
"""

from __future__ import annotations

from ..ir.lang import (
    DType,
    Read,
    Write,
    barrier,
    ceil_div,
    clamp,
    device,
    f16,
    f32,
    i32,
    kernel,
    local_linear_id,
    nv,
    registers,
    static_assert,
    static_range,
    subgroup_id,
    u32,
    workgroup_array,
)
from .attention_oracle import (
    LOWEST,
    PREFILL,
    SPECIAL_PREFILL,
    long_prefill_inputs,
    prefill_reference,
)
from .family import Family
from .nv_attention_copies import fill, queries_of, tile_of, turns_of
from .nv_attention_weights import (
    give_back,
    multiply_keys,
    multiply_values,
    see,
    store_tile,
    weigh,
)
from .nv_ring import next_stage

_LOG2_E = 1.4426950408889634


@device
def attend(y, k_cache, table, lengths, starts, tile_q, tile_k, tile_v, full_q, free_q, full_k,
           free_k, full_v, free_v, heads, kv_heads, most, window, causal, scale, cap, T, HEAD_DIM,
           PAGE, BK, STAGES, CONSUMERS, KEYS, PINGPONG):  # fmt: skip
    """A warpgroup takes 64 queries of each tile."""
    ROWS = 64 * CONSUMERS
    own = i32(nv.warpgroup()) - 1
    map_y = queries_of(y, heads, HEAD_DIM)
    side, phase_q = i32(0), i32(0)
    stage_k, phase_k = i32(0), i32(0)
    stage_v, phase_v = i32(0), i32(0)
    leads = local_linear_id() % 128 == 0
    later = False
    # Only unmasked scores of a positive scale have their maximum where it is before scaling.
    plain = window <= 0 and cap <= 0 and scale > 0
    if PINGPONG and own == CONSUMERS - 1:
        nv.named_arrive(4, 256)
    tile = tile_of(
        i32(0), k_cache, table, lengths, starts, heads, kv_heads, most, window, causal, PAGE, ROWS,
        BK, KEYS)  # fmt: skip
    for turn in range(turns_of(most, heads, i32(len(lengths)), ROWS)):
        head, _, _, _, first, count, position, ahead, begin, end = tile
        if count <= 0:
            tile = tile_of(
                turn + 1, k_cache, table, lengths, starts, heads, kv_heads, most, window, causal,
                PAGE, ROWS, BK, KEYS)  # fmt: skip
        else:
            position += 64 * own
            blocks = max(ceil_div(end - begin, BK), 1)
            seen = clamp((min(position + ahead + 1, end) - begin) // BK, 0, blocks)
            slow = max(blocks - seen, 1) if plain else blocks
            scores = registers(f32, BK // 2)
            words = registers(u32, BK // 4)
            out = registers(f32, HEAD_DIM // 2)
            top = registers(f32, 2, LOWEST)
            total = registers(f32, 2)
            shrink = registers(f32, 2)
            place = side * CONSUMERS + own
            key = begin + (blocks - 1) * BK
            nv.wait(full_q, place, phase_q)
            nv.wait(full_k, stage_k, phase_k)
            nv.wgmma_fence()
            multiply_keys(scores, tile_q, tile_k, place, stage_k, HEAD_DIM // 64)
            tile = tile_of(
                turn + 1, k_cache, table, lengths, starts, heads, kv_heads, most, window, causal,
                PAGE, ROWS, BK, KEYS)  # fmt: skip
            nv.wgmma_wait(scores)
            give_back(free_k, stage_k)
            stage_k, phase_k = next_stage(stage_k, phase_k, STAGES)
            factor = see(scores, key, position, ahead, end, window, scale, cap, plain, BK)
            weigh(scores, words, top, total, shrink, factor, T, BK)
            if leads and later:
                nv.bulk_wait(read=True)  # the results before have left their place
                nv.arrive(free_q, (1 - side) * CONSUMERS + own)
            for masked in static_range(1, -1, -1):
                for _ in range(1 if masked else slow, slow if masked else blocks):
                    key -= BK
                    nv.wait(full_k, stage_k, phase_k)
                    if PINGPONG:
                        nv.named_barrier(4 + own, 256)
                    nv.wgmma_fence()
                    multiply_keys(scores, tile_q, tile_k, place, stage_k, HEAD_DIM // 64)
                    nv.wait(full_v, stage_v, phase_v)
                    multiply_values(out, words, tile_v, stage_v, PAGE, BK)
                    if PINGPONG:
                        nv.named_arrive(4 + (own + 1) % CONSUMERS, 256)
                    nv.wgmma_wait(scores, pending=1)
                    give_back(free_k, stage_k)
                    stage_k, phase_k = next_stage(stage_k, phase_k, STAGES)
                    nv.wgmma_wait(out)
                    give_back(free_v, stage_v)
                    stage_v, phase_v = next_stage(stage_v, phase_v, STAGES)
                    factor = scale * f32(_LOG2_E)
                    if masked:
                        factor = see(
                            scores, key, position, ahead, end, window, scale, cap, plain, BK
                        )
                    weigh(scores, words, top, total, shrink, factor, T, BK)
                    for i in static_range(HEAD_DIM // 2):
                        out[i] = out[i] * shrink[i // 2 % 2]
            nv.wait(full_v, stage_v, phase_v)
            nv.wgmma_fence()
            multiply_values(out, words, tile_v, stage_v, PAGE, BK)
            nv.wgmma_wait(out)
            give_back(free_v, stage_v)
            stage_v, phase_v = next_stage(stage_v, phase_v, STAGES)
            store_tile(map_y, y, tile_q, place, out, total, head, heads, first + 64 * own,
                       count - 64 * own, own, T, HEAD_DIM)  # fmt: skip
            side, phase_q = next_stage(side, phase_q, 2)
            later = True
    if leads:
        nv.bulk_wait()


@kernel(
    workgroup=lambda: (128 * (1 + CONSUMERS), 1, 1),
    grid=lambda: min(ceil_div(most, 64 * CONSUMERS) * heads * len(lengths), GROUPS),
    fast=lambda: ("approximate", "contract"),
)
def nv_attention_prefill(
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
    BK: int = 128,
    STAGES: int = 2,
    CONSUMERS: int = 2,
    KEYS: int = 49152,
    GROUPS: int = 132,
    PINGPONG: bool = True,
    SUBGROUP: int = 32,
):
    """y[t, h, :] = softmax(scores of the keys that token t sees) @ values, as `attention_prefill`,
    whose arguments these are.

    A workgroup takes 64 * CONSUMERS queries of a head, one tile after the other: one warp copies
    queries and keys, one values, to rings of STAGES tiles of BK keys, each of the other warpgroups
    multiplies 64 queries, in turns (PINGPONG) so that one makes weights while another multiplies.
    KEYS: as many as the device's cache holds with their values, besides what goes by. GROUPS: as
    many workgroups as the device holds at once, which is one for each of its multiprocessors.
    """
    static_assert(T.bits == 16 and HEAD_DIM % 64 == 0, "16-bit elements, HEAD_DIM a multiple of 64")
    static_assert(PAGE in (16, 32, 48, 64) and BK % PAGE == 0, "whole pages of 16, 32, 48 or 64")
    # 56 + 2 * 224 or 32 + 3 * 160 of the 504 or 512 that a launch has for each lane of them all:
    # of others, some would wait for registers that nobody gives back.
    static_assert(CONSUMERS in (2, 3), "CONSUMERS is 2 or 3: registers are shared out for these")
    HALVES = HEAD_DIM // 64
    tile_q = workgroup_array(T, (2 * CONSUMERS, HALVES, 64, 64))
    tile_k = workgroup_array(T, (STAGES, HALVES, BK, 64))
    tile_v = workgroup_array(T, (STAGES, BK // PAGE, HALVES, PAGE, 64))
    full_q = nv.mbarriers(2 * CONSUMERS)
    free_q = nv.mbarriers(2 * CONSUMERS)
    full_k = nv.mbarriers(STAGES)
    free_k = nv.mbarriers(STAGES)
    full_v = nv.mbarriers(STAGES)
    free_v = nv.mbarriers(STAGES)
    if local_linear_id() == 0:
        for place in static_range(2 * CONSUMERS):
            nv.init(full_q, place, 1)
            nv.init(free_q, place, 1)
        for stage in static_range(STAGES):
            nv.init(full_k, stage, 32)
            nv.init(free_k, stage, 4 * CONSUMERS)
            nv.init(full_v, stage, 32)
            nv.init(free_v, stage, 4 * CONSUMERS)
    barrier()
    if nv.role(0, 4):
        nv.set_max_registers(56 if CONSUMERS == 2 else 32)
        if subgroup_id() == 0:
            fill(False, q, k_cache, k_cache, table, lengths, starts, tile_q, tile_k, full_q, free_q,
                 full_k, free_k, heads, kv_heads, most, window, causal, T, HEAD_DIM, PAGE, BK,
                 STAGES, CONSUMERS, KEYS)  # fmt: skip
        elif subgroup_id() == 1:
            fill(True, q, k_cache, v_cache, table, lengths, starts, tile_q, tile_v, full_q, free_q,
                 full_v, free_v, heads, kv_heads, most, window, causal, T, HEAD_DIM, PAGE, BK,
                 STAGES, CONSUMERS, KEYS)  # fmt: skip
    else:
        nv.set_max_registers(224 if CONSUMERS == 2 else 160)
        attend(y, k_cache, table, lengths, starts, tile_q, tile_k, tile_v, full_q, free_q, full_k,
               free_k, full_v, free_v, heads, kv_heads, most, window, causal, scale, cap, T,
               HEAD_DIM, PAGE, BK, STAGES, CONSUMERS, KEYS, PINGPONG)  # fmt: skip


FAMILIES = (
    Family(
        nv_attention_prefill,
        long_prefill_inputs,
        prefill_reference,
        "f32 inside, weights rounded to T; products summed in any order; rounded once",
        {"": PREFILL},
        SPECIAL_PREFILL,
    ),
)
