"""What rewrites share: nodes are looked at in order, and later ones see what replaced a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..core import Graph, Node, Tensor
from ..donation import in_place

Rule = Callable[["Rewriter", Node], "tuple[Tensor, ...] | Node | None"]


class Rewriter:
    """A walk over a graph. `rule` gets each node with its operands as they are by then and gives
    None to keep it, another node of the same results, which it gets again, or tensors that take the
    results' places."""

    def __init__(self, graph: Graph, rule: Rule) -> None:
        self.graph, self.rule = graph, rule
        self.nodes: list[Node] = []
        self.made: dict[int, Node] = {}  # by its results
        self.swap: dict[int, Tensor] = {}
        self.sources = list(graph.sources)
        self.in_place = in_place(graph)
        self.changed = False

    def run(self) -> Graph:
        """The rewritten graph; the same object where nothing changed."""
        for node in self.graph.nodes:
            self._node(node)
        if not self.changed:
            return self.graph
        return replace(
            self.graph,
            sources=tuple(self.sources),
            nodes=tuple(self.nodes),
            **ends(self.graph, self.swap),
        )

    def _node(self, node: Node) -> None:
        if any(tensor.id in self.swap for tensor in node.operands):
            operands = tuple(self.swap.get(tensor.id, tensor) for tensor in node.operands)
            node = replace(node, operands=operands)
        while (found := self.rule(self, node)) is not None and self._may(node, found):
            self.changed = True
            if isinstance(found, Node):
                node = found
                continue
            for old, new in zip(node.results, found, strict=True):
                self.swap[old.id] = new
            return
        self.nodes.append(node)
        for result in node.results:
            self.made[result.id] = node

    def _may(self, node: Node, found: tuple[Tensor, ...] | Node) -> bool:
        """Whether a replacement leaves the memory of donated states alone: it reads none of their
        values that the node did not read at its own place, and takes none of them away."""
        if isinstance(found, Node):
            new = {tensor.id for tensor in found.operands} - {tensor.id for tensor in node.operands}
        else:
            new = {tensor.id for tensor in (*found, *node.results)}
        return self.in_place.isdisjoint(new)


def ends(graph: Graph, swap: Mapping[int, Tensor]) -> dict[str, Any]:
    """The outputs and commits of a graph, with what took the place of their tensors."""
    return {
        "outputs": tuple(replace(o, tensor=swap.get(o.tensor.id, o.tensor)) for o in graph.outputs),
        "commits": tuple(replace(c, value=swap.get(c.value.id, c.value)) for c in graph.commits),
    }
