"""Decoders of the formats with blocks of 256 weights and scales of few bits: Q2_K to Q6_K.

What a decoder gives stands in `quantized_formats`.
"""

from __future__ import annotations

from ..ir.lang import device, f32, i32, select, u32
from .quantized_words import byte, fields, half, pair, pattern, quad, run, word

Q2_K, Q4_K, Q5_K = fields("q2_k"), fields("q4_k"), fields("q5_k")
Q3_K, Q3_K_PLANES = fields("q3_k"), fields("q3_k", "planes")
Q6_K, Q6_K_PLANES = fields("q6_k"), fields("q6_k", "planes")


@device
def place_in_half(row, unit, cols):
    """(block, half, pair of words, column): two words of a run of 32 bytes that holds 128 weights,
    the first weights of its bytes being neighbours."""
    sub = unit % 8
    block = row * (cols // 256) + unit // 8
    return block, sub // 4, sub % 4, unit // 8 * 256 + sub // 4 * 128 + sub % 4 * 8


@device
def q2_k(w, row, unit, cols, GROUP, TRAITS):
    SCALES, QS, D, _ = Q2_K
    block, upper, p, col = place_in_half(row, unit, cols)
    both = word(w, D, block, 0)
    d, dmin = half(both, TRAITS), half(both >> 16, TRAITS)
    a, b = pair(w, QS, block, 4 * upper + p)
    first, second = pair(w, SCALES, block, upper)
    s0 = first >> u32(8 * (p // 2))
    s1 = second >> u32(8 * (p // 2))
    return (
        two_bits(a, b, 0, col, d, dmin, byte(s0, 0), TRAITS),
        two_bits(a, b, 2, col + 32, d, dmin, byte(s0, 2), TRAITS),
        two_bits(a, b, 4, col + 64, d, dmin, byte(s1, 0), TRAITS),
        two_bits(a, b, 6, col + 96, d, dmin, byte(s1, 2), TRAITS),
    )


@device
def two_bits(a, b, SHIFT, col, d, dmin, scale, TRAITS):
    runs = (run(col, a, SHIFT, 2, 0, TRAITS), run(col + 4, b, SHIFT, 2, 0, TRAITS))
    return d * f32(scale & 15), (-(dmin * f32(scale >> 4)),), runs


@device
def three_bits(w, row, unit, cols, FIELDS, TRAITS):
    HMASK, QS, SCALES, D = FIELDS
    block, upper, p, col = place_in_half(row, unit, cols)
    d = half(pattern(w, D, block), TRAITS)
    a, b = pair(w, QS, block, 4 * upper + p)
    c, e = pair(w, HMASK, block, p)
    third_a, third_b = c >> u32(4 * upper), e >> u32(4 * upper)
    # Of the half's eight scales, four a word: the low nibbles and two bits over each.
    shift = u32(4 * upper)
    top = word(w, SCALES, block, 2) >> shift
    s0 = ((word(w, SCALES, block, 0) >> shift) & 0x0F0F0F0F) | ((top & 0x03030303) << 4)
    s1 = ((word(w, SCALES, block, 1) >> shift) & 0x0F0F0F0F) | ((top & 0x0C0C0C0C) << 2)
    s0 = s0 >> u32(8 * (p // 2))
    s1 = s1 >> u32(8 * (p // 2))
    return (
        third(a, b, third_a, third_b, col, d, byte(s0, 0), TRAITS),
        third(a >> 2, b >> 2, third_a >> 1, third_b >> 1, col + 32, d, byte(s0, 2), TRAITS),
        third(a >> 4, b >> 4, third_a >> 2, third_b >> 2, col + 64, d, byte(s1, 0), TRAITS),
        third(a >> 6, b >> 6, third_a >> 3, third_b >> 3, col + 96, d, byte(s1, 2), TRAITS),
    )


@device
def third(a, b, high_a, high_b, col, d, scale, TRAITS):
    low, one = 0x03030303, 0x01010101
    first = (a & low) | ((high_a & one) << 2)
    second = (b & low) | ((high_b & one) << 2)
    runs = (run(col, first, 0, 3, 4, TRAITS), run(col + 4, second, 0, 3, 4, TRAITS))
    return d * (f32(scale) - 32), (), runs


@device
def q3_k(w, row, unit, cols, GROUP, TRAITS):
    return three_bits(w, row, unit, cols, Q3_K, TRAITS)


@device
def q3_k_planes(w, row, unit, cols, GROUP, TRAITS):
    return three_bits(w, row, unit, cols, Q3_K_PLANES, TRAITS)


@device
def scales_and_mins(w, SCALES, block, chunk):
    """Two words: the 6-bit scales of runs 2 * chunk and 2 * chunk + 1 in bytes 0 and 1, and their
    minimums."""
    a, b, c = word(w, SCALES, block, 0), word(w, SCALES, block, 1), word(w, SCALES, block, 2)
    upper = chunk >= 2
    s = select(upper, (c & 0x0F0F0F0F) | ((a >> 2) & 0x30303030), a & 0x3F3F3F3F)
    m = select(upper, ((c >> 4) & 0x0F0F0F0F) | ((b >> 2) & 0x30303030), b & 0x3F3F3F3F)
    shift = u32(16 * (chunk % 2))
    return s >> shift, m >> shift


@device
def q4_k(w, row, unit, cols, GROUP, TRAITS):
    D, _, SCALES, QS = Q4_K
    block, sub = row * (cols // 256) + unit // 8, unit % 8
    both = word(w, D, block, 0)
    d, dmin = half(both, TRAITS), half(both >> 16, TRAITS)
    s, m = scales_and_mins(w, SCALES, block, sub // 2)
    words = quad(w, QS, block, sub)
    col = unit // 2 * 64 + unit % 2 * 16
    return (
        (d * f32(byte(s, 0)), (-(dmin * f32(byte(m, 0))),), four_runs(words, 0, 4, col, TRAITS)),
        (
            d * f32(byte(s, 1)),
            (-(dmin * f32(byte(m, 1))),),
            four_runs(words, 4, 4, col + 32, TRAITS),
        ),
    )


@device
def four_runs(words, SHIFT, BITS, col, TRAITS):
    a, b, c, d = words
    return (
        run(col, a, SHIFT, BITS, 0, TRAITS),
        run(col + 4, b, SHIFT, BITS, 0, TRAITS),
        run(col + 8, c, SHIFT, BITS, 0, TRAITS),
        run(col + 12, d, SHIFT, BITS, 0, TRAITS),
    )


@device
def with_fifth(words, fifths, DOWN, shift):
    """Nibbles of each byte with one bit of the byte of `fifths` over them."""
    a, b, c, d = words
    e, f, g, h = fifths
    low, one = 0x0F0F0F0F, 0x01010101
    return (
        ((a >> DOWN) & low) | (((e >> shift) & one) << 4),
        ((b >> DOWN) & low) | (((f >> shift) & one) << 4),
        ((c >> DOWN) & low) | (((g >> shift) & one) << 4),
        ((d >> DOWN) & low) | (((h >> shift) & one) << 4),
    )


@device
def q5_k(w, row, unit, cols, GROUP, TRAITS):
    D, _, SCALES, QH, QS = Q5_K
    block, sub = row * (cols // 256) + unit // 8, unit % 8
    both = word(w, D, block, 0)
    d, dmin = half(both, TRAITS), half(both >> 16, TRAITS)
    chunk = sub // 2
    s, m = scales_and_mins(w, SCALES, block, chunk)
    words, fifths = quad(w, QS, block, sub), quad(w, QH, block, sub % 2)
    first = with_fifth(words, fifths, 0, u32(2 * chunk))
    second = with_fifth(words, fifths, 4, u32(2 * chunk + 1))
    col = unit // 2 * 64 + unit % 2 * 16
    return (
        (d * f32(byte(s, 0)), (-(dmin * f32(byte(m, 0))),), four_runs(first, 0, 5, col, TRAITS)),
        (
            d * f32(byte(s, 1)),
            (-(dmin * f32(byte(m, 1))),),
            four_runs(second, 0, 5, col + 32, TRAITS),
        ),
    )


@device
def six_bits(w, row, unit, cols, FIELDS, TRAITS):
    QL, QH, SCALES, D = FIELDS
    block, upper, p, col = place_in_half(row, unit, cols)
    d = half(pattern(w, D, block), TRAITS)
    a, b = pair(w, QL, block, 8 * upper + p)
    c, e = pair(w, QL, block, 8 * upper + 4 + p)
    high_a, high_b = pair(w, QH, block, 4 * upper + p)
    first, second = pair(w, SCALES, block, upper)
    s0 = first >> u32(8 * (p // 2))
    s1 = second >> u32(8 * (p // 2))
    return (
        sixth(a, b, high_a << 4, high_b << 4, col, d, s0, TRAITS),
        sixth(c, e, high_a << 2, high_b << 2, col + 32, d, s0 >> 16, TRAITS),
        sixth(a >> 4, b >> 4, high_a, high_b, col + 64, d, s1, TRAITS),
        sixth(c >> 4, e >> 4, high_a >> 2, high_b >> 2, col + 96, d, s1 >> 16, TRAITS),
    )


@device
def sixth(a, b, high_a, high_b, col, d, scale, TRAITS):
    low, high = 0x0F0F0F0F, 0x30303030
    first, second = (a & low) | (high_a & high), (b & low) | (high_b & high)
    runs = (run(col, first, 0, 6, 32, TRAITS), run(col + 4, second, 0, 6, 32, TRAITS))
    signed = i32((scale ^ 0x80) & 0xFF) - 128
    return d * f32(signed), (), runs


@device
def q6_k(w, row, unit, cols, GROUP, TRAITS):
    return six_bits(w, row, unit, cols, Q6_K, TRAITS)


@device
def q6_k_planes(w, row, unit, cols, GROUP, TRAITS):
    return six_bits(w, row, unit, cols, Q6_K_PLANES, TRAITS)
