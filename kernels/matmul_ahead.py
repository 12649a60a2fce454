"""Matrix product by fragments where nothing copies asynchronously: what the next step needs waits
in registers while this one multiplies.

There is one tile of each operand. Vectors have four elements everywhere, which is what SPIR-V has:
an array has the type of its accesses there, and a vector of eight would be two accesses, whose rows
of two steps meet the same banks.
"""

from __future__ import annotations

from ..ir.lang import (
    barrier,
    bitcast,
    device,
    f16,
    load_vector,
    local_id,
    registers,
    static_assert,
    static_range,
    store_vector,
    u32,
    vec,
)
from .fragment_products import multiply

__all__ = ["multiply_ahead"]


@device
def take(held, source, row0, col0, cols, HELD, WIDTH, COUNT, THREADS):
    """held = this invocation's vectors of the COUNT * THREADS ones of the tile of `source` at row0,
    col0, of which all lie in it; cols is a multiple of 4."""
    ACROSS = WIDTH // 4
    static_assert(THREADS % ACROSS == 0, "a row of a tile has more vectors than invocations")
    first = (row0 + local_id(0) // ACROSS) * (cols // 4) + col0 // 4 + local_id(0) % ACROSS
    for n in static_range(COUNT):
        found = load_vector(source, first + n * (THREADS // ACROSS) * (cols // 4), 4)
        held[n] = bitcast(found, HELD)


@device
def put(tile, held, WIDTH, COUNT, THREADS):
    """The tile, of what `take` gave."""
    ACROSS = WIDTH // 4
    row = local_id(0) // ACROSS
    for n in static_range(COUNT):
        value = bitcast(held[n], vec(tile.dtype, 4))
        store_vector(tile, (0, row + n * (THREADS // ACROSS), local_id(0) % ACROSS), value)


@device
def fill(tile, source, row0, col0, rows, cols, HEIGHT, WIDTH, THREADS):
    """The tile at row0, col0 of any matrix, zero outside of rows x cols."""
    ACROSS = WIDTH // 4
    for at in range(local_id(0), HEIGHT * ACROSS, THREADS):
        row = row0 + at // ACROSS
        col = col0 + at % ACROSS * 4
        if cols % 4 == 0:
            there = row < rows and col < cols
            value = load_vector(source, (row * cols + col) // 4 if there else 0, 4)
            value = value if there else vec(source.dtype, 4)(0)
            store_vector(tile, (0, at // ACROSS, at % ACROSS), value)
        else:
            parts = registers(source.dtype, 4, 0)
            for n in static_range(4):
                there = row < rows and col + n < cols
                part = source[row * cols + col + n if there else 0]
                parts[n] = part if there else source.dtype(0)
            value = vec(source.dtype, 4)(parts[0], parts[1], parts[2], parts[3])
            store_vector(tile, (0, at // ACROSS, at % ACROSS), value)


@device
def whole_tiles(
    a, b, tile_a, tile_b, acc, T, steps, n, k, top, left, row, col,
    BM, BN, BK, TM, TN, THREADS, B_COLUMNS,
):  # fmt: skip
    """acc += the products of all steps, whose tiles lie in the operands."""
    OF_A = BM * BK // (4 * THREADS)
    OF_B = BN * BK // (4 * THREADS)
    static_assert(BM * BK % (4 * THREADS) == 0, "invocations have not the same part of a tile")
    static_assert(BN * BK % (4 * THREADS) == 0, "invocations have not the same part of a tile")
    HELD = vec(u32, 2) if T == f16 else vec(T, 4)  # halves might have a register each
    held_a = registers(HELD, OF_A, 0)
    held_b = registers(HELD, OF_B, 0)
    take(held_a, a, top, 0, k, HELD, BK, OF_A, THREADS)
    if B_COLUMNS:
        take(held_b, b, left, 0, k, HELD, BK, OF_B, THREADS)
    else:
        take(held_b, b, 0, left, n, HELD, BN, OF_B, THREADS)
    for step in range(steps):
        barrier()
        put(tile_a, held_a, BK, OF_A, THREADS)
        put(tile_b, held_b, BK if B_COLUMNS else BN, OF_B, THREADS)
        barrier()
        k0 = min(step + 1, steps - 1) * BK  # in the last step once more, rather than a branch
        take(held_a, a, top, k0, k, HELD, BK, OF_A, THREADS)
        if B_COLUMNS:
            take(held_b, b, left, k0, k, HELD, BK, OF_B, THREADS)
        else:
            take(held_b, b, k0, left, n, HELD, BN, OF_B, THREADS)
        multiply(tile_a, tile_b, 0, acc, T, row, col, BK, TM, TN, B_COLUMNS)


@device
def multiply_ahead(
    a, b, tile_a, tile_b, acc, T, steps, m, n, k, top, left, row, col,
    BM, BN, BK, TM, TN, THREADS, B_COLUMNS,
):  # fmt: skip
    """acc += the products of all steps; T has 16 bits."""
    static_assert(T.bytes == 2, "AHEAD is for types of 16 bits")
    inside = top + BM <= m and left + BN <= n
    if inside and k % BK == 0 and (B_COLUMNS or n % 4 == 0):
        whole_tiles(a, b, tile_a, tile_b, acc, T, steps, n, k, top, left, row, col,
                    BM, BN, BK, TM, TN, THREADS, B_COLUMNS)  # fmt: skip
    else:
        for step in range(steps):
            barrier()
            fill(tile_a, a, top, step * BK, m, k, BM, BK, THREADS)
            if B_COLUMNS:
                fill(tile_b, b, left, step * BK, n, k, BN, BK, THREADS)
            else:
                fill(tile_b, b, step * BK, left, k, n, BK, BN, THREADS)
            barrier()
            multiply(tile_a, tile_b, 0, acc, T, row, col, BK, TM, TN, B_COLUMNS)
