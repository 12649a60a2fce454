"""Scores, weights and results of a warpgroup of a prefill on Hopper, in registers.

A warpgroup holds 64 rows of a sum, two by each invocation; four invocations share a row.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    convert,
    device,
    exp2,
    f32,
    fma,
    i32,
    local_linear_id,
    nv,
    registers,
    select,
    static_range,
    store_vector,
    subgroup_lane,
    subgroup_shuffle_xor,
    tanh,
    u32,
    vec,
)

_LOG2_E = 1.4426950408889634
__all__ = ["give_back", "multiply_keys", "multiply_values", "see", "store_tile", "weigh"]


@device
def multiply_keys(scores, tile_q, tile_k, place, stage, HALVES):
    """Issue scores = q @ k^T of a warpgroup's queries."""
    for half in static_range(HALVES):
        nv.wgmma(
            scores, tile_q, (place, half, 0, 0), tile_k, (stage, half, 0, 0), accumulate=half > 0
        )
    nv.wgmma_commit()


@device
def multiply_values(out, words, tile_v, stage, PAGE, BK):
    """Issue out += weights @ v."""
    for part in static_range(BK // PAGE):
        left = registers(u32, PAGE // 4)
        for n in static_range(PAGE // 4):
            left[n] = words[PAGE // 4 * part + n]
        at = (stage, part, 0, 0, 0)
        nv.wgmma(out, left, None, tile_v, at, depth=PAGE, transposed=True)
    nv.wgmma_commit()


@device
def see(scores, key, position, ahead, end, window, scale, cap, plain, BK):
    """Scores of the keys from `key` on, -inf for those that a query does not see; gives what they
    are still to be multiplied by, in units of ln 2. plain: there is no window and no cap."""
    own = position + i32(nv.wgmma_row(0))
    behind = key + i32(nv.wgmma_column(0))
    hidden = f32(float("-inf"))
    factor = f32(_LOG2_E)
    if plain:
        factor = scale * f32(_LOG2_E)
    else:
        for i in static_range(BK // 2):
            scores[i] = scores[i] * scale
        if cap > 0:
            for i in static_range(BK // 2):
                scores[i] = cap * tanh(scores[i] / cap)
        if window > 0:
            for i in static_range(BK // 2):
                first = own + 8 * (i // 2 % 2) - window - behind
                scores[i] = select(8 * (i // 4) + i % 2 > first, scores[i], hidden)
    for i in static_range(BK // 2):
        last = min(own + 8 * (i // 2 % 2) + ahead, end - 1) - behind
        scores[i] = select(8 * (i // 4) + i % 2 <= last, scores[i], hidden)
    return factor


@device
def weigh(scores, words, top, total, shrink, factor, T, BK):
    """words = exp2(factor * scores - the maximum so far), as the left operand of a product; what
    came before shrinks."""
    CHAINS = 4
    best = registers(f32, (2, CHAINS))
    sums = registers(f32, (2, CHAINS))
    for r in static_range(2):
        for c in static_range(CHAINS):
            at = 4 * (c // 2) + 2 * r + c % 2
            best[r, c] = scores[at]
            for i in static_range(at + 4 * (CHAINS // 2), BK // 2, 4 * (CHAINS // 2)):
                best[r, c] = max(best[r, c], scores[i])
    for r in static_range(2):
        most = max(max(best[r, 0], best[r, 1]), max(best[r, 2], best[r, 3]))
        most = max(most, subgroup_shuffle_xor(most, 1))
        most = max(most, subgroup_shuffle_xor(most, 2))
        now = max(top[r], most * factor)
        shrink[r] = exp2(top[r] - now)
        top[r] = now
    for i in static_range(BK // 2):
        scores[i] = exp2(fma(scores[i], factor, -top[i // 2 % 2]))
    for i in static_range(0, BK // 2, 2):
        words[i // 2] = bitcast(convert(vec(f32, 2)(scores[i], scores[i + 1]), T), u32)
    for r in static_range(2):
        for c in static_range(CHAINS):
            at = 4 * (c // 2) + 2 * r + c % 2
            sums[r, c] = scores[at]
            for i in static_range(at + 4 * (CHAINS // 2), BK // 2, 4 * (CHAINS // 2)):
                sums[r, c] = sums[r, c] + scores[i]
        some = (sums[r, 0] + sums[r, 1]) + (sums[r, 2] + sums[r, 3])
        total[r] = fma(total[r], shrink[r], some)


@device
def give_back(free, stage):
    """A warp has done with a stage."""
    if subgroup_lane() == 0:
        nv.arrive(free, stage)


@device
def store_tile(map_y, y, tile_q, place, out, total, head, heads, first, count, own, T, HEAD_DIM):
    """A warpgroup's results: a copy of 64 rows from where its queries lay, or those that are."""
    HALVES = HEAD_DIM // 64
    factor = registers(f32, 2)
    for r in static_range(2):
        whole = total[r] + subgroup_shuffle_xor(total[r], 1)
        whole = whole + subgroup_shuffle_xor(whole, 2)
        factor[r] = f32(0) if whole == 0 else 1 / whole
    pairs = registers(u32, HEAD_DIM // 4)
    for i in static_range(HEAD_DIM // 4):
        share = factor[i % 2]
        pair = vec(f32, 2)(out[2 * i] * share, out[2 * i + 1] * share)
        pairs[i] = bitcast(convert(pair, T), u32)
    line = i32(nv.wgmma_row(0))
    inner = i32(nv.wgmma_column(0)) // 2
    if count >= 64:
        for i in static_range(HEAD_DIM // 4):
            row = (place * HALVES + i // 16) * 64 + line + 8 * (i % 2)
            at = row * 32 + (i // 2 % 8 ^ line % 8) * 4 + inner
            store_vector(tile_q, at, bitcast(pairs[i], vec(T, 2)))
    else:
        for i in static_range(HEAD_DIM // 4):
            down = line + 8 * (i % 2)
            at = ((first + down) * heads + head) * (HEAD_DIM // 2) + 4 * (i // 2) + inner
            if down < count:
                store_vector(y, at, bitcast(pairs[i], vec(T, 2)))
    nv.fence_async()
    nv.named_barrier(1 + own, 128)
    if count >= 64 and local_linear_id() % 128 == 0:
        nv.tensor_store(map_y, (head, 0, first, 0), tile_q, (place, 0, 0, 0))
        nv.bulk_commit()
