"""What follows from the graph alone is written into it: places, and exact ops on written constants.

Only small tensors, and only ops that give the same bits everywhere: those of the kernel op table
that say so, and movement.
"""

from __future__ import annotations

import numpy as np

from ...ops import ROWS
from ..core import Graph, Node, Origin, Output, Source, Tensor
from ..oracle import evaluate
from .rewrite import Rewriter

MOST_BYTES = 1 << 12  # of a constant that is made
_MOVEMENT = frozenset({"broadcast", "reshape", "transpose", "slice", "concat", "pad", "iota"})
_WHOLE = frozenset({"cast"})


def fold_constants(graph: Graph) -> Graph:
    """A broadcast of a constant stays one where the result is larger than it: kernels repeat a
    value for nothing."""
    literals = {s.tensor.id: s for s in graph.sources if s.data is not None}
    names = {source.name for source in graph.sources}

    def rule(rewriter: Rewriter, node: Node) -> tuple[Tensor, ...] | None:
        if not _folds(node) or any(t.id not in literals for t in node.operands):
            return None
        sources = tuple(literals[tensor_id] for tensor_id in {t.id for t in node.operands})
        alone = Graph("fold", sources, (node,), (Output("y", node.results[0]),))
        value = evaluate(alone, {}).outputs["y"]
        stored = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"))
        name = f"folded{len(literals)}"
        while name in names:
            name += "_"
        names.add(name)
        source = Source(Origin.CONSTANT, name, node.results[0], stored.tobytes())
        literals[source.tensor.id] = source
        rewriter.sources.append(source)
        return node.results

    return Rewriter(graph, rule).run()


def _folds(node: Node) -> bool:
    t = node.results[0].type
    if len(node.results) != 1 or t.bytes > MOST_BYTES:
        return False
    if node.op == "broadcast":
        return t.size == node.operands[0].type.size
    row = ROWS.get(node.op)
    return node.op in _MOVEMENT or (row is not None and row.fold) or node.op in _WHOLE
