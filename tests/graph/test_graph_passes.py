"""Passes leave the numbers as they say, and do what they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.graph import Graph, GraphBuilder
from gristmill.ir.graph import functions as fn
from gristmill.ir.graph.array import Array
from gristmill.ir.graph.oracle import evaluate
from gristmill.ir.graph.passes import EXACT, Numerics, NumericsError, Pass, run
from gristmill.ir.graph.text import print_graph
from random_graphs import random_graph, values_for


def test_exact_passes_change_no_bit(rng: np.random.Generator) -> None:
    changed = 0
    for _ in range(120):
        graph = random_graph(rng, 16)
        done = run(graph)
        changed += bool(done.applied)
        assert done.numerics is Numerics.EXACT
        given = values_for(rng, graph)
        before, after = evaluate(graph, given), evaluate(done.graph, given)
        for name, value in before.outputs.items():
            assert after.outputs[name].tobytes() == value.tobytes()
        assert len(run(done.graph).graph.nodes) <= len(done.graph.nodes)
    assert changed > 60


def graph_of(build: Callable[[Array], Any]) -> Graph:
    g = GraphBuilder("case")
    g.output("y", build(g.input("x", "f16", (4, 6))))
    return g.build()


LEFT = {
    "casts": (lambda x: x.cast("f32").cast("f64").cast("f32").cast("f16"), []),
    "a cast that rounds": (lambda x: x.cast("bf16").cast("f16"), ["cast", "cast"]),
    "transposes": (lambda x: x.T.T, []),
    "two transposes": (
        lambda x: x.reshape(2, 2, 6).transpose(1, 2, 0).transpose(1, 2, 0),
        ["reshape", "transpose"],
    ),
    "reshapes": (lambda x: x.reshape(-1).reshape(4, 6), []),
    "slices": (lambda x: x[1:, ::2][1:, 1:], ["slice"]),
    "broadcasts": (
        lambda x: x[:1].broadcast_to(4, 6).broadcast_to(2, 4, 6),
        ["slice", "broadcast"],
    ),
    "negations": (lambda x: x.__neg__().__neg__(), []),
    "equal nodes": (lambda x: fn.exp(x) + fn.exp(x), ["exp", "add"]),
    "what nothing reads": (lambda x: [fn.exp(x), x][1], []),
    "one operand": (lambda x: fn.concat([x]), []),
    "no padding": (lambda x: fn.pad(x, [(0, 0), (0, 0)]), []),
    "places": (lambda x: x[0] + fn.arange(x, 6).cast("f16"), ["slice", "reshape", "add"]),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_says_nothing_goes(case: str) -> None:
    build, wanted = LEFT[case]
    graph = graph_of(build)
    done = run(run(graph).graph)
    assert [node.op for node in done.graph.nodes] == wanted, print_graph(done.graph)


def test_zeros_of_unequal_signs_stay_apart() -> None:
    """Constants are equal by their bits."""
    done = run(graph_of(lambda x: (x + 0.0) * (x + -0.0)))
    assert [node.op for node in done.graph.nodes].count("add") == 2


def test_what_a_caller_gives_stays() -> None:
    g = GraphBuilder("unused")
    g.input("x", "f32", (2,))
    g.constant("w", "f32", (2,))
    g.state("s", "f32", (2,))
    g.output("y", g.slot("n", "f32") + 1.0)
    assert len(run(g.build()).graph.sources) == 5


def test_a_pass_that_does_more_than_is_allowed_ends_the_run() -> None:
    graph = graph_of(lambda x: x * 2.0)
    loose = Pass("halve", lambda g: graph_of(lambda x: x + x), Numerics.REASSOCIATING)
    with pytest.raises(NumericsError, match="pass halve is reassociating, and at most exact"):
        run(graph, [loose])
    done = run(graph, [*EXACT, loose], Numerics.NARROWING)
    assert done.numerics is Numerics.REASSOCIATING
    assert done.applied[-1] == "halve"


def test_a_pass_that_changes_nothing_does_nothing_to_numbers() -> None:
    graph = graph_of(lambda x: x * 2.0)
    assert run(graph, [Pass("none", lambda g: g, Numerics.NARROWING)]).numerics is Numerics.EXACT
