"""The greatest logits of a row in order, where they are few enough for workgroup memory.

The greatest logit of each invocation says where they may begin; where too many reach that, counts
of keys by 11 bits at a time do: two to six passes over the row, not one for each bit of a key.
"""

from __future__ import annotations

from ..ir.lang import (
    atomic_add,
    atomic_min,
    barrier,
    device,
    exp,
    f32,
    i32,
    local_id,
    registers,
    select,
    static_range,
    u32,
    vec,
    workgroup_array,
)
from .common import across, block_reduce, greater, load, spread
from .sampling_keys import from_ordered, ordered
from .topk_long import descend

__all__ = ["candidates", "share_of_candidates"]

BINS = 2048
AT_ONCE = 4  # vectors that an invocation reads before it looks at them


@device
def read_ahead(logits, first, end, BLOCK, VEC):
    """Vectors first, first + BLOCK, ... of the logits, as many as are read at once; behind the end
    the last one."""
    found = registers(f32 if VEC == 1 else vec(f32, VEC), AT_ONCE, 0)
    for n in static_range(AT_ONCE):
        found[n] = load(logits, min(first + n * BLOCK, end - 1), VEC)
    return found


@device
def greatest(logits, start, end, BLOCK, VEC):
    """The greatest logit of this invocation."""
    tops = spread(f32(float("-inf")), f32, VEC)
    for first in range(start + i32(local_id(0)), end, AT_ONCE * BLOCK):
        found = read_ahead(logits, first, end, BLOCK, VEC)
        for n in static_range(AT_ONCE):
            if first + n * BLOCK < end:  # each logit is one invocation's alone
                tops = max(tops, found[n])
    return across(tops, greater, VEC)


@device
def count_keys(logits, start, end, counts, high, mask, shift, BLOCK, VEC):
    """Count the keys that `high` is part of by their 11 bits from `shift` on."""
    for first in range(start + i32(local_id(0)), end, AT_ONCE * BLOCK):
        found = read_ahead(logits, first, end, BLOCK, VEC)
        for n in static_range(AT_ONCE):
            for lane in static_range(VEC):
                key = ordered(found[n] if VEC == 1 else found[n][lane])
                if first + n * BLOCK < end and key & mask == high:
                    atomic_add(counts, i32(key >> shift & u32(BINS - 1)), 1)


@device
def collect_keys(logits, start, end, least, found, taken, MOST, BLOCK, VEC):
    """The keys from `least` on, in any order."""
    for first in range(start + i32(local_id(0)), end, AT_ONCE * BLOCK):
        values = read_ahead(logits, first, end, BLOCK, VEC)
        for n in static_range(AT_ONCE):
            for lane in static_range(VEC):
                key = ordered(values[n] if VEC == 1 else values[n][lane])
                if first + n * BLOCK < end and key >= least:
                    slot = atomic_add(taken, 0, 1)
                    if slot < MOST:
                        found[slot] = key


@device
def collect(logits, base, cols, least, found, taken, MOST, BLOCK, VEC):
    """The same of a row of `cols` logits at `base`, once nothing is taken. Contains barriers."""
    if local_id(0) == 0:
        taken[0] = 0
    barrier()
    begin, end = base // VEC, (base + cols) // VEC
    collect_keys(logits, begin, end, least, found, taken, MOST, BLOCK, VEC)
    barrier()


@device
def descend_bins(counts, sums, wanted, BLOCK, asked):
    """The bin that the `wanted` greatest counts end in, and how many of it that takes, if asked.
    Contains barriers."""
    barrier()
    if asked:
        for group in range(i32(local_id(0)), 64, BLOCK):
            total = i32(0)
            for n in range(BINS // 64):
                total += counts[group * (BINS // 64) + n]
            sums[group] = total
    barrier()
    place, rest = i32(0), i32(0)
    if asked:
        group, rest = descend(sums, i32(0), 64, wanted)
        place, rest = descend(counts, group * (BINS // 64), BINS // 64, rest)
    return place, rest


@device
def begin_counts(counts, BLOCK):
    """No counts yet. Contains barriers."""
    barrier()
    for b in range(i32(local_id(0)), BINS, BLOCK):
        counts[b] = 0
    barrier()


@device
def sort_keys(found, count, keys, BLOCK):
    """keys = the first `count` of those found, greatest first."""
    for n in range(i32(local_id(0)), count, BLOCK):
        rank = i32(0)
        key = found[n]
        for other in range(count):
            before = found[other] > key or (found[other] == key and other < n)
            rank += select(before, i32(1), i32(0))
        keys[rank] = key


@device
def least_candidate(logits, base, cols, k, counts, sums, MOST, BLOCK, VEC):
    """The bits of a key that the k greatest of a row reach and at most MOST do, and whether there
    is one: by their bins, 11 bits at a time. Contains barriers."""
    high, mask = u32(0), u32(0)
    wanted = k
    settled = cols == 0
    for step in static_range(3):
        shift = u32(max(21 - 11 * step, 0))
        begin_counts(counts, BLOCK)
        end = (base + (i32(0) if settled else cols)) // VEC
        count_keys(logits, base // VEC, end, counts, high, mask, shift, BLOCK, VEC)
        place, rest = descend_bins(counts, sums, wanted, BLOCK, not settled)
        if not settled:
            high = high | u32(place) << shift
            mask = ~(u32(0)) << shift
            settled = k - rest + counts[place] <= MOST
            wanted = rest
    return high, settled


@device
def candidates(logits, base, cols, k, keys, MOST, BLOCK, SUBGROUP, VEC):
    """The greatest logit of the row at `base`; the least key of its k greatest, 0 of fewer numbers;
    and how many numbers reach that, or 0 where they are too many. keys: the keys of these, greatest
    first."""
    counts = workgroup_array(i32, BINS)
    sums = workgroup_array(i32, 64)
    found = workgroup_array(u32, MOST)
    taken = workgroup_array(i32, 1)
    # k of the greatest logits of an invocation are among the k greatest of all, or before them: as
    # a rule few more logits reach the bin of the last of them.
    top = greatest(logits, base // VEC, (base + cols) // VEC, BLOCK, VEC)
    begin_counts(counts, BLOCK)
    atomic_add(counts, i32(ordered(top) >> u32(21)), 1)
    place, _ = descend_bins(counts, sums, k, BLOCK, True)
    least = max(u32(place) << u32(21), u32(1))  # no NaNs, of which the key is 0
    collect(logits, base, cols, least, found, taken, MOST, BLOCK, VEC)
    few = taken[0] <= MOST
    high, settled = least_candidate(
        logits, base, i32(0) if few else cols, k, counts, sums, MOST, BLOCK, VEC)  # fmt: skip
    count = taken[0]
    barrier()
    again = i32(0) if few or not settled else cols
    collect(logits, base, again, high, found, taken, MOST, BLOCK, VEC)
    count = min(count if few else taken[0], MOST)
    sort_keys(found, count, keys, BLOCK)
    barrier()
    least = high
    reached = i32(0)
    if settled and count < k:
        least = u32(0)
        reached = count
    elif settled:
        least = keys[k - 1]
        reached = k
        while reached < count and keys[min(reached, MOST - 1)] == least:
            reached += 1
    return block_reduce(top, greater, f32, BLOCK, SUBGROUP), least, reached


@device
def share_of_candidates(keys, count, share, top, inverse, MOST, BLOCK):
    """The greatest of `count` keys, greatest first, from which on up they have that share of the
    mass of all of them."""
    masses = workgroup_array(f32, MOST)
    place = workgroup_array(i32, 1)
    lid = i32(local_id(0))
    for n in range(lid, count, BLOCK):
        masses[n] = exp((from_ordered(keys[n]) - top) * inverse)
    if lid == 0:
        place[0] = max(count - 1, 0)
    barrier()
    total = f32(0)
    for n in range(count):
        total += masses[n]
    for n in range(lid, count, BLOCK):
        sum = f32(0)
        for other in range(n + 1):
            sum += masses[other]
        if sum >= share * total:
            atomic_min(place, 0, n)
    barrier()
    return keys[place[0]] if count > 0 else u32(0)
