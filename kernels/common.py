"""Device functions that several families share: rows and results in vectors, reductions and scans
over a workgroup.

SUBGROUP = 1 means that a kernel uses no subgroup operations and works through workgroup memory;
SUBGROUP = BLOCK that the workgroup is one subgroup, so that no barrier is left.
"""

from __future__ import annotations

from ..ir.lang import (
    barrier,
    device,
    f32,
    group_id,
    i32,
    load_vector,
    local_id,
    registers,
    select,
    static_range,
    store_vector,
    subgroup_id,
    subgroup_lane,
    subgroup_shuffle_xor,
    vec,
    workgroup_array,
)


@device
def add(a, b):
    """The sum."""
    return a + b


@device
def greater(a, b):
    """The greater; a NaN loses."""
    return max(a, b)


@device
def lesser(a, b):
    """The lesser; a NaN loses."""
    return min(a, b)


@device
def subgroup_combine(value, combine, SUBGROUP):
    """`value` combined over the subgroup by a butterfly; the same result in every lane."""
    for mask in (1, 2, 4, 8, 16, 32, 64):
        if mask < SUBGROUP:
            value = combine(value, subgroup_shuffle_xor(value, mask))
    return value


@device
def block_reduce(value, combine, T, BLOCK, SUBGROUP):
    """`value`, a T, combined over a workgroup of BLOCK invocations in x; every invocation gets it.

    The order is fixed by BLOCK and SUBGROUP, so a result is reproducible bit for bit. Contains
    barriers unless BLOCK = SUBGROUP.
    """
    lid = local_id(0)
    if BLOCK == SUBGROUP:
        value = subgroup_combine(value, combine, SUBGROUP)
    elif SUBGROUP > 1:
        value = subgroup_combine(value, combine, SUBGROUP)
        partial = workgroup_array(T, BLOCK // SUBGROUP)
        if subgroup_lane() == 0:
            partial[subgroup_id()] = value
        barrier()
        if BLOCK // SUBGROUP <= SUBGROUP:
            # Each run of as many lanes as there are partial results has every one of them.
            value = partial[subgroup_lane() % (BLOCK // SUBGROUP)]
            value = subgroup_combine(value, combine, BLOCK // SUBGROUP)
        else:
            value = partial[0]
            for other in static_range(1, BLOCK // SUBGROUP):
                value = combine(value, partial[other])
        barrier()
    else:
        tile = workgroup_array(T, BLOCK)
        tile[lid] = value
        barrier()
        half = BLOCK // 2
        while half > 0:
            if lid < half:
                tile[lid] = combine(tile[lid], tile[lid + half])
            barrier()
            half = half // 2
        value = tile[0]
        barrier()
    return value


@device
def better(value, index, other, other_index):
    """Whether (other, other_index) comes before (value, index): greater, or equal and earlier.

    An index of -1 marks "nothing yet" and loses against everything.
    """
    earlier = (other == value) and (other_index < index)
    return (other_index >= 0) and ((index < 0) or (other > value) or earlier)


@device
def block_argmax(value, index, T, BLOCK, SUBGROUP):
    """The greatest (value, index) pair over a workgroup, the least index where values are equal.

    Gives the pair to every invocation; index -1 where no invocation had one.
    """
    lid = local_id(0)
    if SUBGROUP > 1:
        for step in static_range(7):
            if (1 << step) < SUBGROUP:
                other = subgroup_shuffle_xor(value, 1 << step)
                other_index = subgroup_shuffle_xor(index, 1 << step)
                take = better(value, index, other, other_index)
                value = select(take, other, value)
                index = select(take, other_index, index)
    if BLOCK != SUBGROUP:
        values = workgroup_array(T, BLOCK)
        indices = workgroup_array(i32, BLOCK)
        values[lid] = value
        indices[lid] = index
        barrier()
        half = BLOCK // 2
        while half >= max(SUBGROUP, 1):
            if lid < half:
                other = values[lid + half]
                other_index = indices[lid + half]
                if better(values[lid], indices[lid], other, other_index):
                    values[lid] = other
                    indices[lid] = other_index
            barrier()
            half = half // 2
        value = values[0]
        index = indices[0]
        barrier()
    return value, index


@device
def is_product(count, factors):
    """Whether `count`, a number of elements, is the product of a tuple of i32, none of which may be
    negative: without being deceived by a product that wraps, which is too great as an f32."""
    exact = i32(1)
    size = f32(1)
    good = count >= 0
    for n in factors:
        exact = exact * n
        size = size * f32(n)
        good = good and n >= 0
    return good and exact == i32(count) and size < 4294900000.0


@device
def load(memory, i, VEC):
    """Element i for VEC = 1, else elements VEC*i .. VEC*i + VEC - 1 as a vector."""
    if VEC == 1:
        return memory[i]
    return load_vector(memory, i, VEC)


@device
def store(memory, i, value, VEC):
    """The counterpart of `load`."""
    if VEC == 1:
        memory[i] = value
    else:
        store_vector(memory, i, value)


@device
def load_row(memory, base, n, T, BLOCK, VEC, KEEP):
    """KEEP vectors, BLOCK apart, of the row of n vectors at `base`: this invocation's part.

    Behind the row its last one is repeated: no branch stands between loads, so that all are on
    their way together.
    """
    kept = registers(T if VEC == 1 else vec(T, VEC), KEEP, 0)
    lid = local_id(0)
    last = n - 1
    for k in static_range(KEEP):
        kept[k] = load(memory, base + min(lid + k * BLOCK, last), VEC)
    return kept


@device
def across(value, combine, VEC):
    """The lanes of a vector of VEC (or a scalar, VEC = 1) combined from left to right."""
    if VEC == 1:
        return value
    total = value[0]
    for lane in static_range(1, VEC):
        total = combine(total, value[lane])
    return total


@device
def spread(value, T, VEC):
    """A scalar of T, or the vector of VEC lanes that all hold it."""
    if VEC == 1:
        return value
    return vec(T, VEC)(value)


@device
def zeros(T, VEC):
    """A zero of T, or a vector of VEC zeros."""
    if VEC == 1:
        return T(0)
    return vec(T, VEC)(0)


@device
def write_picked(y, pick, given, inner, T, BLOCK, VEC, EACH):
    """y[i] = pick(*given, i, inner, T, 1), VEC * EACH elements for each invocation.

    Where VEC divides inner and len(y), i and inner count vectors of VEC instead, EACH of which are
    on their way before the first is written.
    """
    if VEC > 1 and inner % VEC == 0 and len(y) % VEC == 0:
        first = i32(group_id(0) * (BLOCK * EACH) + local_id(0))
        last = i32(len(y)) // VEC - 1
        values = registers(vec(T, VEC), EACH, 0)
        for n in static_range(EACH):
            values[n] = pick(*given, min(first + n * BLOCK, last), inner // VEC, T, VEC)
        for n in static_range(EACH):
            if first + n * BLOCK <= last:
                store(y, first + n * BLOCK, values[n], VEC)
    else:
        for k in range(VEC * EACH):
            i = i32((group_id(0) * (VEC * EACH) + k) * BLOCK + local_id(0))
            if i < len(y):
                y[i] = pick(*given, i, inner, T, 1)
