"""Rotary position embedding (Su et al., RoFormer, arXiv:2104.09864), and the tables for it.

The first `dims` elements of each head are pairs that are turned by an angle of the token's
position; the others stay. In the layout "half" element c goes with c + dims/2 (GPT-NeoX, Llama in
Transformers), in "interleaved" 2c with 2c + 1 (the paper, GPT-J). Cosines and sines come from a
table, so that any rule of frequencies is data: `frequencies` and its variants, then `table`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    convert,
    device,
    f32,
    global_id,
    i32,
    kernel,
    may_alias,
    registers,
    shuffle,
    static_assert,
    static_range,
    u32,
    vec,
)
from .common import load, store
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    normal,
)
from .movement import divided


@device
def split_pairs(v, VEC):
    """The first and the second elements of VEC neighbouring pairs."""
    if VEC == 2:
        return shuffle(v, v, (0, 2)), shuffle(v, v, (1, 3))
    return shuffle(v, v, (0, 2, 4, 6)), shuffle(v, v, (1, 3, 5, 7))


@device
def joined_pairs(a, b, VEC):
    """The counterpart of `split_pairs`."""
    if VEC == 2:
        return shuffle(a, b, (0, 2, 1, 3))
    return shuffle(a, b, (0, 4, 1, 5, 2, 6, 3, 7))


@device
def turned(a, b, cosine, sine, T):
    """The pairs (a, b) turned: computed in f32, rounded to T once."""
    a = convert(a, f32)
    b = convert(b, f32)
    return convert(a * cosine - b * sine, T), convert(b * cosine + a * sine, T)


@device
def turn(x, table, y, base, angle, c, half, LAYOUT, T, VEC):
    """Pairs c ... c + VEC - 1 of the head at `base`; their row of the table begins at `angle`."""
    if LAYOUT == "half" or VEC == 1:
        cosine = load(table, (angle + c) // VEC, VEC)
        sine = load(table, (angle + half + c) // VEC, VEC)
        first = base + c if LAYOUT == "half" else base + 2 * c
        second = first + half if LAYOUT == "half" else first + 1
        a, b = load(x, first // VEC, VEC), load(x, second // VEC, VEC)
        a, b = turned(a, b, cosine, sine, T)
        store(y, first // VEC, a, VEC)
        store(y, second // VEC, b, VEC)
    else:
        turn_neighbours(x, table, y, base, angle, c, half, T, VEC)


@device
def turn_neighbours(x, table, y, base, angle, c, half, T, VEC):
    """The same of pairs of neighbours, 4 at a time at most: a vector has no more than 8 elements.
    All are read first, as x and y may be one buffer."""
    EACH = min(VEC, 4)
    pairs = registers(vec(T, 2 * EACH), VEC // EACH, 0)
    place = (base + 2 * c) // (2 * EACH)
    for n in static_range(VEC // EACH):
        pairs[n] = load(x, place + n, 2 * EACH)
    for n in static_range(VEC // EACH):
        cosine = load(table, (angle + c) // EACH + n, EACH)
        sine = load(table, (angle + half + c) // EACH + n, EACH)
        a, b = split_pairs(pairs[n], EACH)
        a, b = turned(a, b, cosine, sine, T)
        store(y, place + n, joined_pairs(a, b, EACH), 2 * EACH)


@device
def rotate(x, positions, table, y, i, heads, head, dims, LAYOUT, T, VEC):
    """Item i: VEC pairs of a head, or as many elements behind its pairs."""
    above, item = divided(u32(i), u32(head // 2 // VEC))
    token = i32(divided(above, u32(heads))[0])
    base = i32(above) * head
    c = i32(item) * VEC
    position = positions[token]
    known = position >= 0 and position < len(table) // dims
    assert known, "rotary: position outside the table"
    if known and c < dims // 2:
        turn(x, table, y, base, position * dims, c, dims // 2, LAYOUT, T, VEC)
    else:
        place = (base + 2 * c) // VEC
        store(y, place, load(x, place, VEC), VEC)
        store(y, place + 1, load(x, place + 1, VEC), VEC)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), 2 * BLOCK * VEC), 1, 1))
def rotary(
    x: Read[T, may_alias],
    positions: Read[i32],
    table: Read[f32],
    y: Write[T, may_alias],
    heads: i32,
    head: i32,
    dims: i32,
    *,
    LAYOUT: str = "half",
    T: DType = f32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y[t, h, :] = x[t, h, :] with its pairs turned by the angles of positions[t].

    x and y are tokens x heads x head, and may be one buffer; table is positions x dims, as `table`
    makes it. head and dims are even, 0 < dims <= head. A position outside the table is a fault, and
    the token stays as it is. Several pairs at a time where 2 * VEC divides dims and head.
    """
    static_assert(LAYOUT in ("half", "interleaved"), "LAYOUT is half or interleaved")
    if VEC > 1 and ((dims | head) & (2 * VEC - 1)) == 0:
        if global_id(0) < len(y) // (2 * VEC):
            i = i32(global_id(0))
            rotate(x, positions, table, y, i, heads, head, dims, LAYOUT, T, VEC)
    else:
        first = i32(global_id(0)) * VEC
        for i in range(first, min(first + VEC, i32(len(y)) // 2)):
            rotate(x, positions, table, y, i, heads, head, dims, LAYOUT, T, 1)


def frequencies(dims: int, base: float = 10_000.0) -> np.ndarray:
    """Radians per position of each of dims/2 pairs, f64: base**(-2c / dims)."""
    if dims <= 0 or dims % 2:
        raise ValueError(f"rotary dims are even and positive, not {dims}")
    return base ** (-np.arange(0, dims, 2) / dims)


def linear(rates: np.ndarray, factor: float) -> np.ndarray:
    """Positions divided by `factor` (position interpolation; Chen et al., arXiv:2306.15595)."""
    return rates / factor


def ntk(dims: int, factor: float, base: float = 10_000.0) -> np.ndarray:
    """NTK-aware frequencies: a greater base, so that the lowest one is divided by `factor` and the
    highest one stays (Peng et al., arXiv:2309.00071, section 3.1)."""
    return frequencies(dims, base * factor ** (dims / max(dims - 2, 1)))


def dynamic_ntk(
    dims: int, factor: float, length: int, trained: int, base: float = 10_000.0
) -> np.ndarray:
    """`ntk` with a factor that grows with the length of the sequence, beyond the trained one (as
    Transformers' rope type "dynamic" has it)."""
    if length <= trained:
        return frequencies(dims, base)
    return ntk(dims, factor * length / trained - (factor - 1), base)


def yarn(
    dims: int,
    factor: float,
    trained: int,
    base: float = 10_000.0,
    fast: float = 32.0,
    slow: float = 1.0,
) -> tuple[np.ndarray, float]:
    """YaRN (Peng et al., arXiv:2309.00071): the frequencies, and the factor for the table.

    Pairs that turn more than `fast` times within the trained length stay, those of less than `slow`
    turns are divided by `factor`, and between them the share of both goes linearly with the number
    of the pair, from whole numbers, as in the authors' code. Cosines and sines get the factor
    0.1 ln(factor) + 1, which scales scores of attention by its square.
    """

    def pair(turns: float) -> float:
        return dims * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    first = max(math.floor(pair(fast)), 0)
    last = min(math.ceil(pair(slow)), dims - 1)
    share = np.clip((np.arange(dims // 2) - first) / max(last - first, 1e-3), 0, 1)
    rates = frequencies(dims, base)
    attention = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return rates * (1 - share) + rates / factor * share, attention


def llama3(
    rates: np.ndarray, factor: float, trained: int, low: float = 1.0, high: float = 4.0
) -> np.ndarray:
    """Llama 3.1's scaling (`apply_scaling` of Meta's reference code): what turns more than `high`
    times within the trained length stays, what turns less than `low` times is divided by `factor`,
    and between them the share of both goes linearly with the number of turns."""
    turns = trained * rates / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - share) * rates / factor + share * rates


def table(rates: np.ndarray, positions: int, attention: float = 1.0) -> np.ndarray:
    """f32[positions, 2 * len(rates)]: cosines, then sines, of the angles of each position."""
    angles = np.arange(positions)[:, None] * rates
    return (np.hstack([np.cos(angles), np.sin(angles)]) * attention).astype(np.float32)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for tokens, heads, head, dims in (
        (1, 1, 2, 2),
        (5, 3, 64, 64),
        (4, 2, 64, 32),
        (3, 5, 20, 12),
        (0, 2, 16, 16),
    ):
        yield {
            "x": normal(rng, (tokens, heads, head), t),
            "positions": rng.integers(0, 50, tokens).astype(np.int32),
            "table": table(frequencies(dims), 50),
            "y": empty((tokens, heads, head), t),
            "heads": heads,
            "head": head,
            "dims": dims,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, dims = dtype(constexprs), args["dims"]
    x = decode(args["x"], t)
    angles = args["table"].astype(np.float64)[args["positions"]][:, None]
    turn = angles[..., : dims // 2] + 1j * angles[..., dims // 2 :]
    if constexprs["LAYOUT"] == "half":
        first, second = slice(0, dims // 2), slice(dims // 2, dims)
    else:
        first, second = slice(0, dims, 2), slice(1, dims, 2)
    found = (x[..., first] + 1j * x[..., second]) * turn
    value, size = x.copy(), np.zeros_like(x)
    value[..., first], value[..., second] = found.real, found.imag
    a, b, c, s = (np.abs(part) for part in (x[..., first], x[..., second], turn.real, turn.imag))
    size[..., first], size[..., second] = a * c + b * s, b * c + a * s
    tolerance = _BOUND(size=size, value=value, T=t)
    return {"y": Expected(value, np.where(size > 0, tolerance, 0.0))}


# Two products and a sum in f32, then one rounding to T.
_BOUND = bound(
    "3 * u(f32) * size + abs(value) * u(T) + least(T) + 2**-126",
    size="the sum of the magnitudes of both products",
)
FAMILIES = (
    Family(
        rotary,
        _inputs,
        _reference,
        "f32 inside; rounded to T once",
        {"elements of pairs that are turned": _BOUND},
    ),
)
