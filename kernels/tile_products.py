"""Products of tiles in workgroup memory, one result after another, by fma."""

from __future__ import annotations

from ..ir.lang import convert, device, f32, fma, local_id, registers, static_range

__all__ = ["add_products"]


@device
def add_products(acc, left, tile_b, starts, k0, depth, STAGE_A, TX, TM, TN, DEEP):
    """acc += an invocation's TM rows of `left` times its TN columns, TX apart, of tile_b, in the
    order of k, of which tiles have `depth`, a multiple of DEEP. left: with STAGE_A the tile of all
    rows, which are TM for each invocation; else the buffer, whose rows begin at `starts`, from k0.
    """
    lx = local_id(0)
    ly = local_id(1)
    for kk in range(0, depth, DEEP):
        for d in static_range(DEEP):
            right = registers(f32, TN, 0)
            for j in static_range(TN):
                right[j] = convert(tile_b[kk + d, lx + j * TX], f32)
            for i in static_range(TM):
                if STAGE_A:
                    up = convert(left[ly * TM + i, kk + d], f32)
                else:
                    up = convert(left[starts[i] + k0 + kk], f32)
                for j in static_range(TN):
                    acc[i, j] = fma(up, right[j], acc[i, j])
