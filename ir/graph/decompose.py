"""Replacing composites by what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .composite import decomposed
from .core import Graph, Node, Source, Tensor
from .passes.rewrite import ends
from .table import OPS
from .verify import verify


def decompose(graph: Graph, wanted: Callable[[Node], bool] = lambda node: True) -> Graph:
    """The graph with those composites that are `wanted` as primitives, those inside them too; the
    same object where there are none. Equal literals of decompositions are one."""
    work = _Work(graph, wanted)
    for node in graph.nodes:
        work.node(node)
    if not work.changed:
        return graph
    made = replace(
        graph, sources=tuple(work.sources), nodes=tuple(work.nodes), **ends(graph, work.swap)
    )
    verify(made)
    return made


class _Work:
    def __init__(self, graph: Graph, wanted: Callable[[Node], bool]) -> None:
        self.wanted = wanted
        self.sources, self.nodes = list(graph.sources), list[Node]()
        self.swap: dict[int, Tensor] = {}
        self.changed = False
        self.free = max((tensor.id for tensor in graph.tensors()), default=-1) + 1
        self.names = {source.name for source in graph.sources}
        self.literals: dict[tuple[object, bytes], Tensor] = {
            (s.tensor.type, s.data): s.tensor for s in graph.sources if s.data is not None
        }

    def node(self, node: Node) -> None:
        node = replace(node, operands=tuple(self.swap.get(t.id, t) for t in node.operands))
        if OPS[node.op].composite and self.wanted(node):
            self.changed = True
            self._expand(node)
        else:
            self.nodes.append(node)

    def _expand(self, node: Node) -> None:
        body = decomposed(node.op, tuple(t.type for t in node.operands), node.attrs)
        operands = iter(node.operands)
        inner: dict[int, Tensor] = {}
        for source in body.sources:
            literal = source.data is not None
            inner[source.tensor.id] = self._literal(source) if literal else next(operands)
        for part in body.nodes:
            results = tuple(self._fresh(t) for t in part.results)
            given = tuple(inner[t.id] for t in part.operands)
            moved = replace(part, operands=given, results=results, loc=node.loc)
            self.node(moved)
            for old, new in zip(part.results, results, strict=True):
                inner[old.id] = self.swap.get(new.id, new)
        for old, output in zip(node.results, body.outputs, strict=True):
            self.swap[old.id] = inner[output.tensor.id]

    def _fresh(self, tensor: Tensor) -> Tensor:
        self.free += 1
        return Tensor(self.free - 1, tensor.type)

    def _literal(self, source: Source) -> Tensor:
        assert source.data is not None
        key = source.tensor.type, source.data
        if key not in self.literals:
            self.literals[key] = self._fresh(source.tensor)
            number = len(self.literals)
            while f"literal{number}" in self.names:
                number += 1
            name = f"literal{number}"
            self.names.add(name)
            self.sources.append(replace(source, name=name, tensor=self.literals[key]))
        return self.literals[key]
