"""Nodes that nothing reads go, and the constants that were written into the graph for them."""

from __future__ import annotations

from dataclasses import replace

from ..core import Graph


def remove_dead(graph: Graph) -> Graph:
    """Inputs, slots, states and weights stay: they are what a caller gives."""
    live = {output.tensor.id for output in graph.outputs}
    for commit in graph.commits:
        live |= {commit.value.id, commit.state.id}
    nodes = []
    for node in reversed(graph.nodes):
        if any(result.id in live for result in node.results):
            nodes.append(node)
            live.update(tensor.id for tensor in node.operands)
    sources = tuple(s for s in graph.sources if s.data is None or s.tensor.id in live)
    if len(nodes) == len(graph.nodes) and len(sources) == len(graph.sources):
        return graph
    return replace(graph, nodes=tuple(reversed(nodes)), sources=sources)
