"""Attention of one new token to each sequence's paged KV cache: split over its keys, then merged.

The cache is two buffers of [pages, kv_heads, PAGE, HEAD_DIM]; a block table says in which page the
keys n * PAGE .. n * PAGE + PAGE - 1 of a sequence lie. A workgroup takes one split of the keys of
one head of the cache, for HEADS heads of the query that share it. It is made of teams: ROW
invocations of one subgroup that hold a row of HEAD_DIM elements between them and take UNROLL keys
at a time, with a running maximum and sum of their own (Milakov and Gimelshein 2018, "Online
normalizer calculation for softmax"; splits as in Flash-Decoding).
"""

from __future__ import annotations

from ..ir.lang import (
    DType,
    Read,
    Write,
    barrier,
    ceil_div,
    clamp,
    convert,
    device,
    exp2,
    f16,
    f32,
    fma,
    group_id,
    i32,
    kernel,
    load_vector,
    local_id,
    registers,
    select,
    static_assert,
    static_range,
    store_vector,
    subgroup_any,
    subgroup_lane,
    subgroup_shuffle,
    subgroup_shuffle_xor,
    tanh,
    vec,
    workgroup_array,
)
from .attention_oracle import DECODE_BOUNDS, LOWEST, SPECIAL, decode_inputs, decode_reference
from .family import Family

_LOG2_E = 1.4426950408889634


@device
def power_of_two(HEADS):
    """The least power of two that is not below HEADS."""
    return 1 if HEADS == 1 else 2 if HEADS == 2 else 4 if HEADS <= 4 else 8 if HEADS <= 8 else 16


@device
def from_owner(values, number, begins, COUNT, ROW):
    """Score number `number`, a constant, from the lane of the team that has it."""
    if ROW == 1:
        return values[number]
    owner = begins + number * ROW // COUNT
    return subgroup_shuffle(values[number % max(COUNT // ROW, 1)], owner)


@device
def share_scores(values, lane, COUNT, ROW):
    """Sum each of COUNT registers over the ROW lanes of a team, so that each lane ends with its
    part of the sums: register i of a lane is sum number lane * COUNT // ROW + i."""
    for step in static_range(7):
        if (ROW >> (step + 1)) > 0:
            upper = (lane & (ROW >> (step + 1))) != 0
            if (COUNT >> (step + 1)) > 0:
                for i in static_range(COUNT >> (step + 1)):
                    other = values[(COUNT >> (step + 1)) + i]
                    sent = select(upper, values[i], other)
                    kept = select(upper, other, values[i])
                    values[i] = kept + subgroup_shuffle_xor(sent, ROW >> (step + 1))
            else:
                values[0] = values[0] + subgroup_shuffle_xor(values[0], ROW >> (step + 1))
    return values


@device
def over_keys(value, largest, COUNT, PADDED, ROW):
    """The maximum or the sum of `value` over the lanes of a team that have the same head."""
    for step in static_range(7):
        if (PADDED * ROW // COUNT << step) < ROW:
            other = subgroup_shuffle_xor(value, PADDED * ROW // COUNT << step)
            value = max(value, other) if largest else value + other
    return value


@device
def load_rows(cache, rows, C, CHUNKS, ROW, VEC, UNROLL):
    """This lane's part of UNROLL rows; `rows` has the number of each row's first vector."""
    kept = registers(vec(C, VEC), UNROLL * CHUNKS, 0)
    for n in static_range(UNROLL):
        for c in static_range(CHUNKS):
            kept[n * CHUNKS + c] = load_vector(cache, rows[n] + c * ROW, VEC)
    return kept


@device
def score_keys(query, keys, lane, HEADS, PADDED, CHUNKS, ROW, VEC, UNROLL):
    """q . k of UNROLL keys and HEADS heads, number n * PADDED + g, shared out by `share_scores`."""
    scores = registers(f32, UNROLL * PADDED, 0)
    for n in static_range(UNROLL):
        for c in static_range(CHUNKS):
            key = convert(keys[n * CHUNKS + c], f32)
            for g in static_range(HEADS):
                for i in static_range(VEC):
                    total = scores[n * PADDED + g]
                    scores[n * PADDED + g] = fma(query[g * CHUNKS + c][i], key[i], total)
    return share_scores(scores, lane, UNROLL * PADDED, ROW)


@device
def biased(score, head, distance, slopes, k_scale, cap):
    """A score as it enters the softmax, in units of ln 2."""
    score = score * k_scale
    if cap > 0:
        score = cap * tanh(score / cap)
    if len(slopes) > 0:
        score = fma(slopes[head], f32(distance), score)
    return score * f32(_LOG2_E)


@device
def shrink_sums(acc, shrink, begins, HEADS, CHUNKS, COUNT, ROW, VEC):
    """The sums of values at a new maximum."""
    for g in static_range(HEADS):
        factor = vec(f32, VEC)(from_owner(shrink, g, begins, COUNT, ROW))
        for c in static_range(CHUNKS):
            acc[g * CHUNKS + c] = acc[g * CHUNKS + c] * factor
    return acc


@device
def add_values(acc, weight, values, begins, HEADS, PADDED, CHUNKS, ROW, VEC, UNROLL):
    """The sums of values with UNROLL more, by their weights."""
    for n in static_range(UNROLL):
        share = registers(vec(f32, VEC), HEADS, 0)
        for g in static_range(HEADS):
            number = n * PADDED + g
            share[g] = vec(f32, VEC)(from_owner(weight, number, begins, UNROLL * PADDED, ROW))
        for c in static_range(CHUNKS):
            value = convert(values[n * CHUNKS + c], f32)
            for g in static_range(HEADS):
                acc[g * CHUNKS + c] = fma(value, share[g], acc[g * CHUNKS + c])
    return acc


@device
def highest(tops, g, HEADS, TEAMS):
    """The maximum of head g over all teams."""
    most = tops[g]
    for t in range(1, TEAMS):
        most = max(most, tops[t * HEADS + g])
    return most


@device
def merge_teams(acc, tops, lane, team, HEADS, CHUNKS, ROW, VEC, TEAMS):
    """Bring the sums of all teams to one scale and add them up, in team 0. Contains barriers."""
    tile = workgroup_array(f32, max(TEAMS // 2, 1) * HEADS * CHUNKS * ROW * VEC)
    for g in static_range(HEADS):
        most = highest(tops, g, HEADS, TEAMS)
        factor = vec(f32, VEC)(exp2(tops[team * HEADS + g] - most))
        for c in static_range(CHUNKS):
            acc[g * CHUNKS + c] = acc[g * CHUNKS + c] * factor
    half = i32(TEAMS // 2)
    while half > 0:
        barrier()
        if team >= half and team < 2 * half:
            for n in static_range(HEADS * CHUNKS):
                at = ((team - half) * (HEADS * CHUNKS) + n) * ROW + lane
                store_vector(tile, at, acc[n])
        barrier()
        if team < half:
            for n in static_range(HEADS * CHUNKS):
                at = (team * (HEADS * CHUNKS) + n) * ROW + lane
                acc[n] = acc[n] + load_vector(tile, at, VEC)
        half = half // 2
    return acc


@device
def write_split(acc, tops, sums, y, partial, stats, line, splits, split, lane, v_scale,
                T, HEADS, CHUNKS, ROW, VEC, TEAMS):  # fmt: skip
    """What one team has of a split: y, or its part for `attention_merge`."""
    for g in static_range(HEADS):
        most = highest(tops, g, HEADS, TEAMS)
        whole = f32(0)
        for t in range(TEAMS):
            whole = fma(sums[t * HEADS + g], exp2(tops[t * HEADS + g] - most), whole)
        factor = v_scale
        if splits == 1:
            factor = v_scale / whole if whole != 0 else f32(0)
        for c in static_range(CHUNKS):
            out = acc[g * CHUNKS + c] * vec(f32, VEC)(factor)
            if splits == 1:
                store_vector(y, (line + g) * (CHUNKS * ROW) + c * ROW + lane, convert(out, T))
            else:
                row = (line + g) * splits + split
                store_vector(partial, row * (CHUNKS * ROW) + c * ROW + lane, out)
        if splits > 1 and lane == 0:
            stats[2 * ((line + g) * splits + split)] = most
            stats[2 * ((line + g) * splits + split) + 1] = whole


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (max(splits, 1), heads // HEADS, len(lengths)),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def attention_decode(
    q: Read[T],
    k_cache: Read[C],
    v_cache: Read[C],
    table: Read[i32],
    lengths: Read[i32],
    slopes: Read[f32],
    y: Write[T],
    partial: Write[f32],
    stats: Write[f32],
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
    HEADS: int = 1,
    PAGE: int = 16,
    BLOCK: int = 128,
    SUBGROUP: int = 32,
    ROW: int = 16,
    VEC: int = 8,
    UNROLL: int = 4,
    FAST: bool = False,
):
    """y[b, h, :] = softmax(scores of the keys of sequence b) @ values, for one query of each head:
    q and y are [batch, heads, HEAD_DIM], and heads / kv_heads heads, a multiple of HEADS, read the
    same head of the cache. A score is scale * k_scale * q . k, or cap * tanh of that over cap where
    cap > 0, plus slopes[h] * (position of the key - lengths[b] + 1) where slopes has elements
    (ALiBi); only the last `window` keys count where window > 0. A sequence without keys gives
    zeros.

    Split s of `splits` has the keys of `chunk` pages, from page s * chunk on. With one split y is
    written; with more, partial [batch, heads, splits, HEAD_DIM] and stats [batch, heads, splits, 2]
    (the maximum, in units of ln 2, and the sum) are, for `attention_merge`. table is [batch, pages
    of a sequence]. k_scale and v_scale: what elements of the two caches stand for. Faults are a
    page number outside the cache, more keys than there are pages for, keys of no split, splits of
    2**31 keys and more, heads that do not share those of the cache evenly, and a partial or stats
    without room for all splits, which then are not written.
    """
    PADDED = power_of_two(HEADS)
    COUNT = UNROLL * PADDED
    MINE = max(COUNT // ROW, 1)
    CHUNKS = HEAD_DIM // (ROW * VEC)
    TEAMS = BLOCK // ROW
    static_assert(CHUNKS * ROW * VEC == HEAD_DIM, "ROW * VEC divides HEAD_DIM")
    static_assert(MINE <= PADDED, "UNROLL is at most ROW")
    static_assert(PAGE % UNROLL == 0, "UNROLL divides PAGE")
    static_assert(ROW <= SUBGROUP, "a row lies within a subgroup")
    static_assert(HEADS <= 16, "HEADS is 16 at most")
    static_assert(
        ROW & (ROW - 1) == 0 and UNROLL & (UNROLL - 1) == 0 and TEAMS & (TEAMS - 1) == 0,
        "ROW, UNROLL and BLOCK / ROW are powers of two",
    )
    lane = local_id(0) % ROW
    team = local_id(0) // ROW
    begins = subgroup_lane() - lane if SUBGROUP > 1 else 0  # the team's first lane
    split = group_id(0)
    batch = group_id(2)
    first = group_id(1) * HEADS  # head
    group = heads // max(kv_heads, 1)  # heads that share one of the cache
    shared = kv_heads > 0 and heads % kv_heads == 0 and group % HEADS == 0
    assert shared, "attention_decode: heads that do not share those of the cache evenly"
    kv_head = min(first // max(group, 1), max(kv_heads - 1, 0))
    line = batch * heads + first  # of q and y
    row_pages = len(table) // max(len(lengths), 1)
    length = i32(lengths[batch])
    pages = len(k_cache) // (max(kv_heads, 1) * (PAGE * HEAD_DIM))
    room = row_pages * PAGE if pages > 0 else i32(0)
    assert length <= room, "attention_decode: more keys than there are pages for"
    length = min(length, room)
    assert splits > 0, "attention_decode: no split"
    fits = splits <= (2**31 // PAGE - 1) // max(chunk, 1)
    assert fits, "attention_decode: splits of more keys than have numbers"
    assert ceil_div(length, PAGE) <= splits * chunk or not fits, (
        "attention_decode: keys of no split"
    )
    rows = heads * i32(len(lengths))  # splits of all of them have a group each, and so a number
    held = rows * splits <= len(stats) // 2 and rows * splits <= len(partial) // HEAD_DIM
    held = splits < 2 or held
    assert held, "attention_decode: partial or stats without room for all splits"
    oldest = max(length - window, 0) if window > 0 else i32(0)
    begin = max(split * chunk * PAGE, oldest // UNROLL * UNROLL)
    end = min((split + 1) * chunk * PAGE, length)

    query = registers(vec(f32, VEC), HEADS * CHUNKS, 0)
    acc = registers(vec(f32, VEC), HEADS * CHUNKS, 0)
    for n in static_range(HEADS * CHUNKS):
        at = line * (CHUNKS * ROW) + n * ROW + lane
        query[n] = convert(load_vector(q, at, VEC), f32) * vec(f32, VEC)(scale)
    top = registers(f32, MINE, LOWEST)
    total = registers(f32, MINE, 0)
    for start in range(begin, end, TEAMS * UNROLL):
        key = start + team * UNROLL
        page = table[batch * row_pages + min(key, length - 1) // PAGE]
        inside = page >= 0 and page < pages
        assert inside, "attention_decode: page number outside the cache"
        base = ((page if inside else i32(0)) * kv_heads + kv_head) * PAGE
        rows = registers(i32, UNROLL, 0)
        for n in static_range(UNROLL):
            # A key that does not count is read as the nearest that does: what no one has written
            # may be a NaN.
            slot = clamp(key + n, oldest, length - 1) % PAGE
            rows[n] = (base + slot) * (CHUNKS * ROW) + lane
        keys = load_rows(k_cache, rows, C, CHUNKS, ROW, VEC, UNROLL)
        values = load_rows(v_cache, rows, C, CHUNKS, ROW, VEC, UNROLL)
        weight = score_keys(query, keys, lane, HEADS, PADDED, CHUNKS, ROW, VEC, UNROLL)
        shrink = registers(f32, MINE, 1)
        changed = False
        for i in static_range(MINE):
            number = lane * COUNT // ROW + i
            place = key + number // PADDED
            head = first + min(number % PADDED, HEADS - 1)
            score = biased(weight[i], head, place - (length - 1), slopes, k_scale, cap)
            score = score if place >= oldest and place < end else f32(float("-inf"))
            now = max(top[i], over_keys(score, True, COUNT, PADDED, ROW))
            changed = changed or now != top[i]
            shrink[i] = exp2(top[i] - now)
            weight[i] = exp2(score - now)
            total[i] = total[i] * shrink[i] + weight[i]
            top[i] = now
        if SUBGROUP == 1 or subgroup_any(changed):
            acc = shrink_sums(acc, shrink, begins, HEADS, CHUNKS, COUNT, ROW, VEC)
        acc = add_values(acc, weight, values, begins, HEADS, PADDED, CHUNKS, ROW, VEC, UNROLL)

    tops = workgroup_array(f32, TEAMS * HEADS)
    sums = workgroup_array(f32, TEAMS * HEADS)
    for i in static_range(MINE):
        number = lane * COUNT // ROW + i
        whole = over_keys(total[i], False, COUNT, PADDED, ROW)
        if number < HEADS and lane * COUNT % ROW == 0:
            tops[team * HEADS + number] = top[i]
            sums[team * HEADS + number] = whole
    barrier()
    acc = merge_teams(acc, tops, lane, team, HEADS, CHUNKS, ROW, VEC, TEAMS)
    if team == 0 and held:
        write_split(acc, tops, sums, y, partial, stats, line, splits, split, lane, v_scale,
                    T, HEADS, CHUNKS, ROW, VEC, TEAMS)  # fmt: skip


FAMILIES = (
    Family(
        attention_decode,
        decode_inputs,
        decode_reference,
        "f32 inside, keys in an order that BLOCK, ROW and UNROLL fix; rounded once",
        DECODE_BOUNDS,
        SPECIAL,
    ),
)
