"""Fixtures of composites, as models use them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.graph import GraphBuilder
from ...ir.graph.array import Array
from ...ir.graph.composites.attention import attention_decode, attention_paged
from ...ir.graph.composites.cache import kv_append
from ...ir.graph.composites.linear import gated_mlp, linear, quantized_linear
from ...ir.graph.composites.normalization import add_rms_norm, layer_norm, rms_norm, softmax
from ...ir.graph.composites.rotary import rotary
from ...ir.graph.composites.sampling import greedy
from ...ir.quantized import BLOCKS
from .fixture import Bound, Fixture, Typed, Values, one
from .mutation import Drop, Mutation, Put, Respecialize, Swap
from .primitives import Rng, dyadic, fixture, uniform

PAGE, HEAD = 16, 64
PAGES, EACH = 6, 2  # pages of the cache, and of a sequence
EPS = 1e-5

# exp 2 ulp, a sum of a row of positive numbers, a quotient: all relative, but for the rounding of
# x - max, which exp takes as an absolute error of up to 8 here.
SOFTMAX = Bound(50 + 8 + 8, relative=True)
# The mean of squares, its root, two products: relative to the row's greatest, which is below 8.
NORM = Bound(50 + 8, magnitude=8)


def _dot(terms: int, also: int = 2, size: float = 0.5) -> Bound:
    """Of sums of products of numbers below 1: of as many the magnitudes sum to less than half,
    which is twice their mean."""
    return Bound(terms + also, magnitude=terms * size)


def _norms(x: Array, w: Array, b: Array) -> dict[str, Array]:
    return {"rms": rms_norm(x, w, eps=EPS), "layer": layer_norm(x, w, b, eps=EPS)}


def _row_weights(rng: Rng) -> dict[str, Values | Typed]:
    return {"x": uniform(rng, 5, 48), "w": uniform(rng, 48), "b": uniform(rng, 48)}


def _added(x: Array, r: Array, w: Array) -> dict[str, Array]:
    """First a sum in memory of its own, then one where nothing else reads an operand."""
    first, total = add_rms_norm(x, r, w, eps=EPS)
    second, again = add_rms_norm(first * 0.5, total, w, eps=EPS)
    return {"first": first, "second": second, "sum": again, "r": r}


def _residual(rng: Rng) -> dict[str, Values | Typed]:
    return {"x": uniform(rng, 5, 48), "r": uniform(rng, 5, 48), "w": uniform(rng, 48)}


def _turned(x: Array, positions: Array) -> dict[str, Array]:
    turn = {"width": 32, "most": 64}
    return {
        "halves": rotary(x, positions, **turn),
        "pairs": rotary(x, positions, layout="pairs", **turn),
    }


def _mlp(x: Array, gate: Array, up: Array, down: Array) -> dict[str, Array]:
    return {"y": gated_mlp(x, gate, up, down)}


def _mlp_values(rng: Rng) -> dict[str, Values | Typed]:
    shapes = {"x": (3, 32), "gate": (48, 32), "up": (48, 32), "down": (32, 48)}
    return {name: uniform(rng, *shape) * 0.25 for name, shape in shapes.items()}


def _linear(x: Array, w: Array, b: Array) -> dict[str, Array]:
    return {"rows": linear(x, w, b), "row": linear(x[:1], w)}


def _linear_values(rng: Rng) -> dict[str, Values | Typed]:
    return {"x": uniform(rng, 4, 64), "w": uniform(rng, 32, 64), "b": uniform(rng, 32)}


def packed(rng: Rng, form: str, rows: int, cols: int) -> Values:
    """Random blocks whose numbers stay below about 2."""
    format_ = BLOCKS[form]
    count = rows * cols // format_.block
    data = rng.integers(0, 256, (count, format_.bytes), np.uint8)
    for field in format_.fields:
        if field.name in ("d", "dmin"):
            scale = np.full(count, {"q8_0": 2.0**-7, "q4_0": 2.0**-3}.get(form, 2.0**-9))
            scale *= rng.choice([0.5, 1.0], count)
            data[:, field.offset : field.offset + 2] = (
                scale.astype("<f2").view(np.uint8).reshape(count, 2)
            )
    return data.reshape(rows, format_.row_bytes(cols))


def _quantized(form: str, rows: int) -> Fixture:
    def given(rng: Rng) -> dict[str, Values | Typed]:
        return {"x": uniform(rng, rows, 256), "w": packed(rng, form, 64, 256)}

    return fixture(
        f"quantized_linear {form}, {rows} row{'s' if rows > 1 else ''}",
        lambda x, w: {"y": quantized_linear(x, w, format=form)},
        given,
        Drop("quantized_gemv"),
        _dot(256, also=4),
        weights=("w",),
    )


def _table(rng: Rng, batch: int) -> Values:
    """Pages of sequences, each of its own."""
    pages = rng.permutation(PAGES)[: batch * EACH]
    return pages.reshape(batch, EACH).astype(np.int32)


def _append(dtype: str) -> Callable[..., None]:
    def build(
        g: GraphBuilder, k: Array, v: Array, table: Array, rows: Array, positions: Array
    ) -> None:
        for name, new in (("k_cache", k), ("v_cache", v)):
            cache = g.state(name, dtype, (PAGES, 2, PAGE, HEAD))
            g.commit(cache, kv_append(cache, new, table, rows, positions), donates=True)
        g.output("k", k * 1.0)

    return build


def _new_rows(rng: Rng) -> dict[str, Values | Typed]:
    at = rng.permutation(EACH * PAGE)[:3]
    return {
        "k": dyadic(rng, 3, 2, HEAD),
        "v": dyadic(rng, 3, 2, HEAD),
        "table": _table(rng, 2),
        "rows": np.array([0, 1, 1], np.int32),
        "positions": at.astype(np.int32),
    }


def _caches(rng: Rng) -> dict[str, Values | Typed]:
    shape = (PAGES, 2, PAGE, HEAD)
    return {"k": uniform(rng, *shape), "v": uniform(rng, *shape)}


def _decode_values(rng: Rng) -> dict[str, Values | Typed]:
    lengths = np.array([0, 19, EACH * PAGE], np.int32)
    return {"q": uniform(rng, 3, 4, HEAD), **_caches(rng), "table": _table(rng, 3), "n": lengths}


# Scores are sums of 64 products times 1/8, of magnitudes up to 4 (twice their mean) and with an
# error of 66 roundings, of which exp makes a relative one; then a sum of 32 and one of 32 products.
ATTENTION = Bound(66 * 4 + 32 + 32 + 8)


def _decode(name: str, mutation: Mutation, **attrs: float) -> Fixture:
    def outputs(q: Array, k: Array, v: Array, table: Array, n: Array) -> dict[str, Array]:
        return {"y": attention_decode(q, k, v, table, n, scale=0.125, **attrs)}

    return fixture(f"attention_decode{name}", outputs, _decode_values, mutation, ATTENTION)


def _paged_values(rng: Rng) -> dict[str, Values | Typed]:
    return {
        "q": uniform(rng, 7, 4, HEAD),
        **_caches(rng),
        "table": _table(rng, 2),
        "n": np.array([21, 5], np.int32),
        "starts": np.array([0, 4, 7], np.int32),
    }


def _paged(name: str, mutation: Mutation, **attrs: float) -> Fixture:
    def outputs(
        q: Array, k: Array, v: Array, table: Array, n: Array, starts: Array
    ) -> dict[str, Array]:
        return {"y": attention_paged(q, k, v, table, n, starts, scale=0.125, **attrs)}

    return fixture(f"attention_paged{name}", outputs, _paged_values, mutation, ATTENTION)


SCALED = 0.5
COMPOSITES = (
    fixture(
        "softmax",
        lambda x: {"last": softmax(x, axis=1), "first": softmax(x, axis=0)},
        lambda rng: {"x": uniform(rng, 6, 50, low=-4, high=4)},
        Respecialize("binary", "div_f32", "mul_f32"),
        SOFTMAX,
    ),
    fixture("norms", _norms, _row_weights, Put("rmsnorm", -1, 0.5), NORM),
    fixture("add_rms_norm in place", _added, _residual, Swap("rmsnorm_residual", 0, 1), NORM),
    fixture(
        "rotary",
        _turned,
        lambda rng: {
            "x": uniform(rng, 5, 3, 48),
            "positions": rng.integers(1, 64, 5, np.int32),
        },
        Put("rotary", -1, 16),
        # The decomposition's angle is rounded, times a position below 64; the table's is not.
        Bound(64 + 8, magnitude=2),
    ),
    fixture(
        "gated_mlp",
        _mlp,
        _mlp_values,
        Swap("gated", 0, 1),
        _dot(32 + 48, also=10, size=0.125),
        weights=("gate", "up", "down"),
    ),
    fixture("linear", _linear, _linear_values, Drop("gemv"), _dot(64, 3), weights=("w", "b")),
    *(_quantized(form, rows) for form in ("q8_0", "q4_0", "q4_k") for rows in (1, 3)),
    Fixture(
        "kv_append",
        one(_append("f32"), _new_rows, steps=3),
        Bound(),
        Swap("cache_append", 0, 1),
    ),
    _decode("", Put("attention_decode", -4, SCALED)),
    _decode(", window", Put("attention_decode", -5, 2), window=9),
    _decode(", cap", Put("attention_decode", -3, 0.0), cap=2.0),
    _paged(", causal", Put("attention_prefill_tiles", -3, 0)),
    _paged(", of all keys", Put("attention_prefill_tiles", -3, 1), causal=False),
    _paged(", window", Put("attention_prefill_tiles", -4, 1), window=6),
    _paged(", cap", Put("attention_prefill_tiles", -1, 0.0), cap=2.0),
    fixture(
        "greedy",
        lambda logits: {"token": greedy(logits)},
        lambda rng: {"logits": dyadic(rng, 4, 301)},
        Put("argmax_rows", -1, 43),
    ),
)
