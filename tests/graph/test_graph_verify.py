"""Graphs that are none are told apart, donations above all."""

from __future__ import annotations

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
    cache = g.state("cache", "f16", (4, 2, 1, 8))
    new = kv_append(cache, g.input("k", "f32", (3, 1, 8)), g.slot("places", "i32", (3,)))
    g.output("y", new.max())
    g.commit(cache, new, donates=True)
    verify(decompose(g.build()))


def test_what_is_read_behind_its_update_is_not_donated() -> None:
    g, cache, rows, places = step()
    new = scatter(cache, places, rows)
    g.output("y", cache.sum())
    g.commit(cache, new, donates=True)
    with pytest.raises(GraphError, match="reduce reads %0, which is updated in its place before"):
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
    with pytest.raises(GraphError, match="updated by itself"):
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
    with pytest.raises(GraphError):
        verify(broken)
