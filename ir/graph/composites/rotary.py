"""Rotary position embedding (Su et al., arXiv:2104.09864)."""

from __future__ import annotations

import numpy as np

from ...dtypes import f32
from ..array import Array
from ..composite import composite
from ..functions import concat, cos, sin, widened
from ..table import AttrRow, require, require_float

_MOST_COLUMNS = 1 << 16  # a table of half as many is written into the graph


@composite(
    "rotary",
    2,
    base=AttrRow(float, 10000.0),
    width=AttrRow(int),
    layout=AttrRow(str, "halves", ("halves", "pairs")),
    most=AttrRow(int, 0),
)
def rotary(x: Array, positions: Array, *, base: float, width: int, layout: str, most: int) -> Array:
    """x[tokens, heads, columns], of which the first `width` columns turn by an angle for each pair:
    the token's position times base^(-2 i / width). Pair i is columns i and i + width / 2 ("halves",
    as checkpoints of Hugging Face have it) or 2 i and 2 i + 1 ("pairs", as the paper and GGUF).
    positions: i32[tokens], below `most` where that is not 0: kernels take cosines and sines from a
    table of as many, and report a position beyond it as a fault."""
    require(most >= 0, f"positions are below a number of at least 0, not {most}")
    require(x.rank == 3, f"x is [tokens, heads, columns], not {x.type}")
    require_float(x.type)
    tokens, heads, columns = x.shape
    require(base > 0, f"the base is a number above 0, not {base}")
    require(width <= _MOST_COLUMNS, f"width {width} of at most {_MOST_COLUMNS} columns")
    require(0 < width <= columns and width % 2 == 0, f"width {width} of {columns} columns")
    require(positions.shape == (tokens,) and positions.dtype.is_int, "there is a position a token")
    half = width // 2
    rates = base ** (-np.arange(half, dtype=np.float64) / half)
    wide = widened(x)
    angle = positions.cast(f32).reshape(tokens, 1, 1) * x.builder.literal(rates, f32)
    c, s = cos(angle).cast(wide.dtype), sin(angle).cast(wide.dtype)
    turned = wide[..., :width]
    if layout == "halves":
        a, b = turned[..., :half], turned[..., half:]
        parts = concat([a * c - b * s, b * c + a * s], 2)
    else:
        pairs = turned.reshape(tokens, heads, half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        both = [(a * c - b * s)[..., None], (b * c + a * s)[..., None]]
        parts = concat(both, 3).reshape(tokens, heads, width)
    whole = parts if width == columns else concat([parts, wide[..., width:]], 2)
    return whole.cast(x.dtype)
