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
slot %1 "table" : i32[1,3]
slot %2 "sequences" : i32[2]
slot %3 "positions" : i32[2]
state %4 "cache" : f16[3,1,2,4]
%5 = kv_append %4, %0, %1, %2, %3 : f16[3,1,2,4]
%6 = reduce %5 {axes=[0, 2], kind="max"} : f16[1,4]
output "top" %6
commit %4 <- %5 donate
"""


def test_text_is_read_back_to_an_equal_graph(rng: np.random.Generator) -> None:
    for _ in range(40):
        graph = random_graph(rng)
        text = print_graph(graph)
        assert parse_graph(text) == graph
        assert print_graph(parse_graph(text)) == text
        placed = print_graph(graph, places=True)
        assert "# tests/random_graphs.py:" in placed
        assert parse_graph(placed) == parse_graph(text)


def test_states_and_donations_are_written() -> None:
    assert print_graph(parse_graph(STEP)) == STEP.lstrip()
    g = GraphBuilder("step")
    x, table = g.input("x", "f32", (2, 1, 4)), g.slot("table", "i32", (1, 3))
    sequences, positions = (g.slot(name, "i32", (2,)) for name in ("sequences", "positions"))
    cache = g.state("cache", "f16", (3, 1, 2, 4))
    new = kv_append(cache, x, table, sequences, positions)
    g.output("top", new.max((0, 2)))
    g.commit(cache, new, donates=True)
    assert print_graph(g.build()) == STEP.lstrip()


NORM = 'graph "g"\ninput %0 "x" : f32[2]\n%1 = rms_norm %0, %0 {{eps={}}} : f32[2]'
HEADS = (
    'graph "g"\ninput %0 "q" : f32[1,2,4]\ninput %1 "k" : f32[1,{},4]\n'
    "%2 = attention_prefill %0, %1, %1 {{cap=0.0, causal=true, scale=1.0, window=0}} : f32[1,2,4]"
)
WIDE_TABLE = (
    'graph "g"\ninput %0 "x" : f32[1,1,1000000000000]\ninput %1 "p" : i32[1]\n%2 = rotary %0, %1'
    ' {base=1.0, layout="pairs", width=1000000000000} : f32[1,1,1000000000000]'
)

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
    'graph "g"\ninput %0 "x" : f32[' + "9" * 5000 + "]": "is no tensor type",
    'graph "g"\ninput %0 "x" : f32[0,' + "9" * 19 + "]": "has more than",
    'graph "g"\ninput %\u0663 "x" : f32[2]': "is nothing known",
    'graph "g"\nconstant %0 "x" : bool[2] = hex"02ff"': "a byte 0 or 1",
    'graph "g"\nconstant %0 "x" : f32[1] = hex"00 00 00 00"': "no bytes in hex",
    NORM.format("9" * 400): "no value of an attribute",
    NORM.format("1e999"): "eps is a number",
    NORM.format("nan"): "eps is a number",
    NORM.format("1_0.0"): "no value of an attribute",
    'graph "g"\ninput %0 "x" : f32[2]\n%1 = softmax %0 {axis=-1} : f32[2]': "counts from 0",
    HEADS.format(0): "unequally",
    WIDE_TABLE: "columns",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_graph_is_refused_in_words(text: str) -> None:
    with pytest.raises((GraphSyntaxError, GraphError)) as error:
        parse_graph(text)
    assert BAD[text] in str(error.value)


def test_numbers_of_attributes_are_of_their_kind() -> None:
    """An integer stands for a float: equal graphs have one form."""
    one, other = (parse_graph(NORM.format(eps)) for eps in ("1", "1.0"))
    assert one == other
    assert print_graph(one) == print_graph(other)


def test_a_name_may_have_any_character() -> None:
    g = GraphBuilder("a\u2028b")
    g.output('y\x0c\n"', g.input("\x1c", "f32") + 1.0)
    assert parse_graph(print_graph(g.build())) == g.build()


def test_a_large_batch_is_read_at_once() -> None:
    text = (
        'graph "g"\ninput %0 "q" : f32[1000000,1,1]\nstate %1 "c" : f32[1,1,1,1]\n'
        'slot %2 "p" : i32[1000000,1]\nslot %3 "n" : i32[1000000]\n%4 = attention_decode %0, %1,'
        " %1, %2, %3 {cap=0.0, scale=1.0, window=0} : f32[1000000,1,1]"
    )
    assert parse_graph(text).nodes[0].op == "attention_decode"


def test_damaged_text_is_read_or_refused(rng: np.random.Generator) -> None:
    marks = '%{}[]=,:"<-# 0123456789abcxf\\'
    for _ in range(400):
        text = list(print_graph(random_graph(rng, 5)))
        for _ in range(int(rng.integers(1, 4))):
            place, mark = int(rng.integers(len(text))), marks[int(rng.integers(len(marks)))]
            text[place : place + int(rng.integers(3))] = mark
        with contextlib.suppress(GraphSyntaxError, GraphError):
            parse_graph("".join(text))
