"""Integer and bit functions on arrays of any unsigned or signed width."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _bits(x: Array) -> int:
    return int(x.dtype.itemsize) * 8


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def shift_left(x: Array, n: Array) -> Array:
    """x << n; of n the low bits count that number the bits of x."""
    return x << (n & n.dtype.type(_bits(x) - 1)).astype(x.dtype)


def shift_right(x: Array, n: Array) -> Array:
    """Arithmetic where x is signed."""
    return x >> (n & n.dtype.type(_bits(x) - 1)).astype(x.dtype)


def multiply_high(x: Array, y: Array) -> Array:
    """The upper 32 bits of a 64-bit product."""
    wide = np.int64 if x.dtype == np.int32 else np.uint64
    return (x.astype(wide) * y.astype(wide) >> wide(32)).astype(x.dtype)


# numpy 1 has no function for it.
_ONES = np.array([n.bit_count() for n in range(256)], np.uint32)


def bit_count(x: Array) -> Array:
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, _bits(x) // 8)
    return _ONES[octets].sum(-1, dtype=np.uint32)


def bit_reverse(x: Array) -> Array:
    bits = _bits(x)
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, bits // 8)
    reversed_bits = np.unpackbits(octets, axis=-1, bitorder="little")[..., ::-1]
    return np.packbits(reversed_bits, axis=-1, bitorder="little").view(x.dtype)[..., 0]


def _floor_log2(x: Array) -> Array:
    """Position of the highest set bit, int32; -1 for 0."""
    bits = _bits(x)
    smeared = x
    step = 1
    while step < bits:
        smeared = smeared | smeared >> x.dtype.type(step)
        step *= 2
    return bit_count(smeared).astype(np.int32) - 1


def first_bit(x: Array) -> Array:
    """Position of the lowest set bit, int32; -1 for 0."""
    low = x & (~x + x.dtype.type(1))
    return np.where(x == 0, -1, bit_count(low - x.dtype.type(1)).astype(np.int32))


count_trailing_zeros = first_bit


def count_leading_zeros(x: Array) -> Array:
    """int32; -1 for 0."""
    return np.where(x == 0, -1, _bits(x) - 1 - _floor_log2(x)).astype(np.int32)


def count_leading_sign(x: Array) -> Array:
    """Position from the top of the first bit that differs from the sign; -1 if none does."""
    u = _unsigned(np.ascontiguousarray(x))
    flipped = np.where(x < 0, ~u, u)
    return count_leading_zeros(flipped)


def bit_mask(width: Array, offset: Array) -> Array:
    """((1 << width) - 1) << offset."""
    one = width.dtype.type(1)
    return shift_left(shift_left(np.full_like(width, one), width) - one, offset)


def extract(x: Array, offset: Array, width: Array) -> Array:
    """`width` bits of x from `offset`, sign-extended where x is signed; uint32 arrays."""
    bits = _bits(x)
    off = offset.astype(x.dtype)
    wide = (width >= bits - offset).astype(np.bool_)  # nothing lies above the field
    gap = np.where(wide, 0, bits - offset.astype(np.int64) - width).astype(x.dtype)
    gap_low = gap + off
    found = x << gap >> np.minimum(gap_low, x.dtype.type(bits - 1))
    return np.where(width == 0, x.dtype.type(0), found)


def bit_field(x: Array, field: Array) -> Array:
    """s_bfe: the field word holds the offset in its low bits and the width from bit 16."""
    bits = _bits(x)
    return extract(x, field & np.uint32(bits - 1), field >> np.uint32(16) & np.uint32(0x7F))


def quad_mask(x: Array) -> Array:
    """Bit k: any of the bits 4k to 4k+3."""
    out = np.zeros_like(x)
    for k in range(_bits(x) // 4):
        quad = x >> x.dtype.type(4 * k) & x.dtype.type(15)
        out |= (quad != 0).astype(x.dtype) << x.dtype.type(k)
    return out


def whole_quad(x: Array) -> Array:
    """Each quad of bits full where any of it is set."""
    out = np.zeros_like(x)
    for k in range(_bits(x) // 4):
        quad = x.dtype.type(15) << x.dtype.type(4 * k)
        out |= np.where(x & quad != 0, quad, x.dtype.type(0))
    return out
