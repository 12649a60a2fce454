"""Keys and values of a paged cache as operands of NVIDIA's `mma`: copied ahead, taken in.

A ring of slots for each subgroup, which alone waits for it. A slot has KEYS keys, 16 of them and
then their values at a time, in rows of chunks of 16 bytes: chunk c of row r of keys lies at
c ^ 4 (r % 2), of values at c ^ 2 (r // 2 % 4), so that what invocations take together lies in
different banks. With g, t = divmod(lane, 4), an invocation takes chunks t, 4 + t, ... of the keys g
and g + 8, and chunks g, 8 + g, ... of the values 2t, 2t + 1, 2t + 8 and 2t + 9: 16 bytes at a time,
from which the order follows that the depth of q . k (`depth_of`) and the columns of the sums of
values (`keep_sums`) have.

`part`, `span` and `page` are those of `attention_pages`.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    convert,
    copy_async,
    device,
    exp2,
    f16x2,
    f32,
    i32,
    load_vector,
    nv,
    registers,
    shuffle,
    static_range,
    store_vector,
    subgroup_any,
    subgroup_id,
    subgroup_lane,
    subgroup_shuffle_xor,
    tanh,
    u8x4,
    u16,
    u32,
    u32x2,
    u32x4,
    vec,
)
from .attention_pages import line_of

__all__ = ["LOG2_E", "attend", "chunks", "copy_slot", "keep_sums", "load_query"]

LOG2_E = 1.4426950408889634


@device
def chunks(C, HEAD_DIM, KEYS):
    """Chunks of a slot."""
    return 2 * KEYS * (HEAD_DIM * C.bytes // 16)


@device
def copy_slot(ring, slot, k_cache, v_cache, page, key, span, part, C, HEAD_DIM, PAGE, KEYS,
              NAME):  # fmt: skip
    """Copy KEYS keys from `key` on and their values to the slot that begins with chunk `slot` of
    the ring; zeros for those that do not count. Neighbours copy what lies side by side."""
    EACH = 16 // C.bytes
    ACROSS = HEAD_DIM // EACH
    lane = i32(subgroup_lane())
    chunk = lane % ACROSS
    oldest, end = span
    for n in static_range(KEYS // 16):
        first = key + 16 * n
        line, inside = line_of(page[n], first, span, part, PAGE, NAME)
        for p in static_range(ACROSS // 2):
            row = p * (32 // ACROSS) + lane // ACROSS
            counts = first + row >= oldest and first + row < end
            given = EACH if inside and counts else 0
            source = line * HEAD_DIM + (p * 32 + lane) * EACH
            at = slot + n * (32 * ACROSS) + row * ACROSS
            to_k = at + (chunk ^ ((row & 1) << 2))
            to_v = at + 16 * ACROSS + (chunk ^ ((row >> 1 & 3) << 1))
            copy_async(ring, to_k * EACH, k_cache, source, EACH, given)
            copy_async(ring, to_v * EACH, v_cache, source, EACH, given)


@device
def words_of(ring, at, C):
    """The four words of chunk `at`."""
    words = registers(u32, 4, 0)
    if C.bytes == 2:
        four = bitcast(load_vector(ring, at, 8), u32x4)
        for n in static_range(4):
            words[n] = four[n]
    else:
        for n in static_range(2):
            two = bitcast(load_vector(ring, 2 * at + n, 8), u32x2)
            words[2 * n] = two[0]
            words[2 * n + 1] = two[1]
    return words


@device
def widened(word, C, T):
    """Four elements of 8 bits as two words of two elements T."""
    if C.is_int:
        # As unsigned numbers, 128 greater, they are the last bits of 1024 and more.
        raised = bitcast(word ^ 0x80808080, u8x4)
        upper = bitcast(u32(0x64646464), u8x4)
        low = bitcast(shuffle(raised, upper, (0, 4, 1, 4)), u32)
        high = bitcast(shuffle(raised, upper, (2, 4, 3, 4)), u32)
        low, high = bitcast(low, f16x2) - f16x2(1152), bitcast(high, f16x2) - f16x2(1152)
        return bitcast(low, u32), bitcast(high, u32)
    low, high = u16(word & 0xFFFF), u16(word >> 16)
    low, high = convert(bitcast(low, vec(C, 2)), T), convert(bitcast(high, vec(C, 2)), T)
    return bitcast(low, u32), bitcast(high, u32)


@device
def paired(a, b, C):
    """Words of two rows, element by element: those of the first half, and of the second."""
    if C.bytes == 1:
        a = bitcast(a, u8x4)
        b = bitcast(b, u8x4)
        low, high = shuffle(a, b, (0, 4, 1, 5)), shuffle(a, b, (2, 6, 3, 7))
    else:
        a = bitcast(a, vec(C, 2))
        b = bitcast(b, vec(C, 2))
        low, high = shuffle(a, b, (0, 2)), shuffle(a, b, (1, 3))
    return bitcast(low, u32), bitcast(high, u32)


@device
def depth_of(step, C):
    """The first of the four elements of a row that lane 0 has in step `step` of q . k."""
    EACH = 16 // C.bytes
    return step * 4 // EACH * (4 * EACH) + step * 4 % EACH


@device
def load_query(q, line, count, C, T, HEAD_DIM):
    """The queries of `count` heads from row `line` of q on, 8 at most, as the left operand: two
    words for each step; zeros for the rest."""
    EACH = 16 // C.bytes
    lane = i32(subgroup_lane())
    g, t = lane // 4, lane % 4
    query = registers(u32, HEAD_DIM // 8, 0)
    for step in static_range(HEAD_DIM // 16):
        start = (line + (g if g < count else 0)) * HEAD_DIM + t * EACH + depth_of(step, C)
        two = bitcast(load_vector(q, start // 4, 4), u32x2)
        query[2 * step] = two[0] if g < count else u32(0)
        query[2 * step + 1] = two[1] if g < count else u32(0)
    return query


@device
def product(total, n, a, low, high, T):
    """total[n] += the rows of `a` times a column's words. Rows 8 to 15 are zeros, and stay."""
    some = registers(f32, 4, 0.0)
    for i in static_range(4):
        some[i] = total[n, i]
    left = registers(u32, 4, 0)
    left[0] = a[0]
    left[2] = a[1]
    right = registers(u32, 2, 0)
    right[0] = low
    right[1] = high
    nv.mma(some, left, right, T)
    for i in static_range(4):
        total[n, i] = some[i]


@device
def score_keys(query, ring, slot, C, T, HEAD_DIM, KEYS):
    """q . k of 8 heads: row g and columns 2t and 2t + 1 of each 8 of KEYS keys, then zeros."""
    ACROSS = HEAD_DIM * C.bytes // 16
    lane = i32(subgroup_lane())
    g, t = lane // 4, lane % 4
    scores = registers(f32, (KEYS // 8, 4), 0.0)
    a = registers(u32, 2, 0)
    for m in static_range(KEYS // 8):
        for c in static_range(ACROSS // 4):
            at = slot + m // 2 * (32 * ACROSS) + (m % 2 * 8 + g) * ACROSS
            words = words_of(ring, at + ((4 * c + t) ^ ((g & 1) << 2)), C)
            if C.bytes == 1:
                for s in static_range(4):
                    low, high = widened(words[s], C, T)
                    a[0] = query[2 * (4 * c + s)]
                    a[1] = query[2 * (4 * c + s) + 1]
                    product(scores, m, a, low, high, T)
            else:
                for s in static_range(2):
                    a[0] = query[2 * (2 * c + s)]
                    a[1] = query[2 * (2 * c + s) + 1]
                    product(scores, m, a, words[2 * s], words[2 * s + 1], T)
    return scores


@device
def add_values(out, weights, ring, slot, C, T, HEAD_DIM, KEYS):
    """out += weights times values; weights: words of two keys, two of each 16 keys."""
    EACH = 16 // C.bytes
    ACROSS = HEAD_DIM // EACH
    lane = i32(subgroup_lane())
    g, t = lane // 4, lane % 4
    a = registers(u32, 2, 0)
    for j in static_range(KEYS // 16):
        a[0] = weights[2 * j]
        a[1] = weights[2 * j + 1]
        for c in static_range(ACROSS // 8):
            rows = registers(u32, (4, 4), 0)
            for i in static_range(4):
                row = 16 + 2 * t + (i % 2 + 8 * (i // 2))
                at = slot + j * (32 * ACROSS) + row * ACROSS + 8 * c
                words = words_of(ring, at + (g ^ (t << 1)), C)
                for k in static_range(4):
                    rows[i, k] = words[k]
            for k in static_range(4):
                first, second = paired(rows[0, k], rows[1, k], C)
                third, fourth = paired(rows[2, k], rows[3, k], C)
                n = c * EACH + k * (EACH // 4)
                if C.bytes == 1:
                    b0, b1 = widened(first, C, T)
                    b2, b3 = widened(second, C, T)
                    d0, d1 = widened(third, C, T)
                    d2, d3 = widened(fourth, C, T)
                    product(out, n, a, b0, d0, T)
                    product(out, n + 1, a, b1, d1, T)
                    product(out, n + 2, a, b2, d2, T)
                    product(out, n + 3, a, b3, d3, T)
                else:
                    product(out, n, a, first, third, T)
                    product(out, n + 1, a, second, fourth, T)


@device
def entered(score, slope, distance, scale, cap, biased):
    """A score as it enters the softmax, in units of ln 2."""
    if cap > 0 or biased:
        value = score * scale
        if cap > 0:
            value = cap * tanh(value / cap)
        return (value + slope * f32(distance)) * f32(LOG2_E)
    return score * (scale * f32(LOG2_E))


@device
def attend(query, ring, slot, out, top, total, key, span, length, scale, cap, slope, biased,
           C, T, HEAD_DIM, KEYS):  # fmt: skip
    """Take in the KEYS keys of a slot, from `key` on: the sums of values in `out`; gives the
    maximum of the scores of row g in units of ln 2, and this invocation's part of the sum of its
    weights."""
    oldest, end = span
    t = i32(subgroup_lane()) % 4
    scores = score_keys(query, ring, slot, C, T, HEAD_DIM, KEYS)
    now = top
    for m in static_range(KEYS // 8):
        for i in static_range(2):
            place = key + 8 * m + 2 * t + i
            value = entered(scores[m, i], slope, place - (length - 1), scale, cap, biased)
            if key < oldest or key + KEYS > end:
                counts = place >= oldest and place < end
                value = value if counts else f32(float("-inf"))
            scores[m, i] = value
            now = max(now, value)
    now = max(now, subgroup_shuffle_xor(now, 1))
    now = max(now, subgroup_shuffle_xor(now, 2))
    if subgroup_any(now != top):
        shrink = exp2(top - now)
        total = total * shrink
        for n in static_range(HEAD_DIM // 8):
            for i in static_range(2):
                out[n, i] = out[n, i] * shrink
    weights = registers(u32, KEYS // 8, 0)
    for m in static_range(KEYS // 8):
        first, second = exp2(scores[m, 0] - now), exp2(scores[m, 1] - now)
        total += first + second
        weights[m] = bitcast(vec(T, 2)(convert(first, T), convert(second, T)), u32)
    add_values(out, weights, ring, slot, C, T, HEAD_DIM, KEYS)
    return now, total


@device
def keep_sums(parts, side, out, top, total, C, HEAD_DIM):
    """What a subgroup has of 8 rows, to workgroup memory, as `attention_parts` has it."""
    EACH = 16 // C.bytes
    lane, w = i32(subgroup_lane()), i32(subgroup_id())
    g, t = lane // 4, lane % 4
    for c in static_range(HEAD_DIM // (8 * EACH)):
        for i in static_range(2):
            for k in static_range(EACH // 4):
                n = c * EACH + 4 * k
                four = vec(f32, 4)(out[n, i], out[n + 1, i], out[n + 2, i], out[n + 3, i])
                col = c * (8 * EACH) + (2 * t + i) * EACH + 4 * k
                store_vector(parts, (w, g, col // 4), four)
    total += subgroup_shuffle_xor(total, 1)
    total += subgroup_shuffle_xor(total, 2)
    if t == 0:
        side[w, g, 0] = top
        side[w, g, 1] = total
