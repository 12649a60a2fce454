"""Logits with what is taken off tokens that a sequence holds already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    Read,
    ReadWrite,
    ceil_div,
    convert,
    device,
    f32,
    global_id,
    group_id,
    i32,
    kernel,
    local_id,
    select,
    u32,
)
from .common import across, greater, load, spread, store
from .family import Args, Constexprs, Expected, Family, bound
from .movement import divided


@device
def penalized(logits, counts, bias, penalties, i, cols, VEC):
    """Vector i of the logits, whose rows are `cols` vectors, with what is taken off."""
    row, column = divided(u32(i), u32(cols))
    known = row < u32(len(penalties)) // u32(3)
    assert known, "penalize: not three penalties for each row"
    value = load(logits, i, VEC)
    if len(bias) > 0:
        value = value + load(bias, column, VEC)
    count = load(counts, i, VEC)
    if known and across(count, greater, VEC) > 0:
        first = row * u32(3)
        repetition = spread(penalties[first], f32, VEC)
        scaled = select(value > 0, value / repetition, value * repetition)
        frequency = spread(penalties[first + u32(1)], f32, VEC)
        presence = spread(penalties[first + u32(2)], f32, VEC)
        taken = frequency * convert(count, f32) + presence
        value = select(count > 0, scaled - taken, value)
    if known:
        store(logits, i, value, VEC)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(logits), BLOCK * VEC), 1, 1))
def penalize(
    logits: ReadWrite[f32],
    counts: Read[i32],
    bias: Read[f32],
    penalties: Read[f32],
    cols: i32,
    *,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """logits, rows x cols, with what is taken off tokens that a sequence holds already.

    bias[c] is added first, where bias has elements. A token whose count is positive is then divided
    by the repetition penalty if its logit is positive, else multiplied by it (Keskar et al.,
    arXiv:1909.05858), and loses frequency * count + presence. penalties: repetition, frequency and
    presence of each row. Buffers of other sizes are a fault, and what they concern is left alone.
    """
    sized = len(counts) == len(logits) and (len(bias) == 0 or len(bias) == cols)
    assert sized, "penalize: not one count for each logit, or not one bias for each column"
    if sized:
        if VEC > 1 and cols % VEC == 0 and len(logits) % VEC == 0:
            if global_id(0) < len(logits) // VEC:
                penalized(logits, counts, bias, penalties, global_id(0), cols // VEC, VEC)
        else:
            for n in range(VEC):
                i = (group_id(0) * VEC + n) * BLOCK + local_id(0)
                if i < len(logits):
                    penalized(logits, counts, bias, penalties, i, cols, 1)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for rows, cols, biased in ((1, 1, 0), (3, 700, 1), (2, 257, 0), (3, 30, 1), (0, 9, 1)):
        yield {
            "logits": rng.standard_normal((rows, cols), np.float32) * np.float32(3),
            "counts": np.maximum(rng.integers(-2, 4, (rows, cols)), 0).astype(np.int32),
            "bias": rng.standard_normal(cols * biased, np.float32),
            "penalties": rng.uniform(0.5, 2, (rows, 3)).astype(np.float32),
            "cols": cols,
        }


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    value, counts = args["logits"].astype(np.float64), args["counts"]
    if args["bias"].size:
        value = value + args["bias"]
    repetition, frequency, presence = args["penalties"].astype(np.float64).T[..., None]
    taken = frequency * counts + presence
    scaled = np.where(value > 0, value / repetition, value * repetition)
    found = np.where(counts > 0, scaled - taken, value)
    size = np.abs(scaled) + np.abs(taken) + np.abs(value) * np.maximum(repetition, 1 / repetition)
    return {"logits": Expected(found, _BOUND(size=size))}


_BOUND = bound(
    "8 * u(f32) * size", size="the sum of the magnitudes of what is scaled and what is taken off"
)
FAMILIES = (Family(penalize, _inputs, _reference, "five roundings at most", {"": _BOUND}),)
