"""Choosing the next token from logits: what is kept, and the draw.

`sample_threshold` finds the least logit that top-k, top-p and min-p keep; `sample_token` draws
among those, by the greatest sum of a logit over the temperature and Gumbel noise (Maddison et al.,
arXiv:1411.0030). `settings` has four f32 a row: temperature (below 1e-30, NaN too: the greatest
logit), top-k (0: all), top-p (1: all), min-p (0: all). Penalties come before (`penalize`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    Read,
    Write,
    convert,
    device,
    f32,
    group_id,
    i32,
    kernel,
    load_vector,
    local_id,
    log,
    registers,
    select,
    static_range,
    subgroup_any,
    subgroup_id,
    u32,
    workgroup_array,
)
from .common import block_argmax, block_reduce, greater
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    empty,
)
from .philox import philox, words_of_rows
from .sampling_candidates import candidates, share_of_candidates
from .sampling_keys import from_ordered, key_of_count, key_of_mass, ordered

LOWEST, HIGHEST = float("-inf"), float("inf")
COLDEST = 1e-30  # of temperatures: below it they count as 0, as what a logit is over them overflows
HOTTEST = 1e30


@device
def whole_rows(logits, rows, cols):
    """Whether there are so many rows of so many columns; a product that wraps is too great."""
    small = convert(rows, f32) * convert(cols, f32) < 4294900000.0
    return small and cols > 0 and rows * cols == i32(len(logits))


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(threshold), 1, 1))
def sample_threshold(
    logits: Read[f32],
    settings: Read[f32],
    threshold: Write[f32],
    cols: i32,
    *,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    MOST: int = 0,
    DIGIT: int = 1,
):
    """threshold[r] = the least logit of row r that is kept; equal logits are kept together.

    Top-k comes first; of what it keeps, top-p keeps the fewest greatest logits whose probabilities
    at the temperature sum to top-p; min-p keeps what has at least that share of the greatest
    probability. The greatest logit is always kept, also at a top-p of 0 or a min-p above 1. NaNs do
    not count. At a temperature below COLDEST it is the greatest logit; one above HOTTEST counts as
    that. Buffers of other sizes are a fault, and nothing is written.
    """
    row = group_id(0)
    rows = i32(len(threshold))
    sized = whole_rows(logits, rows, cols) and len(settings) == 4 * rows
    assert sized, "sample_threshold: logits or settings of another size than rows of the thresholds"
    if not sized:
        return
    base = i32(row) * cols
    warm = settings[4 * row] >= COLDEST
    temperature = min(settings[4 * row], HOTTEST)
    k = i32(settings[4 * row + 1])
    share = settings[4 * row + 2]
    least_share = settings[4 * row + 3]
    inverse = 1 / temperature
    top = f32(LOWEST)
    key = ordered(f32(LOWEST))
    if MOST > 0 and warm and k > 0 and k <= MOST and k < cols:
        keys = workgroup_array(u32, MOST)
        if cols % 4 == 0:
            top, least, reached = candidates(
                logits, base, cols, k, keys, MOST, BLOCK, SUBGROUP, 4)  # fmt: skip
            key = max(key, least)
        else:
            top, least, reached = candidates(
                logits, base, cols, k, keys, MOST, BLOCK, SUBGROUP, 1)  # fmt: skip
            key = max(key, least)
        if share < 1:
            kept = share_of_candidates(keys, reached, share, top, inverse, MOST, BLOCK)
            # More equal ones than there is room for are rare: one subgroup is enough for them.
            if subgroup_id() == 0 and subgroup_any(reached == 0):
                kept = key_of_mass(logits, base, cols, key, share, top, inverse,
                                   SUBGROUP, SUBGROUP, DIGIT)  # fmt: skip
            key = min(max(key, kept), ordered(top))
    else:
        for c in range(local_id(0), cols, BLOCK):
            top = max(top, logits[base + c])
        top = block_reduce(top, greater, f32, BLOCK, SUBGROUP)
        if warm and k > 0 and k < cols:
            key = max(key, key_of_count(logits, base, cols, k, BLOCK, SUBGROUP))
        if warm and share < 1:
            key = key_of_mass(logits, base, cols, key, share, top, inverse, BLOCK, SUBGROUP, DIGIT)
    least = from_ordered(key)
    if least_share > 0:
        least = min(max(least, top + temperature * log(least_share)), top)
    if local_id(0) == 0:
        threshold[row] = select(warm, least, top)


@device
def gumbel(word):
    """Gumbel noise from a random u32."""
    unit = (convert(word >> u32(9), f32) + 0.5) * 1.1920928955078125e-07
    return -log(-log(unit))


@device
def read_quads(logits, base, first, cols, BLOCK, AT_ONCE):
    """The logits of AT_ONCE quads, BLOCK apart, of the row at `base`; -inf behind its end."""
    values = registers(f32, 4 * AT_ONCE, LOWEST)
    if cols % 4 == 0:
        for n in static_range(AT_ONCE):
            quad = min(first + n * BLOCK, cols // 4 - 1)
            found = load_vector(logits, base // 4 + quad, 4)
            for lane in static_range(4):
                values[4 * n + lane] = found[lane]
    else:
        last = cols - 1
        for n in static_range(AT_ONCE):
            start = 4 * (first + n * BLOCK)
            for lane in static_range(4):
                found = logits[base + min(start + lane, last)]
                values[4 * n + lane] = select(start + lane < cols, found, f32(LOWEST))
    return values


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (len(tokens), 1, 1))
def sample_token(
    logits: Read[f32],
    settings: Read[f32],
    threshold: Read[f32],
    state: Read[u32],
    tokens: Write[i32],
    flags: Write[i32],
    cols: i32,
    *,
    BLOCK: int = 256,
    SUBGROUP: int = 1,
    AT_ONCE: int = 1,
):
    """tokens[r] = the column of row r with the greatest logit / temperature + noise, of those whose
    logit is at least threshold[r]; at a temperature below COLDEST without either.

    The noise of column c comes from word c % 4 of Philox at the counter (c // 4, r, state[2],
    state[3]) with the key (state[0], state[1]). flags[r] is 1 where the row has a NaN or +inf, or
    nothing is kept, else 0; what is not finite is never drawn, and -1 where nothing else is kept.

    Below a temperature of 1 the noise is multiplied by it, since a logit over it might overflow:
    which sum is the greatest is the same. Buffers of other sizes are a fault, and nothing is
    written.
    """
    row = group_id(0)
    rows = i32(len(tokens))
    sized = whole_rows(logits, rows, cols) and len(settings) == 4 * rows
    sized = sized and len(threshold) == rows and len(flags) == rows and len(state) == 4
    assert sized, "sample_token: a buffer of another size than rows of the tokens"
    if not sized:
        return
    temperature = settings[4 * row]
    inverse = 1 / max(temperature, f32(1))
    weight = select(temperature >= COLDEST, min(temperature, f32(1)), f32(0))
    best = f32(LOWEST)
    place = i32(-1)
    fine = True
    least = threshold[row]
    base = i32(row) * cols
    quads = (cols - 1) // 4 + 1
    for first in range(i32(local_id(0)), quads, AT_ONCE * BLOCK):
        values = read_quads(logits, base, first, cols, BLOCK, AT_ONCE)
        for n in static_range(AT_ONCE):
            quad = first + n * BLOCK
            kept = False
            for lane in static_range(4):
                value = values[4 * n + lane]
                below = value < HIGHEST  # which NaN is not either
                fine = fine and below
                drawn = below and value >= least
                values[4 * n + lane] = select(drawn, value, f32(LOWEST))  # which is never drawn
                kept = kept or drawn
            if kept and quad < quads:  # few are, as a rule: no other needs noise
                words = philox(u32(quad), u32(row), state[2], state[3], state[0], state[1])
                for lane in static_range(4):
                    value = values[4 * n + lane]
                    if value > LOWEST:
                        score = value * inverse + gumbel(words[lane]) * weight
                        if score > best:
                            best = score
                            place = quad * 4 + lane
    best, place = block_argmax(best, place, f32, BLOCK, SUBGROUP)
    strange = block_reduce(select(fine, i32(0), i32(1)), greater, i32, BLOCK, SUBGROUP)
    if local_id(0) == 0:
        tokens[row] = place
        flags[row] = select(place < 0, i32(1), strange)


_SETTINGS = (
    (0.0, 5.0, 0.5, 0.1),
    (1.0, 0.0, 1.0, 0.0),
    (0.7, 12.0, 1.0, 0.0),
    (1.3, 0.0, 0.8, 0.0),
    (1.0, 0.0, 1.0, 0.05),
    (0.9, 20.0, 0.9, 0.02),
    (1.0, 7.0, 0.0, 0.0),
    (0.8, 0.0, 1.0, 1.5),
)


def _kept(row: np.ndarray, settings: np.ndarray) -> tuple[float, float]:
    """The least logit that is kept, in float64, and how far the decision is from another one."""
    temperature, k, share, least_share = settings.astype(np.float64)
    logits = -np.sort(-row[~np.isnan(row)].astype(np.float64))
    if temperature == 0:
        return logits[0], 1.0
    gap, least = 1.0, -np.inf
    if 0 < k < len(row):
        logits = logits[logits >= logits[min(int(k), len(logits)) - 1]]
        least = logits[-1]
    if share < 1:
        mass = np.exp((logits - logits[0]) / temperature)
        sums = np.cumsum(mass) / mass.sum()
        # Equal logits come together: the sum at the last of them counts.
        ends = np.searchsorted(-logits, -logits, side="right") - 1
        least = logits[np.argmax(sums[ends] >= share)]
        gap = np.abs(sums[ends] - share).min()
    if least_share > 0:
        least = max(least, logits[0] + temperature * np.log(least_share))
        least = min(least, logits[0])
    return least, gap


def _rows(rng: np.random.Generator, cols: int) -> np.ndarray:
    """Logits, a row for each of _SETTINGS, of which no sum of top-p is near to its share."""
    while True:
        x = rng.standard_normal((len(_SETTINGS), cols), np.float32) * np.float32(3)
        x[:, 3::64] = x[:, :1]  # some are equal
        x[:, -1:] = -np.inf if cols > 2 else 0
        found = [_kept(*pair) for pair in zip(x, np.float32(_SETTINGS), strict=True)]
        if min(gap for _, gap in found) > 1e-5:
            return x


def _threshold_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for cols in (1, 300, 1031):
        x = _rows(rng, cols)
        if cols > 1000:
            x[:, 7] = np.nan
        yield {
            "logits": x,
            "settings": np.float32(_SETTINGS),
            "threshold": empty(len(x), f32),
            "cols": cols,
        }


def _threshold_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    pairs = zip(args["logits"], args["settings"], strict=True)
    value = np.array([_kept(*pair)[0] for pair in pairs])
    # A limit of min-p is a logarithm, a product and a sum; all others are logits themselves.
    computed = np.array([settings[3] > 0 for settings in args["settings"]])
    return {"threshold": Expected(value, np.where(computed, _LEAST_BOUND(value=value), 0))}


def _scores(args: Args) -> np.ndarray:
    """Of each logit, over the temperature and with noise; -inf of what is not drawn."""
    logits = args["logits"].astype(np.float64)
    words = words_of_rows(*logits.shape, args["state"])
    noise = -np.log(-np.log(((words >> np.uint32(9)) + 0.5) * 2.0**-23))
    temperature = args["settings"][:, :1].astype(np.float64)
    with np.errstate(all="ignore"):
        scores = np.where(temperature > 0, logits / temperature + noise, logits)
        drawn = np.isfinite(logits) & (logits >= args["threshold"][:, None])
    return np.where(drawn, scores, -np.inf)


def _token_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    """The two greatest scores of a row lie apart, or are equal logits without noise."""
    cases = 0
    while cases < 3:
        cols = (1, 300, 1031)[cases]
        x = _rows(rng, cols)
        settings = np.float32(_SETTINGS)
        threshold = np.float32([_kept(*pair)[0] for pair in zip(x, settings, strict=True)])
        if cols > 1000:
            x[1, 7], x[2, 9], x[3] = np.nan, np.inf, -np.inf
        args = {
            "logits": x,
            "settings": settings,
            "threshold": threshold,
            "state": rng.integers(0, 2**32, 4, dtype=np.uint32),
            "tokens": empty(len(x), i32),
            "flags": empty(len(x), i32),
            "cols": cols,
        }
        best = np.sort(_scores(args), -1)[1:, ::-1]
        drawn = best[np.isfinite(best[:, 0])]
        if cols == 1 or not (drawn[:, 0] - drawn[:, 1] < 1e-4).any():
            cases += 1
            yield args


def _token_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    scores, logits = _scores(args), args["logits"]
    nothing = np.isneginf(scores).all(-1)
    strange = (np.isnan(logits) | np.isposinf(logits)).any(-1)
    return {
        "tokens": Expected(np.where(nothing, -1, scores.argmax(-1))),
        "flags": Expected((nothing | strange).astype(np.int64)),
    }


_LEAST_BOUND = bound("16 * u(f32) * (abs(value) + 8)")
FAMILIES = (
    Family(
        sample_threshold,
        _threshold_inputs,
        _threshold_reference,
        "top-k exact; top-p by sums in f32 in fixed order; min-p: log, product, sum",
        {"min-p": _LEAST_BOUND},
        "NaNs do not count",
    ),
    Family(
        sample_token,
        _token_inputs,
        _token_reference,
        "the greatest of scores in f32: noise by two logarithms, a product, a sum",
        special="NaNs and +inf set the row's flag; nothing infinite is drawn",
    ),
)
