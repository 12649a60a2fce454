"""Random graphs of primitives, and values for what they take."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.ir.graph import Graph, GraphBuilder
from gristmill.ir.graph.array import Array
from gristmill.ir.graph.functions import concat, maximum, pad, take, top_k, where

FLOATS = ("f32", "f16", "bf16")


def random_graph(rng: np.random.Generator, nodes: int = 12) -> Graph:
    """A few inputs and that many steps, each of arrays that are there."""
    g = GraphBuilder("random")
    pool = [
        g.input(f"x{n}", FLOATS[n], tuple(int(s) for s in rng.integers(1, 5, rng.integers(1, 4))))
        for n in range(3)
    ]
    pool.append(g.constant("w", "f32", (int(rng.integers(1, 5)),)))
    for _ in range(nodes):
        pool.append(_step(rng, pool))
    for n, array in enumerate(pool[-3:]):
        g.output(f"y{n}", array)
    return g.build()


def _step(rng: np.random.Generator, pool: list[Array]) -> Array:
    x = pool[int(rng.integers(len(pool)))]
    if x.rank == 0:
        return x * 2.0
    axis = int(rng.integers(x.rank))
    places = x.builder.literal(rng.integers(0, max(x.shape[axis], 1), 3), "i32")
    steps: list[Any] = [
        lambda: -x,
        lambda: x * 0.5 + 1.0,
        lambda: maximum(x, 0.0),
        lambda: where(x > 0.25, x, -1.0),
        lambda: x.sum(axis, keepdims=True) if x.shape[axis] else x,
        lambda: x.max(axis, keepdims=True),
        lambda: x.transpose(*rng.permutation(x.rank).tolist()),
        lambda: x.reshape(-1),
        lambda: x[..., None],
        lambda: x[:, ::2] if x.rank == 2 else x[::2],
        lambda: concat([x, x], axis),
        lambda: pad(x, [(1, 0)] * x.rank, 0.5),
        lambda: take(x, places, axis) if x.shape[axis] else x,
        lambda: top_k(x, 1)[0] if x.shape[-1] else x,
        lambda: x.cast(FLOATS[int(rng.integers(3))]),
        lambda: x.cumsum(axis),
        lambda: x @ x.T if x.rank == 2 else x,
    ]
    made: Array = steps[int(rng.integers(len(steps)))]()
    return made if made.type.size <= 4096 else x


def values_for(rng: np.random.Generator, graph: Graph) -> dict[str, np.ndarray]:
    """Normal values for the floats that a graph takes, as f64."""
    return {
        s.name: rng.standard_normal(s.tensor.type.shape) for s in graph.sources if s.data is None
    }
