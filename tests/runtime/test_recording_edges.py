"""Edges of a recording: every conflict is ordered, nothing else is, and none is there twice."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gristmill.runtime.hazards import Binding, Dependencies, overlap


class Memory:
    def __init__(self, serial: int) -> None:
        self.serial = serial


def random_launches(rng: np.random.Generator) -> list[list[Binding]]:
    memories: list[Any] = [Memory(n) for n in range(3)]
    launches = []
    for _ in range(rng.integers(1, 25)):
        bindings = []
        for _ in range(rng.integers(0, 4)):
            start, size = rng.integers(0, 8), int(rng.integers(0, 6))
            reads, writes = bool(rng.integers(2)), bool(rng.integers(2))
            memory = memories[rng.integers(3)]
            bindings.append(Binding(memory, int(start), size, size, reads, writes))
        launches.append(bindings)
    return launches


def conflict(a: list[Binding], b: list[Binding]) -> bool:
    return any(
        (x.writes or y.writes) and x.nbytes and y.nbytes and overlap(x, y)
        for x, y in itertools.product(a, b)
    )


def closure(edges: list[set[int]]) -> list[set[int]]:
    """All that comes before each launch."""
    before: list[set[int]] = []
    for direct in edges:
        before.append(direct.union(*(before[d] for d in direct)))
    return before


def test_edges_order_every_conflict_and_nothing_else(rng: np.random.Generator) -> None:
    for _ in range(300):
        launches = random_launches(rng)
        tracker = Dependencies()
        edges = [set(tracker.of(bindings)) for bindings in launches]
        needed = [
            {m for m in range(n) if conflict(launches[m], launches[n])}
            for n in range(len(launches))
        ]
        assert closure(edges) == closure(needed)
        for n, direct in enumerate(edges):
            for d in direct:  # what others imply is left out
                rest = direct - {d}
                assert d not in rest.union(*(closure(edges)[m] for m in rest)), (n, direct)
