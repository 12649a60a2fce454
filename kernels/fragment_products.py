"""Products of tiles in workgroup memory, by matrix fragments."""

from __future__ import annotations

from ..ir.lang import device, f32, fragment, fragment_load, mma, registers, static_range

__all__ = ["multiply"]


@device
def load_left(tile, stage, row, k, T):
    """16 rows of a."""
    return fragment_load(fragment(T, "a"), tile, (stage, row, k))


@device
def load_right(tile, stage, k, col, T, B_COLUMNS):
    """16 columns of b."""
    if B_COLUMNS:
        return fragment_load(fragment(T, "b"), tile, (stage, col, k), layout="column")
    return fragment_load(fragment(T, "b"), tile, (stage, k, col))


@device
def multiply(tile_a, tile_b, stage, acc, T, row, col, BK, TM, TN, B_COLUMNS):
    """acc += the rows from `row` on of tile_a[stage] times the columns from `col` on of tile_b."""
    if T.bytes == 1:
        multiply_apart(tile_a, tile_b, stage, acc, T, row, col, BK, TM, TN, B_COLUMNS)
    else:
        for kk in static_range(BK // 16):
            left = registers(fragment(T, "a"), TM, 0)
            right = registers(fragment(T, "b"), TN, 0)
            for i in static_range(TM):
                left[i] = load_left(tile_a, stage, row + 16 * i, 16 * kk, T)
            for j in static_range(TN):
                right[j] = load_right(tile_b, stage, 16 * kk, col + 16 * j, T, B_COLUMNS)
            for i in static_range(TM):
                for j in static_range(TN):
                    acc[i, j] = mma(left[i], right[j], acc[i, j])


@device
def multiply_apart(tile_a, tile_b, stage, acc, T, row, col, BK, TM, TN, B_COLUMNS):
    """The same where products may be added in few bits: each step sums for itself, and its sum is
    added in f32."""
    STEPS = BK // 32
    left = registers(fragment(T, "a"), (STEPS, TM), 0)
    right = registers(fragment(T, "b"), (STEPS, TN), 0)
    for kk in static_range(STEPS):
        for i in static_range(TM):
            left[kk, i] = load_left(tile_a, stage, row + 16 * i, 32 * kk, T)
        for j in static_range(TN):
            right[kk, j] = load_right(tile_b, stage, 32 * kk, col + 16 * j, T, B_COLUMNS)
    for i in static_range(TM):
        for j in static_range(TN):
            part = fragment(f32, "acc")(0.0)
            for kk in static_range(STEPS):
                part = mma(left[kk, i], right[kk, j], part)
            acc[i, j] = acc[i, j] + part
