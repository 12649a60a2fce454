"""Units of quantized weights on NVIDIA's tensor cores: their copies, x beside them, their products.

`rings` are workgroup arrays, one for each part of a format, of slots that hold SPAN columns of some
rows: decoders read them as a matrix of SPAN columns.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    ceil_div,
    convert,
    device,
    f16,
    f16x2,
    f32,
    f32x4,
    fma,
    i32,
    load_vector,
    local_id,
    nv,
    registers,
    select,
    static_assert,
    static_range,
    store_vector,
    u32,
    u32x4,
)
from .common import across, add
from .quantized_formats import *
from .quantized_sizes import BLOCKED
from .quantized_superblocks import *

# Integer quants, and a box of 256 elements is enough for blocks of a multiple of 16 bytes.
FORMATS_READ = (
    *(q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q4_k, q5_k),
    *(q4_0_planes, q5_0_planes, q8_0_planes, q3_k_planes, u4),
)
_KNOWN = "FORMAT is one of " + ", ".join(f.name for f in FORMATS_READ)
UNIT = 32  # columns that a decoder takes
CHUNKS = 4  # of 16 bytes that x under a unit has


@device
def block_of(FORMAT, GROUP):
    """(columns, (bytes in each part)) of a block of one of FORMATS_READ, or of a group of u4."""
    static_assert(FORMAT in FORMATS_READ, _KNOWN)
    found = GROUP, (GROUP // 2, 4)  # u4
    for form, block, sizes in BLOCKED:
        if form == FORMAT:
            found = block, sizes
    return found


@device
def stage(w, x, pairs, sums, cols, FORMAT, GROUP, TRAITS, SPAN, THREADS):
    """x in the order of the weights of each unit, and its sum under each group; zeros behind the
    row, to whole SPANs."""
    units = cols // UNIT
    for n in range(local_id(0), ceil_div(cols, SPAN) * (SPAN // UNIT), THREADS):
        inside = n < units
        groups = FORMAT(w, i32(0), min(n, units - 1), cols, GROUP, TRAITS)
        words = registers(u32, 16, 0)
        k = 0
        for g in static_range(len(groups)):
            total = f32x4(0)
            for col, _, _ in groups[g][2]:
                v = load_vector(x, col // 4, 4)
                total = total + convert(v, f32)
                words[k] = bitcast(f16x2(v[0], v[2]), u32)
                words[k + 1] = bitcast(f16x2(v[1], v[3]), u32)
                k += 2
            sums[n * len(groups) + g] = select(inside, across(total, add, 4), f32(0))
        for j in static_range(CHUNKS):
            four = u32x4(words[4 * j], words[4 * j + 1], words[4 * j + 2], words[4 * j + 3])
            at = (n // 4 * CHUNKS + j) * 4 + n % 4
            store_vector(pairs, at, select(inside, four, u32x4(0)))


@device
def fetch(w, rings, full, slot, tile, span, rows, cols, BLOCK, SPAN, TALL):
    """Copy SPAN columns of TALL rows to a slot of the rings."""
    COLUMNS, SIZES = BLOCK
    BYTES = 0
    for size in SIZES:
        BYTES += TALL * (SPAN // COLUMNS) * size
    nv.expect(full, slot, BYTES)
    for n in static_range(len(SIZES)):
        wide = SPAN // COLUMNS * SIZES[n] // w[n].dtype.bytes
        across = cols // COLUMNS * SIZES[n] // w[n].dtype.bytes
        seen = nv.tensor_map(w[n], (rows, across), (TALL, wide), swizzle=0)
        nv.tensor_load(seen, (tile * TALL, span * wide), rings[n], slot * (TALL * wide), full, slot)


@device
def following(tile, span, share, spans, stride, SPLIT):
    """(tile, span) that a subgroup takes after these."""
    last = span + SPLIT >= spans
    return select(last, tile + stride, tile), select(last, share, span + SPLIT)


@device
def add_unit(totals, apart, rings, pairs, sums, line, unit, n, at, FORMAT, GROUP, TRAITS, SPAN,
             TILES):  # fmt: skip
    """Products of a unit of the ring's rows `line`, line + 8, ...; it is number n of the row, and
    its x is from chunk `at` on."""
    x = registers(u32x4, CHUNKS, 0)
    for j in static_range(CHUNKS):
        x[j] = load_vector(pairs, at + 4 * j, 4)
    for i in static_range(TILES):
        upper = FORMAT(rings, line + 16 * i, unit, SPAN, GROUP, TRAITS)
        lower = FORMAT(rings, line + 16 * i + 8, unit, SPAN, GROUP, TRAITS)
        k = 0
        for g in static_range(len(upper)):
            below = sums[n * len(upper) + g]
            _, _, (BITS, BIAS) = upper[g][2][0]
            total = registers(f32, 4, 0)
            if BIAS != 0:
                total[0] = below * (-BIAS * 0.5 ** (14 + BITS))
                total[2] = total[0]
            for r in static_range(len(upper[g][2])):
                _, first, _ = upper[g][2][r]
                _, second, _ = lower[g][2][r]
                a = registers(u32, 4, 0)
                a[0] = first[0]
                a[1] = second[0]
                a[2] = first[1]
                a[3] = second[1]
                b = registers(u32, 2, 0)
                b[0] = x[k // 4][k % 4]
                b[1] = x[k // 4][k % 4 + 1]
                nv.mma(total, a, b, f16)
                k += 2
            for half in static_range(2):
                scale, offsets, _ = lower[g] if half else upper[g]
                to = 2 * i + half
                totals[to] = fma(scale, total[2 * half], totals[to])
                for offset in offsets:
                    apart[to] = fma(offset, below, apart[to])
