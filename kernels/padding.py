"""Padding an array by what it holds: its edge, itself again, or its reflection.

`pad` of `movement` pads by a value. Elements move as bits: `*_b32` is for all types of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    Write,
    ceil_div,
    clamp,
    device,
    global_id,
    i32,
    kernel,
    select,
    static_assert,
    static_range,
    u32,
)
from .common import is_product
from .family import Args, Constexprs, Expected, Family, dtype, empty, normal
from .movement import divided

MODES = ("edge", "wrap", "reflect")


@device
def repeated(at, m, MODE):
    """The element of an axis of m > 0 that stands at `at`, which may lie outside."""
    if MODE == "edge":
        return clamp(at, 0, m - 1)
    if MODE == "wrap":
        return at % m
    turn = max(2 * (m - 1), 1)
    at = at % turn
    return select(at < m, at, turn - at)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK), 1, 1))
def pad_edges(
    x: Read[T],
    y: Write[T],
    n0: i32,
    n1: i32,
    n2: i32,
    n3: i32,
    m0: i32,
    m1: i32,
    m2: i32,
    m3: i32,
    low0: i32,
    low1: i32,
    low2: i32,
    low3: i32,
    *,
    MODE: str = "reflect",
    T: DType = u32,
    BLOCK: int = 256,
):
    """y[i] = x[j], j being i - low where that is inside x; y is n0..n3, x m0..m3, row-major.

    Outside, on each axis by itself: edge: the nearest element; wrap: x again and again; reflect: x
    mirrored at its first and last element, without those twice, again and again (numpy's modes of
    these names, by any number of elements). A negative low leaves out the first elements.
    """
    static_assert(MODE in MODES, "MODE is edge, wrap or reflect")
    shape = (n3, n2, n1, n0)
    inside = (m3, m2, m1, m0)
    low = (low3, low2, low1, low0)
    some = min(m0, m1, m2, m3) > 0 or len(y) == 0
    assert some, "pad_edges: an axis of nothing to repeat"
    sized = is_product(len(x), (m0, m1, m2, m3)) and is_product(len(y), (n0, n1, n2, n3))
    assert sized, "pad_edges: x or y of another size than its shape"
    i = i32(global_id(0))
    if some and sized and i < i32(len(y)):
        rest = u32(i)
        place = i32(0)
        stride = i32(1)
        for axis in static_range(4):
            rest, found = divided(rest, u32(shape[axis]))
            place += repeated(i32(found) - low[axis], inside[axis], MODE) * stride
            stride = stride * inside[axis]
        y[i] = x[place]


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for outer, inner, low in (
        ((1, 1, 1, 3), (1, 1, 1, 1), (0, 0, 0, 1)),
        ((2, 3, 9, 35), (2, 3, 7, 30), (0, 0, 1, 5)),
        ((5, 6, 17, 23), (2, 1, 4, 3), (2, 4, 9, 11)),  # many times around
        ((1, 5, 6, 48), (1, 3, 9, 24), (0, 1, -2, 16)),
        ((1, 3, 0, 8), (1, 2, 0, 4), (0, 1, 0, 2)),
    ):
        sizes = {f"{k}{a}": v[a] for k, v in (("n", outer), ("m", inner)) for a in range(4)}
        sizes |= {f"low{a}": low[a] for a in range(4)}
        yield {"x": normal(rng, inner, t), "y": empty(outer, t), **sizes}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    y = args["x"]
    for axis in range(4):
        m = np.arange(args[f"m{axis}"])
        at = np.arange(args[f"n{axis}"]) - args[f"low{axis}"]
        turn = np.concatenate([m, m[-2:0:-1]]) if constexprs["MODE"] == "reflect" else m
        if constexprs["MODE"] == "edge":
            at = np.clip(at, 0, len(m) - 1)
        y = np.take(y, turn[at % max(len(turn), 1)], axis)
    return {"y": Expected(y)}


FAMILIES = (Family(pad_edges, _inputs, _reference, "exact: moves bits"),)
