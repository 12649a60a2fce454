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
    ceil_div,
    convert,
    device,
    f16,
    f32,
    group_id,
    i32,
    kernel,
    local_id,
    u32,
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
def place_of(i, width, kv_heads, page, row_pages, pages, table, sequences, positions):
    """Where vector i of k or v goes in its cache, or -1; a row of a head is `width` vectors."""
    above, chunk = divided(u32(i), u32(width))
    token, kv_head = divided(above, u32(kv_heads))
    sequence = sequences[token]
    position = positions[token]
    number = position // page
    listed = sequence >= 0 and sequence < len(table) // row_pages
    listed = listed and position >= 0 and number < row_pages
    assert listed, "cache_append: sequence or position outside the block table"
    place = i32(-1)
    if listed:
        at = table[sequence * row_pages + number]
        exists = at >= 0 and at < pages
        assert exists, "cache_append: page outside the cache"
        if exists:
            line = (at * kv_heads + i32(kv_head)) * page + position % page
            place = line * width + i32(chunk)
    return place


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(k), BLOCK * VEC), 1, 1))
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
    assert told, "cache_append: heads, pages or rows of the block table of no elements"
    row = i32(kv_heads) * head
    tokens = len(k) // row
    listed = tokens * row == len(k) and len(sequences) == tokens and len(positions) == tokens
    assert listed or not told, "cache_append: not one sequence and one position for each token"
    if same and told and listed:
        pages = len(k_cache) // (kv_heads * page * head)
        whole = VEC > 1 and head % VEC == 0
        width = head // VEC if whole else head
        count = len(k) // VEC if whole else len(k)
        turns = i32(1) if whole else i32(VEC)
        for n in range(turns):
            i = i32((group_id(0) * turns + n) * BLOCK + local_id(0))
            if i < count:
                place = place_of(
                    i, width, kv_heads, page, row_pages, pages, table, sequences, positions
                )
                if place >= 0:
                    if whole:
                        store(k_cache, place, packed(load(k, i, VEC), k_inverse, C), VEC)
                        store(v_cache, place, packed(load(v, i, VEC), v_inverse, C), VEC)
                    else:
                        k_cache[place] = packed(k[i], k_inverse, C)
                        v_cache[place] = packed(v[i], v_inverse, C)


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
