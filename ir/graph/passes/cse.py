"""Equal nodes on equal operands are one, and so are equal constants that are written here."""

from __future__ import annotations

from dataclasses import replace

from ..core import Graph, Node, Tensor
from ..types import TensorType
from .rewrite import Rewriter


def merge_equal(graph: Graph) -> Graph:
    """All ops give the same for the same, `random` too. Attributes of unequal kinds are unequal:
    1, 1.0 and true are three, and so are 0.0 and -0.0."""
    literals: dict[tuple[TensorType, bytes], Tensor] = {}
    swap: dict[int, Tensor] = {}
    for source in graph.sources:
        if source.data is not None:
            first = literals.setdefault((source.tensor.type, source.data), source.tensor)
            if first is not source.tensor:
                swap[source.tensor.id] = first
    seen: dict[object, tuple[Tensor, ...]] = {}

    def rule(rewriter: Rewriter, node: Node) -> tuple[Tensor, ...] | None:
        attrs = tuple((key, type(value), repr(value)) for key, value in node.attrs)
        key = node.op, tuple(tensor.id for tensor in node.operands), attrs
        found = seen.setdefault(key, node.results)
        return None if found is node.results else found

    rewriter = Rewriter(graph, rule)
    rewriter.swap.update(swap)
    rewriter.changed = bool(swap)
    rewritten = rewriter.run()
    kept = tuple(s for s in rewritten.sources if s.tensor.id not in swap)
    return rewritten if not swap else replace(rewritten, sources=kept)
