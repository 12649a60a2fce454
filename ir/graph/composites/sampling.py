"""The choice of the next token from logits."""

from __future__ import annotations

from ...dtypes import f32, i32, u32
from ..array import Array
from ..composite import composite
from ..functions import iota, isinf, isnan, log, maximum, minimum, random_bits, top_k, where
from ..table import require
from ..types import TensorType
from .normalization import softmax

LOWEST = float("-inf")
COLDEST, HOTTEST = 1e-30, 1e30


@composite("greedy", 1)
def greedy(logits: Array) -> Array:
    """i32[rows]: the column of the greatest logit of each row, the first of equal ones."""
    require(logits.rank == 2, f"logits are [rows, columns], not {logits.type}")
    return logits.argmax(1)


@composite("sample", 3)
def sample(logits: Array, settings: Array, state: Array) -> Array:
    """i32[rows]: a column of each row, drawn among those that are kept.

    settings: f32[rows, 4], temperature (below 1e-30: the greatest logit; above 1e30: that), top-k
    (0: all), top-p and min-p, in that order: top-k keeps the greatest logits, top-p of those the
    fewest whose probabilities at the temperature sum to it, min-p what has that share of the
    greatest probability; equal logits are kept together, and the greatest always. The draw is the
    greatest sum of a logit over the temperature and Gumbel noise (Maddison et al.,
    arXiv:1411.0030) of its word of `random`, state u32[4]. What is infinite or no number is never
    drawn, and does not count as the greatest; -1 where nothing else is there.
    """
    of_rows = logits.rank == 2 and logits.dtype == f32
    require(of_rows, f"logits are f32[rows, columns], not {logits.type}")
    rows, columns = logits.shape
    wanted = TensorType(f32, (rows, 4))
    require(settings.type == wanted, f"settings are {wanted}, not {settings.type}")
    require(state.type == TensorType(u32, (4,)), f"the state is u32[4], not {state.type}")
    temperature = settings[:, 0:1]
    warm = temperature >= COLDEST
    heat = minimum(maximum(temperature, COLDEST), HOTTEST)
    finite = where(isnan(logits) | isinf(logits), LOWEST, logits)
    least = where(warm, _least_kept(finite, heat, settings), finite.max(1, keepdims=True))
    words = random_bits(state, (rows, columns))
    unit = ((words >> 9).cast(f32) + 0.5) * 2.0**-23
    noise = -log(-log(unit))
    cool = minimum(heat, 1.0)  # a logit over a low temperature might overflow
    scores = finite / maximum(heat, 1.0) + where(warm, noise * cool, 0.0)
    drawn = where((finite >= least) & (finite > LOWEST), scores, float("nan"))
    return drawn.argmax(1)  # NaNs do not count


def _least_kept(logits: Array, heat: Array, settings: Array) -> Array:
    """f32[rows, 1]: the least logit that is kept."""
    rows, columns = logits.shape
    k = settings[:, 1:2].cast(i32)
    share, least_share = settings[:, 2:3], settings[:, 3:4]
    ordered, _ = top_k(logits, columns)
    place = iota(logits, (rows, columns), 1)
    among = (k <= 0) | (place < k)
    kept = where(among, ordered, LOWEST)
    top = ordered[:, 0:1]
    last = where(among, ordered, top).min(1, keepdims=True)
    kept = where(ordered >= last, ordered, kept)
    chances = softmax((kept - top) / heat, axis=1)
    before = chances.cumsum(1) - chances
    enough = (share >= 1.0) | (before < share)
    last = maximum(last, where(enough, kept, top).min(1, keepdims=True))
    floor = minimum(top + heat * log(least_share), top)
    return where(least_share > 0.0, maximum(last, floor), last)
