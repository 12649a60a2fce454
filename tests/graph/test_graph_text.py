"""The text of a graph is read back to an equal graph; any other text is refused by type."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from gristmill.ir.graph import GraphBuilder
from gristmill.ir.graph.composites.cache import kv_append
from gristmill.ir.graph.parse import GraphSyntaxError, parse_graph
from gristmill.ir.graph.text import print_graph
from gristmill.ir.graph.verify import GraphError
from random_graphs import random_graph

STEP = """
graph "step"
input %0 "x" : f32[2,1,4]
slot %1 "place" : i32[2]
state %2 "cache" : f16[3,2,1,4]
%3 = kv_append %2, %0, %1 : f16[3,2,1,4]
%4 = reduce %3 {axes=[0, 1], kind="max"} : f16[1,4]
output "top" %4
commit %2 <- %3 donate
"""


def test_text_is_read_back_to_an_equal_graph(rng: np.random.Generator) -> None:
    for _ in range(40):
        graph = random_graph(rng)
        text = print_graph(graph)
        assert print_graph(parse_graph(text)) == text
        placed = print_graph(graph, places=True)
        assert "# tests/random_graphs.py:" in placed
        assert parse_graph(placed) == parse_graph(text)


def test_states_and_donations_are_written() -> None:
    assert print_graph(parse_graph(STEP)) == STEP.lstrip()
    g = GraphBuilder("step")
    x, place = g.input("x", "f32", (2, 1, 4)), g.slot("place", "i32", (2,))
    cache = g.state("cache", "f16", (3, 2, 1, 4))
    new = kv_append(cache, x, place)
    g.output("top", new.max((0, 1)))
    g.commit(cache, new, donates=True)
    assert print_graph(g.build()) == STEP.lstrip()


BAD = {
    "": "begins with its name",
    "graph 3": "no string",
    'graph "g"\nwhat %0': "a line begins with input",
    'graph "g"\ninput %0 "x" f32[2]': "':' is expected",
    'graph "g"\ninput %0 "x" : f33[2]': "no element type",
    'graph "g"\ninput %0 "x" : f32[2] = hex"00"': "a constant alone has bytes",
    'graph "g"\nconstant %0 "x" : f32[2] = hex"00"': "has 8 bytes, not 1",
    'graph "g"\nconstant %0 "x" : f32[2] = hex"0g"': "no bytes in hex",
    'graph "g"\ninput %0 "x" : f32[2]\ninput %0 "y" : f32[2]': "defined twice",
    'graph "g"\ninput %0 "x" : f32[2]\ninput %1 "x" : f32[2]': "another source has this name",
    'graph "g"\n%1 = neg %0 : f32[2]': "not defined before",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = neg %0 : f32[3]': "it gives f32[2], not f32[3]",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = nag %0 : f32[2]': "near it: neg",
    'graph "g"\ninput %0 "x" : f32[2]\n%1, %2 = neg %0 : f32[2]': "2 results and 1 types",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = neg %0 {axis=1} : f32[2]': "no attribute 'axis'",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = cast %0 {dtype=f32, dtype=f32} : f32[2]': "given twice",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = cast %0 {dtype=?} : f32[2]': "is nothing known",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = cast %0 {dtype=} : f32[2]': "no value of an attribute",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = reshape %0 {shape=[1.5]} : f32[2]': "no integer",
    'graph "g"\ninput %0 "x" : f32[2]\noutput "y" %0 %0': "is too much",
    'graph "g"\ninput %0 "x" : f32[2]\noutput "y" %0\noutput "y" %0': "another output",
    'graph "g"\ninput %0 "x" : f32[2]\ncommit %0 <- %0': "is no state",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_graph_is_refused_in_words(text: str) -> None:
    with pytest.raises((GraphSyntaxError, GraphError)) as error:
        parse_graph(text)
    assert BAD[text] in str(error.value)


def test_damaged_text_is_read_or_refused(rng: np.random.Generator) -> None:
    marks = '%{}[]=,:"<-# 0123456789abcxf\\'
    for _ in range(400):
        text = list(print_graph(random_graph(rng, 5)))
        for _ in range(int(rng.integers(1, 4))):
            place, mark = int(rng.integers(len(text))), marks[int(rng.integers(len(marks)))]
            text[place : place + int(rng.integers(3))] = mark
        with contextlib.suppress(GraphSyntaxError, GraphError):
            parse_graph("".join(text))
