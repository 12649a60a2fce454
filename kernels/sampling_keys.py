"""Logits by keys: integers of the same order, of which one that so many logits reach, or so much of
their mass, is found bit by bit, by a pass over the row for each of them.
"""

from __future__ import annotations

from ..ir.lang import (
    bitcast,
    ceil_div,
    device,
    exp,
    f32,
    i32,
    isnan,
    local_id,
    registers,
    select,
    static_range,
    u32,
)
from .common import add, block_reduce

__all__ = ["from_ordered", "key_of_count", "key_of_mass", "ordered"]


@device
def ordered(value):
    """A u32 that is greater where the float is; 0 of a NaN."""
    bits = bitcast(value, u32)
    key = select(bits >> u32(31) != 0, ~bits, bits | u32(0x80000000))
    return select(isnan(value), u32(0), key)


@device
def from_ordered(key):
    """The float of an `ordered` key."""
    return bitcast(select(key >> u32(31) != 0, key & u32(0x7FFFFFFF), ~key), f32)


@device
def count_from(logits, base, cols, key, BLOCK, SUBGROUP):
    """How many elements of the row have at least this key."""
    found = i32(0)
    for c in range(local_id(0), cols, BLOCK):
        found += select(ordered(logits[base + c]) >= key, i32(1), i32(0))
    return block_reduce(found, add, i32, BLOCK, SUBGROUP)


@device
def mass_from(logits, base, cols, key, top, inverse, BLOCK, SUBGROUP):
    """The sum of exp((logit - top) * inverse) over the elements that have at least this key."""
    found = f32(0)
    for c in range(local_id(0), cols, BLOCK):
        value = logits[base + c]
        if ordered(value) >= key:
            found += exp((value - top) * inverse)
    return block_reduce(found, add, f32, BLOCK, SUBGROUP)


@device
def key_of_count(logits, base, cols, k, BLOCK, SUBGROUP):
    """The greatest key that at least k elements reach, bit by bit."""
    key = u32(0)
    for step in range(32):
        trial = key | (u32(1) << u32(31 - step))
        if count_from(logits, base, cols, trial, BLOCK, SUBGROUP) >= k:
            key = trial
    return key


@device
def masses_from(logits, base, cols, key, shift, top, inverse, BLOCK, DIGIT):
    """This invocation's sums of exp((logit - top) * inverse) over the elements whose keys are
    `key`, which ends in zeros, in all bits above the DIGIT ones from `shift` on, and have at least
    1, 2, ... in these."""
    sums = registers(f32, (1 << DIGIT) - 1, 0)
    for c in range(local_id(0), cols, BLOCK):
        value = logits[base + c]
        beyond = ordered(value) - key
        if ordered(value) >= key and beyond >> shift < u32(1 << DIGIT):
            mass = exp((value - top) * inverse)
            for n in static_range((1 << DIGIT) - 1):
                sums[n] += select(beyond >> shift > u32(n), mass, f32(0))
    return sums


@device
def key_of_mass(logits, base, cols, least, share, top, inverse, BLOCK, SUBGROUP, DIGIT):
    """The greatest key whose elements have that share of the mass of those from key `least` on,
    and at most that of `top`; DIGIT bits at a time."""
    wanted = share * mass_from(logits, base, cols, least, top, inverse, BLOCK, SUBGROUP)
    key = u32(0)
    above = f32(0)  # the mass of what is greater than all that begins with the bits of `key`
    for step in range(ceil_div(32, DIGIT)):
        shift = u32((ceil_div(32, DIGIT) - 1 - step) * DIGIT)
        sums = masses_from(logits, base, cols, key, shift, top, inverse, BLOCK, DIGIT)
        digit = u32(0)
        beyond = f32(0)
        for n in static_range((1 << DIGIT) - 1):
            mass = block_reduce(sums[n], add, f32, BLOCK, SUBGROUP)
            enough = above + mass >= wanted
            digit += select(enough, u32(1), u32(0))
            beyond = select(enough or digit < u32(n), beyond, mass)
        above += beyond
        key = key | digit << shift
    return min(max(key, least), ordered(top))
