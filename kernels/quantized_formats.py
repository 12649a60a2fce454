"""Decoders of quantized formats: 32 weights of a row at a time.

A decoder (w, row, unit, cols, GROUP, TRAITS) gives groups of weights that share a scale, for
columns 32 * unit and the like of a row. A group is (scale, offsets, runs), where offsets is
(offset,) or (); a run is (column, f32x4, at), where leveled(f32x4, at) are the quants of four
neighbours. A weight is scale * quant + offset, of which the product is exact wherever there is an
offset. Where TRAITS ask for pairs, of formats of integer quants, a run is (column, two words
of `pairs`, (BITS, BIAS)). Units 0 to cols / 32 - 1 together are the row.

w: the parts of the format. GROUP: columns that share a scale in a grouped format. TRAITS: what
`traits_of_target` makes, of what suits a target.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    convert,
    device,
    f8e4m3,
    f32,
    load_vector,
    select,
    u32,
    vec,
)
from ..ir.quantized.blocks import E2M1, NONLINEAR
from .quantized_words import (
    fields,
    half,
    looked_up,
    octet,
    pattern,
    quad,
    run,
    spread,
    table,
    word,
)

NL_TABLE = table(NONLINEAR)
E2M1_TABLE = table(E2M1)

Q4_0, Q4_0_PLANES = fields("q4_0"), fields("q4_0", "planes")
Q5_0, Q5_0_PLANES = fields("q5_0"), fields("q5_0", "planes")
Q8_0, Q8_0_PLANES = fields("q8_0"), fields("q8_0", "planes")
IQ4_NL, IQ4_NL_PLANES = fields("iq4_nl"), fields("iq4_nl", "planes")
MXFP4, MXFP4_PLANES = fields("mxfp4"), fields("mxfp4", "planes")
Q4_1, Q5_1, IQ4_XS = fields("q4_1"), fields("q5_1"), fields("iq4_xs")


@device
def nibble_runs(words, col, BIAS, TRAITS):
    """Runs of 16 bytes whose low halves are 16 weights, and whose high halves the next 16."""
    a, b, c, d = words
    return (
        run(col, a, 0, 4, BIAS, TRAITS),
        run(col + 4, b, 0, 4, BIAS, TRAITS),
        run(col + 8, c, 0, 4, BIAS, TRAITS),
        run(col + 12, d, 0, 4, BIAS, TRAITS),
        run(col + 16, a, 4, 4, BIAS, TRAITS),
        run(col + 20, b, 4, 4, BIAS, TRAITS),
        run(col + 24, c, 4, 4, BIAS, TRAITS),
        run(col + 28, d, 4, 4, BIAS, TRAITS),
    )


@device
def table_runs(words, col, TABLE, TRAITS):
    """The same, through a table."""
    a, b, c, d = words
    return (
        (col, looked_up(a, TABLE, TRAITS), ()),
        (col + 4, looked_up(b, TABLE, TRAITS), ()),
        (col + 8, looked_up(c, TABLE, TRAITS), ()),
        (col + 12, looked_up(d, TABLE, TRAITS), ()),
        (col + 16, looked_up(a >> 4, TABLE, TRAITS), ()),
        (col + 20, looked_up(b >> 4, TABLE, TRAITS), ()),
        (col + 24, looked_up(c >> 4, TABLE, TRAITS), ()),
        (col + 28, looked_up(d >> 4, TABLE, TRAITS), ()),
    )


@device
def fifth_runs(words, fifth, col, BIAS, TRAITS):
    """Runs of 16 bytes of nibbles, with bit n of `fifth` over weight n."""
    a, b, c, d = words
    low = 0x0F0F0F0F
    return (
        run(col, (a & low) | spread(fifth), 0, 5, BIAS, TRAITS),
        run(col + 4, (b & low) | spread(fifth >> 4), 0, 5, BIAS, TRAITS),
        run(col + 8, (c & low) | spread(fifth >> 8), 0, 5, BIAS, TRAITS),
        run(col + 12, (d & low) | spread(fifth >> 12), 0, 5, BIAS, TRAITS),
        run(col + 16, ((a >> 4) & low) | spread(fifth >> 16), 0, 5, BIAS, TRAITS),
        run(col + 20, ((b >> 4) & low) | spread(fifth >> 20), 0, 5, BIAS, TRAITS),
        run(col + 24, ((c >> 4) & low) | spread(fifth >> 24), 0, 5, BIAS, TRAITS),
        run(col + 28, ((d >> 4) & low) | spread(fifth >> 28), 0, 5, BIAS, TRAITS),
    )


@device
def four_bits(w, row, unit, cols, FIELDS, TRAITS):
    D, QS = FIELDS
    block = row * (cols // 32) + unit
    scale = half(pattern(w, D, block), TRAITS)
    return ((scale, (), nibble_runs(quad(w, QS, block, 0), unit * 32, 8, TRAITS)),)


@device
def q4_0(w, row, unit, cols, GROUP, TRAITS):
    return four_bits(w, row, unit, cols, Q4_0, TRAITS)


@device
def q4_0_planes(w, row, unit, cols, GROUP, TRAITS):
    return four_bits(w, row, unit, cols, Q4_0_PLANES, TRAITS)


@device
def q4_1(w, row, unit, cols, GROUP, TRAITS):
    D, _, QS = Q4_1
    block = row * (cols // 32) + unit
    both = word(w, D, block, 0)
    runs = nibble_runs(quad(w, QS, block, 0), unit * 32, 0, TRAITS)
    return ((half(both, TRAITS), (half(both >> 16, TRAITS),), runs),)


@device
def five_bits(w, row, unit, cols, FIELDS, TRAITS):
    D, QH, QS = FIELDS
    block = row * (cols // 32) + unit
    scale = half(pattern(w, D, block), TRAITS)
    runs = fifth_runs(quad(w, QS, block, 0), word(w, QH, block, 0), unit * 32, 16, TRAITS)
    return ((scale, (), runs),)


@device
def q5_0(w, row, unit, cols, GROUP, TRAITS):
    return five_bits(w, row, unit, cols, Q5_0, TRAITS)


@device
def q5_0_planes(w, row, unit, cols, GROUP, TRAITS):
    return five_bits(w, row, unit, cols, Q5_0_PLANES, TRAITS)


@device
def q5_1(w, row, unit, cols, GROUP, TRAITS):
    D, _, QH, QS = Q5_1
    block = row * (cols // 32) + unit
    both = word(w, D, block, 0)
    runs = fifth_runs(quad(w, QS, block, 0), word(w, QH, block, 0), unit * 32, 0, TRAITS)
    return ((half(both, TRAITS), (half(both >> 16, TRAITS),), runs),)


@device
def signed_runs(first, second, col, TRAITS):
    """Runs of 32 signed bytes."""
    a, b, c, d = first
    e, f, g, h = second
    flip = 0x80808080
    return (
        run(col, a ^ flip, 0, 8, 128, TRAITS),
        run(col + 4, b ^ flip, 0, 8, 128, TRAITS),
        run(col + 8, c ^ flip, 0, 8, 128, TRAITS),
        run(col + 12, d ^ flip, 0, 8, 128, TRAITS),
        run(col + 16, e ^ flip, 0, 8, 128, TRAITS),
        run(col + 20, f ^ flip, 0, 8, 128, TRAITS),
        run(col + 24, g ^ flip, 0, 8, 128, TRAITS),
        run(col + 28, h ^ flip, 0, 8, 128, TRAITS),
    )


@device
def eight_bits(w, row, unit, cols, FIELDS, TRAITS):
    D, QS = FIELDS
    block = row * (cols // 32) + unit
    scale = half(pattern(w, D, block), TRAITS)
    runs = signed_runs(quad(w, QS, block, 0), quad(w, QS, block, 1), unit * 32, TRAITS)
    return ((scale, (), runs),)


@device
def q8_0(w, row, unit, cols, GROUP, TRAITS):
    return eight_bits(w, row, unit, cols, Q8_0, TRAITS)


@device
def q8_0_planes(w, row, unit, cols, GROUP, TRAITS):
    return eight_bits(w, row, unit, cols, Q8_0_PLANES, TRAITS)


@device
def nonlinear(w, row, unit, cols, FIELDS, TRAITS):
    D, QS = FIELDS
    block = row * (cols // 32) + unit
    scale = half(pattern(w, D, block), TRAITS)
    return ((scale, (), table_runs(quad(w, QS, block, 0), unit * 32, NL_TABLE, TRAITS)),)


@device
def iq4_nl(w, row, unit, cols, GROUP, TRAITS):
    return nonlinear(w, row, unit, cols, IQ4_NL, TRAITS)


@device
def iq4_nl_planes(w, row, unit, cols, GROUP, TRAITS):
    return nonlinear(w, row, unit, cols, IQ4_NL_PLANES, TRAITS)


@device
def iq4_xs(w, row, unit, cols, GROUP, TRAITS):
    D, _, LOW, QS = IQ4_XS
    block, sub = row * (cols // 256) + unit // 8, unit % 8
    both = word(w, D, block, 0)
    low = (word(w, LOW, block, 0) >> u32(4 * sub)) & 15
    high = (both >> u32(16 + 2 * sub)) & 3
    scale = half(both, TRAITS) * (f32(low | (high << 4)) - 32)
    return ((scale, (), table_runs(quad(w, QS, block, sub), unit * 32, NL_TABLE, TRAITS)),)


@device
def microscaled(w, row, unit, cols, FIELDS, TRAITS):
    E, QS = FIELDS
    block = row * (cols // 32) + unit
    e = octet(w, E, block)
    # 2**(e - 128), which is a denormal for 0 and 1.
    scale = select(e < 2, u32(0x00200000) << e, (e - 1) << 23)
    runs = table_runs(quad(w, QS, block, 0), unit * 32, E2M1_TABLE, TRAITS)
    return ((bitcast(scale, f32), (), runs),)


@device
def mxfp4(w, row, unit, cols, GROUP, TRAITS):
    return microscaled(w, row, unit, cols, MXFP4, TRAITS)


@device
def mxfp4_planes(w, row, unit, cols, GROUP, TRAITS):
    return microscaled(w, row, unit, cols, MXFP4_PLANES, TRAITS)


@device
def u4(w, row, unit, cols, GROUP, TRAITS):
    """GPTQ and AWQ as `quantized.repack` lays them out."""
    quant = load_vector(w[0], row * (cols // 32) + unit, 4)
    group = w[1][row * ((cols + (GROUP - 1)) // GROUP) + unit // (GROUP // 32)]
    scale = half(group, TRAITS)
    offset = -(scale * f32(group >> 16))
    col = unit * 32
    runs = (
        run(col, quant[0], 0, 4, 0, TRAITS),
        run(col + 4, quant[0], 4, 4, 0, TRAITS),
        run(col + 8, quant[1], 0, 4, 0, TRAITS),
        run(col + 12, quant[1], 4, 4, 0, TRAITS),
        run(col + 16, quant[2], 0, 4, 0, TRAITS),
        run(col + 20, quant[2], 4, 4, 0, TRAITS),
        run(col + 24, quant[3], 0, 4, 0, TRAITS),
        run(col + 28, quant[3], 4, 4, 0, TRAITS),
    )
    return ((scale, (offset,), runs),)


@device
def float8(word):
    """The four f8e4m3 of a word as f32x4."""
    return convert(bitcast(word, vec(f8e4m3, 4)), f32)


@device
def float8_runs(w, row, unit, cols):
    first = load_vector(w[0], row * (cols // 16) + 2 * unit, 4)
    second = load_vector(w[0], row * (cols // 16) + 2 * unit + 1, 4)
    col = unit * 32
    return (
        (col, float8(first[0]), ()),
        (col + 4, float8(first[1]), ()),
        (col + 8, float8(first[2]), ()),
        (col + 12, float8(first[3]), ()),
        (col + 16, float8(second[0]), ()),
        (col + 20, float8(second[1]), ()),
        (col + 24, float8(second[2]), ()),
        (col + 28, float8(second[3]), ()),
    )


@device
def fp8_channel(w, row, unit, cols, GROUP, TRAITS):
    return ((bitcast(w[1][row], f32), (), float8_runs(w, row, unit, cols)),)


@device
def fp8_block(w, row, unit, cols, GROUP, TRAITS):
    tile = row // GROUP * ((cols + (GROUP - 1)) // GROUP) + unit // (GROUP // 32)
    return ((bitcast(w[1][tile], f32), (), float8_runs(w, row, unit, cols)),)


@device
def int8(w, row, unit, cols, GROUP, TRAITS):
    first = load_vector(w[0], row * (cols // 16) + 2 * unit, 4)
    second = load_vector(w[0], row * (cols // 16) + 2 * unit + 1, 4)
    runs = signed_runs(
        (first[0], first[1], first[2], first[3]),
        (second[0], second[1], second[2], second[3]),
        unit * 32,
        TRAITS,
    )
    return ((bitcast(w[1][row], f32), (), runs),)
