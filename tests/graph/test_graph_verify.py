"""Graphs that are none are told apart, donations above all."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from gristmill.ir.dtypes import f32
from gristmill.ir.graph import Graph, GraphBuilder, Tensor, TensorType
from gristmill.ir.graph.array import Array
from gristmill.ir.graph.composites.cache import kv_append
from gristmill.ir.graph.decompose import decompose
from gristmill.ir.graph.functions import scatter
from gristmill.ir.graph.verify import GraphError, verify


def step() -> tuple[GraphBuilder, Array, Array, Array]:
    g = GraphBuilder("step")
    cache = g.state("cache", "f32", (8, 4))
    return g, cache, g.input("rows", "f32", (2, 4)), g.slot("places", "i32", (2,))


def test_a_chain_of_updates_is_made_in_place() -> None:
    g, cache, rows, places = step()
    y = cache.sum()
    new = scatter(scatter(cache, places, rows), places, rows, kind="add")
    g.output("y", y)
    g.output("new", new)
    g.commit(cache, new, donates=True)
    assert g.build().commits[0].donates


def test_a_cache_is_made_in_place_also_as_primitives() -> None:
    g = GraphBuilder("step")
    cache = g.state("cache", "f16", (4, 1, 2, 8))
    where = (g.slot(n, "i32", s) for n, s in (("t", (1, 4)), ("s", (3,)), ("p", (3,))))
    new = kv_append(cache, g.input("k", "f32", (3, 1, 8)), *where)
    g.output("y", new.max())
    g.commit(cache, new, donates=True)
    verify(decompose(g.build()))


def test_what_is_read_behind_its_update_is_not_donated() -> None:
    g, cache, rows, places = step()
    new = scatter(cache, places, rows)
    g.output("y", cache.sum())
    g.commit(cache, new, donates=True)
    with pytest.raises(GraphError, match="reduce reads %0, which %3 = scatter updates before"):
        g.build()


def test_an_old_state_that_is_an_output_is_not_donated() -> None:
    g, cache, rows, places = step()
    g.output("old", cache)
    g.commit(cache, scatter(cache, places, rows), donates=True)
    with pytest.raises(GraphError, match="output 'old' is %0"):
        g.build()


def test_an_update_by_itself_is_not_donated() -> None:
    g = GraphBuilder("step")
    cache, places = g.state("cache", "f32", (2, 4)), g.slot("places", "i32", (2,))
    g.commit(cache, scatter(cache, places, cache), donates=True)
    with pytest.raises(GraphError, match="scatter updates %0 by itself"):
        g.build()


def test_what_is_no_update_is_not_donated() -> None:
    g, cache, _, _ = step()
    g.commit(cache, cache * 2.0, donates=True)
    with pytest.raises(GraphError, match="no update of the state"):
        g.build()


def test_without_donating_any_value_is_committed() -> None:
    g, cache, _, _ = step()
    g.output("old", cache)
    g.commit(cache, cache * 2.0)
    g.build()


def parts() -> tuple[GraphBuilder, Array, Array, Array, Array]:
    g = GraphBuilder("step")
    a, b = g.state("a", "f32", (4,)), g.state("b", "f32", (4,))
    return g, a, b, g.slot("p", "i32", (1,)), g.input("v", "f32", (1,))


def test_an_old_state_is_no_other_states_new_value() -> None:
    g, a, b, p, v = parts()
    g.commit(a, scatter(a, p, v), donates=True)
    g.commit(b, a)
    with pytest.raises(GraphError, match="commit %1 takes %0, which %4 = scatter updates before"):
        g.build()


def test_nor_is_one_between_two_updates() -> None:
    g, a, b, p, v = parts()
    middle = scatter(a, p, v)
    g.commit(a, scatter(middle, p, v), donates=True)
    g.commit(b, middle)
    with pytest.raises(GraphError, match="commit %1 takes %4"):
        g.build()


def test_the_last_value_may_be_copied_to_another_state() -> None:
    g, a, b, p, v = parts()
    new = scatter(a, p, v)
    g.output("new", new.reshape(2, 2))
    g.commit(a, new, donates=True)
    g.commit(b, new)
    g.build()


@pytest.mark.parametrize("late", ["output", "node", "operand"])
def test_a_reshape_is_the_memory_that_it_shows(late: str) -> None:
    g, a, _, p, v = parts()
    shown = a.reshape(2, 2)
    if late == "operand":
        places = g.slot("q", "i32", (4,))
        new = scatter(a, places, shown.reshape(4))
    else:
        new = scatter(a, p, v)
    g.output("y", shown if late == "output" else shown + 1.0)
    g.commit(a, new, donates=True)
    words = "by itself" if late == "operand" else "updates before"
    with pytest.raises(GraphError, match=words):
        g.build()


def test_what_is_read_before_an_update_of_its_reshape_stays_donated() -> None:
    g, a, _, p, _ = parts()
    column = a.reshape(4, 1)
    g.output("y", a.sum())
    new = scatter(column, p, g.input("w", "f32", (1, 1)))
    g.commit(a, new.reshape(4), donates=True)
    g.build()


def test_many_updates_and_commits_are_looked_at_in_a_moment() -> None:
    g, a, _, p, v = parts()
    new = a
    for _ in range(3000):
        new = scatter(new, p, v)
    g.commit(a, new, donates=True)
    for n in range(2000):
        state = g.state(f"s{n}", "f32", (1,))
        g.commit(state, v)
    start = time.process_time()
    g.build()
    assert time.process_time() - start < 4


def small() -> Graph:
    g = GraphBuilder("small")
    g.output("y", -g.input("x", "f32", (2,)))
    return g.build()


@pytest.mark.parametrize("what", ["order", "type", "attrs", "result"])
def test_a_graph_that_is_put_together_wrongly_is_told(what: str) -> None:
    graph = small()
    (node,) = graph.nodes
    other = Tensor(7, TensorType(f32, (3,)))
    broken = {
        "order": replace(graph, nodes=(replace(node, operands=node.results),)),
        "type": replace(graph, nodes=(replace(node, operands=(replace(other, id=0),)),)),
        "attrs": replace(graph, nodes=(replace(node, attrs=(("axis", 1),)),)),
        "result": replace(graph, nodes=(replace(node, results=(other,)),)),
    }[what]
    words = {
        "order": "is not defined before",
        "type": "is f32\\[2\\], not f32\\[3\\]",
        "attrs": "no attribute 'axis'",
        "result": "it gives f32\\[2\\], not f32\\[3\\]",
    }
    with pytest.raises(GraphError, match=words[what]):
        verify(broken)
