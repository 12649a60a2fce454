"""Passes leave the numbers as they say, and do what they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.graph import Graph, GraphBuilder
from gristmill.ir.graph import functions as fn
from gristmill.ir.graph.array import Array
from gristmill.ir.graph.decompose import decompose
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
        again = run(done.graph)
        assert len(again.graph.nodes) <= len(done.graph.nodes)
    assert changed > 60


def graph_of(build: Callable[[Array], Any]) -> Graph:
    g = GraphBuilder("case")
    g.output("y", build(g.input("x", "f16", (4, 6))))
    return g.build()


# What a state is read for before its update, and what is made of that behind it.
DONATING: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "casts": (lambda a: a.cast("f32"), lambda w: w.cast("f64")),
    "transposes": (lambda a: a.T, lambda w: w.T),
    "negations": (lambda a: -a, lambda w: -w),
    "slices": (lambda a: a[1:], lambda w: w[1:]),
    "one operand": (lambda a: fn.concat([a]), lambda w: w + 1.0),
    "broadcasts": (lambda a: a[None].broadcast_to(2, 4, 4), lambda w: w[0]),
    "equal nodes": (lambda a: a + 1.0, lambda w: w * 1.0),
}


@pytest.mark.parametrize("case", DONATING)
def test_passes_leave_a_donation_possible(case: str, rng: np.random.Generator) -> None:
    g = GraphBuilder("donates")
    a, p, v = g.state("a", "f16", (4, 4)), g.slot("p", "i32", (1,)), g.input("v", "f16", (1, 4))
    before_it, behind_it = DONATING[case]
    first = before_it(a)
    new = fn.scatter(a, p, v)
    g.output("y", behind_it(first))
    g.commit(a, new, donates=True)
    graph = g.build()
    done = run(graph).graph
    given = {
        "a": rng.standard_normal((4, 4)).astype(np.float16),
        "p": np.int32([2]),
        "v": rng.standard_normal((1, 4)).astype(np.float16),
    }
    before, after = evaluate(graph, given), evaluate(done, given)
    np.testing.assert_array_equal(after.outputs["y"], before.outputs["y"])
    np.testing.assert_array_equal(after.states["a"], before.states["a"])


def test_equal_updates_of_a_donated_state_stay_two() -> None:
    g = GraphBuilder("two")
    a, p, v = g.state("a", "f32", (4,)), g.slot("p", "i32", (1,)), g.input("v", "f32", (1,))
    one, other = fn.scatter(a, p, v), fn.scatter(a, p, v)
    g.output("y", one)
    g.commit(a, fn.scatter(other, p, v), donates=True)
    assert [node.op for node in run(g.build()).graph.nodes] == ["scatter"] * 3


def test_a_cache_that_is_committed_can_be_decomposed_and_merged() -> None:
    g = GraphBuilder("cache")
    cache, k = g.state("c", "f16", (2, 1, 2, 4)), g.input("k", "f16", (1, 1, 4))
    where = [g.slot(n, "i32", s) for n, s in (("t", (1, 2)), ("s", (1,)), ("p", (1,)))]
    flat = cache.reshape(4, 4)
    g.output("y", flat.max(1))
    g.commit(cache, fn.apply("kv_append", cache, k, *where), donates=True)
    run(decompose(g.build()))


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
    "a transpose of a transpose": (lambda x: x.T.T.T, ["transpose"]),
    "a sign that is lost": (
        lambda x: x.cast("i8").cast("u16").cast("i32").cast("f16"),
        ["cast", "cast", "cast"],
    ),
    "the last of every second": (lambda x: x[::2][::2], ["slice"]),
    "nothing of every second": (lambda x: x[::2][2:2], ["slice"]),
    "nothing behind every second": (lambda x: x[1::2][2:2], ["slice"]),
    "a repeated constant": (lambda x: x + x.builder.literal(2.0, "f16"), ["broadcast", "add"]),
    "many places": (
        lambda x: fn.iota(x, (5000,), 0)[None].max(),
        ["iota", "reshape", "reduce"],
    ),
    "places": (lambda x: x[0] + fn.arange(x, 6).cast("f16"), ["slice", "reshape", "add"]),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_says_nothing_goes(case: str) -> None:
    build, wanted = LEFT[case]
    graph = graph_of(build)
    done = run(graph)
    assert [node.op for node in done.graph.nodes] == wanted, print_graph(done.graph)


def test_zeros_of_unequal_signs_stay_apart() -> None:
    """Constants are equal by their bits."""
    done = run(graph_of(lambda x: (x + 0.0) * (x + -0.0)))
    assert [node.op for node in done.graph.nodes].count("add") == 2


def test_attributes_of_unequal_signs_stay_apart() -> None:
    graph = graph_of(
        lambda x: fn.apply("rms_norm", x, x[0], eps=0.0) + fn.apply("rms_norm", x, x[0], eps=-0.0)
    )
    assert [node.op for node in run(graph).graph.nodes].count("rms_norm") == 2


def test_a_composite_becomes_what_its_own_attributes_say() -> None:
    """Not what those of an equal number did before: 0.0 and -0.0 are equal."""
    for eps, written in ((0.0, "00000000"), (-0.0, "00000080")):
        graph = graph_of(lambda x, eps=eps: fn.apply("rms_norm", x, x[0], eps=eps))
        assert f'hex"{written}"' in print_graph(decompose(graph))


def test_folds_are_what_python_computes() -> None:
    """Without the oracle, whose functions the pass uses."""
    g = GraphBuilder("fold")
    seven, x = g.literal([7, -7, 2**31 - 1], "i32"), g.input("x", "i32", (3,))
    three, ones = g.literal([3, 3, 3], "i32"), g.literal([1, 1, 1], "i32")
    g.output("y", x + ((seven * three - ones) ^ fn.arange(x, 3)))
    (node,) = run(g.build()).graph.nodes
    made = next(s for s in run(g.build()).graph.sources if s.tensor == node.operands[1])
    wrapped = [(n * 3 - 1 + 2**31) % 2**32 - 2**31 for n in (7, -7, 2**31 - 1)]
    wanted = [n ^ place for place, n in enumerate(wrapped)]
    assert made.data is not None
    assert np.frombuffer(made.data, "<i4").tolist() == wanted


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
