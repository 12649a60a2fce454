"""Composites evaluated one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.ir.graph import GraphBuilder
from gristmill.ir.graph.oracle import WIDE, evaluate

KINDS = {"float64": "f64", "float32": "f32", "int32": "i32", "uint32": "u32", "uint8": "u8"}


def wide(name: str, *arrays: np.ndarray, **attrs: Any) -> list[np.ndarray]:
    """The results of a composite of arrays, in f64."""
    g = GraphBuilder("composite")
    inputs = [g.input(f"x{n}", KINDS[str(a.dtype)], a.shape) for n, a in enumerate(arrays)]
    results = g.node(name, *inputs, **attrs)
    for n, result in enumerate(results):
        g.output(f"y{n}", result)
    found = evaluate(g.build(), {f"x{n}": a for n, a in enumerate(arrays)}, WIDE)
    return [found.outputs[f"y{n}"] for n in range(len(results))]


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
