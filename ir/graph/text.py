"""The text form of a graph, which `parse` reads back to an equal graph.

graph "mlp"
input %0 "x" : f32[4,64]
constant %1 "w" : f16[64,128]
constant %2 "literal0" : f32[] = hex"0000803f"
state %3 "cache" : f16[8,16]
%4 = cast %1 {dtype=f32} : f32[64,128]
%5 = matmul %0, %4 {dtype=f32} : f32[4,128]   # examples/mlp.py:7
output "y" %5
commit %3 <- %6 donate
"""

from __future__ import annotations

import json

from ..dtypes import DType
from .core import Attr, Graph, Node, Source


def print_graph(graph: Graph, *, places: bool = False) -> str:
    """A graph as text; with places, each node names its line as a remark."""
    lines = [f"graph {json.dumps(graph.name)}"]
    lines += [_source(source) for source in graph.sources]
    lines += [_node(node, places) for node in graph.nodes]
    lines += [f"output {json.dumps(output.name)} {output.tensor}" for output in graph.outputs]
    for commit in graph.commits:
        donate = " donate" if commit.donates else ""
        lines.append(f"commit {commit.state} <- {commit.value}{donate}")
    return "\n".join(lines) + "\n"


def _source(source: Source) -> str:
    head = f"{source.origin.value} {source.tensor} {json.dumps(source.name)} : {source.tensor.type}"
    return head if source.data is None else f'{head} = hex"{source.data.hex()}"'


def _node(node: Node, places: bool) -> str:
    results, operands = (", ".join(map(str, ts)) for ts in (node.results, node.operands))
    attrs = ", ".join(f"{key}={_attr(value)}" for key, value in node.attrs)
    types = ", ".join(str(tensor.type) for tensor in node.results)
    parts = [f"{results} = {node.op}", operands, f"{{{attrs}}}" if attrs else "", f": {types}"]
    remark = f"   # {node.loc}" if places and node.loc else ""
    return " ".join(filter(None, parts)) + remark


def _attr(value: Attr) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, str):
        return json.dumps(value)
    return str(value) if isinstance(value, (int, DType)) else repr(value)
