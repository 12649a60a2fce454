"""The k greatest elements of long rows, by radix selection: some passes over a row, for any k.

`topk` scans a row once for each of its k. Here a row is scanned once for each 8 bits of a key, to
count, until those that are left are as many as are wanted: four times, as a rule, and more often
where equal elements have to be told apart by their columns. Where there are few rows, each is first
cut into chunks that are rows of their own, and what was found in them is a row again: `columns`
says then where it came from.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    atomic_add,
    barrier,
    bf16,
    bitcast,
    ceil_div,
    convert,
    device,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    select,
    static_assert,
    u32,
    workgroup_array,
)
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, encode, normal


@device
def ordered(value):
    """An f32 as a u32 of the same order; 0 for a NaN, which is less than all others."""
    bits = bitcast(select(value == 0, f32(0), value), u32)
    key = bits ^ select(bits >> 31 != 0, u32(0xFFFFFFFF), u32(0x80000000))
    return select(value == value, key, u32(0))


@device
def candidate(x, columns, base, c, run, chunk, known):
    """Key, of which the bits of `known` count, and column of element c of a row; of what was left
    empty, the key is 0."""
    key = ordered(convert(x[base + c], f32)) & known
    column = c
    if len(columns) > 0:
        column = columns[base + c]
        key = select(column < 0, u32(0), key)
        column += c // run * chunk
    return key, column


@device
def descend(counts, first, count, wanted):
    """Going down from counts[first + count - 1]: the first that is not less than what is `wanted`
    still, and how much that is; the last one, `first`, in any case."""
    at = first + count - 1
    less = True
    for n in range(count - 1):
        found = counts[first + count - 1 - n]  # wherever `at` is: no read waits for the one before
        less = less and found < wanted
        wanted -= select(less, found, 0)
        at -= select(less, i32(1), i32(0))
    return at, wanted


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(values) // max(k, 1), 1, 1))
def topk_long(
    x: Read[T],
    columns: Read[i32],
    values: Write[T],
    indices: Write[i32],
    cols: i32,
    k: i32,
    run: i32,
    chunk: i32,
    *,
    T: DType = f32,
    MOST: int = 1024,
    BLOCK: int = 256,
):
    """values[r, :], indices[r, :] = the k greatest elements of row r of x and their columns.

    Greatest first, equal ones in the order of columns. NaNs are left out; places that stay empty
    hold 0 and index -1. k is MOST at most. columns: nothing; or, for an x of what was found in
    chunks of `chunk` columns, `run` in each, what it gave for `indices`: they are counted through
    the chunks, and -1 is no element.
    """
    static_assert(BLOCK >= 16, "BLOCK is 16 or more")
    counts = workgroup_array(i32, 256)
    sums = workgroup_array(i32, 16)
    taken = workgroup_array(i32, 1)
    keys = workgroup_array(u32, MOST)
    found = workgroup_array(i32, MOST)
    lid = i32(local_id(0))
    base = i32(group_id(0)) * cols
    row = i32(group_id(0))  # of a product that may wrap nothing is asked
    sized = k <= MOST and cols >= 0 and (cols == 0 or row < i32(len(x)) // max(cols, 1))
    assert sized, "topk_long: k greater than MOST, or x shorter than its rows"
    paired = len(indices) == len(values)
    assert paired, "topk_long: values and indices differ in length"
    mapped = len(columns) == 0 or (i32(len(columns)) == i32(len(x)) and run > 0)
    assert mapped, "topk_long: columns that are not one for each element"
    width = select(sized and mapped, cols, 0)
    # Of the least that is taken: what is known of its key and of its column, inverted.
    high, low = u32(0), u32(0)
    high_mask, low_mask = u32(0), u32(0)
    wanted = k
    settled = False
    KEYS = 2 if T == bf16 else 4  # bytes of a key that may differ
    known = u32(2**32 - 2 ** (32 - 8 * KEYS))
    beyond = select(len(columns) > 0, ceil_div(cols, run) * chunk, cols)  # any column
    for step in range(KEYS + 4):
        of_key = step < KEYS
        shift = u32(24 - select(of_key, step, step - KEYS) * 8)
        same = not of_key and u32(beyond - 1) >> shift == 0  # bits that no column has
        for b in range(lid, 256, BLOCK):
            counts[b] = 0
        if lid == 0:
            taken[0] = 0
        barrier()
        if not settled and not same:
            for c in range(lid, width, BLOCK):
                key, column = candidate(x, columns, base, c, run, chunk, known)
                last = ~u32(column)
                if (key & high_mask) == high and (last & low_mask) == low:
                    digit = select(of_key, key, last) >> shift & 255
                    atomic_add(counts, i32(digit), 1)
        barrier()
        if lid < 16:
            total = i32(0)
            for n in range(16):
                total += counts[lid * 16 + n]
            sums[lid] = total
        barrier()
        if not settled:
            place, rest = i32(255), wanted
            if not same:
                group, rest = descend(sums, i32(0), 16, wanted)
                place, rest = descend(counts, group * 16, 16, rest)
                settled = counts[place] == rest
            if of_key:
                high = high | u32(place) << shift
                high_mask = high_mask | u32(255) << shift
            else:
                low = low | u32(place) << shift
                low_mask = low_mask | u32(255) << shift
            wanted = rest
        barrier()
    for c in range(lid, width, BLOCK):
        key, column = candidate(x, columns, base, c, run, chunk, known)
        if key > 0 and (key > high or (key == high and ~u32(column) >= low)):
            slot = atomic_add(taken, 0, 1)
            if slot < MOST:
                keys[slot] = key
                found[slot] = column
    barrier()
    count = min(taken[0], k, MOST)
    for n in range(lid, k, BLOCK):
        rank = n
        key = u32(0)
        column = i32(-1)
        if n < count:
            rank = i32(0)
            key = keys[n]
            column = found[n]
            for other in range(count):
                more = keys[other] > key or (keys[other] == key and found[other] < column)
                rank += select(more, i32(1), i32(0))
        if sized and mapped and paired:
            bits = key ^ select(key >> 31 != 0, u32(0x80000000), u32(0xFFFFFFFF))
            value = select(column < 0, f32(0), bitcast(bits & known, f32))
            values[i32(group_id(0)) * k + rank] = convert(value, T)
            indices[i32(group_id(0)) * k + rank] = column


def _greatest(x: np.ndarray, columns: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and columns of the k greatest of each row, as numpy sorts them; columns < 0: none."""
    values, indices = np.zeros((len(x), k)), np.full((len(x), k), -1)
    for r, (row, column) in enumerate(zip(x, columns, strict=True)):
        order = [n for n in np.lexsort((column, -row)) if row[n] == row[n] and column[n] >= 0][:k]
        values[r, : len(order)], indices[r, : len(order)] = row[order], column[order]
    return values, indices


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols, k, chunks in (
        (1, 1, 1, 1),
        (3, 1000, 10, 1),
        (2, 5, 8, 1),
        (1, 5000, 300, 1),
        (2, 3000, 40, 5),
        (2, 600, 7, 1),
    ):
        x = normal(rng, (rows, cols), t)
        if k == 7:  # many equal ones
            x = encode(rng.choice([1.0, -0.0, 0.0, -np.inf], (rows, cols)), t)
        elif cols > 1:
            x[:, 3::64] = x.max() if t.name == "f32" else x[0, 0]
            x[0, 1] = encode(np.array([np.nan]), t)[0]
            x[-1, 2:4] = encode(np.array([np.inf, -np.inf]), t)
        columns = np.zeros(0, np.int32)
        if chunks > 1:
            each = np.broadcast_to(np.arange(cols // chunks), (rows * chunks, cols // chunks))
            best, at = _greatest(decode(x, t).reshape(rows * chunks, -1), each, k)
            x, columns = encode(best, t).reshape(rows, -1), at.astype(np.int32).reshape(rows, -1)
        yield {
            "x": x,
            "columns": columns,
            "values": empty((rows, k), t),
            "indices": empty((rows, k), i32),
            "cols": x.shape[1],
            "k": k,
            "run": k,
            "chunk": cols // chunks,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    x = decode(args["x"], dtype(constexprs))
    columns = np.broadcast_to(np.arange(args["cols"]), x.shape)
    if len(args["columns"]):
        columns = args["columns"] + columns // args["run"] * args["chunk"]
        columns = np.where(args["columns"] < 0, -1, columns)
    values, indices = _greatest(x, columns, args["k"])
    return {"values": Expected(values), "indices": Expected(indices)}


FAMILIES = (Family(topk_long, _inputs, _reference, "exact"),)
