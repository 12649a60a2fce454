"""Device functions under every quantized format: fields of blocks as words, words as numbers.

A field is (part, stride, offset): the buffer that holds it, and in bytes from block to block and
within a block. Buffers are of u32, or of u16 or u8 where blocks lie so.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    convert,
    device,
    f16,
    f32,
    f32x4,
    load_vector,
    select,
    u16,
    u32,
    u32x4,
)
from ..ir.quantized import BLOCKS


def fields(name: str, layout: str = "blocks") -> tuple[tuple[int, int, int], ...]:
    """The fields of a block format in the order of its description."""
    places = BLOCKS[name].places(layout).values()
    return tuple((p.part, p.stride, p.offset) for p in places)


@device
def word(w, field, block, k):
    """Word k of a field of a block."""
    part, stride, offset = field
    if w[part].dtype == u32:
        return w[part][block * (stride // 4) + (offset // 4 + k)]
    if w[part].dtype == u16:
        at = block * (stride // 2) + (offset // 2 + 2 * k)
        return u32(w[part][at]) | (u32(w[part][at + 1]) << 16)
    at = block * stride + (offset + 4 * k)
    low = u32(w[part][at]) | (u32(w[part][at + 1]) << 8)
    return low | (u32(w[part][at + 2]) << 16) | (u32(w[part][at + 3]) << 24)


@device
def pair(w, field, block, k):
    """Words 2k and 2k + 1, by one access where blocks are aligned to it."""
    part, stride, offset = field
    if w[part].dtype == u32 and stride % 8 == 0 and offset % 8 == 0:
        v = load_vector(w[part], block * (stride // 8) + (offset // 8 + k), 2)
        return v[0], v[1]
    return word(w, field, block, 2 * k), word(w, field, block, 2 * k + 1)


@device
def quad(w, field, block, k):
    """Words 4k to 4k + 3, by one access where blocks are aligned to it."""
    part, stride, offset = field
    if w[part].dtype == u32 and stride % 16 == 0 and offset % 16 == 0:
        v = load_vector(w[part], block * (stride // 16) + (offset // 16 + k), 4)
        return v[0], v[1], v[2], v[3]
    a, b = pair(w, field, block, 2 * k)
    c, d = pair(w, field, block, 2 * k + 1)
    return a, b, c, d


@device
def pattern(w, field, block):
    """The 16 bits of a field of two bytes, in u32."""
    part, stride, offset = field
    if w[part].dtype == u16:
        return u32(w[part][block * (stride // 2) + offset // 2])
    if stride % 4 == 0:
        return (w[part][block * (stride // 4) + offset // 4] >> (offset % 4 * 8)) & 0xFFFF
    # A part of such fields alone.
    return (w[part][block // 2] >> u32(block % 2 * 16)) & 0xFFFF


@device
def octet(w, field, block):
    """The 8 bits of a field of one byte, in u32: of u8, or of a part of such fields alone."""
    part, stride, offset = field
    if stride > 1:
        return u32(w[part][block * stride + offset])
    return (w[part][block // 4] >> u32(block % 4 * 8)) & 0xFF


@device
def traits_of_target(cols, NATIVE, OPAQUE):
    """What decoders are told of a target: (f16 by the target's conversion, the exponent of 2**23,
    whether runs are `pairs` of f16).

    OPAQUE: as a value that is not known to be constant, since NVIDIA's assembler writes a constant
    into a register again before every instruction that has another one. cols: some size.
    """
    if OPAQUE:
        return NATIVE, 0x4B000000 | u32(cols >> 31), False  # no size is negative
    return NATIVE, u32(0x4B000000), False


@device
def half(bits, TRAITS):
    """The f16 whose pattern is the low 16 bits of a word, as f32.

    By the target's conversion, or by integers: denormals count where a target's f16 has none.
    """
    NATIVE, _, _ = TRAITS
    if NATIVE:
        return convert(bitcast(u16(bits & 0xFFFF), f16), f32)
    magnitude = (bits & 0x7FFF) << 13
    exponent = magnitude & 0x0F800000
    # Exponents move from bias 15 to 127; those of infinities and NaNs once more.
    lifted = magnitude + select(exponent == 0x0F800000, u32(0x70000000), u32(0x38000000))
    # A denormal is a fraction of the least normal number: written over 2**-14, which goes again.
    least = bitcast((magnitude | 0x38800000), f32) - 6.103515625e-05
    size = select(exponent == 0, bitcast(least, u32), lifted)
    return bitcast(size | ((bits & 0x8000) << 16), f32)


@device
def quants(bytes4, SHIFT, BITS, BIAS, TRAITS):
    """Of each byte of a word, lowest first, BITS bits from SHIFT on, less BIAS, times 2**p where p
    is where they lie (`positions`): exact, as f32x4.

    Bits under the exponent of 2**23 are an integer added to it, wherever they lie: no conversion,
    and hardly a shift.
    """
    _, exponent, _ = TRAITS
    p = positions(SHIFT, BITS)
    mask = (1 << BITS) - 1
    upper = bytes4 >> 16
    third = bytes4 if p[2] >= 16 else upper
    lanes = u32x4(
        bytes4 & (mask << p[0]),
        bytes4 & (mask << p[1]),
        third & (mask << p[2]),
        upper & (mask << p[3]),
    )
    one = 8388608.0  # 2**23
    return bitcast(lanes | exponent, f32x4) - f32x4(
        one + BIAS * (1 << p[0]),
        one + BIAS * (1 << p[1]),
        one + BIAS * (1 << p[2]),
        one + BIAS * (1 << p[3]),
    )


@device
def pairs(bytes4, SHIFT, BITS):
    """Of bytes 0 and 2 of a word, and of bytes 1 and 3, BITS bits from SHIFT on as two f16 a word:
    quants times 2**(-14 - BITS).

    An f16 whose exponent is 0 is its bits times 2**-24: nothing is converted. Quants fill the upper
    end of the significand, since a product may be cut off as if its first bit were not 0.
    """
    p = 10 - BITS
    mask = (((1 << BITS) - 1) << p) * 0x00010001
    return moved(bytes4, p - SHIFT) & mask, moved(bytes4, p - SHIFT - 8) & mask


@device
def moved(word, UP):
    """word * 2**UP, without the bits that leave it."""
    if UP == 0:
        return word
    return word << UP if UP > 0 else word >> -UP


@device
def positions(SHIFT, BITS):
    """Where in its word, or the upper half of it, `quants` takes the bits of each byte: below bit
    23."""
    return SHIFT, SHIFT + 8, SHIFT + (16 if SHIFT + BITS + 16 <= 23 else 0), SHIFT + 8


@device
def leveled(v, at):
    """v times 2**-p, for what `quants` gives or what is multiplied by that; at: (SHIFT, BITS) of
    it, or () for what is not scaled."""
    if len(at) == 0:
        return v
    p = positions(*at)
    return v * f32x4(0.5 ** p[0], 0.5 ** p[1], 0.5 ** p[2], 0.5 ** p[3])


@device
def run(col, bytes4, SHIFT, BITS, BIAS, TRAITS):
    """A run of four weights, as decoders give them."""
    _, _, PAIRS = TRAITS
    if PAIRS:
        return col, pairs(bytes4, SHIFT, BITS), (BITS, BIAS)
    return col, quants(bytes4, SHIFT, BITS, BIAS, TRAITS), (SHIFT, BITS)


@device
def spread(bits):
    """Bits 0 to 3 as bit 4 of bytes 0 to 3."""
    return ((bits & 15) * 0x02040810) & 0x10101010


@device
def byte(bytes4, n):
    """Byte n of a word as u32; n at run time or not."""
    return (bytes4 >> u32(8 * n)) & 0xFF


@device
def looked_up(nibbles, TABLE, TRAITS):
    """f32x4 of TABLE[low half of each byte]; TABLE: 16 integers of 8 bits."""
    n = u32x4(nibbles & 15, (nibbles >> 8) & 15, (nibbles >> 16) & 15, (nibbles >> 24) & 15)
    a, b, c, d = TABLE  # four entries a word, biased by 128
    four = (n & 4) != 0
    words = select(
        (n & 8) != 0,
        select(four, u32x4(d), u32x4(c)),
        select(four, u32x4(b), u32x4(a)),
    )
    found = (words >> ((n & 3) << 3)) & 0xFF
    _, exponent, _ = TRAITS
    return bitcast(found | exponent, f32x4) - 8388736.0


def table(values: tuple[int, ...]) -> tuple[int, ...]:
    """16 integers of 8 bits as the four words that `looked_up` takes."""
    biased = [v + 128 for v in values]
    return tuple(
        sum(v << (8 * n) for n, v in enumerate(biased[first : first + 4]))
        for first in range(0, 16, 4)
    )
