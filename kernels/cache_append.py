"""New keys and values into the pages of a KV cache, in the cache's element type.

The caches are [pages, kv_heads, page, head], the layout of `attention_decode` and
`attention_decode_fragments`, of which the latter reads i8 caches; a block table says in which page
the positions n * page ... n * page + page - 1 of a sequence lie.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    bool_,
    ceil_div,
    convert,
    device,
    f16,
    f32,
    global_id,
    group_id,
    i32,
    kernel,
    local_id,
    num_groups,
    registers,
    select,
    static_range,
    u32,
    vec,
)
from .common import load, store
from .family import Args, Constexprs, Expected, Family, decode, dtype, empty, encode, normal
from .movement import divided


@device
def packed(value, inverse, C):
    """What the cache holds for `value`: its product with `inverse`, rounded to nearest even, and
    clamped to the range of an element of 8 bits."""
    scaled = convert(value, f32) * inverse
    if C.is_int:
        return convert(scaled, C, rounding="nearest", saturate=True)
    if C.bits == 8:
        return convert(scaled, C, saturate=True)
    return convert(scaled, C)


@device
def places_of(
    first, apart, tokens, kv_head, kv_heads, page, row_pages, pages,
    table, sequences, positions, EACH,
):  # fmt: skip
    """The rows of a head in its cache where those of tokens first, first + apart, ... go, EACH of
    them; or -1. No read waits for another token's."""
    lists = i32(len(table)) // row_pages
    sequence = registers(i32, EACH, 0)
    position = registers(i32, EACH, 0)
    offset = registers(i32, EACH, 0)
    listed = registers(bool_, EACH, False)
    places = registers(i32, EACH, -1)
    for n in static_range(EACH):
        token = min(first + n * apart, tokens - 1)
        sequence[n] = sequences[token]
        position[n] = positions[token]
    for n in static_range(EACH):
        number, rest = divided(u32(position[n]), u32(page))
        offset[n] = i32(rest)
        known = sequence[n] >= 0 and sequence[n] < lists and position[n] >= 0
        listed[n] = known and number < u32(row_pages)
        places[n] = table[select(listed[n], sequence[n] * row_pages + i32(number), 0)]
    for n in static_range(EACH):
        there = first + n * apart < tokens
        exists = places[n] >= 0 and places[n] < pages
        assert listed[n] or not there, "cache_append: sequence or position outside the block table"
        assert exists or not listed[n] or not there, "cache_append: page outside the cache"
        place = (places[n] * kv_heads + kv_head) * page + offset[n]
        places[n] = select(there and listed[n] and exists, place, -1)
    return places


@device
def append_vectors(
    k, v, k_cache, v_cache, table, sequences, positions, tokens, kv_heads, width, page, row_pages,
    pages, k_inverse, v_inverse, T, C, BLOCK, VEC, EACH,
):  # fmt: skip
    """All rows, of `width` vectors. An invocation has the same place in the rows of EACH tokens,
    for which it divides once, and whose elements are on their way before the first is placed."""
    apart = ceil_div(tokens, EACH)  # tokens between those of an invocation
    row = kv_heads * width
    many = apart * row
    for i in range(i32(global_id(0)), many, i32(num_groups(0)) * BLOCK):
        above, chunk = divided(u32(i), u32(width))
        first, kv_head = divided(above, u32(kv_heads))
        keys = registers(vec(T, VEC), EACH, 0)
        values = registers(vec(T, VEC), EACH, 0)
        for n in static_range(EACH):
            at = min(i + n * many, tokens * row - 1)
            keys[n] = load(k, at, VEC)
            values[n] = load(v, at, VEC)
        places = places_of(i32(first), apart, tokens, i32(kv_head), kv_heads, page, row_pages,
                           pages, table, sequences, positions, EACH)  # fmt: skip
        for n in static_range(EACH):
            if places[n] >= 0:
                to = places[n] * width + i32(chunk)
                store(k_cache, to, packed(keys[n], k_inverse, C), VEC)
                store(v_cache, to, packed(values[n], v_inverse, C), VEC)


@device
def append_elements(
    k, v, k_cache, v_cache, table, sequences, positions, tokens, kv_heads, head, page, row_pages,
    pages, k_inverse, v_inverse, C, BLOCK, TURNS,
):  # fmt: skip
    """The same, element by element."""
    for n in range(TURNS):
        i = i32((group_id(0) * TURNS + n) * BLOCK + local_id(0))
        if i < len(k):
            above, element = divided(u32(i), u32(head))
            token, kv_head = divided(above, u32(kv_heads))
            places = places_of(i32(token), 0, tokens, i32(kv_head), kv_heads, page, row_pages,
                               pages, table, sequences, positions, 1)  # fmt: skip
            if places[0] >= 0:
                to = places[0] * head + i32(element)
                k_cache[to] = packed(k[i], k_inverse, C)
                v_cache[to] = packed(v[i], v_inverse, C)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(k), BLOCK * VEC * EACH), 1, 1))
def cache_append(
    k: Read[T],
    v: Read[T],
    k_cache: ReadWrite[C],
    v_cache: ReadWrite[C],
    table: Read[i32],
    sequences: Read[i32],
    positions: Read[i32],
    kv_heads: i32,
    head: i32,
    page: i32,
    row_pages: i32,
    k_inverse: f32,
    v_inverse: f32,
    *,
    T: DType = f16,
    C: DType = f16,
    BLOCK: int = 256,
    VEC: int = 1,
    EACH: int = 1,
):
    """The rows of token t of k and v, [tokens, kv_heads, head], go to positions[t] of sequence
    sequences[t], times k_inverse and v_inverse in f32: 1 over what elements of the caches mean.

    v is as large as k, v_cache as k_cache, each token has a sequence and a position, and no size is
    0; else it is a fault, and nothing is written. table is [sequences, row_pages]. A sequence,
    position or page that does not exist is a fault, and the token is left out. No two tokens may
    have one place.
    """
    same = len(v) == len(k) and len(v_cache) == len(k_cache)
    assert same, "cache_append: k and v, or their caches, differ in size"
    told = kv_heads > 0 and head > 0 and page > 0 and row_pages > 0
    told = told and len(table) >= row_pages
    assert told, "cache_append: heads, pages or rows of the block table of no elements"
    row = i32(kv_heads) * head
    tokens = len(k) // row
    listed = tokens * row == len(k) and len(sequences) == tokens and len(positions) == tokens
    assert listed or not told, "cache_append: not one sequence and one position for each token"
    if same and told and listed:
        pages = len(k_cache) // (kv_heads * page * head)
        if VEC > 1 and head % VEC == 0:
            append_vectors(k, v, k_cache, v_cache, table, sequences, positions, tokens, kv_heads,
                           head // VEC, page, row_pages, pages, k_inverse, v_inverse,
                           T, C, BLOCK, VEC, EACH)  # fmt: skip
        else:
            append_elements(k, v, k_cache, v_cache, table, sequences, positions, tokens, kv_heads,
                            head, page, row_pages, pages, k_inverse, v_inverse,
                            C, BLOCK, VEC * EACH)  # fmt: skip


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, cache = dtype(constexprs), dtype(constexprs, "C")
    for batch, tokens, kv_heads, head, page, row_pages in (
        (1, 1, 1, 8, 1, 1),
        (3, 21, 2, 64, 8, 3),
        (2, 9, 3, 20, 4, 2),
        (2, 0, 1, 16, 4, 2),
    ):
        pages = batch * row_pages + 2
        slots = rng.permutation(batch * row_pages * page)[:tokens]
        shape = (tokens, kv_heads, head)
        caches = [empty((pages, kv_heads, page, head), cache) for _ in range(2)]
        yield {
            "k": normal(rng, shape, t, 3.0),
            "v": normal(rng, shape, t, 40.0),
            "k_cache": caches[0],
            "v_cache": caches[1],
            "table": rng.permutation(pages)[: batch * row_pages].astype(np.int32),
            "sequences": (slots // (row_pages * page)).astype(np.int32),
            "positions": (slots % (row_pages * page)).astype(np.int32),
            "kv_heads": kv_heads,
            "head": head,
            "page": page,
            "row_pages": row_pages,
            "k_inverse": 16.0 if cache.bits == 8 else 1.0,
            "v_inverse": 1 / 0.37 if cache.bits == 8 else 1.0,
        }


def _stored(x: np.ndarray, inverse: float, cache: DType) -> np.ndarray:
    """float32 has every product rounded once, and what is then rounded to the cache's type."""
    scaled = (x.astype(np.float32) * np.float32(inverse)).astype(np.float64)
    if not cache.is_float:
        return np.clip(np.rint(scaled), cache.min, cache.max).astype(cache.storage)
    if cache.bits == 8:
        greatest = {"f8e4m3": 448.0, "f8e5m2": 57344.0}[cache.name]
        scaled = np.clip(scaled, -greatest, greatest)
    return encode(scaled, cache)


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, cache = dtype(constexprs), dtype(constexprs, "C")
    table = args["table"].reshape(-1, args["row_pages"])
    found = {}
    for name in ("k", "v"):
        rows = _stored(decode(args[name], t), args[f"{name}_inverse"], cache)
        whole = args[f"{name}_cache"].copy()
        for row, sequence, position in zip(rows, args["sequences"], args["positions"], strict=True):
            number, offset = divmod(int(position), args["page"])
            whole[table[sequence, number], :, offset] = row
        found[f"{name}_cache"] = Expected(decode(whole, cache))
    return found


FAMILIES = (
    Family(cache_append, _inputs, _reference, "exact: a product in f32, then one rounding"),
)
