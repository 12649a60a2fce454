"""Logits with what is taken off tokens that a sequence holds already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import Read, ReadWrite, ceil_div, convert, f32, global_id, i32, kernel, select, u32
from .family import Args, Constexprs, Expected, Family, bound
from .movement import divided


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(logits), BLOCK), 1, 1))
def penalize(
    logits: ReadWrite[f32],
    counts: Read[i32],
    bias: Read[f32],
    penalties: Read[f32],
    cols: i32,
    *,
    BLOCK: int = 256,
):
    """logits, rows x cols, with what is taken off tokens that a sequence holds already.

    bias[c] is added first, where bias has elements. A token whose count is positive is then divided
    by the repetition penalty if its logit is positive, else multiplied by it (Keskar et al.,
    arXiv:1909.05858), and loses frequency * count + presence. penalties: repetition, frequency and
    presence of each row.
    """
    i = global_id(0)
    if i < len(logits):
        row, column = divided(u32(i), u32(cols))
        value = logits[i]
        if len(bias) > 0:
            value = value + bias[column]
        count = counts[i]
        if count > 0:
            first = row * u32(3)
            repetition = penalties[first]
            value = select(value > 0, value / repetition, value * repetition)
            taken = penalties[first + u32(1)] * convert(count, f32) + penalties[first + u32(2)]
            value = value - taken
        logits[i] = value


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for rows, cols, biased in ((1, 1, 0), (3, 700, 1), (2, 257, 0), (0, 9, 1)):
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
