"""Fixtures of blocks of models, with several entries and states."""

from __future__ import annotations

import numpy as np

from ...ir.graph import Graph, GraphBuilder
from ...ir.graph.array import Array
from ...ir.graph.composites.activations import gelu
from ...ir.graph.composites.attention import attention_decode, attention_paged
from ...ir.graph.composites.cache import kv_append
from ...ir.graph.composites.linear import gated_mlp, linear
from ...ir.graph.composites.normalization import add_rms_norm, layer_norm, rms_norm
from ...ir.graph.composites.rotary import rotary
from ...ir.graph.composites.sampling import greedy
from ...ir.graph.functions import take
from .composites import ATTENTION, EACH, EPS, HEAD, PAGE, PAGES
from .fixture import Bound, Case, Fixture, Step, Values, one, stored
from .mutation import Put, Swap
from .primitives import Rng, uniform

WIDTH, HEADS, HIDDEN, WORDS = 128, 2, 64, 96


def _encoder(g: GraphBuilder, x: Array, starts: Array, **w: Array) -> None:
    """Attention of all tokens to all, through pages that the step itself fills, and a network."""
    tokens = x.shape[0]
    q, k, v = (linear(x, w[name]).reshape(tokens, HEADS, HEAD) for name in ("q", "k", "v"))
    empty = x.builder.literal(np.zeros((1, HEADS, PAGE, HEAD)), "f32")
    numbers = x.builder.literal(np.arange(tokens), "i32")
    first = x.builder.literal(np.zeros((1, 1)), "i32")
    zeros = x.builder.literal(np.zeros(tokens), "i32")
    caches = [kv_append(empty, new, first, zeros, numbers) for new in (k, v)]
    seen = attention_paged(q, *caches, first, starts[1:], starts, scale=0.125, causal=False)
    y = layer_norm(x + linear(seen.reshape(tokens, WIDTH), w["o"]), w["n"], w["b"], eps=EPS)
    g.output(
        "y", layer_norm(y + linear(gelu(linear(y, w["up"])), w["down"]), w["n"], w["b"], eps=EPS)
    )


def _weights(rng: Rng) -> dict[str, Values]:
    shapes = {
        **dict.fromkeys(("q", "k", "v", "o"), (WIDTH, WIDTH)),
        "up": (HIDDEN, WIDTH),
        "down": (WIDTH, HIDDEN),
        "n": (WIDTH,),
        "b": (WIDTH,),
    }
    return {name: uniform(rng, *shape) / 8 for name, shape in shapes.items()}


ENCODER = ("q", "k", "v", "o", "up", "down", "n", "b")


def _encoder_values(rng: Rng) -> dict[str, Values]:
    starts = np.array([0, 9], np.int32)
    return {"x": uniform(rng, 9, WIDTH), "starts": starts, **_weights(rng)}


def _decoder(rng: Rng) -> Case:
    """A prompt of 5 tokens, then three of one."""
    shapes = {
        "embedding": (WORDS, WIDTH),
        **dict.fromkeys(("q", "o", "k", "v"), (WIDTH, WIDTH)),
        **dict.fromkeys(("gate", "up"), (HIDDEN, WIDTH)),
        "down": (WIDTH, HIDDEN),
        "norm": (WIDTH,),
    }
    weights = {
        n: v
        for n, (v, _) in stored(
            {
                name: uniform(rng, *shape) / (1 if name == "embedding" else 8)
                for name, shape in shapes.items()
            }
        ).items()
    }
    table = rng.permutation(PAGES)[:EACH].reshape(1, EACH).astype(np.int32)
    steps = []
    for start, count in ((0, 5), (5, 1), (6, 1), (7, 1)):
        inputs: dict[str, Values] = {
            "tokens": rng.integers(0, WORDS, count).astype(np.int32),
            "positions": np.arange(start, start + count, dtype=np.int32),
            "rows": np.zeros(count, np.int32),
            "lengths": np.array([start + count], np.int32),
            "table": table,
        }
        if count > 1:
            inputs["starts"] = np.array([0, count], np.int32)
        steps.append(Step("prompt" if count > 1 else "token", inputs))
    return Case(
        {"prompt": _decoder_graph(5, shapes), "token": _decoder_graph(1, shapes)},
        weights,
        tuple(steps),
    )


def _decoder_graph(tokens: int, shapes: dict[str, tuple[int, ...]]) -> Graph:
    g = GraphBuilder("decoder", places=False)
    w = {name: g.constant(name, "f32", shape) for name, shape in shapes.items()}
    of_tokens = [g.input(name, "i32", (tokens,)) for name in ("tokens", "positions", "rows")]
    ids, positions, rows = of_tokens
    lengths, table = g.slot("lengths", "i32", (1,)), g.slot("table", "i32", (1, EACH))
    x = take(w["embedding"], ids)
    h = rms_norm(x, w["norm"], eps=EPS)
    q, k, v = (linear(h, w[n]).reshape(tokens, HEADS, HEAD) for n in ("q", "k", "v"))
    q, k = (rotary(y, positions, width=HEAD, most=PAGE * EACH) for y in (q, k))
    caches = []
    for name, new in (("k_cache", k), ("v_cache", v)):
        cache = g.state(name, "f32", (PAGES, HEADS, PAGE, HEAD))
        caches.append(kv_append(cache, new, table, rows, positions))
        g.commit(cache, caches[-1], donates=True)
    if tokens > 1:
        starts = g.input("starts", "i32", (2,))
        seen = attention_paged(q, *caches, table, lengths, starts, scale=0.125)
    else:
        seen = attention_decode(q, *caches, table, lengths, scale=0.125)
    mixed = linear(seen.reshape(tokens, WIDTH), w["o"])
    h, x = add_rms_norm(mixed, x, w["norm"], eps=EPS)
    x = x + gated_mlp(h, w["gate"], w["up"], w["down"])
    logits = linear(x[-1:], w["embedding"])
    g.output("logits", logits)
    g.output("token", greedy(logits))
    return g.build()


# Errors of the parts, each of numbers below 4, add up: products of 128, attention, products of 64
# and 128, and two norms.
BLOCK = Bound(2 * 128 + ATTENTION.roundings + 64 + 2 * 128 + 100, magnitude=4)

BLOCKS = (
    Fixture(
        "encoder block",
        one(_encoder, _encoder_values, weights=ENCODER),
        BLOCK,
        Put("attention_prefill_tiles", -3, 1),
    ),
    Fixture("decoder block", _decoder, BLOCK, Swap("cache_append", 0, 1)),
)
